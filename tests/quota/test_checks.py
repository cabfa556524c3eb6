"""The checks of quotas: what is above a limit, and a plugin with a dimension of its own in few lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import ClassVar

import pytest

from tests.framework.stage import Plug, Stage
from volsched.framework.callbacks import NO_LIMIT
from volsched.framework.registration import Registrar
from volsched.framework.rules import Allocatable, JobEnqueueable
from volsched.model.cluster import Cluster
from volsched.model.job import INQUEUE, RUNNING, JobInfo
from volsched.model.pods.template import PodTemplate
from volsched.model.verdict import Shortfall, Step, Verdict
from volsched.quota.amounts import not_admitted
from volsched.quota.checks import At, Exceeded, LeafQueues, QueueQuotas, exceeded
from volsched.testing.builders import ClusterBuilder, a_cluster

JOBS = "jobs"


class JobCount(QueueQuotas[str, str, int]):
    """Admits so many jobs to a queue as its capability states; a whole quota plugin."""

    name: ClassVar[str] = "job-count"

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def levels(self, queue: str) -> Sequence[str]:
        return (queue,)

    def limit(self, level: str, dimension: str) -> int | None:
        amount = self._cluster.queues[level].spec.capability.get(dimension)
        return None if amount is None else amount // 1000

    def allocated(self, level: str) -> Mapping[str, int]:
        jobs = self._cluster.jobs.values()
        return {JOBS: sum(job.queue == level and job.phase in (INQUEUE, RUNNING) for job in jobs)}

    def committed(self, level: str, minimum: Mapping[str, int]) -> Mapping[str, int]:
        return self.allocated(level)

    def minimum(self, job: JobInfo, level: str) -> Mapping[str, int]:
        return {JOBS: 1}

    def request(self, pod: PodTemplate, level: str) -> Mapping[str, int]:
        return {}

    def refused(self, queue: str, level: str, short: Sequence[Exceeded], step: At) -> Verdict:
        return not_admitted(self.name, level, tuple(Shortfall(*each) for each in short))


def counted(given: ClusterBuilder) -> Stage:
    """A session with that plugin."""

    def register(registrar: Registrar) -> None:
        quotas = JobCount(registrar.cluster)
        registrar.register(JobEnqueueable(quotas.vote, always=True), Allocatable(headroom=quotas.headroom))

    return Stage(given, Plug(register, JobCount.name))


@pytest.mark.parametrize(("running", "is_admitted"), [(0, True), (1, True), (2, False), (3, False)])
def test_a_plugin_that_counts_jobs_is_small(running: int, *, is_admitted: bool) -> None:
    given = a_cluster().node("n").queue("q", capability={JOBS: 2}).group("new", "q", phase="Pending")
    for number in range(running):
        given.group(f"run-{number}", "q", phase="Running")
    stage = counted(given)

    refusal = stage.session.rules.enqueue_refusal(stage.cluster.jobs["default/new"])

    assert (refusal is None) is is_admitted
    if refusal is not None:
        assert (refusal.step, refusal.plugin, refusal.queue) == (Step.ENQUEUE, "job-count", "q")
        assert [each.resource for each in refusal.shortfalls] == [JOBS]


def test_what_is_not_limited_may_grow_without_end() -> None:
    stage = counted(a_cluster().node("n").queue("q").job("j", 1, queue="q"))

    [headroom] = stage.session.rules.headrooms

    assert headroom(stage.queue("q"), stage.task("j-0").template).count == NO_LIMIT
    assert stage.session.rules.enqueue_refusal(stage.cluster.jobs["default/j"]) is None


@pytest.mark.parametrize(
    ("requested", "used", "limit", "is_above"),
    [
        (1, 1, 2, False),  # equality passes
        (2, 1, 2, True),
        (0, 3, 2, False),  # nothing is asked for
        (1, 9, None, False),  # no limit
        (Fraction(1, 2), Fraction(1), Fraction(3, 2), False),
        (Fraction(1, 2), Fraction(1), Fraction(4, 3), True),
    ],
)
def test_only_what_is_asked_for_can_be_above_a_limit(
    requested: int, used: int, limit: int | None, *, is_above: bool
) -> None:
    found = exceeded({"x": requested}, {"x": used}, lambda _: limit)

    assert found == ((("x", requested, used, limit),) if is_above else ())


def test_a_queue_that_holds_nothing_is_compared_as_zero_of_the_same_kind() -> None:
    [whole] = exceeded({"x": 2}, {}, lambda _: 0)
    [part] = exceeded({"x": Fraction(1, 2)}, {}, lambda _: Fraction(0))

    assert (whole.used, part.used) == (0, Fraction(0))
    assert (type(whole.used), type(part.used)) == (int, Fraction)


class Parents(LeafQueues):
    """Queue q has others below it."""

    name: ClassVar[str] = "parents"

    def is_parent(self, queue: str) -> bool:
        return queue == "q"


@pytest.mark.parametrize(("queue", "is_closed"), [("q", True), ("default", False)])
def test_work_belongs_into_queues_without_any_below_them(queue: str, *, is_closed: bool) -> None:
    stage = Stage(a_cluster().node("n").queue("q").job("j", 1, queue=queue))
    rules, job = Parents(), stage.cluster.jobs["default/j"]

    ballot = rules.vote(job)
    headroom = rules.headroom(stage.queue(queue), stage.task("j-0").template)

    assert (ballot.verdict is not None, headroom.count == 0) == (is_closed, is_closed)
    if is_closed:
        assert ballot.verdict is not None
        assert headroom.refusal is not None
        assert (
            ballot.verdict.message == f'queue "{queue}" has queues below it, and takes no work itself; use one of those'
        )
        assert headroom.refusal.step is Step.ALLOCATABLE
