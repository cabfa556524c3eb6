"""The example of a fleet: its pods stay where they run, and its gangs wait for the reasons that its README states."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path
from typing import Any

from volsched.diagnose.workload_names import workload_of
from volsched.model import api
from volsched.model.job import NATIVE, JobInfo
from volsched.registry import load_profile
from volsched.simulation.documents import read_documents
from volsched.simulation.manifests import Inventory, read_inventory
from volsched.simulation.result import result_of
from volsched.simulation.runner import Simulation, simulate
from volsched.validation.objects import problems_of

FLEET = Path(__file__).resolve().parents[2] / "manifests" / "examples" / "fleet"
README = (FLEET / "README.md").read_text()
ROW = re.compile(r"\| `(\w+/[\w-]+)` \| [^|]+ \| `([^|`]+)` \|")
MODELS = {
    "AMD_Instinct_MI300X_OAM": 32,
    "NVIDIA-A100-SXM4-80GB": 80,
    "NVIDIA-H100-80GB-HBM3": 48,
    "NVIDIA-L40S": 64,
    "Tesla-T4": 24,
}


@cache
def inventory() -> Inventory:
    return read_inventory(read_documents([str(FLEET)]))


@cache
def simulation() -> Simulation:
    found = inventory()
    assert found.configuration is not None
    profile, warnings = load_profile(found.configuration)
    assert warnings == ()
    return simulate(found, profile)


@cache
def result() -> dict[str, Any]:
    return result_of(simulation())


def group_of(job: JobInfo) -> str:
    return f"{job.namespace}/{job.name.removeprefix(NATIVE)}"


def messages() -> dict[str, str]:
    """All messages of each gang that waits, under the namespace and the name of its workload."""
    workloads = {
        group_of(job): workload_of(job).name.partition("/")[2] for job in simulation().mirror.cluster.jobs.values()
    }
    found = defaultdict(list)
    for entry in result()["pending"]:
        namespace = entry["podGroup"].partition("/")[0]
        found[f"{namespace}/{workloads[entry['podGroup']]}"].append(entry["message"])
    return {name: "\n".join(texts) for name, texts in found.items()}


def test_running_pods_stay_on_their_nodes_and_no_other_pod_starts() -> None:
    running = {pod.key: pod.spec.node_name for pod in inventory().of(api.Pod) if pod.spec.node_name}
    held = {
        task.key: task.node.name if task.node else None
        for job in simulation().mirror.cluster.jobs.values()
        for task in job.tasks.values()
    }

    assert len(running) == 88
    assert {key: held[key] for key in running} == running
    assert (result()["binds"], result()["evictions"], simulation().api_server.history.refusals) == ([], [], [])
    assert simulation().settled


def test_six_gangs_wait_each_for_the_reason_of_the_readme_and_for_no_other() -> None:
    stated = dict(ROW.findall(README))
    waiting = messages()

    assert len(stated) == 6
    assert waiting.keys() == stated.keys()
    for name, reason in stated.items():
        assert [other for other, texts in waiting.items() if reason in texts] == [name]


def test_nodes_are_those_of_the_readme() -> None:
    nodes = list(inventory().of(api.Node))
    racks = Counter(node.metadata.labels["topology.example.com/rack"] for node in nodes)
    ready = {
        n.metadata.name for n in nodes if any((c.type, c.status) == ("Ready", "True") for c in n.status.conditions)
    }

    assert len(nodes) == 40
    assert sorted(racks) == [f"rack-{number}" for number in range(1, 9)]
    assert {card["card"]: card["cards"] for card in result()["cards"] if card["card"]} == MODELS
    assert [node.metadata.name for node in nodes if node.spec.unschedulable] == ["h100-06"]
    for text in (*MODELS, *racks, "`topology.example.com/rack`", "`h100-06` is cordoned"):
        assert text in README
    assert [node.metadata.name for node in nodes if node.metadata.name not in ready] == ["a100-07"]
    assert "`a100-07` is not ready" in README


def test_the_fleet_has_all_usual_kinds_of_workloads_of_four_teams() -> None:
    kinds = Counter(type(found).__name__ for found in inventory().objects)
    lone = [pod.key for pod in inventory().of(api.Pod) if not pod.metadata.owner_references]
    teams = {queue.metadata.name for queue in inventory().of(api.Queue)}

    assert teams == {"vision", "language", "speech", "ranking"}
    assert {"Deployment", "ReplicaSet", "StatefulSet", "BatchJob", "Job", "PodGroupV1alpha2"} <= kinds.keys()
    assert "vision/notebook-maria" in lone


def test_the_fleet_has_no_faults() -> None:
    found = inventory().objects
    assert not inventory().doubts
    assert list(problems_of(found, lambda one: one.metadata.name)) == []
