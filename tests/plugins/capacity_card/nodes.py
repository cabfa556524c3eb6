"""Manifests of nodes with cards."""

from __future__ import annotations

from typing import Any

from tests.simulation.clusters import Manifest, node

GPU = "nvidia.com/gpu"
MPS = "nvidia.com/gpu.shared"
MIG = "nvidia.com/mig-"


def card_labels(product: str, memory: str = "81920", count: str = "8", **more: str) -> dict[str, str]:
    """The labels that NVIDIA's feature discovery puts on a node, ``replicas`` and so on among them."""
    given = {"product": product, "count": count, "memory": memory, **more}
    return {f"{GPU}.{key}": value for key, value in given.items()}


def card_node(name: str, product: str, extended: dict[str, Any] | None = None, **more: str) -> Manifest:
    """A node with eight whole cards, or with what else is given."""
    return node(name, labels=card_labels(product, **more), extended={GPU: 8} if extended is None else extended)
