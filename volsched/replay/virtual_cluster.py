"""The in-memory cluster in virtual time: jobs come and go, and changes of their pods are noted."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TypeAlias

from volsched.controllers.grouping import quantities
from volsched.mirror.reading import GROUP_NAME, ROLE
from volsched.model import api
from volsched.model.changes import Change
from volsched.model.held_nodes import RESERVED, stated_reservation_in
from volsched.model.plan import Bind, Evict, RecordEvent
from volsched.replay.jobs import EXPECTED_DURATION, ReplayJob, Role
from volsched.simulation.api_server import STAMP, SimulatedApiServer, SimulationHistory
from volsched.simulation.manifests import Inventory


class _StepLog(SimulationHistory):
    """The steps since the last call. A replay keeps no Events."""

    def record(self, cycle: int, event: RecordEvent) -> None:
        """Keep nothing."""

    def take(self) -> tuple[list[Bind], list[Evict]]:
        """Return the bindings and evictions since this was last called."""
        binds, evictions = [bind for _, bind in self.binds], [evict for _, evict in self.evictions]
        self.binds.clear()
        self.evictions.clear()
        return binds, evictions


Promise: TypeAlias = tuple[float, float | None]
"""A promised start and the time of the promise, in seconds; None: nodes are held without a known start."""


class VirtualCluster(SimulatedApiServer):
    """A world whose clock is set. ``seconds`` are those of the replay, from its ``epoch`` on."""

    def __init__(self, inventory: Inventory, scheduler_names: Sequence[str]) -> None:
        super().__init__(inventory, scheduler_names)
        self.seconds = 0.0
        self.step_log = _StepLog()
        self.history = self.step_log
        self.promises: dict[str, list[Promise]] = {}
        self._runs: dict[str, int] = {}

    @property
    def now(self) -> datetime:
        """Return the virtual time."""
        return datetime.fromtimestamp(self.epoch + self.seconds, UTC)

    def submit(self, job: ReplayJob) -> None:
        """Create a job's PodGroup and its pods."""
        created = self.now.strftime(STAMP)
        self.put_group(_group_of(job, created))
        for name, role in job.members():
            self.put_pod(self._pod(job, name, role, created))

    def put_group(self, group: api.PodGroup) -> None:
        """Write a PodGroup, and note the start that it was promised if that is new."""
        super().put_group(group)
        condition = next((c for c in group.status.conditions if c.type == RESERVED and c.status == "True"), None)
        promise = stated_reservation_in(condition.message) if condition is not None else None
        if promise is None:
            return
        start = promise.start - self.epoch if promise.start is not None else None
        promises = self.promises.setdefault(group.key, [])
        if not promises or promises[-1][1] != start:
            promises.append((self.seconds, start))

    def create_again(self, job: ReplayJob, names: Sequence[str]) -> None:
        """Create pods of a job again, as its controller does after an eviction."""
        created, wanted = self.now.strftime(STAMP), set(names)
        for name, role in job.members():
            if name in wanted:
                self.put_pod(self._pod(job, name, role, created))

    def delete_pods(self, job: ReplayJob, names: Sequence[str]) -> None:
        """Delete pods of a job, those that are there."""
        for name in names:
            pod = self.pods.get(f"{job.namespace}/{name}")
            if pod is not None:
                self._remove(pod)

    def finish(self, job: ReplayJob) -> None:
        """Delete a job and all its pods."""
        self.delete_pods(job, [name for name, _ in job.members()])
        self._collect(self.groups, self.groups[job.key], "PodGroup")
        for name, _ in job.members():
            self._runs.pop(f"{job.namespace}/{name}", None)

    def take(self) -> list[Change]:
        """Return the changes since the last call, for the mirror."""
        return self._take()

    def _pod(self, job: ReplayJob, name: str, role: Role, created: str) -> api.Pod:
        key = f"{job.namespace}/{name}"
        run = self._runs[key] = self._runs.get(key, 0) + 1
        template = role.template
        annotations = {**template.metadata.annotations, GROUP_NAME: job.name}
        if role.name:
            annotations[ROLE] = role.name
        meta = api.ObjectMeta(
            name=name,
            namespace=job.namespace,
            uid=f"replay-{key}-{run}",
            creation_timestamp=created,
            labels=template.metadata.labels,
            annotations=annotations,
        )
        return api.Pod(metadata=meta, spec=template.spec, status=api.PodStatus(phase="Pending"))


def _group_of(job: ReplayJob, created: str) -> api.PodGroup:
    declared = {EXPECTED_DURATION: _written(job.declared)} if job.declared is not None else {}
    return api.PodGroup(
        metadata=api.ObjectMeta(
            name=job.name,
            namespace=job.namespace,
            uid=f"replay-{job.key}",
            creation_timestamp=created,
            annotations={**job.annotations, **declared},
        ),
        spec=api.PodGroupSpec(
            min_member=job.min_pods,
            min_task_member=dict(job.min_roles),
            queue=job.queue,
            priority_class_name=job.priority_class,
            min_resources=quantities(job.least()),
            network_topology=job.network_topology,
        ),
        status=api.PodGroupStatus(phase="Pending"),
    )


def _written(seconds: float) -> str:
    return f"{seconds:f}".rstrip("0").rstrip(".") + "s"
