"""Observers hear once of each pod that was bound and starts to run, and of each that is gone or has failed."""

from __future__ import annotations

from typing import Any

import pytest

from volsched.mirror.apply import Mirror
from volsched.model.changes import Bound, Change, Deleted, EvictFailed
from volsched.model.observers import Observer
from volsched.model.pods.task import TaskInfo
from volsched.model.pods.template import PodTemplate
from volsched.model.status import TaskStatus
from volsched.testing.builders import a_cluster, a_pod, put


class Starts(Observer):
    """Notes who starts, and how the task stands then."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str]] = []

    def task_started(self, task: TaskInfo) -> None:
        self.heard.append((task.name, task.status.name))


class Small(Starts):
    """Follows pods of one core."""

    def follows(self, template: PodTemplate) -> bool:
        return template.request.get("cpu", 0) == 1000


class Broken(Starts):
    def task_started(self, task: TaskInfo) -> None:
        raise RuntimeError(task.name)


VERSIONS = iter(range(1, 1_000_000))


def pod(phase: str = "Pending", on: str | None = "n1", *, cpu: Any = 1, leaves: bool = False, **more: Any) -> Change:
    made = a_pod("p", on=on, cpu=cpu, phase=phase, **more)
    made["metadata"]["resourceVersion"] = str(next(VERSIONS))
    if leaves:
        made["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return put(made)


UID = a_pod("p")["metadata"]["uid"]
GONE = Deleted("Pod", "default", "p", UID)
ONE = [("p", "RUNNING")]


@pytest.mark.parametrize(
    ("seen", "heard"),
    [
        ([pod(on=None), pod(), pod("Running")], ONE),
        ([pod(), pod("Running")], ONE),
        ([pod(on=None), Bound(UID, "n1"), pod("Running")], ONE),
        ([pod(), pod("Running"), pod("Running"), pod("Running", labels={"a": "b"})], ONE),
        ([pod(), pod("Running"), pod(), pod("Running")], ONE),  # what it once was it does not become again
        ([pod(), pod("Unknown"), pod("Running")], ONE),
        ([pod(on=None), pod("Running")], ONE),  # what was between was not seen
        ([pod(), pod("Running", cpu=2)], ONE),  # asks for more as it starts
        ([pod(), pod(cpu=2), pod("Running", cpu=2), pod("Running", cpu=3)], ONE),
        ([pod(on="n2"), pod("Running", on="n2")], ONE),  # on a node that is not known yet
        ([pod(), pod("Running"), GONE, pod(), pod("Running")], ONE * 2),
        ([pod("Running"), pod("Running", labels={"a": "b"}), pod("Running", cpu=2)], []),  # ran when first seen
        ([pod("Unknown"), pod("Running")], []),
        ([pod(), pod("Succeeded")], []),
        ([pod(), pod("Running", leaves=True)], []),
        ([pod(leaves=True), pod("Running", leaves=True)], []),
        ([pod()], []),
    ],
)
def test_each_start_is_told_once(seen: list[Change], heard: list[tuple[str, str]]) -> None:
    mirror, starts = Mirror(), Starts()
    mirror.apply(a_cluster().node("n1", cpu=8).changes())
    mirror.cluster.observe(starts)
    for change in seen:
        mirror.apply([change])

    assert starts.heard == heard
    assert not mirror.quarantine


def test_a_pod_that_starts_while_its_eviction_is_refused_is_told_of_once_it_is_seen() -> None:
    mirror, starts = Mirror(), Starts()
    mirror.apply([*a_cluster().node("n1", cpu=8).changes(), pod()])
    cluster = mirror.cluster
    cluster.observe(starts)
    cluster.move(cluster.tasks[UID], TaskStatus.RELEASING, cluster.nodes["n1"])

    mirror.apply([EvictFailed(UID, "refused"), pod("Running")])

    assert starts.heard == ONE


def test_after_a_restart_nothing_is_told_of_what_ran_before_and_what_was_bound_before_is_told() -> None:
    for first, heard in (("Running", []), ("Pending", ONE)):
        again, starts = Mirror(), Starts()
        again.apply([*a_cluster().node("n1", cpu=8).changes(), pod(first)])
        again.cluster.observe(starts)

        again.apply([pod("Running")])

        assert starts.heard == heard


def test_who_does_not_follow_such_pods_hears_nothing_and_one_that_fails_is_told_nothing_more() -> None:
    mirror, small, broken, last = Mirror(), Small(), Broken(), Starts()
    mirror.apply(a_cluster().node("n1", cpu=8).changes())
    for observer in (small, broken, last):
        mirror.cluster.observe(observer)

    mirror.apply([pod(cpu=2), pod("Running", cpu=2)])

    assert (small.heard, last.heard) == ([], ONE)
    assert [str(error) for error in mirror.cluster.observers.lost.values()] == ["p"]
    assert not mirror.quarantine


class Losses(Observer):
    """Notes who leaves a node, where it still is."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str, bool]] = []

    def task_lost(self, task: TaskInfo) -> None:
        assert task.node is not None
        self.heard.append((task.name, task.node.name, task.evicted))


EVICTED = {"type": "volsched.io/Evicted", "status": "True", "reason": "EvictedBySession"}
PREEMPTED = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
DRAINED = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}


def stating(condition: dict[str, str]) -> Change:
    made = a_pod("p", on="n1", cpu=1, phase="Running")
    made["metadata"] |= {"resourceVersion": str(next(VERSIONS)), "deletionTimestamp": "2026-01-01T00:00:00Z"}
    made["status"]["conditions"] = [condition]
    return put(made)


@pytest.mark.parametrize(
    ("seen", "heard"),
    [
        ([pod("Running"), GONE], [("p", "n1", False)]),
        ([pod("Running"), pod("Running", leaves=True), GONE], [("p", "n1", False)]),
        ([pod("Running"), pod("Failed"), GONE], [("p", "n1", False)]),
        ([pod("Running"), stating(EVICTED), GONE], [("p", "n1", True)]),
        ([pod("Running"), stating(PREEMPTED), GONE], [("p", "n1", True)]),
        ([pod("Running"), stating(DRAINED), GONE], [("p", "n1", False)]),
        ([pod("Running"), pod("Running", cpu=2)], []),
        ([pod("Running"), pod("Succeeded"), GONE], []),
        ([pod("Running"), Deleted("Node", "", "n1", ""), GONE], []),
        ([pod(on=None), GONE], []),
    ],
)
def test_who_is_gone_or_has_failed_is_told_once_where_it_was(
    seen: list[Change], heard: list[tuple[str, str, bool]]
) -> None:
    mirror, losses = Mirror(), Losses()
    mirror.apply(a_cluster().node("n1", cpu=8).changes())
    mirror.cluster.observe(losses)
    for change in seen:
        mirror.apply([change])

    assert losses.heard == heard
    assert not mirror.cluster.observers.lost
