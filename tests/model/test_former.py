"""Attributes of one minor version ago: still there, with a warning."""

from __future__ import annotations

import copy

import pytest

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


@pytest.mark.parametrize("record", [QUEUE, JOB, TASK], ids=lambda record: type(record).__name__)
def test_other_attributes_are_missing_as_ever(record: QueueInfo | JobInfo | TaskInfo) -> None:
    with pytest.raises(AttributeError, match="wieght"):
        record.wieght  # noqa: B018
    assert copy.copy(record).spec is record.spec
