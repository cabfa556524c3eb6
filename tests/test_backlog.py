"""What waits and why is counted right, follows every change, and costs what changes."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from volsched.backlog import Backlog
from volsched.framework.reporter import refusal_of
from volsched.model.changes import Deleted, Put
from volsched.model.cluster import Cluster
from volsched.model.job import JobInfo
from volsched.model.pods.task import PodProperties, TaskInfo
from volsched.model.pods.template import PodTemplate
from volsched.model.values.resources import Resources
from volsched.model.verdict import Scope, Step, Verdict
from volsched.ports import Waiting
from volsched.testing.builders import Rig, a_cluster, a_rig

CONFIGURATION = """
actions: "allocate, backfill"
tiers:
- plugins:
  - name: gang
  - name: predicates
"""


def gone(kind: str, name: str) -> Deleted:
    return Deleted(kind, "default", name, f"{kind.lower()}-default-{name}")


def rig_with_a_backlog() -> Rig:
    cluster = a_cluster().node("n1", cpu=4).queue("q1").queue("q2")
    cluster.job("fits", 1, queue="q1", cpu=1, created="2025-12-31T23:00:00Z")
    cluster.job("large", 2, queue="q1", cpu=3, created="2025-12-31T23:10:00Z")
    cluster.job("huge", 1, queue="q2", cpu=100, created="2025-12-31T23:20:00Z")
    return a_rig(cluster, CONFIGURATION)


def test_pods_and_jobs_wait_by_queue_step_and_reason() -> None:
    waiting = rig_with_a_backlog().cycle().report.waiting

    assert waiting.pods == {
        ("q1", "predicate", "FailedScheduling", "Unschedulable"): 1,
        ("q1", "gang", "FailedScheduling", "Unschedulable"): 1,
        ("q2", "predicate", "FailedScheduling", "Unschedulable"): 1,
    }
    assert waiting.jobs == {
        ("q1", "predicate", "FailedScheduling", "Unschedulable"): 1,
        ("q2", "predicate", "FailedScheduling", "Unschedulable"): 1,
    }
    assert waiting.requests == {("q1", "cpu"): 6_000, ("q2", "cpu"): 100_000}


def test_the_oldest_of_each_queue_is_known_and_forgotten_with_its_pod() -> None:
    rig = rig_with_a_backlog()
    oldest = rig.cycle().report.waiting.oldest
    assert oldest["q2"] - oldest["q1"] == 600

    waiting = rig.cycle(gone("Pod", "huge-0")).report.waiting

    assert set(waiting.oldest) == {"q1"}
    assert not any(queue == "q2" for queue, *_ in waiting.pods)


def test_a_group_that_changes_its_queue_takes_its_pods_along() -> None:
    rig = rig_with_a_backlog()
    rig.cycle()
    moved = a_cluster().group("huge", "q1", 1).changes()

    waiting = rig.cycle(*moved).report.waiting

    assert {queue for queue, *_ in waiting.pods} == {"q1"}
    assert set(waiting.oldest) == {"q1"}
    assert waiting.requests == {("q1", "cpu"): 106_000}


def test_a_backlog_that_stands_still_is_not_counted_again() -> None:
    cluster = a_cluster().node("n1", cpu=4).queue("q")
    for number in range(50):
        cluster.job(f"huge-{number}", 4, queue="q", cpu=100)
    rig = a_rig(cluster, CONFIGURATION)
    rig.cycle()  # a gang is found to be unschedulable for good in the second session only
    first = rig.cycle().report.waiting
    backlog = rig.scheduler._backlog
    before = backlog.counted

    assert rig.cycle().report.waiting is first
    assert backlog.counted == before

    newcomer = a_cluster().job("new", 3, queue="q", cpu=100).changes()
    waiting = rig.cycle(*[change for change in newcomer if isinstance(change, Put)]).report.waiting

    assert sum(waiting.pods.values()) == 203
    assert backlog.counted - before <= 2 * 3


REFUSALS = (
    None,
    Verdict(Step.GANG, "gang", Scope.JOB, "Unschedulable", "the gang waits"),
    Verdict(Step.PREDICATE, "predicates", Scope.NODE, "FailedScheduling", "no node"),
)


@given(
    st.lists(
        st.tuples(
            st.integers(0, 3),
            st.sampled_from(["q1", "q2"]),
            st.lists(st.tuples(st.integers(1, 50), st.sampled_from(REFUSALS), st.integers(1, 2)), max_size=4),
        ),
        max_size=40,
    )
)
def test_after_any_changes_the_totals_are_those_of_a_recount(
    story: list[tuple[int, str, list[tuple[int, Verdict | None, int]]]],
) -> None:
    cluster, backlog = Cluster(), Backlog()
    cluster.observe(backlog)
    templates = [a_template(number) for number in range(3)]
    for number, queue, pods in story:
        job = cluster.jobs.get(f"ns/{number}")
        if job is not None:
            cluster.queue_cache.remove_job(job)
        job = JobInfo("ns", str(number))
        job.queue = queue
        for place, (created, refusal, template) in enumerate(pods):
            task = TaskInfo(f"{number}-{place}", "ns", f"{number}-{place}", templates[template])
            task.spec = PodProperties(is_managed=True)
            task.job, task.created, task.refusal = job, float(created), refusal
            job.waiting[task.uid] = task
        cluster.queue_cache.put_job(job)
        backlog.count(job)

        assert backlog.totals() == recount(cluster)


def a_template(number: int) -> PodTemplate:
    template = PodTemplate(number)
    template.request = Resources({"cpu": 1000 * number})
    return template


def recount(cluster: Cluster) -> Waiting:
    pods: Counter[tuple[str, ...]] = Counter()
    jobs: Counter[tuple[str, ...]] = Counter()
    requests: Counter[tuple[str, ...]] = Counter()
    oldest: dict[str, float] = {}
    for job in cluster.jobs.values():
        reasons: Counter[tuple[str, ...]] = Counter()
        for task in job.waiting.values():
            refusal = refusal_of(task)
            reasons[
                job.queue,
                *((refusal.step, refusal.reason, refusal.condition_reason) if refusal else ("queued", "Waiting", "")),
            ] += 1
            requests[job.queue, "cpu"] += task.template.request["cpu"]
            oldest[job.queue] = min(task.created, oldest.get(job.queue, task.created))
        pods.update(reasons)
        if reasons:
            jobs[max(reasons, key=lambda why: (why[1] != "gang", reasons[why], why))] += 1
    return Waiting(pods, jobs, requests, oldest)
