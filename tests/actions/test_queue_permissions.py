"""Who may use a queue is minded by the core: whatever is configured, whoever acts, and also after a change of mind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from actions.unschedulable import UnschedulableJobs
from tests.actions.rigs import GANG, conf, cycle, events, rig
from volsched.framework.callbacks import PERMIT
from volsched.framework.engine.fast import Engine
from volsched.framework.registration import Registrar
from volsched.framework.rules import JobEnqueueable
from volsched.framework.session import Session
from volsched.mirror.settings import MirrorSettings
from volsched.model.changes import Bound, Deleted, Put
from volsched.model.cluster import Cluster
from volsched.model.job import INQUEUE
from volsched.model.plan import Bind, LiftGate, WriteGroupStatus, WritePodCondition
from volsched.model.pods.task import ADMISSION_GATE, UNGATED
from volsched.model.queues.allowed_namespaces import ALLOWED_NAMESPACES
from volsched.quota.demand import QueueDemand, QueueDemands
from volsched.testing.builders import ClusterBuilder, Rig, a_cluster, a_namespace, a_queue, a_rig, puts
from volsched.testing.contract import ENGINES

ROLE = "volcano.sh/task-spec"
ALL = "enqueue, allocate, preempt, reclaim, backfill"
NO_PLUGINS = 'actions: "enqueue, allocate, backfill"\ntiers: []'
VISION_ONLY = (
    'namespace "other" may not use queue "q": its annotation volsched.io/allowed-namespaces lets in namespace vision '
    "only; name another queue, or have whoever runs the cluster let the namespace in"
)
with_engines = pytest.mark.parametrize("engine", ENGINES)


def a_queue_for(name: str, rule: str | None = None, **spec: Any) -> dict[str, Any]:
    return a_queue(name, {ALLOWED_NAMESPACES: rule} if rule is not None else None, **spec)


def work(
    cluster: ClusterBuilder, name: str, namespace: str, *, queue: str = "q", pods: int = 1, minimum: int | None = None,
    phase: str = "Pending", at: str | None = None, group: dict[str, Any] | None = None, ungated: bool = False,
    **pod: Any,
) -> ClusterBuilder:  # fmt: skip
    """A PodGroup and its pods ``name-0`` and so on in a namespace; ``ungated``: the gate of these was lifted."""
    given = len(cluster.objects)
    cluster.group(name, queue, pods if minimum is None else minimum, phase, **(group or {}))
    for number in range(pods):
        cluster.pod(f"{name}-{number}", name, at, **{"cpu": "1", **pod})
    for added in cluster.objects[given:]:
        added["metadata"]["namespace"] = namespace
        added["metadata"]["uid"] = f"{namespace}/{added['metadata']['uid']}"
        if ungated and added["kind"] == "Pod":
            added["status"]["conditions"] = [{"type": UNGATED, "status": "True", "reason": "QueueAllocated"}]
    return cluster


def scene(rule: str | None = "vision", **node: Any) -> ClusterBuilder:
    return a_cluster().node("n1", **{"cpu": "8", **node}).add(a_queue_for("q", rule))


def job_of(on: Rig, key: str) -> Any:
    return on.cluster.jobs[key]


# -- refused ----------------------------------------------------------------------------------------------------------


@with_engines
@pytest.mark.parametrize(
    "configuration", [conf(ALL), conf("allocate, backfill"), conf("backfill"), NO_PLUGINS], ids=lambda c: c[:40]
)
def test_who_is_not_let_in_is_not_placed_whatever_is_configured(
    configuration: str, engine: Callable[[Cluster], Engine]
) -> None:
    cluster = scene()
    work(cluster, "mine", "vision", cpu="1" if "allocate" in configuration else "0", phase="Inqueue")
    work(cluster, "theirs", "other", cpu="1" if "allocate" in configuration else "0", phase="Inqueue")
    on = a_rig(cluster, configuration, engine)

    decision = cycle(on)

    assert decision.bindings == {"vision/mine-0": "n1"}
    assert decision.waiting == {"other/theirs-0": VISION_ONLY}
    assert job_of(on, "other/theirs").phase == "Pending"


def test_it_is_told_on_the_podgroup_on_the_pod_and_in_both_conditions() -> None:
    on = a_rig(work(scene(), "theirs", "other"), conf(ALL))

    decision = cycle(on)

    assert sorted(events(decision)) == [
        ("Pod/theirs-0", "QueueNotAllowed", VISION_ONLY),
        ("PodGroup/theirs", "QueueNotAllowed", VISION_ONLY),
    ]
    [status] = [step for step in decision.steps if isinstance(step, WriteGroupStatus)]
    assert [(c.type, c.reason, c.message) for c in status.conditions] == [
        ("Unschedulable", "QueueNotAllowed", VISION_ONLY)
    ]
    [condition] = [step for step in decision.steps if isinstance(step, WritePodCondition)]
    assert (condition.reason, condition.message) == ("QueueNotAllowed", VISION_ONLY)
    assert cycle(on).steps == []


def test_a_podgroup_without_pods_is_not_admitted_and_reserves_nothing() -> None:
    configuration = conf(ALL, GANG, "overcommit proportion predicates")
    asks = {"minResources": {"cpu": "8"}}
    cluster = work(scene(), "hoard", "other", pods=0, minimum=1, group=asks)
    work(cluster, "mine", "vision", group=asks, cpu="8")
    on = a_rig(cluster, configuration)

    assert cycle(on).bindings == {"vision/mine-0": "n1"}
    assert job_of(on, "other/hoard").refusal.message == VISION_ONLY


def test_no_plugin_is_asked_about_it() -> None:
    asked: list[str] = []
    cluster = work(work(scene(), "theirs", "other", pods=0, minimum=1), "mine", "vision", pods=0, minimum=1)

    def register(registrar: Registrar) -> None:
        registrar.register(JobEnqueueable(lambda job: asked.append(job.key) or PERMIT, always=True))  # type: ignore[func-returns-value]

    cycle(rig(cluster, conf(ALL), register))

    assert asked == ["vision/mine"]


def test_nobody_is_evicted_for_it() -> None:
    classes = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    cluster = scene(cpu="1").add({**classes, "metadata": {"name": "high", "uid": "high"}, "value": 1000})
    cluster.add(a_queue_for("r", weight=9))
    work(cluster, "runs", "vision", phase="Running", at="n1", minimum=0)
    work(cluster, "lends", "other", queue="r", pods=0)
    work(cluster, "grabs", "other", phase="Inqueue", group={"priorityClassName": "high"}, spec={"priority": 1000})
    configuration = conf(ALL, "priority", "drf proportion predicates")

    assert cycle(a_rig(cluster, configuration)).evictions == []
    cluster.objects[1] = a_queue_for("q")
    assert cycle(a_rig(cluster, configuration)).evictions == ["vision/runs-0"]


def test_plain_pods_are_minded_too() -> None:
    cluster = a_cluster().node("n1").add(a_queue_for("default", "vision")).pod("lone", cpu="1")
    on = a_rig(cluster, conf(ALL), settings=MirrorSettings(plain_pods=True))

    decision = cycle(on)

    assert decision.bindings == {}
    assert [reason for _, reason, _ in events(decision)] == ["QueueNotAllowed"]
    assert cycle(on, *puts(a_queue_for("default", "vision, default"))).bindings == {"lone": "n1"}


def test_an_annotation_that_cannot_be_read_lets_in_nobody_and_is_told_once_on_the_queue() -> None:
    on = a_rig(work(scene("vision,*"), "mine", "vision"), conf(ALL))

    decision = cycle(on)

    assert decision.bindings == {}
    assert "cannot be read, so nobody is let in ('*' is no name of a namespace)" in decision.waiting["vision/mine-0"]
    said = "metadata.annotations[volsched.io/allowed-namespaces]: '*' is no name of a namespace; nobody new may use it"
    told = [(about, reason, message) for about, reason, message in events(decision) if about == "Queue/q"]
    assert told == [("Queue/q", "InvalidField", said.replace("use it", "use the queue"))]
    assert cycle(on, *puts(a_queue_for("q", "vision,*"))).steps == []
    assert cycle(on, *puts(a_queue_for("q", "vision"))).bindings == {"vision/mine-0": "n1"}


class Wilful:
    """An action of somebody else's that places whatever waits, wherever it likes."""

    name: ClassVar[str] = "wilful"

    def execute(self, session: Session) -> None:
        for task in list(session.cluster.tasks.values()):
            statement = session.statement()
            for node in session.cluster.rows:
                if task.node is None and statement.allocate(task, node) is None:
                    break
            statement.place([task], iter(session.cluster.rows)).number if task.node is None else 0
            if task.job is not None:
                session.cluster.queue_cache.set_phase(task.job, INQUEUE)
            statement.commit()


def test_an_action_of_somebody_elses_cannot_place_it_either() -> None:
    cluster = work(work(scene(), "theirs", "other"), "mine", "vision")
    on = a_rig(cluster, conf("allocate"))
    session = Session(on.cluster, on.scheduler.profile.configuration, on.scheduler.engine, on.scheduler._accounts,
                      on.recorder.execute)  # fmt: skip
    session.opened()

    Wilful().execute(session)
    session.close()

    assert [step.name for step in on.recorder.steps if isinstance(step, Bind)] == ["mine-0"]
    assert job_of(on, "other/theirs").phase == "Pending"


# -- hierarchy --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("leaf", "above", "root", "bound"),
    [
        ("other", None, None, True),
        (None, "other", None, True),
        (None, "vision", None, False),
        ("other", "vision", None, False),
        ("vision", "other", None, False),
        ("other", "vision, other", "other", True),
        ("other", "other", "vision", False),
        ("other", "other", "", False),
    ],
)
def test_a_queue_and_all_above_it_have_to_let_a_namespace_in(
    leaf: str | None, above: str | None, root: str | None, bound: bool
) -> None:
    cluster = a_cluster().node("n1").add(a_queue_for("leaf", leaf, parent="team")).add(a_queue_for("team", above))
    cluster.add(a_queue_for("root", root))
    decision = cycle(a_rig(work(cluster, "j", "other", queue="leaf"), conf(ALL)))

    assert bool(decision.bindings) == bound
    if above == "vision":
        assert decision.waiting["other/j-0"].startswith(
            'namespace "other" may not use queue "leaf": of queue "team" above it the annotation volsched.io/'
        )


def test_a_queue_that_is_put_below_another_one_has_its_rules() -> None:
    cluster = a_cluster().node("n1").add(a_queue_for("leaf")).add(a_queue_for("team", "vision"))
    on = a_rig(work(cluster, "j", "other", queue="leaf", cpu="100"), conf(ALL))
    cycle(on)
    assert not job_of(on, "other/j").blocked

    cycle(on, *puts(a_queue_for("leaf", parent="team")))
    assert job_of(on, "other/j").blocked

    cycle(on, Deleted("Queue", "", "team", "queue--team"))
    assert not job_of(on, "other/j").blocked


def test_a_circle_of_queues_lets_nobody_in_whom_one_of_them_keeps_out() -> None:
    cluster = (
        a_cluster().node("n1").add(a_queue_for("x", "other", parent="y")).add(a_queue_for("y", "vision", parent="x"))
    )
    decision = cycle(a_rig(work(cluster, "j", "other", queue="x"), conf(ALL)))

    assert decision.bindings == {}


# -- changes of mind --------------------------------------------------------------------------------------------------


def changes_of_mind() -> list[Any]:
    by_name = ("vision", a_queue_for("q", "vision, other"), a_queue_for("q", "vision"))
    by_label = ("team=ml", a_namespace("other", team="ml"), a_namespace("other", team="none"))
    left_out = ("vision", a_queue_for("q"), a_queue_for("q", "vision"))
    return [
        pytest.param(*by_name, id="name"),
        pytest.param(*by_label, id="label"),
        pytest.param(*left_out, id="annotation"),
    ]


@with_engines
@pytest.mark.parametrize(("rule", "lets_in", "throws_out"), changes_of_mind())
def test_it_is_looked_at_again_when_queue_or_namespace_say_something_else(
    rule: str, lets_in: dict[str, Any], throws_out: dict[str, Any], engine: Callable[[Cluster], Engine]
) -> None:
    cluster = scene(rule).add(a_namespace("other", team="none"))
    on = a_rig(work(cluster, "j", "other", pods=2, minimum=1, group={"minResources": {"cpu": "1"}}),
               conf(ALL, GANG, "proportion predicates"), engine)  # fmt: skip
    assert cycle(on).bindings == {}
    assert cycle(on).steps == []

    decision = cycle(on, *puts(lets_in))
    assert set(decision.bindings) == {"other/j-0", "other/j-1"}
    cycle(on, *(Bound(step.uid, step.node) for step in decision.steps if isinstance(step, Bind)))
    job = job_of(on, "other/j")
    assert (job.phase, [c.type for c in job.conditions], job.refusal) == ("Running", ["Scheduled"], None)

    decision = cycle(on, *puts(throws_out))
    assert (decision.bindings, decision.evictions, events(decision)) == ({}, [], []), "what runs goes on"
    assert on.cluster.queues["q"].allocated["cpu"] == 2000, "and counts"
    assert job_of(on, "other/j").phase == "Running"

    late = work(a_cluster(), "j", "other", pods=3, minimum=1)
    decision = cycle(on, *[c for c in late.changes() if isinstance(c, Put) and c.object.metadata.name == "j-2"])
    assert decision.bindings == {}, "no pod comes to it"
    assert [(about, reason) for about, reason, _ in events(decision)] == [
        ("PodGroup/j", "QueueNotAllowed"),
        ("Pod/j-2", "QueueNotAllowed"),
    ]
    assert job.refusal is not None
    pod = late.changes()[-1].object  # type: ignore[union-attr]
    cycle(on, Deleted("Pod", "other", "j-2", pod.metadata.uid))
    assert job.refusal is None, "nothing of it waits any more"
    assert set(cycle(on, Put(pod), *puts(lets_in)).bindings) == {"other/j-2"}


def test_who_was_admitted_and_loses_the_right_goes_back_and_holds_nothing() -> None:
    asks = {"minResources": {"cpu": "8"}}
    cluster = work(scene("other"), "early", "other", pods=0, minimum=1, group=asks)
    on = a_rig(cluster, conf(ALL, GANG, "overcommit proportion predicates"))
    cycle(on)
    assert job_of(on, "other/early").phase == "Inqueue"
    assert reserved(on) == {"cpu": 8000}

    decision = cycle(on, *puts(a_queue_for("q", "vision")))

    assert [s.phase for s in decision.steps if isinstance(s, WriteGroupStatus)] == ["Pending"]
    assert reserved(on) == {}
    cycle(on, *puts(a_queue_for("q", "other")))
    assert job_of(on, "other/early").phase == "Inqueue"


@pytest.mark.parametrize("plugin", ["proportion", "capacity"])
def test_who_runs_and_loses_the_right_keeps_what_it_holds_and_reserves_no_more(plugin: str) -> None:
    limits = {"capability": {"cpu": "8", "memory": "8Gi"}}
    cluster = a_cluster().node("n1", cpu="16").add(a_queue_for("q", "vision, other", **limits))
    asks = {"minResources": {"cpu": "4"}}
    work(cluster, "runs", "other", phase="Running", at="n1", group={"minResources": {"cpu": "8"}})
    work(more := a_cluster(), "runs", "other", pods=2, cpu="7", phase="Running")
    cluster.objects.append(more.objects[-1])
    cluster.pod("others", on="n1", cpu="14")
    work(cluster, "mine", "vision", pods=0, minimum=1, group=asks)
    on = a_rig(cluster, conf(ALL, GANG, f"{plugin} predicates"))
    cycle(on)
    assert job_of(on, "vision/mine").phase == "Pending", "seven of eight are kept for the other"

    cycle(on, *puts(a_queue_for("q", "vision", **limits)))

    assert job_of(on, "vision/mine").phase == "Inqueue"
    assert on.cluster.queues["q"].allocated["cpu"] == 1000


def test_with_quotas_of_cards_it_reserves_no_more_either() -> None:
    limits = {"capability": {"cpu": "8", "memory": "8Gi"}}
    cluster = a_cluster().node("n1", cpu="16").add(a_queue_for("q", "vision, other", **limits))
    nowhere = {"nodeSelector": {"zone": "nowhere"}}
    roles = {"minTaskMember": {"a": 1, "b": 1}}
    work(cluster, "runs", "other", pods=2, phase="Running", at="n1", group=roles, annotations={ROLE: "a"})
    work(more := a_cluster(), "runs", "other", pods=3, annotations={ROLE: "b"}, cpu="4", spec=nowhere)
    cluster.objects.append(more.objects[-1])
    work(cluster, "mine", "vision", pods=0, minimum=1, group={"minResources": {"cpu": "4"}})
    on = a_rig(cluster, conf(ALL, GANG, "capacity-card predicates"))
    cycle(on)
    assert job_of(on, "vision/mine").phase == "Pending", "two are held, and four kept for the pod of role b"

    cycle(on, *puts(a_queue_for("q", "vision", **limits)))

    assert job_of(on, "vision/mine").phase == "Inqueue"


def reserved(on: Rig) -> dict[str, int]:
    return dict(QueueDemands(on.cluster).queues().get("q", QueueDemand()).reserved)


def test_a_status_that_says_inqueue_admits_nobody() -> None:
    """Whoever may edit PodGroups can write their status."""
    cluster = work(scene(), "theirs", "other", pods=0, minimum=1, phase="Inqueue", group={"minResources": {"cpu": "8"}})
    on = a_rig(cluster, conf(ALL, GANG, "proportion predicates"))

    decision = cycle(on)

    assert [s.phase for s in decision.steps if isinstance(s, WriteGroupStatus)] == ["Pending"]
    assert reserved(on) == {}


def test_what_asks_for_nothing_of_a_queue_is_not_refused() -> None:
    """Pods that run, and PodGroups that are done, are no business of who may use the queue from now on."""
    cluster = work(scene(), "runs", "other", phase="Running", at="n1")
    work(cluster, "done", "other", phase="Completed", pods=0)

    decision = cycle(a_rig(cluster, conf(ALL)))

    assert [found for found in events(decision) if found[1] == "QueueNotAllowed"] == []
    assert decision.cluster.jobs["other/runs"].phase == "Running"
    assert decision.cluster.jobs["other/done"].phase == "Completed"


def test_a_pod_whose_gate_was_lifted_counts_no_longer_and_none_is_lifted() -> None:
    cluster = scene("other", cpu="2").add(a_namespace("other"))
    nowhere = {"nodeSelector": {"zone": "nowhere"}}
    work(cluster, "late", "other", phase="Inqueue", spec=nowhere, ungated=True)
    work(cluster, "held", "other", phase="Inqueue", spec={"schedulingGates": [{"name": ADMISSION_GATE}], **nowhere})
    on = a_rig(cluster, conf("allocate, backfill", GANG, "proportion predicates"))
    on.mirror.apply(puts(a_queue_for("q", "vision")))
    later = work(a_cluster(), "later", "other", phase="Inqueue", spec=nowhere, ungated=True)
    on.mirror.apply(later.changes())

    decision = cycle(on)

    assert on.cluster.queue_cache.ungated == {}
    assert [step for step in decision.steps if isinstance(step, LiftGate)] == []


def test_a_promise_of_room_ends() -> None:
    cluster = scene("vision, other", cpu="1")
    classes = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    cluster.add({**classes, "metadata": {"name": "high", "uid": "high"}, "value": 1000})
    work(cluster, "runs", "vision", phase="Running", at="n1", minimum=0)
    work(cluster, "comes", "other", phase="Inqueue", group={"priorityClassName": "high"}, spec={"priority": 1000})
    on = a_rig(cluster, conf(ALL, "priority gang", "predicates"))
    assert cycle(on).evictions == ["vision/runs-0"]
    assert [task.name for task in on.cluster.nominated.values()] == ["comes-0"]

    decision = cycle(on, *puts(a_queue_for("q", "vision")))

    assert on.cluster.nominated == {}
    [condition] = [s for s in decision.steps if isinstance(s, WritePodCondition) and s.name == "comes-0"]
    assert (condition.reason, condition.nominated) == ("QueueNotAllowed", "")


def test_a_podgroup_that_names_another_queue_is_judged_by_that() -> None:
    on = a_rig(work(scene().add(a_queue_for("r")), "j", "other"), conf(ALL))
    cycle(on)

    moved = work(a_cluster(), "j", "other", queue="r", pods=0, minimum=1).changes()

    assert cycle(on, *moved).bindings == {"other/j-0": "n1"}
    back = work(a_cluster(), "j", "other", pods=0, minimum=1).changes()
    cycle(on, *back)
    assert (job_of(on, "other/j").queue, job_of(on, "other/j").blocked) == ("r", "")

    cycle(on, Deleted("Pod", "other", "j-0", "other/pod-default-j-0"))
    assert (job_of(on, "other/j").queue, job_of(on, "other/j").blocked) == ("q", VISION_ONLY)


def test_the_condition_says_why_it_waits_now_and_no_longer_why_it_did() -> None:
    cluster = work(scene(None, cpu="1"), "j", "other", pods=2)
    on = a_rig(cluster, conf(ALL))
    cycle(on)
    assert [condition.reason for condition in job_of(on, "other/j").conditions] == ["NotEnoughResources"]

    cycle(on, *puts(a_queue_for("q", "vision")))
    assert [(c.reason, c.message) for c in job_of(on, "other/j").conditions] == [("QueueNotAllowed", VISION_ONLY)]

    cycle(on, *puts(a_queue_for("q")))
    assert [condition.reason for condition in job_of(on, "other/j").conditions] == ["NotEnoughResources"]


# -- what it costs ----------------------------------------------------------------------------------------------------


def crowd(jobs: int, rule: str | None) -> Rig:
    cluster = scene(rule).add(a_namespace("other", team="none")).add(a_namespace("away", team="none"))
    for number in range(jobs):
        work(cluster, f"j{number}", "other")
    on = a_rig(cluster, conf(ALL))
    cycle(on)
    return on


@pytest.mark.parametrize("jobs", [4, 64])
def test_cost_follows_changes(jobs: int) -> None:
    """Who is refused is asked about again for what concerns it, and for nothing else, however many there are."""
    on = crowd(jobs, "team=ml")
    judged = on.cluster.queue_cache.permissions.judged

    session = Session(on.cluster, on.scheduler.profile.configuration, on.scheduler.engine, on.scheduler._accounts,
                      on.recorder.execute)  # fmt: skip
    assert UnschedulableJobs.of(session).to_try(session) == []
    cycle(on, *puts(a_namespace("away", team="ml"), a_queue_for("q", "team=ml", weight=2)))
    cycle(on, *a_cluster().node("n2").changes())
    cycle(on, *puts(a_namespace("other", team="none")))
    assert on.cluster.queue_cache.permissions.judged == judged

    work(more := a_cluster(), "late", "other")
    decision = cycle(on, *more.changes())
    assert on.cluster.queue_cache.permissions.judged - judged <= 4
    assert {step.name for step in decision.steps if isinstance(step, WritePodCondition)} == {"late-0"}


def test_a_cluster_without_rules_asks_nobody() -> None:
    on = crowd(8, None)

    cycle(on, *puts(a_namespace("other", team="ml"), a_queue_for("q", weight=2)))

    assert (on.cluster.queue_cache.permissions.judged, on.cluster.queue_cache.permissions.watched) == (0, 0)


def test_jobs_are_remembered_as_long_as_their_queue_minds_who_they_are() -> None:
    on = crowd(8, "vision")
    permissions = on.cluster.queue_cache.permissions
    assert permissions.watched == 8

    for task in [task for task in on.cluster.tasks.values() if task.name in ("j0-0", "j1-0")]:
        assert task.job is not None
        cycle(on, Deleted("Pod", "other", task.name, task.uid), Deleted("PodGroup", "other", task.job.name, ""))
    assert permissions.watched == 6

    cycle(on, *puts(a_queue_for("q", "team=ml")))
    assert permissions.watched == 6
    cycle(on, *puts(a_queue_for("q")), *puts(a_queue_for("r", "vision")))
    assert permissions.watched == 0
