"""The phase of a PodGroup at the end of a session, and when its status is written."""

from __future__ import annotations

import pytest

from volsched.framework.outcome.groups import status_of, writes
from volsched.model.cluster import Cluster
from volsched.model.job import (
    COMPLETED,
    INQUEUE,
    PENDING,
    RUNNING,
    UNKNOWN,
    GroupStatus,
    JobInfo,
    JobProperties,
    PodGroupCondition,
    with_condition,
)
from volsched.model.nodes.columns import ResourceColumns
from volsched.model.nodes.node import NodeInfo, NodeProperties
from volsched.model.pods.task import TaskInfo
from volsched.model.pods.template import PodTemplate
from volsched.model.status import TaskStatus

NODE = NodeInfo(NodeProperties("n"), ResourceColumns())
LETTERS = {
    "p": TaskStatus.PENDING,
    "a": TaskStatus.ALLOCATED,
    "l": TaskStatus.PIPELINED,
    "B": TaskStatus.BINDING,
    "b": TaskStatus.BOUND,
    "r": TaskStatus.RUNNING,
    "x": TaskStatus.RELEASING,
    "o": TaskStatus.RELEASING,  # on no node
    "s": TaskStatus.SUCCEEDED,
    "f": TaskStatus.FAILED,
    "u": TaskStatus.UNKNOWN,
}


def job(tasks: str, minimum: int = 1, phase: str = INQUEUE) -> JobInfo:
    """A job with a task for each letter."""
    made = JobInfo("default", "j")
    made.phase, made.spec = phase, JobProperties(has_group=True, min_available=minimum)
    for number, letter in enumerate(tasks):
        task = TaskInfo(str(number), "default", f"t{number}", PodTemplate(0))
        made.add_member(task)
        task.status = LETTERS[letter]
        task.node = NODE if letter not in "po" else None
        made.recount(task, TaskStatus.PENDING)
    return made


@pytest.mark.parametrize(("tasks", "phase"), [("", PENDING), ("p", PENDING), ("r", RUNNING), ("s", COMPLETED)])
def test_without_its_queue_a_group_with_a_minimum_of_nobody_is_not_completed_by_having_nobody(
    tasks: str, phase: str
) -> None:
    assert status_of(job(tasks, minimum=0, phase=PENDING), unschedulable=False, queued=False).phase == phase


@pytest.mark.parametrize(
    ("tasks", "minimum", "before", "unschedulable", "phase"),
    [
        # nothing runs yet
        ("", 1, "", False, PENDING),
        ("", 1, PENDING, False, PENDING),
        ("", 1, INQUEUE, False, INQUEUE),
        ("", 1, COMPLETED, False, COMPLETED),  # its pods were collected
        ("p", 1, COMPLETED, False, PENDING),  # and it has a new one
        ("", 1, RUNNING, False, PENDING),
        ("pp", 2, INQUEUE, False, INQUEUE),
        ("pp", 2, PENDING, False, PENDING),
        ("pp", 2, RUNNING, False, PENDING),  # what ran is gone
        ("pp", 2, UNKNOWN, False, PENDING),
        ("pp", 2, INQUEUE, True, INQUEUE),
        # being bound counts once the API server shows it
        ("BB", 2, INQUEUE, False, INQUEUE),
        ("bB", 2, INQUEUE, False, INQUEUE),
        ("bb", 2, INQUEUE, False, RUNNING),
        ("al", 1, INQUEUE, False, INQUEUE),
        # enough of them run, or did
        ("r", 1, INQUEUE, False, RUNNING),
        ("rp", 1, INQUEUE, False, RUNNING),
        ("rs", 2, RUNNING, False, RUNNING),
        ("rf", 2, RUNNING, False, RUNNING),
        ("rp", 2, INQUEUE, False, INQUEUE),
        ("rp", 2, RUNNING, False, PENDING),
        # all are done
        ("ss", 2, RUNNING, False, COMPLETED),
        ("sf", 2, RUNNING, False, COMPLETED),
        ("ff", 2, RUNNING, False, COMPLETED),
        ("ssp", 2, RUNNING, False, COMPLETED),
        ("", 0, INQUEUE, False, COMPLETED),  # upstream's corner: nothing is asked for, so nothing is left to do
        ("p", 0, INQUEUE, False, COMPLETED),
        # what is being deleted still has its node
        ("xr", 2, RUNNING, False, RUNNING),
        ("xx", 2, RUNNING, False, RUNNING),
        ("or", 2, RUNNING, False, PENDING),
        ("u", 1, RUNNING, False, PENDING),
        # members run and the gang cannot start
        ("rp", 2, RUNNING, True, UNKNOWN),
        ("r", 1, RUNNING, True, UNKNOWN),
        ("bp", 2, RUNNING, True, PENDING),  # only running ones make it Unknown
        ("pp", 2, PENDING, True, PENDING),
    ],
)
def test_the_phase_follows_from_the_tasks(
    tasks: str, minimum: int, before: str, unschedulable: bool, phase: str
) -> None:
    assert status_of(job(tasks, minimum, before), unschedulable=unschedulable).phase == phase


def test_the_counts_are_those_of_running_and_finished_tasks() -> None:
    status = status_of(job("prrbssfBxu"), unschedulable=False)

    assert (status.running, status.succeeded, status.failed) == (2, 2, 1)


READY = PodGroupCondition("Scheduled", "True", "ready", "")
NOT_READY = PodGroupCondition("Unschedulable", "True", "NotEnoughResources", "1/2")


def test_a_condition_takes_the_place_of_the_one_of_its_type() -> None:
    changed = PodGroupCondition("Unschedulable", "False", "", "")

    assert with_condition((), READY) == (READY,)
    assert with_condition((NOT_READY,), READY) == (NOT_READY, READY)
    assert with_condition((NOT_READY, READY), changed) == (changed, READY)


@pytest.mark.parametrize(
    ("has_group", "reported", "written"),
    [
        (True, None, True),
        (True, GroupStatus(RUNNING, 1, 0, 0, (READY,)), False),
        (True, GroupStatus(INQUEUE, 1, 0, 0, (READY,)), True),
        (True, GroupStatus(RUNNING, 0, 0, 0, (READY,)), True),
        (True, GroupStatus(RUNNING, 1, 0, 0, ()), True),
        (False, None, False),
    ],
)
def test_a_status_is_written_when_it_says_something_else_than_what_is_known_of_it(
    has_group: bool, reported: GroupStatus | None, written: bool
) -> None:
    one = job("r")
    one.spec = JobProperties(has_group=has_group, group_uid="uid")
    one.reported, one.conditions = reported, (READY,)
    status = status_of(one, unschedulable=False)

    steps = list(writes(Cluster(), [(one, status)]))
    again = list(writes(Cluster(), [(one, status)]))

    assert [(s.uid, s.namespace, s.name, s.phase, s.running, s.conditions) for s in steps] == (
        [("uid", "default", "j", RUNNING, 1, (READY,))] if written else []
    )
    assert again == [], "it is taken as under way"
    assert one.confirmed is not written
