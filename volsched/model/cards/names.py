"""Names of resources and annotations about cards, and the parts of a shared card's name."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

SHARED_RESOURCE: Final = "nvidia.com/gpu.shared"
"""The resources of MPS shares, and of time slices where the device plugin renames shared cards."""
MIG_PREFIX: Final = "nvidia.com/mig-"

MGPU_CORE: Final = "vke.volcengine.com/mgpu-core"
MGPU_MEMORY: Final = "vke.volcengine.com/mgpu-memory"
MGPU_POLICY: Final = "vke.volcengine.com/mgpu-compute-policy"
MGPU_NODE_TYPE: Final = "vke.node.gpu.schedule"
"""Volcengine's resources and labels of cards that containers share."""

SHARED_AMOUNTS: Final = {MGPU_CORE: "core", MGPU_MEMORY: "memory"}
"""Resources in which containers share cards, and what people call each."""

CARD_QUOTA: Final = "volcano.sh/card.quota"
"""Annotation of a Queue in Volcano's design: a JSON object with its limit of whole cards by name."""

CardNameFn: TypeAlias = Callable[[str, Mapping[str, str]], str]
"""Return the card name of a resource on a node with these labels; empty if it is no card or not known."""

_SHARE: Final = r".+/(?:(mps-[0-9]+g\*1/[0-9]+|time-slicing\*1/[0-9]+)|mig-(.+)-mixed)"


def resource_by_name(card: str) -> str | None:
    """Return the resource that a shared card's name itself tells, or None for whole cards, whose vendor it does not."""
    match = re.fullmatch(_SHARE, card)
    if match is None:
        return None
    return SHARED_RESOURCE if match[1] else f"{MIG_PREFIX}{match[2]}"
