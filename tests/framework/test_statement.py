"""A statement: do, undo, compare everything; and what a commit hands over."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.amounts import future_idle
from tests.framework.stage import Stage, no, standing
from volsched.framework.config.configuration import PluginOption
from volsched.framework.registration import Registrar
from volsched.framework.rules import EventHandler, JobReady, SessionClose
from volsched.framework.statement import Statement
from volsched.model.cluster import Cluster
from volsched.model.nodes.node import NodeInfo
from volsched.model.observers import Observer
from volsched.model.plan import Bind, Evict
from volsched.model.pods.task import TaskInfo
from volsched.model.status import HOLDS_ROOM, IS_ALLOCATED, TaskStatus
from volsched.model.verdict import Verdict
from volsched.testing.builders import ClusterBuilder, a_cluster
from volsched.testing.recount import faults, leftovers


class Ledger(Observer):
    """An account of the plainest kind: who holds room where, as told move by move."""

    def __init__(self, cluster: Cluster) -> None:
        self.held: dict[str, list[str]] = {}
        for task in cluster.tasks.values():
            self._enter(task, task.status, task.node, 1)

    def task_moved(self, task: TaskInfo, before: TaskStatus, node_before: NodeInfo | None) -> None:
        self._enter(task, before, node_before, -1)
        self._enter(task, task.status, task.node, 1)

    def _enter(self, task: TaskInfo, status: TaskStatus, node: NodeInfo | None, by: int) -> None:
        if node is None or not HOLDS_ROOM[status]:
            return
        names = self.held.setdefault(node.name, [])
        if by > 0:
            names.append(task.name)
            names.sort()
        else:
            names.remove(task.name)
        if not names:
            del self.held[node.name]


class Handler:
    """An event handler that notes what it hears and keeps the queue's count of tasks."""

    def __init__(self, name: str = "h", refuses: tuple[str, ...] = ()) -> None:
        self.name = name
        self.refuses = refuses
        self.heard: list[str] = []
        self.charged: set[str] = set()

    def allocate(self, task: TaskInfo) -> Verdict | None:
        assert task.node is not None, "the task is on its node when handlers hear of it"
        self.heard.append(f"{self.name}+{task.name}@{task.node.name}")
        if task.name in self.refuses:
            return no(f"{self.name} refuses {task.name}")
        self.charged.add(task.uid)
        return None

    def deallocate(self, task: TaskInfo) -> None:
        assert task.node is not None, "the task is still on its node when handlers hear of it"
        self.heard.append(f"{self.name}-{task.name}@{task.node.name}")
        self.charged.discard(task.uid)


def a_world() -> ClusterBuilder:
    """Two nodes; a gang of three that waits, and a member that asks for nothing; four pods that run, one leaving."""
    world = a_cluster().node("n1", cpu="8", **{"nvidia.com/gpu": 4}).node("n2", cpu="8").queue("q")
    world.job("gang", tasks=3, queue="q", cpu="2", memory="1Gi").pod("gang-idle", "gang")
    world.group("old", "q", minimum=1, phase="Running")
    world.pod("old-0", "old", on="n1", cpu="1").pod("old-1", "old", on="n2", cpu="3")
    world.pod("old-2", "old", on="n2", **{"nvidia.com/gpu": 1})
    world.add(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": "leaving",
                "namespace": "default",
                "uid": "leaving",
                "deletionTimestamp": "2026-01-01T00:00:00Z",
                "annotations": {"scheduling.k8s.io/group-name": "old"},
            },
            "spec": {
                "nodeName": "n1",
                "schedulerName": "volsched",
                "containers": [{"name": "c", "resources": {"requests": {"cpu": "5"}}}],
            },
            "status": {"phase": "Running"},
        }
    )
    return world


def everything(stage: Stage, handler: Handler) -> dict[str, Any]:
    ledger = stage.accounts.get("ledger", Ledger)
    return {
        **standing(stage.cluster),
        "ledger": {node: list(names) for node, names in ledger.held.items()},
        "handler": sorted(handler.charged),
    }


def staged(handler: Handler, *more: Handler) -> Stage:
    def register(registrar: Registrar) -> None:
        registrar.account("ledger", Ledger)
        for each in (handler, *more):
            registrar.register(EventHandler(each))

    stage = Stage(a_world(), register)
    for each in (handler, *more):
        each.charged.update(uid for uid, task in stage.cluster.tasks.items() if IS_ALLOCATED[task.status])
    return stage


def do(statement: Statement, stage: Stage, operation: tuple[str, str, str]) -> Verdict | None:
    kind, name, node = operation
    task = stage.task(name)
    match kind:
        case "allocate":
            return statement.allocate(task, stage.node(node))
        case "pipeline":
            return statement.pipeline(task, stage.node(node))
    statement.evict(task, "to make room")
    return None


OPERATIONS = {
    "allocate": [("allocate", "gang-0", "n1")],
    "pipeline": [("pipeline", "gang-0", "n1")],
    "evict": [("evict", "old-0", "")],
    "a gang": [("allocate", f"gang-{i}", "n2") for i in range(3)],
    "a member that asks for nothing": [("allocate", "gang-idle", "n1")],
    "evict, then pipeline into the room": [("evict", "old-1", ""), ("pipeline", "gang-0", "n2")],
    "the lot": [
        ("allocate", "gang-1", "n1"),
        ("evict", "old-2", ""),
        ("evict", "old-1", ""),
        ("pipeline", "gang-0", "n2"),
        ("pipeline", "gang-2", "n1"),
        ("allocate", "gang-idle", "n2"),
    ],
}


@pytest.mark.parametrize("case", OPERATIONS)
def test_what_is_discarded_leaves_no_trace_in_any_account(case: str) -> None:
    handler = Handler()
    stage = staged(handler)
    before = everything(stage, handler)
    statement = stage.session.statement()

    for operation in OPERATIONS[case]:
        assert do(statement, stage, operation) is None
    during = everything(stage, handler)
    wrong = faults(stage.cluster)
    statement.discard()

    assert wrong == []
    assert during != before
    assert everything(stage, handler) == before
    assert faults(stage.cluster) == []
    assert stage.steps == []


@pytest.mark.parametrize("kept", range(7))
def test_a_rollback_undoes_what_came_after_its_checkpoint_and_nothing_else(kept: int) -> None:
    handler, other = Handler(), Handler()
    stage, twin = staged(handler), staged(other)
    statement, only = stage.session.statement(), twin.session.statement()
    lot = OPERATIONS["the lot"]

    for operation in lot[:kept]:
        do(statement, stage, operation)
        do(only, twin, operation)
    place = statement.checkpoint()
    for operation in lot[kept:]:
        do(statement, stage, operation)
    statement.rollback(place)

    assert (place, len(statement.operations)) == (kept, kept)
    assert everything(stage, handler) == everything(twin, other)
    assert faults(stage.cluster) == []


@given(st.data())
def test_any_mix_of_operations_and_rollbacks_comes_back_to_the_start(data: st.DataObject) -> None:
    handler = Handler(refuses=("gang-2",))
    stage = staged(handler)
    before = standing(stage.cluster)
    statement = stage.session.statement()
    for _ in range(data.draw(st.integers(1, 12))):
        what = data.draw(st.sampled_from(["allocate", "pipeline", "evict", "displace", "settle", "rollback"]))
        if what == "rollback":
            statement.rollback(data.draw(st.integers(0, statement.checkpoint())))
        elif what == "settle":
            statement.settle_evictions(data.draw(st.integers(0, statement.checkpoint())))
        elif what == "displace":
            promised = [t for t in stage.cluster.tasks.values() if t.status is TaskStatus.PIPELINED]
            if promised:
                statement.displace(data.draw(st.sampled_from(promised)))
        elif what == "evict":
            running = [t for t in stage.cluster.tasks.values() if t.status is TaskStatus.RUNNING]
            if running:
                statement.evict(data.draw(st.sampled_from(running)), "why not")
        else:
            waiting = [t for t in stage.cluster.tasks.values() if t.status is TaskStatus.PENDING]
            if waiting:
                name, node = data.draw(st.sampled_from(waiting)).name, data.draw(st.sampled_from(["n1", "n2"]))
                do(statement, stage, (what, name, node))
        assert faults(stage.cluster) == []

    statement.discard()

    assert standing(stage.cluster) == before


def test_a_task_is_charged_when_it_is_allocated_and_not_when_it_is_pipelined() -> None:
    stage = staged(Handler())
    n1, n2 = stage.node("n1"), stage.node("n2")
    statement = stage.session.statement()

    assert [n.used_of("cpu") for n in (n1, n2)] == [6_000, 3_000]
    statement.allocate(stage.task("gang-0"), n2)
    statement.pipeline(stage.task("gang-1"), n1)

    assert [n.used_of("cpu") for n in (n1, n2)] == [6_000, 5_000]
    assert [n.idle_of("cpu") for n in (n1, n2)] == [2_000, 3_000]
    assert [future_idle(stage.cluster, n, "cpu") for n in (n1, n2)] == [5_000, 3_000]  # 2 idle + 5 leaving - 2 promised
    assert stage.queue("q").allocated["cpu"] == 6_000  # old-0, old-1 and gang-0; what leaves counts no more
    job = stage.cluster.jobs["default/gang"]
    assert (job.ready_count, job.pipelined_count, len(job.waiting)) == (1, 1, 2)


def test_an_evicted_task_is_out_of_the_way_until_it_is_settled_that_it_has_yet_to_leave() -> None:
    stage = staged(Handler())
    n2, queue = stage.node("n2"), stage.queue("q")
    statement = stage.session.statement()

    statement.evict(stage.task("old-1"), "to make room")
    assert (n2.idle_of("cpu"), future_idle(stage.cluster, n2, "cpu"), queue.allocated["cpu"]) == (8_000, 8_000, 1_000)

    statement.settle_evictions(0)
    assert (n2.idle_of("cpu"), future_idle(stage.cluster, n2, "cpu"), queue.allocated["cpu"]) == (5_000, 8_000, 1_000)
    assert faults(stage.cluster) == []


def test_a_promise_that_is_redeemed_takes_nothing_of_what_came_after_it_back() -> None:
    stage = staged(Handler())
    statement = stage.session.statement()
    do(statement, stage, ("pipeline", "gang-0", "n1"))
    do(statement, stage, ("pipeline", "gang-1", "n1"))
    statement.hold()
    other = stage.session.statement()
    do(other, stage, ("evict", "old-1", ""))
    other.commit()
    generation = stage.cluster.generations.requeue

    stage.session.nominations.release(stage.task("gang-0"))

    assert [stage.task(f"gang-{i}").status for i in range(2)] == [TaskStatus.PENDING, TaskStatus.PIPELINED]
    assert stage.cluster.generations.requeue == generation, "somebody may wait for the room of old-1"
    assert faults(stage.cluster) == []
    stage.session.close()
    assert leftovers(stage.cluster) == []


# -- event handlers ---------------------------------------------------------------------------------------------------


def test_handlers_hear_in_order_and_of_the_reverse_in_reverse() -> None:
    heard: list[str] = []
    first, second = Handler("a"), Handler("b")
    first.heard = second.heard = heard
    stage = staged(first, second)
    statement = stage.session.statement()

    do(statement, stage, ("allocate", "gang-0", "n2"))
    do(statement, stage, ("evict", "old-0", ""))
    statement.discard()

    assert heard == [
        "a+gang-0@n2",
        "b+gang-0@n2",
        "b-old-0@n1",
        "a-old-0@n1",
        "a+old-0@n1",
        "b+old-0@n1",
        "b-gang-0@n2",
        "a-gang-0@n2",
    ]


@pytest.mark.parametrize("kind", ["allocate", "pipeline"])
def test_a_handler_that_refuses_takes_the_placement_back_without_a_trace(kind: str) -> None:
    first, second, third = Handler("a"), Handler("b", refuses=("gang-0",)), Handler("c")
    stage = staged(first, second, third)
    before = everything(stage, first)
    statement = stage.session.statement()

    refusal = do(statement, stage, (kind, "gang-0", "n2"))

    assert refusal == no("b refuses gang-0")
    assert statement.operations == []
    assert everything(stage, first) == before
    assert (first.heard, second.heard, third.heard) == (["a+gang-0@n2", "a-gang-0@n2"], ["b+gang-0@n2"], [])


# -- commit, hold, discard --------------------------------------------------------------------------------------------


def test_the_condition_and_the_events_of_a_victim_name_no_object_of_another_namespace() -> None:
    stage = staged(Handler())
    statement = stage.session.statement()
    statement.evict(stage.task("old-1"), 'pod "secret/p" needs the room of pod "default/old-1"')

    [step] = statement.commit()

    assert isinstance(step, Evict)
    assert step.message == 'another job needs the room of pod "default/old-1"'
    assert [event.message for event in stage.session.events.recorded] == [
        step.message,
        f'pod "default/old-1" is evicted: {step.message}',
    ]


def test_a_commit_binds_what_was_allocated_and_evicts_what_was_evicted() -> None:
    stage = staged(Handler())
    stage.session.action, stage.session.now = "preempt", 7.5
    stage.task("gang-0").bind_annotations = {"cards": "0,1"}
    statement = stage.session.statement()
    for operation in [("allocate", "gang-0", "n2"), ("evict", "old-1", ""), ("pipeline", "gang-1", "n2")]:
        do(statement, stage, operation)

    created = stage.task("gang-0").created
    steps = statement.commit()

    assert steps == stage.steps
    assert steps == [
        Bind("pod-default-gang-0", "default", "gang-0", "n2", {"cards": "0,1"}, "node--n2", (), "q", created),
        Evict("pod-default-old-1", "default", "old-1", "preempt", "default/gang-1", "to make room", 7.5),
    ]
    statuses = [stage.task(name).status for name in ("gang-0", "old-1", "gang-1")]
    assert statuses == [TaskStatus.BINDING, TaskStatus.RELEASING, TaskStatus.PIPELINED]
    assert statement.operations == []
    assert faults(stage.cluster) == []


def test_what_was_pipelined_stays_promised_until_the_session_closes_and_not_longer() -> None:
    stage = staged(Handler())
    statement = stage.session.statement()
    do(statement, stage, ("allocate", "gang-0", "n2"))
    do(statement, stage, ("pipeline", "gang-1", "n1"))

    statement.commit()
    promised = stage.node("n1").pipelined[0]
    stage.session.close()

    assert promised == 2_000
    assert stage.node("n1").pipelined[0] == 0
    assert [stage.task(name).status for name in ("gang-0", "gang-1")] == [TaskStatus.BINDING, TaskStatus.PENDING]
    assert (faults(stage.cluster), leftovers(stage.cluster)) == ([], [])


def test_a_commit_without_anything_hands_nothing_over() -> None:
    handed: list[Any] = []
    stage = staged(Handler())
    stage.session._submit = handed.append  # the one seam of a session

    assert stage.session.statement().commit() == []
    assert handed == []


def test_what_is_held_is_undone_newest_first_when_the_session_closes() -> None:
    handler = Handler()
    stage = staged(handler)
    before = standing(stage.cluster)
    for name in ("gang-0", "gang-1"):
        statement = stage.session.statement()
        do(statement, stage, ("allocate", name, "n2"))
        statement.hold()
    handler.heard.clear()

    assert stage.node("n2").idle_of("cpu") == 1_000
    stage.session.close()

    assert handler.heard == ["h-gang-1@n2", "h-gang-0@n2"]
    assert standing(stage.cluster) == before
    assert stage.steps == []


def test_closing_calls_the_plugins_before_it_undoes_anything() -> None:
    seen: list[TaskStatus] = []
    stage = Stage(a_world(), lambda r: r.register(SessionClose(lambda: seen.append(stage.task("gang-0").status))))
    statement = stage.session.statement()
    do(statement, stage, ("allocate", "gang-0", "n2"))
    statement.hold()

    stage.session.close()

    assert seen == [TaskStatus.ALLOCATED]


# -- outside a statement ----------------------------------------------------------------------------------------------


def gangs(stage: Stage) -> None:
    Registrar(stage.session, 0, PluginOption("gang")).register(JobReady(lambda job: job.is_ready))


def alone(stage: Stage, task: TaskInfo, node: NodeInfo) -> Verdict | None:
    """Place a task by itself, as backfill does."""
    statement = stage.session.statement()
    refusal = statement.allocate(task, node)
    if refusal is None:
        stage.session.stand_alone(statement, task)
    return refusal


def test_a_lone_placement_is_bound_at_once_when_its_job_is_ready() -> None:
    stage = Stage(a_cluster().node("n1").job("j", tasks=2, minimum=1))
    gangs(stage)

    assert alone(stage, stage.task("j-0"), stage.node("n1")) is None

    assert [step.name for step in stage.steps if isinstance(step, Bind)] == ["j-0"]


def test_a_lone_placement_waits_for_its_gang_and_is_bound_with_it() -> None:
    stage = Stage(a_cluster().node("n1").job("j", tasks=2, minimum=2, cpu="1"))
    job, n1 = stage.cluster.jobs["default/j"], stage.node("n1")
    gangs(stage)

    alone(stage, stage.task("j-0"), n1)
    assert (stage.steps, stage.task("j-0").status) == ([], TaskStatus.ALLOCATED)
    statement = stage.session.statement()
    statement.allocate(stage.task("j-1"), n1)
    statement.commit(job)
    stage.session.close()

    assert [step.name for step in stage.steps if isinstance(step, Bind)] == ["j-1", "j-0"]
    assert {stage.task(f"j-{i}").status for i in range(2)} == {TaskStatus.BINDING}
    assert (faults(stage.cluster), leftovers(stage.cluster)) == ([], [])


def test_a_lone_placement_of_a_gang_that_never_starts_is_undone() -> None:
    stage = Stage(a_cluster().node("n1").job("j", tasks=3, minimum=3, cpu="1"))
    gangs(stage)
    before = standing(stage.cluster)

    alone(stage, stage.task("j-0"), stage.node("n1"))
    stage.session.close()

    assert standing(stage.cluster) == before
    assert stage.steps == []


def test_a_lone_placement_that_a_handler_refuses_leaves_no_trace() -> None:
    handler = Handler(refuses=("gang-0",))
    stage = staged(handler)
    before = everything(stage, handler)

    refusal = alone(stage, stage.task("gang-0"), stage.node("n2"))

    assert refusal == no("h refuses gang-0")
    assert everything(stage, handler) == before
