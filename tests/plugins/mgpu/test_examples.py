"""The examples of manifests/examples/mgpu place what their heads say."""

from __future__ import annotations

from pathlib import Path

import pytest

from plugins.mgpu.results import INDEX
from volsched.registry import load_profile
from volsched.simulation.documents import read_documents
from volsched.simulation.manifests import read_inventory
from volsched.simulation.runner import simulate

EXAMPLES = Path(__file__).resolve().parents[3] / "manifests" / "examples" / "mgpu"


def placed(name: str) -> list[str]:
    """Node and cards of each container, without the names of pods."""
    inventory = read_inventory(read_documents((str(EXAMPLES / f"{name}.yaml"),)))
    assert inventory.configuration is not None
    profile, warnings = load_profile(inventory.configuration)
    assert warnings == ()
    simulation = simulate(inventory, profile)
    return sorted(
        f"{step.node} {key.removeprefix(INDEX)} {text}"
        for _, step in simulation.api_server.history.binds
        for key, text in step.annotations.items()
        if key.startswith(INDEX)
    )


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("binpack", ["t4-1 model 0", "t4-1 model 0", "t4-1 model 0", "t4-1 model 1", "t4-2 train 0,1"]),
        ("spread", ["t4-1 model 0", "t4-1 model 1", "t4-2 model 0", "t4-2 model 1"]),
        ("multi-card", ["a100-1 encode 0,1", "a100-1 serve 0,1,3", "a100-1 train 2"]),
    ],
)
def test_an_example_places_what_it_says(name: str, expected: list[str]) -> None:
    assert placed(name) == expected


def test_every_example_is_tried() -> None:
    assert sorted(path.stem for path in EXAMPLES.glob("*.yaml")) == ["binpack", "multi-card", "spread"]
