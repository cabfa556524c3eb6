"""Whatever happens in whatever order: every account equals a recount, and the mirror is a function of what is there."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.amounts import future_idle
from tests.mirror.objects import Believer, gone, group, node, pod, priority_class, queue
from volsched.mirror.apply import Mirror
from volsched.mirror.pods import ASSUMED
from volsched.mirror.settings import MirrorSettings
from volsched.model.changes import BindFailed, Bound, Change, Deleted, EvictFailed, GroupWriteFailed
from volsched.model.cluster import Cluster
from volsched.model.pods.workload import LABEL, ONLINE
from volsched.model.status import HOLDS_ROOM, IS_ALLOCATED, TaskStatus
from volsched.model.values.resources import accumulate
from volsched.testing.recount import faults, leftovers

NAMES = st.sampled_from(["a", "b", "c", "d"])
NODES = st.sampled_from(["n1", "n2", "n3"])
QUEUES = st.sampled_from(["q1", "q2", "default"])
GROUPS = st.sampled_from(["g1", "g2", "", ""])
CPU = st.integers(0, 3)
OWNERS = st.sampled_from(["ReplicaSet", "ReplicaSet", "Job", ""])
WORK = st.sampled_from(["", "", "online", "offline", "neither"])
MOSTLY = st.sampled_from([True, True, True, False])
RESOURCES = ("cpu", "pods", "example.com/card")
STAMP = "2026-01-01T00:00:00Z"


@dataclass(frozen=True)
class Shape:
    """A pod as the API server has it."""

    name: str
    incarnation: int
    group: str = ""
    on: str = ""
    phase: str = "Pending"
    cpu: int = 0
    app: str = "x"
    owner: str = ""
    workload: str = ""
    deleted: bool = False
    gate: bool = False
    ours: bool = True

    @property
    def uid(self) -> str:
        return f"{self.name}-{self.incarnation}"

    def put(self, version: int | None = None) -> Change:
        return pod(
            self.name,
            self.group or None,
            self.on or None,
            self.phase,
            uid=self.uid,
            version=version,
            created=STAMP,
            labels={"app": self.app, **({LABEL: self.workload} if self.workload else {})},
            owner=self.owner,
            gates=["example.com/gate"] if self.gate else [],
            deleted=self.deleted,
            scheduler="volsched" if self.ours else "other",
            cpu=self.cpu,
            **({"example.com/card": 1} if self.cpu == 3 else {}),
        )


@dataclass
class Objects:
    """All objects that are there, as the changes that tell of them."""

    pods: dict[str, Shape] = field(default_factory=dict)
    others: dict[tuple[str, str], Change] = field(default_factory=dict)


class Changes(RuleBasedStateMachine):
    """Objects come, change and go; the scheduler assumes pods, and hears what came of it."""

    def __init__(self) -> None:
        super().__init__()
        self.settings = MirrorSettings(plain_pods=True)
        self.believer = Believer(settings=self.settings)
        self.objects = Objects()
        self.version = 0
        self.incarnations = 0

    def tell(self, shape: Shape) -> None:
        """The API server has a pod so, and says it."""
        self.version += 1
        self.objects.pods[shape.name] = shape
        self.believer.mirror.apply([shape.put(self.version)])

    def have(self, kind: str, name: str, change: Change) -> None:
        self.objects.others[kind, name] = change
        self.believer.mirror.apply([change])

    # -- objects ------------------------------------------------------------------------------------------------------

    @rule(name=NODES, cpu=st.integers(0, 4), zone=NAMES)
    def put_node(self, name: str, cpu: int, zone: str) -> None:
        self.have("Node", name, node(name, cpu=cpu, labels={"zone": zone}))

    @rule(name=QUEUES, weight=st.integers(1, 3))
    def put_queue(self, name: str, weight: int) -> None:
        self.have("Queue", name, queue(name, weight=weight))

    @rule(name=st.sampled_from(["g1", "g2"]), of=QUEUES, minimum=st.integers(0, 3), high=st.booleans())
    def put_group(self, name: str, of: str, minimum: int, *, high: bool) -> None:
        spec = {"priorityClassName": "high"} if high else {}
        self.have("PodGroup", name, group(name, of, minimum, "Inqueue", created=STAMP, **spec))

    @rule(value=st.integers(0, 9))
    def put_class(self, value: int) -> None:
        self.have("PriorityClass", "high", priority_class("high", value))

    @rule(kind=st.sampled_from(["Node", "Queue", "PodGroup", "PriorityClass"]), data=st.data())
    def drop(self, kind: str, data: st.DataObject) -> None:
        names = [name for of, name in self.objects.others if of == kind]
        if names:
            name = data.draw(st.sampled_from(names))
            del self.objects.others[kind, name]
            self.believer.mirror.apply([gone(kind, name, uid=f"uid-{name}")])

    @rule(name=NAMES, of=GROUPS, cpu=CPU, ours=MOSTLY, on=st.sampled_from(["", "", "n1", "n2"]), owner=OWNERS)
    def make_pod(self, name: str, of: str, cpu: int, ours: bool, on: str, owner: str) -> None:
        if name not in self.objects.pods:
            self.incarnations += 1
            phase = "Running" if on else "Pending"
            self.tell(Shape(name, self.incarnations, of, on, phase, cpu, owner=owner, ours=ours))

    @rule(
        data=st.data(),
        what=st.sampled_from(["group", "cpu", "app", "work", "gate", "delete", "bind", "run", "end", "again"]),
    )
    def change_pod(self, data: st.DataObject, what: str) -> None:
        if not self.objects.pods:
            return
        shape = self.objects.pods[data.draw(st.sampled_from(sorted(self.objects.pods)))]
        match what:
            case "group" if not self.is_placed(shape):  # of one that is, a new mirror cannot know as what it was placed
                shape = replace(shape, group=data.draw(GROUPS))
            case "cpu":
                shape = replace(shape, cpu=data.draw(CPU))
            case "app":
                shape = replace(shape, app=data.draw(NAMES))
            case "work":
                shape = replace(shape, owner=data.draw(OWNERS), workload=data.draw(WORK))
            case "gate":
                shape = replace(shape, gate=not shape.gate and not shape.on)
            case "delete":
                shape = replace(shape, deleted=True)
            case "bind" if not shape.on and not shape.deleted and shape.phase == "Pending":
                shape = replace(shape, on=data.draw(NODES), gate=False)
            case "run" if shape.on and shape.phase == "Pending":
                shape = replace(shape, phase="Running")
            case "end":
                shape = replace(shape, phase=data.draw(st.sampled_from(["Succeeded", "Failed"])))
        self.tell(shape)

    def is_placed(self, shape: Shape) -> bool:
        """Whether a pod has a node, as we know it or as the API server does."""
        task = self.believer.cluster.tasks.get(shape.uid)
        return bool(shape.on) or (task is not None and task.status in ASSUMED)

    @rule(data=st.data())
    def drop_pod(self, data: st.DataObject) -> None:
        if self.objects.pods:
            shape = self.objects.pods.pop(data.draw(st.sampled_from(sorted(self.objects.pods))))
            self.believer.mirror.apply([Deleted("Pod", "default", shape.name, shape.uid)])

    # -- the scheduler ------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.believer.cluster.rows)
    @rule(data=st.data())
    def assume(self, data: st.DataObject) -> None:
        waiting = sorted(t.uid for job in self.believer.cluster.queue_cache.waiting.values() for t in job.schedulable())
        if waiting:
            task = self.believer.cluster.tasks[data.draw(st.sampled_from(waiting))]
            on = data.draw(st.sampled_from(self.believer.cluster.rows))
            self.believer.cluster.move(task, TaskStatus.BINDING, on)

    @rule(data=st.data(), outcome=st.sampled_from(["bound", "failed", "failed for good", "shown", "bound and shown"]))
    def hear(self, data: st.DataObject, outcome: str) -> None:
        """What came of a binding that is under way."""
        under_way = [t for t in self.believer.cluster.tasks.values() if t.status is TaskStatus.BINDING and t.node]
        if not under_way:
            return
        task = data.draw(st.sampled_from(sorted(under_way, key=lambda t: t.uid)))
        assert task.node is not None
        on, shape = task.node.name, self.objects.pods[task.name]
        if "failed" in outcome:
            self.believer.mirror.apply([BindFailed(task.uid, on, "no", None if "good" in outcome else 1.0)])
            return
        if "bound" in outcome:
            self.believer.mirror.apply([Bound(task.uid, on)])
        self.objects.pods[task.name] = replace(shape, on=on)
        if "shown" in outcome:
            self.tell(self.objects.pods[task.name])

    @rule(now=st.floats(0, 2))
    def tick(self, now: float) -> None:
        self.believer.mirror.tick(now)

    @rule(data=st.data())
    def hear_nonsense(self, data: st.DataObject) -> None:
        """Results about pods that nobody knows any more, or that are elsewhere."""
        uid = data.draw(st.sampled_from(["gone", *sorted(self.believer.cluster.tasks)]))
        task = self.believer.cluster.tasks.get(uid)
        evicted = EvictFailed(uid, "no")
        changes: list[Change] = [evicted, GroupWriteFailed("default", "g1"), Bound("gone", "n1")]
        if task is None or task.node is None or task.node.name != "n3":
            changes.append(BindFailed(uid, "n3", "no", None))
        self.believer.mirror.apply(changes)

    # -- what holds ---------------------------------------------------------------------------------------------------

    @invariant()
    def every_account_equals_a_recount(self) -> None:
        assert faults(self.believer.cluster) == []
        assert leftovers(self.believer.cluster) == []
        assert kept_online(self.believer.mirror) == counted_online(self.believer.cluster)

    def teardown(self) -> None:
        """The mirror is what a new one makes of the objects that are there, once nothing is under way."""
        for task in list(self.believer.cluster.tasks.values()):
            if task.status in ASSUMED and task.name in self.objects.pods:
                shape = self.objects.pods[task.name]
                if not shape.on and task.node is not None:
                    self.believer.mirror.apply([BindFailed(task.uid, task.node.name, "no", None)])
                if not shape.on and task.node is None:
                    self.believer.mirror.apply([Deleted("Pod", "default", task.name, task.uid)])
                self.tell(shape)
        for name in ("g1", "g2"):  # what a PodGroup said is kept for its pods when it goes
            self.put_group(name, "q1", 1, high=False)
        fresh = Mirror(self.settings)
        fresh.apply([*(shape.put() for shape in self.objects.pods.values()), *self.objects.others.values()])
        assert faults(fresh.cluster) == []
        assert picture(self.believer.mirror) == picture(fresh)


def picture(mirror: Mirror) -> dict[str, Any]:
    """All that decisions are made from, as plain values; pods of others that have finished aside."""
    cluster = mirror.cluster
    tasks = {
        task.uid: (
            task.status.name,
            task.node and task.node.name,
            task.job and task.job.key,
            task.spec.gated,
            task.spec.terminating,
            task.spec.labels,
            task.spec.workload,
            dict(task.template.request),
        )
        for task in cluster.tasks.values()
        if task.job is not None or task.node is not None
    }
    nodes = {
        one.name: (
            one.labels,
            [(one.allocatable_of(r), one.used_of(r), future_idle(cluster, one, r)) for r in RESOURCES],
        )
        for one in cluster.rows
    }
    jobs = {
        job.key: (
            job.queue,
            job.spec.min_available,
            job.priority,
            job.spec.has_group,
            job.spec.implicit,
            job.counts,
            job.ready_count,
        )
        for job in cluster.jobs.values()
        if job.spec.has_group or job.tasks
    }
    queues = {one.name: (one.spec.weight, one.allocated) for one in cluster.queues.values()}
    return {
        "tasks": tasks,
        "nodes": nodes,
        "jobs": jobs,
        "queues": queues,
        "totals": [*cluster.node_cache.totals, 0, 0, 0][:3],
    }


Online = tuple[dict[int, int], dict[str, dict[str, int]]]
"""What online pods take of all nodes by column, and of queues by resource; no zeros."""


def kept_online(mirror: Mirror) -> Online:
    used = {column: amount for column, amount in mirror.online.used.items() if amount}
    return used, {queue: amounts for queue, amounts in mirror.online.queues.items() if amounts}


def counted_online(cluster: Cluster) -> Online:
    """The same, of all pods one by one."""
    used: dict[int, int] = {}
    queues: dict[str, dict[str, int]] = {}
    for task in cluster.tasks.values():
        if task.spec.workload != ONLINE:
            continue
        if task.node is not None and HOLDS_ROOM[task.status]:
            accumulate(used, dict(cluster.columns.charge(task.template)), 1)
        if task.job is not None and IS_ALLOCATED[task.status]:
            accumulate(queues.setdefault(task.job.queue, {}), task.template.request, 1)
    return used, {queue: amounts for queue, amounts in queues.items() if amounts}


TestChanges = Changes.TestCase
TestChanges.settings = settings(stateful_step_count=30)
