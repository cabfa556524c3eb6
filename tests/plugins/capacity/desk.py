"""One session with the plugin on a small cluster, and its answers."""

from __future__ import annotations

from typing import Any

from plugins.capacity.plugin import ANCESTORS, CapacityPlugin
from tests.actions.rigs import conf
from tests.framework.stage import Plug, Stage
from volsched.model.job import JobInfo
from volsched.model.pods.task import TaskInfo
from volsched.model.verdict import Verdict
from volsched.testing.builders import ClusterBuilder, a_cluster

HIERARCHY = "    enableHierarchy: true\n"


class Desk:
    """The plugin alone. ``ancestors`` is its ``ancestorReclaimLevel``; with it, or ``tree``, it minds the hierarchy."""

    def __init__(self, given: ClusterBuilder, *, tree: bool = False, ancestors: int = 0) -> None:
        plugin = CapacityPlugin({ANCESTORS: ancestors})
        switches = {"enableHierarchy": tree or ancestors > 0}
        self.stage = Stage(given, Plug(plugin.on_session_open, plugin.name, switches))

    @property
    def session(self) -> Any:
        return self.stage.session

    def order(self, *queues: str) -> list[str]:
        """These queues, the first to go first."""
        return sorted(queues, key=lambda name: self.session.rules.queue_key(self.stage.queue(name)))

    def refusal(self, queue: str, task: str) -> Verdict | None:
        found: Verdict | None = self.session.allocatable_refusal(self.stage.queue(queue), self.stage.task(task))
        return found

    def not_admitted(self, group: str) -> Verdict | None:
        job: JobInfo = self.stage.cluster.jobs[f"default/{group}"]
        found: Verdict | None = self.session.rules.enqueue_refusal(job)
        return found

    def may_preempt(self, queue: str, *tasks: str) -> bool:
        asking = [self.stage.task(name) for name in tasks]
        return bool(self.session.may_preempt(self.stage.queue(queue), asking))

    def victims(self, task: str, *candidates: str) -> list[str]:
        """Who of these may go for a task, by name."""
        listed: list[TaskInfo] = [self.stage.task(name) for name in candidates]
        return sorted(victim.name for victim in self.session.rules.reclaimable(self.stage.task(task), listed))

    def is_within_deserved(self, queue: str, task: str) -> bool:
        """Whether reclaim goes on for a task beyond the minimum of its job."""
        return bool(self.session.rules.is_within_deserved(self.stage.queue(queue), self.stage.task(task)))

    def victims_by_share(self, task: str, *candidates: str) -> list[str]:
        """Who of these may go for a task beyond the minimum of its job, by name."""
        listed: list[TaskInfo] = [self.stage.task(name) for name in candidates]
        return sorted(victim.name for victim in self.session.rules.reclaimable_by_share(self.stage.task(task), listed))


def a_world(*, held: int = 0, cpu: Any = 1, **spec: Any) -> ClusterBuilder:
    """Ten cores. Of queue q, ``held`` pods run and more want in; so do pods of r, which says nothing."""
    given = a_cluster().node("n1", cpu=10, memory="10Gi").queue("q", **spec).queue("r")
    given.group("run", "q", phase="Running").job("more", 4, queue="q", cpu=1).job("other", 4, queue="r", cpu=1)
    for index in range(held):
        given.pod(f"run-{index}", "run", on="n1", cpu=cpu)
    return given


def hierarchy(text: str) -> str:
    """A configuration in which the plugin minds the queues above."""
    return text.replace("  - name: capacity", f"  - name: capacity\n{HIERARCHY}".rstrip())


def tree_conf(actions: str, *tiers: str) -> str:
    return hierarchy(conf(actions, *tiers))
