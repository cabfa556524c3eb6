"""The examples of manifests/examples/capacity-dra become what their heads say."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from volsched.framework.reporter import refusal_of
from volsched.registry import load_profile
from volsched.simulation.documents import read_documents
from volsched.simulation.manifests import read_inventory
from volsched.simulation.runner import Simulation, simulate

EXAMPLES = Path(__file__).resolve().parents[3] / "manifests" / "examples" / "capacity-dra"


def played(name: str) -> Simulation:
    inventory = read_inventory(read_documents((str(EXAMPLES / f"{name}.yaml"),)))
    assert inventory.configuration is not None
    profile, warnings = load_profile(inventory.configuration)
    assert warnings == ()
    return simulate(inventory, profile)


def workload(pod: str) -> str:
    return pod.split("-", maxsplit=1)[0]


@pytest.mark.parametrize(
    ("name", "placed", "waiting", "why"),
    [
        ("devices", {"training": 2, "notebook": 1}, {"training": 1}, 'queue "research" has insufficient DRA quota'),
        ("devices-alone", {"starts": 3}, {"over": 3, "short": 2}, ""),
        ("hierarchy", {"speech": 3}, {"text": 4}, 'queue "department" has insufficient DRA quota'),
    ],
)
def test_an_example_becomes_what_it_says(name: str, placed: dict[str, int], waiting: dict[str, int], why: str) -> None:
    simulation = played(name)
    tasks = simulation.mirror.cluster.tasks.values()
    refusals = {task.name: refusal_of(task) for task in tasks if task.node is None}
    said = {name: refusal.message for name, refusal in refusals.items() if refusal is not None}

    assert Counter(workload(task.name) for task in tasks if task.node is not None) == placed
    assert Counter(map(workload, said)) == waiting
    assert all(why in message for message in said.values())


def test_a_gang_of_claims_alone_is_told_why_it_waits_and_is_not_called_ready() -> None:
    simulation = played("devices-alone")
    why = {
        job.tasks[min(job.tasks)].spec.labels["app"]: job
        for job in simulation.mirror.cluster.jobs.values()
        if job.tasks
    }

    said = {app: [(c.type, c.status) for c in job.conditions] for app, job in why.items()}
    expected = {app: [("Unschedulable", "True")] for app in why}
    expected |= {"starts": [("Scheduled", "True")], "short": [("Admitted", "True"), ("Unschedulable", "True")]}
    assert said == expected
    refusal = why["over"].refusal
    assert refusal is not None
    assert 'queue "research" has insufficient DRA quota: DeviceClass example-gpu: requested 3' in refusal.message


def test_every_example_is_tried() -> None:
    assert sorted(path.stem for path in EXAMPLES.glob("*.yaml")) == ["devices", "devices-alone", "hierarchy"]
