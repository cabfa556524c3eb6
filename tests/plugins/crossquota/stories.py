"""The four stories of crossquota: an example for each, and what comes out of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

EXAMPLES = Path(__file__).resolve().parents[3] / "manifests/examples/crossquota"


@dataclass(frozen=True)
class Story:
    """An example's file, pods of each workload on each node, and how many wait with (in part) which reason."""

    file: str
    placed: Mapping[tuple[str, str], int]
    waiting: Mapping[str, tuple[int, str]] = field(default_factory=dict)

    def documents(self) -> list[dict[str, Any]]:
        return list(yaml.safe_load_all((EXAMPLES / self.file).read_text()))


STORIES = (
    Story("1-consolidation.yaml", {("features", "gpu-1"): 12}),
    Story("2-distribution.yaml", {("gateway", f"gpu-{number}"): 2 for number in (1, 2, 3)}),
    Story(
        "3-several-resources.yaml",
        {
            ("cache", "gpu-1"): 2,
            ("cache", "gpu-2"): 2,
            ("training", "gpu-1"): 1,
            ("training", "gpu-2"): 1,
        },
        {"cache": (1, "2 memory quota exceeded (gpu-1: memory required 30Gi, used 60Gi, quota 64Gi; gpu-2: ")},
    ),
    Story(
        "4-nodes-differ.yaml",
        {("web", "h100-1"): 2, ("web", "l4-1"): 9, ("web", "t4-1"): 6},
        {"web": (3, "3 cpu quota exceeded (h100-1: cpu required 4, used 8, quota 8; l4-1: cpu required 4, used 36, ")},
    ),
)
