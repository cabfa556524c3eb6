"""Attributes of one minor version ago: still there, with a warning."""

from __future__ import annotations

import copy
from operator import attrgetter
from types import SimpleNamespace

import pytest

from volsched.model.cluster import Cluster
from volsched.model.generations import ClusterEvent
from volsched.model.job import JobInfo, JobProperties
from volsched.model.pods.task import PodProperties, TaskInfo
from volsched.model.pods.template import PodTemplate
from volsched.model.queues.queue import QueueInfo, QueueProperties

QUEUE = QueueInfo(QueueProperties("q", weight=3))
JOB = JobInfo("ns", "g")
JOB.spec = JobProperties(min_available=3)
TASK = TaskInfo("u", "ns", "p", PodTemplate(0), spec=PodProperties(role="worker"))

MOVED = [
    (record, name)
    for record in (QUEUE, JOB, TASK)
    for name in type(record.spec).__annotations__
    if name not in type(record).__slots__
]


@pytest.mark.parametrize(("record", "name"), MOVED, ids=[f"{type(record).__name__}.{name}" for record, name in MOVED])
def test_what_moved_into_the_properties_can_be_read_where_it_was(
    record: QueueInfo | JobInfo | TaskInfo, name: str
) -> None:
    with pytest.warns(DeprecationWarning, match=rf"{type(record).__name__}\.spec\.{name}") as told:
        assert getattr(record, name) == getattr(record.spec, name)

    assert told[0].filename == __file__


@pytest.mark.parametrize(
    ("former", "now"),
    [
        ("job.barred", "job.blocked"),
        ("job.hollow", "job.superseded"),
        ("job.hopeless", "job.unplaceable"),
        ("job.fitting", "job.placed_in_last_try"),
        ("job.released", "job.release_reason"),
        ("job.unschedulable_with", "job.equivalents"),
        ("queue.state", "queue.spec.reported_state"),
        ("queue.spec.state", "queue.spec.reported_state"),
        ("cluster.node_ledger", "cluster.node_cache"),
        ("cluster.queue_ledger", "cluster.queue_cache"),
        ("cluster.devices.ledger", "cluster.devices.usage"),
        ("cluster.node_cache.facts_log", "cluster.node_cache.properties_log"),
        ("cluster.node_cache.facts_version", "cluster.node_cache.properties_version"),
        ("cluster.generations.changes", "cluster.generations.change"),
        ("cluster.generations.era", "cluster.generations.template"),
        ("cluster.generations.layout_generation", "cluster.generations.layout"),
        ("cluster.generations.requeue_generation", "cluster.generations.requeue"),
        ("cluster.clocks", "cluster.generations"),
        ("cluster.generations.namespaces", "cluster.generations.namespace"),
        ("cluster.generations.standing", "cluster.generations.move"),
    ],
)
def test_attributes_of_before_can_be_read_under_their_old_names(former: str, now: str) -> None:
    known = SimpleNamespace(job=JOB, queue=QUEUE, cluster=Cluster())
    with pytest.warns(DeprecationWarning, match=rf"\.{former.rpartition('.')[2]} ends with the next minor version"):
        found = attrgetter(former)(known)

    assert found == attrgetter(now)(known)


def test_whether_a_pod_is_managed_can_be_read_under_its_old_name() -> None:
    with pytest.warns(DeprecationWarning, match="it is is_managed"):
        assert PodProperties(is_managed=True).ours
    with pytest.warns(DeprecationWarning, match=r"read TaskInfo\.spec\.is_managed"):
        assert TASK.ours is False  # type: ignore[attr-defined]


def test_old_names_of_a_block_that_requeues_nothing_still_work() -> None:
    cluster = Cluster()
    before = cluster.generations.requeue

    with pytest.warns(DeprecationWarning, match="tentative"), cluster.tentative():  # type: ignore[attr-defined]
        cluster.wake(ClusterEvent.ROOM_FREED)

    assert cluster.generations.requeue == before


@pytest.mark.parametrize("record", [QUEUE, JOB, TASK], ids=lambda record: type(record).__name__)
def test_other_attributes_are_missing_as_ever(record: QueueInfo | JobInfo | TaskInfo) -> None:
    with pytest.raises(AttributeError, match="wieght"):
        record.wieght  # noqa: B018
    assert copy.copy(record).spec is record.spec
