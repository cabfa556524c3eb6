"""enqueue: a more important job is admitted to a full queue where eviction could make room for it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from actions import after_preemption
from tests.actions.rigs import conf, cycle, decide, echo, phases, rig
from volsched.framework.boundary import Bounds
from volsched.framework.callbacks import Ballot, Vote
from volsched.framework.registration import Registrar
from volsched.framework.rules import JobEnqueueable, Preemptable
from volsched.model.generations import ClusterEvent
from volsched.model.job import JobInfo
from volsched.testing.builders import ClusterBuilder, CycleDecision, Rig, a_cluster, put

HIGH = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 9}
CARD = "nvidia.com/gpu"
LABELS = {f"{CARD}.product": "A100", f"{CARD}.count": "8", f"{CARD}.memory": "81920"}


def with_plugin(name: str, actions: str = "enqueue, allocate, preempt") -> str:
    text = conf(actions, "priority gang conformance", f"{name} predicates")
    text = text.replace("name: gang", "name: gang\n    enablePreemptable: false")
    return text.replace("name: overcommit", "name: overcommit\n    arguments: {overcommit-factor: 1}")


def a_full_queue(low: int = 1, **queue: Any) -> ClusterBuilder:
    """A queue of four cores on a node of four, held by pods of no importance, one in each job."""
    given = a_cluster().add(HIGH).node("n1", cpu=4, labels=LABELS, **{CARD: 8}).queue("q", **queue)
    for number in range(low):
        given.group(f"low-{number}", "q", phase="Running", minResources={"cpu": str(4 // low)})
        given.pod(f"low-{number}", f"low-{number}", on="n1", cpu=4 // low)
    return given


def important(
    given: ClusterBuilder, name: str, cpu: int, *, pods: int = 1, priority: int = 9, **spec: Any
) -> ClusterBuilder:
    given.group(name, "q", phase="Pending", minimum=pods or 1, priorityClassName="high", minResources={"cpu": str(cpu)})
    for number in range(pods):
        given.pod(f"{name}-{number}", name, cpu=cpu, spec={"priority": priority, **spec})
    return given


FULL = {"capability": {"cpu": "4", "memory": "8Gi"}}
NOWHERE = {"nodeSelector": {"zone": "nowhere"}}


@pytest.mark.parametrize("plugin", ["capacity", "proportion", "overcommit", "capacity-card"])
@pytest.mark.parametrize("pods", [1, 0])
def test_a_more_important_job_is_admitted_to_a_full_queue_where_preempt_could_make_room(plugin: str, pods: int) -> None:
    """Also one whose pods are made once it is admitted."""
    configuration = with_plugin(plugin)
    given = important(a_full_queue(**FULL), "high", 4, pods=pods)

    assert phases(decide(given, configuration))["high"] == "Inqueue"
    assert phases(decide(given, configuration.replace(", preempt", "")))["high"] == "Pending"


@pytest.mark.parametrize("plugin", ["capacity", "capacity-card", "capacity-dra", "drf", "crossquota", "mgpu"])
@pytest.mark.parametrize("pods", [0, 1])
def test_beside_any_plugin_whoever_is_tried_as_gone_is_back_when_the_session_ends(plugin: str, pods: int) -> None:
    given = a_full_queue(**FULL).queue("other", reclaimable=True).node("n2", cpu=4, labels=LABELS, **{CARD: 8})
    given.group("theirs", "other", phase="Running").pod("theirs-0", "theirs", on="n2", **{CARD: 8})
    important(given, "high", 4, pods=pods)
    on = without_evictions(given, f"overcommit {plugin}")
    before = records(on)

    assert phases(cycle(on))["high"] == "Inqueue"
    assert records(on) == before


def without_evictions(given: ClusterBuilder, plugin: str) -> Rig:
    """Return a scheduler that only admits, and takes preempt and reclaim for actions of its configuration."""
    on = rig(given, with_plugin(plugin, "enqueue"))
    configuration = replace(on.scheduler.profile.configuration, actions=("preempt", "reclaim"))
    on.scheduler.profile = replace(on.scheduler.profile, configuration=configuration)
    return on


def records(on: Rig) -> list[tuple[str, str, str]]:
    tasks = on.cluster.tasks.values()
    return [(task.name, task.status.name, task.node.name if task.node else "") for task in tasks]


def test_the_victims_go_and_the_important_job_starts_within_its_quota() -> None:
    given = important(a_full_queue(**FULL), "high", 4)
    on = rig(given, with_plugin("capacity"))

    assert cycle(on).evictions == ["low-0"]


@pytest.mark.parametrize("priority", [0, 9])
def test_nobody_is_admitted_by_a_class_that_its_pods_do_not_have(priority: int) -> None:
    given = important(a_full_queue(**FULL), "high", 4, priority=priority)

    assert phases(decide(given, with_plugin("capacity")))["high"] == ("Inqueue" if priority else "Pending")


def refusals_of(decision: CycleDecision) -> dict[str, str]:
    found = [(s.name, c.message) for s in decision.steps for c in getattr(s, "conditions", ()) if c.status == "True"]
    return {name: message for name, message in found if "insufficient" in message}


def test_what_may_be_evicted_counts_once_over_all_who_are_admitted_by_it() -> None:
    given = a_full_queue(2, **FULL)
    for name in ("a", "b", "c"):
        important(given, name, 2, **NOWHERE)
    on = rig(given, with_plugin("capacity", "enqueue, preempt"))

    decision = cycle(on)

    assert [phases(decision)[name] for name in "abc"] == ["Inqueue", "Inqueue", "Pending"]
    assert "limit 4), also after preemption" in refusals_of(decision)["c"]
    assert on.cluster.queues["q"].allocated["cpu"] == 4000


def test_a_job_that_asks_for_more_than_victims_hold_is_refused_without_a_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    given = important(a_full_queue(2, **FULL), "high", 5)
    monkeypatch.setattr(after_preemption.AfterPreemption, "_is_refused_without", None)

    assert (
        '(queue "q": cpu: requested 5, used 4, limit 4), also after preemption'
        in refusals_of(decide(given, with_plugin("capacity")))["high"]
    )


def test_equal_jobs_are_tried_once_and_those_beyond_the_trials_of_a_session_in_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried: list[str] = []
    plain = after_preemption.AfterPreemption._is_refused_without

    def counted(self: Any, victims: Any, job: Any) -> bool:
        tried.append(job.name)
        return plain(self, victims, job)

    monkeypatch.setattr(after_preemption.AfterPreemption, "_is_refused_without", counted)
    monkeypatch.setattr(after_preemption.AfterPreemption, "_could_help", lambda *_: True)
    monkeypatch.setattr(after_preemption, "TRIALS", 2)
    given = a_full_queue(4, **FULL)
    for name, cpu in (("a", 4), ("b", 4), ("b-again", 4), ("c", 3), ("d", 2)):
        important(given, name, cpu)
    on = without_evictions(given, "capacity")

    first = cycle(on)
    assert (tried, [phases(first)[name] for name in "abcd"]) == (["a", "b"], ["Inqueue", *["Pending"] * 3])
    tried.clear()
    cycle(on)
    assert tried == ["c", "d"]


def test_reclaim_makes_room_in_the_cluster_and_not_in_a_queue_that_may_hold_no_more() -> None:
    given = a_cluster().add(HIGH).node("n1", cpu=4).queue("rich", reclaimable=True).queue("q")
    given.group("low", "rich", phase="Running").pod("low-0", "low", on="n1", cpu=2).pod("low-1", "low", on="n1", cpu=2)
    important(given, "poor", 2)
    configuration = with_plugin("overcommit proportion", "enqueue, allocate, reclaim")

    assert phases(decide(given, configuration))["poor"] == "Inqueue"
    assert phases(decide(given, configuration.replace(", reclaim", "")))["poor"] == "Pending"
    assert phases(decide(given.queue("q", capability={"cpu": "1"}), configuration))["poor"] == "Pending"


@pytest.mark.parametrize("pods", [0, 1])
@pytest.mark.parametrize("plugin", ["capacity", "capacity-card", "capacity-dra"])
def test_reclaim_makes_room_for_a_job_whose_pods_are_yet_to_be_made_too(plugin: str, pods: int) -> None:
    held = {"capability": {"cpu": "4", "memory": "8Gi"}, "deserved": {"cpu": "2", "memory": "4Gi"}}
    given = a_cluster().add(HIGH).node("n1", cpu=4).queue("rich", reclaimable=True, **held).queue("q", **held)
    given.group("low", "rich", phase="Running").pod("low-0", "low", on="n1", cpu=2).pod("low-1", "low", on="n1", cpu=2)
    important(given, "poor", 2, pods=pods)
    given.group("poorer", "q", phase="Pending", minimum=2, minResources={"cpu": "6"})
    configuration = with_plugin(f"overcommit {plugin}", "enqueue, allocate, reclaim")

    found = phases(decide(given, configuration))

    assert (found["poor"], found["poorer"]) == ("Inqueue", "Pending")


BUDGET: dict[str, Any] = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "all", "namespace": "default", "uid": "all"},
    "spec": {"selector": {}},
    "status": {"disruptionsAllowed": 0},
}
RESPECTS = "\nconfigurations:\n- name: preempt\n  arguments: {respectDisruptionBudgets: true}"


@pytest.mark.parametrize(
    "now", [{"status": {"disruptionsAllowed": 1}}, {"spec": {"selector": {"matchLabels": {"a": "b"}}}}]
)
def test_a_job_is_asked_about_again_when_a_budget_lets_pods_go(now: dict[str, Any]) -> None:
    on = rig(important(a_full_queue(**FULL), "high", 4).add(BUDGET), with_plugin("capacity") + RESPECTS)

    assert phases(cycle(on))["high"] == "Pending"
    assert phases(cycle(on, put({**BUDGET, **now})))["high"] == "Inqueue"


@pytest.mark.parametrize("where", ["labels", "annotations"])
def test_a_job_is_asked_about_again_when_a_pod_may_be_evicted_that_might_not(where: str) -> None:
    given = important(a_full_queue(**FULL), "high", 4)
    low = next(found for found in given.objects if found["metadata"]["name"] == "low-0" and found["kind"] == "Pod")
    before = dict(low["metadata"][where])
    low["metadata"][where]["volcano.sh/preemptable"] = "false"
    on = rig(given, with_plugin("capacity"))
    assert phases(cycle(on))["high"] == "Pending"
    generation = on.cluster.generations.requeue
    cycle(on, put(low))
    assert on.cluster.generations.requeue == generation

    free = {**low, "metadata": {**low["metadata"], where: before, "resourceVersion": "2"}}

    assert phases(cycle(on, put(free)))["high"] == "Inqueue"


def test_pods_that_are_being_bound_make_room_too() -> None:
    """Nothing has a job asked about again when they run."""
    given = a_cluster().add(HIGH).node("n1", cpu=4).queue("q", **FULL)
    given.group("low", "q", phase="Running", minResources={"cpu": "2"})
    given.pod("low-0", "low", on="n1", cpu=2).pod("low-1", "low", cpu=2)
    on = rig(given, with_plugin("capacity"))
    first = cycle(on)
    assert first.bindings == {"low-1": "n1"}

    late = important(a_cluster(), "high", 4)

    assert phases(cycle(on, *late.changes()))["high"] == "Inqueue"
    assert sorted(cycle(on, *echo(on, given, first)).evictions) == ["low-0", "low-1"]


def test_jobs_with_equal_pods_in_other_numbers_are_not_alike() -> None:
    """What a plugin counts by pods, and not by what the PodGroup states."""
    given = a_full_queue(**FULL)
    for name, ones in (("large", 1), ("small", 2)):
        given.group(name, "q", phase="Pending", minimum=3, priorityClassName="high", minResources={"cpu": "4"})
        for number in range(3):
            given.pod(f"{name}-{number}", name, cpu=1 if number < ones else 2, spec={"priority": 9})

    def few(registrar: Registrar) -> None:
        def vote(job: JobInfo) -> Ballot:
            wanted = sum(task.template.request["cpu"] for task in job.waiting.values())
            return Ballot(Vote.REJECT if wanted > 4000 else Vote.ABSTAIN)

        registrar.register(JobEnqueueable(vote))

    found = phases(decide(given, with_plugin("capacity", "enqueue, preempt"), few))

    assert (found["large"], found["small"]) == ("Pending", "Inqueue")


def looking(seen: dict[str, int]) -> Any:
    """Count, by job, at how many pods a vote on victims looked."""

    def register(registrar: Registrar) -> None:
        def count(task: Any, candidates: Any) -> Any:
            seen[task.job.name] = seen.get(task.job.name, 0) + len(candidates)
            return candidates

        registrar.register(Preemptable(count))

    return register


@pytest.mark.parametrize("priority", [0, 9])
def test_a_session_looks_at_few_pods_and_every_job_has_its_turn(monkeypatch: pytest.MonkeyPatch, priority: int) -> None:
    """Also where jobs ask for something else each; every second session begins with the most important again."""
    monkeypatch.setattr(after_preemption, "LOOKS", 10)
    given = a_full_queue(4, **FULL)
    names = [f"job-{number}" for number in range(9)]
    for number, name in enumerate(names):
        important(given, name, 3, priority=priority, **NOWHERE)
        given.objects[-1]["spec"]["containers"][0]["resources"]["requests"]["memory"] = str(number)
    monkeypatch.setattr(after_preemption.AfterPreemption, "_is_refused_without", lambda *_: True)
    seen: dict[str, int] = {}
    on = rig(given, with_plugin("capacity", "enqueue, preempt"), looking(seen))
    had: list[list[str]] = []
    for _ in range(5):
        seen.clear()
        cycle(on)
        on.cluster.wake(ClusterEvent.ROOM_FREED)
        had.append([name for name in names if name in seen])

    assert max(map(len, had)) <= 3
    assert set(names) <= {name for found in had for name in found}
    assert had[2][0] == names[0]


def test_equal_jobs_for_which_none_may_go_are_looked_at_once() -> None:
    given = a_full_queue(4, **FULL)
    for number in range(20):
        important(given, f"job-{number}", 3, priority=0)
    seen: dict[str, int] = {}

    decide(given, with_plugin("capacity", "enqueue"), looking(seen))
    assert seen == {}
    cycle(rig(given, with_plugin("capacity", "enqueue, preempt"), looking(seen)))

    assert seen == {"job-0": 4}


def test_what_fails_in_a_trial_leaves_the_pods_that_were_tried_as_gone_where_they_were() -> None:
    given = important(important(a_full_queue(**FULL), "high", 4), "higher", 3)

    def failing(registrar: Registrar) -> None:
        def vote(job: JobInfo) -> Ballot:
            if job.name == "high" and registrar.session.evicted:
                raise RuntimeError("no")
            return Ballot(Vote.ABSTAIN)

        registrar.register(JobEnqueueable(vote))

    on = rig(given, with_plugin("capacity", "enqueue, preempt"), failing)
    on.scheduler._bounds = Bounds(contains_faults=True)
    on.scheduler.profile = replace(on.scheduler.profile, actions=on.scheduler.profile.actions[:1])
    before = records(on)

    decision = cycle(on)

    assert [str(error) for _, error in decision.report.faults] == ["no"]
    assert records(on) == before
    assert phases(decision)["higher"] == "Inqueue"


def test_pods_whose_budget_lets_none_go_make_no_room_where_preempt_respects_that() -> None:
    given = important(a_full_queue(**FULL), "high", 4)
    given.add(BUDGET)

    assert phases(decide(given, with_plugin("capacity")))["high"] == "Inqueue"
    assert phases(decide(given, with_plugin("capacity") + RESPECTS))["high"] == "Pending"


@pytest.mark.parametrize("policy", ["Never", "PreemptLowerPriority"])
def test_a_native_group_is_admitted_where_all_of_its_pods_may_preempt(policy: str) -> None:
    given = a_full_queue(**FULL).native_group("g", 2, annotations={"scheduling.volcano.sh/queue-name": "q"})
    given.objects[-1]["spec"]["priorityClassName"] = "high"
    for number, preempts in enumerate(["PreemptLowerPriority", policy]):
        given.member(f"g-{number}", "g", cpu=2, spec={"priority": 9, "preemptionPolicy": preempts})
    on = rig(given, with_plugin("capacity"))

    cycle(on)

    job = next(job for job in on.cluster.jobs.values() if job.is_native)
    assert (job.queue, job.phase) == ("q", "Pending" if policy == "Never" else "Inqueue")
