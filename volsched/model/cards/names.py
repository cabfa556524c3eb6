"""Names of resources and annotations about cards, and what the name of a shared card tells of itself."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

SHARED_RESOURCE: Final = "nvidia.com/gpu.shared"
"""What MPS shares are, and time slices where the device plugin renames what it shares."""
MIG_PREFIX: Final = "nvidia.com/mig-"

MGPU_CORE: Final = "vke.volcengine.com/mgpu-core"
MGPU_MEMORY: Final = "vke.volcengine.com/mgpu-memory"
MGPU_POLICY: Final = "vke.volcengine.com/mgpu-compute-policy"
MGPU_NODE_TYPE: Final = "vke.node.gpu.schedule"
"""Volcengine's resources and labels of cards that containers share."""

SHARED_AMOUNTS: Final = {MGPU_CORE: "core", MGPU_MEMORY: "memory"}
"""Resources in which containers share cards, and what people call each."""

CARD_QUOTA: Final = "volcano.sh/card.quota"
"""Annotation of a Queue in Volcano's design: a JSON object of what it may hold, whole cards by name."""

CardNameFn: TypeAlias = Callable[[str, Mapping[str, str]], str]
"""What does a node with these labels call a unit of this resource? Empty: that is no card, or it is not known."""

_SHARE: Final = r".+/(?:(mps-[0-9]+g\*1/[0-9]+|time-slicing\*1/[0-9]+)|mig-(.+)-mixed)"


def resource_by_name(card: str) -> str | None:
    """Return the resource that a shared card's name itself tells; None for whole cards, whose vendor it does not."""
    match = re.fullmatch(_SHARE, card)
    if match is None:
        return None
    return SHARED_RESOURCE if match[1] else f"{MIG_PREFIX}{match[2]}"
