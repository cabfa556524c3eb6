"""Whatever is written into a manifest: it is simulated, or refused with a reason that names the object."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.simulation.clusters import LEAN, Manifest, group, node, pod, queue, volcano_job, workload
from volsched import registry
from volsched.simulation.documents import Document, InputError, read_documents
from volsched.simulation.manifests import Inventory, read_inventory, subject_of
from volsched.simulation.result import result_of
from volsched.simulation.runner import SimulationSettings, simulate
from volsched.validation.objects import problems_of

EXAMPLES = Path(__file__).parents[2] / "manifests" / "examples"

TERM = {"labelSelector": {"matchLabels": {"a": "b"}}, "topologyKey": "kubernetes.io/hostname"}
RICH = pod(
    "rich",
    nodeSelector={"a": "b"},
    tolerations=[{"key": "a", "operator": "Exists", "effect": "NoSchedule"}],
    affinity={
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}]
            }
        },
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]},
    },
    topologySpreadConstraints=[{**TERM, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}],
    overhead={"cpu": "100m"},
    schedulingGates=[{"name": "g"}],
    volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
)
WORLD: list[Manifest] = [
    node("n1", labels={"a": "b"}, taints=[{"key": "a", "effect": "NoSchedule"}]),
    queue("team", capability={"cpu": "4"}, parent="root"),
    group("g", 2, "team", minTaskMember={"w": 1}, minResources={"cpu": "2"}),
    pod("g-0", in_group="g"),
    pod("runs", on="n1"),
    RICH,
    workload("Deployment", "web", 2),
    workload("StatefulSet", "db", 1, spec={"ordinals": {"start": 1}}),
    workload("Job", "etl", spec={"parallelism": 2, "completions": 1}),
    volcano_job("train", {"w": 2}, minAvailable=1, queue="team"),
]

VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.integers(-2, 3),
    st.floats(),
    st.text(max_size=5),
    st.sampled_from(
        ["1", "-1", "1Gi", "1e99", "Exists", "Always", "team", "default", "n1", "g", "2026-01-01T00:00:00Z"]
    ),
    st.just([]),
    st.just({}),
    st.just([None]),
    st.just({"": None}),
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, item in inner for place in places(item, (*path, key)))]


ALL_PLACES = places(WORLD)[1:]


@st.composite
def changed_worlds(draw: st.DrawFn) -> list[Manifest]:
    """The world above with a few values replaced or left out."""
    world = copy.deepcopy(WORLD)
    for _ in range(draw(st.integers(1, 3))):
        *way, last = draw(st.sampled_from(ALL_PLACES))
        parent: Any = world
        try:
            for step in way:
                parent = parent[step]
            if draw(st.booleans()) and isinstance(parent, dict):
                del parent[last]
            else:
                parent[last] = draw(VALUES)
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change took this place away
    return world


def taken(world: list[Any]) -> Inventory | None:
    documents = [
        Document("test", f"document {n}", raw) for n, raw in enumerate(world, start=1) if isinstance(raw, dict)
    ]
    try:
        return read_inventory(documents)
    except InputError as error:
        if not error.problems or not all(problem.message for problem in error.problems):
            raise AssertionError("refused without a reason") from error
        return None


@given(changed_worlds())
def test_any_change_of_a_world_is_simulated_or_refused_with_a_reason(world: list[Manifest]) -> None:
    inventory = taken(world)
    if inventory is None:
        return
    list(problems_of(inventory.objects, subject_of))
    profile, _ = registry.load_profile(LEAN)
    result = result_of(simulate(inventory, profile, SimulationSettings(cycles=4)))
    assert json.dumps(result)
    waiting = {entry["pod"] for entry in result["pending"]}
    bound = {bind["pod"] for bind in result["binds"]}
    assert not waiting & bound
    assert all(entry["reason"] and entry["message"] for entry in result["pending"])


@given(st.binary(max_size=40), st.integers(0, 3000))
def test_any_edit_of_a_file_is_read_or_refused_with_a_reason(tmp_path_factory: Any, put: bytes, at: int) -> None:
    whole = (EXAMPLES / "40-language.yaml").read_bytes()
    file = tmp_path_factory.getbasetemp() / "edited.yaml"
    file.write_bytes(whole[:at] + put + whole[at + len(put) :])
    try:
        read_inventory(read_documents([str(file)]))
    except InputError as error:
        if not all(str(problem).startswith(str(file)) for problem in error.problems):
            raise AssertionError("refused without the file") from error
