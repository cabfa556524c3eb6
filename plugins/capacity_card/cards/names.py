"""Names: of the plugin, of resources, and what the name of a shared card tells of itself."""

from __future__ import annotations

import re
from typing import Final

PLUGIN: Final = "capacity-card"
"""What configurations call the plugin."""

SHARED_RESOURCE: Final = "nvidia.com/gpu.shared"
"""What MPS shares are, and time slices where the device plugin renames what it shares."""
MIG_PREFIX: Final = "nvidia.com/mig-"

_SHARE: Final = re.compile(r".+/(?:(mps-[0-9]+g\*1/[0-9]+|time-slicing\*1/[0-9]+)|mig-(.+)-mixed)")


def resource_by_name(card: str) -> str | None:
    """Return the resource that a shared card's name itself tells; None for whole cards, whose vendor it does not."""
    match = _SHARE.fullmatch(card)
    if match is None:
        return None
    return SHARED_RESOURCE if match[1] else f"{MIG_PREFIX}{match[2]}"
