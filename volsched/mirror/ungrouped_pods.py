"""The queues of pods that came with a node and have no PodGroup.

A pod that is made with ``spec.nodeName`` passes by every scheduler, and no queue was asked for room. The pod counts in
the first queue that admits its namespace: the one that its annotation names, that of its namespace, the default queue,
else the oldest of all. If none does, it counts only on its node, which an Event and a metric report. Only present
objects decide, so a restart leads to the same result; changed queues and namespaces have these pods checked again. A
PodGroup that may not use its queue, of either kind, counts in such a queue with all its pods as soon as one of them
came with a node; its condition ``QueueKept`` remembers that. Until then, pods that ran when the PodGroup lost its right
go on counting where they were placed. So do the pods of a PodGroup that is gone, until a restart.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from volsched.mirror.events import MirrorEvents
from volsched.model.cluster import Cluster
from volsched.model.job import JobInfo
from volsched.model.native_group import QUEUE_NAME
from volsched.model.observers import Observer
from volsched.model.plan import RecordEvent
from volsched.model.pods.task import TaskInfo
from volsched.model.pods.template import PodTemplate
from volsched.model.queues.queue import ROOT, QueueInfo

COUNTS_IN_NO_QUEUE: Final = "CountsInNoQueue"
"""The reason of the Event on a pod that came with a node, if no queue admits its namespace."""

_MESSAGE: Final = "it came with a node, and no queue lets its namespace in: it counts on its node alone"


class UngroupedPods(Observer):
    """Jobs of pods with nodes that no PodGroup speaks for. ``uncharged`` are those that count in no queue, by key."""

    def __init__(self, cluster: Cluster, default: str, events: MirrorEvents) -> None:
        self._cluster = cluster
        self._default = default
        self._events = events
        self._jobs: dict[str, JobInfo] = {}
        self._namespaces: dict[str, str] = {}
        self._queues: dict[str, object] = {}
        self.uncharged: dict[str, None] = {}
        cluster.observe(self)

    def __len__(self) -> int:
        return len(self._jobs)

    def follows(self, template: PodTemplate) -> bool:
        """Return False: of pods the mirror tells itself."""
        return False

    # -- what is told -------------------------------------------------------------------------------------------------

    def pod_placed(self, job: JobInfo, *, held: bool) -> None:
        """Hear that a pod of a job has a node by others. ``held``: others of the job were placed with their right."""
        cache = self._cluster.queue_cache
        if not job.placed_count:
            return
        if not job.spec.has_group:
            if not self._stays(job, held=held):
                self._jobs[job.key] = job
                self._settle(job)
        elif job.superseded or held or not cache.moves.in_force or job.key in cache.moves.nowhere:
            return
        elif not cache.permissions.lets(job.namespace, job.queue):
            cache.count_elsewhere(job, self._queue_for(job))
            self._note(job)

    def _stays(self, job: JobInfo, *, held: bool) -> bool:
        """True if the PodGroup of placed pods is gone: they count where they were placed, as if it were there."""
        if not job.spec.group_uid or job.queue not in self._cluster.queues:
            return False
        permissions = self._cluster.queue_cache.permissions
        return held or (job.placed_count > 1 and permissions.lets(job.namespace, job.queue))

    def follows_job(self, job: JobInfo) -> bool:
        """True if this module decides in which queue a job counts."""
        return job.key in self._jobs

    def leave(self, job: JobInfo) -> None:
        """Forget a job that ended or has a PodGroup now: it counts in the queue of that."""
        self.uncharged.pop(job.key, None)
        if self._jobs.pop(job.key, None) is not None and job.spec.has_group:
            self._cluster.queue_cache.count_in(job, "")

    def put_namespace(self, name: str, queue: str) -> None:
        """Take in which queue a namespace names, and that its labels may be others."""
        if queue:
            self._namespaces[name] = queue
        else:
            self._namespaces.pop(name, None)
        for job in list(self._jobs.values()):
            if job.namespace == name:
                self._settle(job)

    def queue_changed(self, queue: QueueInfo, *, gone: bool) -> None:
        """Ask about all of them again when another queue may take them."""
        states = None if gone else (queue.spec.created, queue.spec.parent, queue.spec.allowed)
        if self._queues.get(queue.name) == states:
            return
        if states is None:
            del self._queues[queue.name]
        else:
            self._queues[queue.name] = states
        for job in list(self._jobs.values()):
            self._settle(job)

    # -- where it counts ----------------------------------------------------------------------------------------------

    def _settle(self, job: JobInfo) -> None:
        self._cluster.queue_cache.count_in(job, self._queue_for(job))
        self._note(job)

    def _note(self, job: JobInfo) -> None:
        if job.queue:
            self.uncharged.pop(job.key, None)
        elif job.key not in self.uncharged:
            self.uncharged[job.key] = None
            for task in job.tasks.values():
                self._events.record(_event(task))

    def _queue_for(self, job: JobInfo) -> str:
        """Return the queue in which a job counts; empty: no queue lets its namespace in."""
        permissions = self._cluster.queue_cache.permissions
        return next((name for name in self._candidates(job) if permissions.lets(job.namespace, name)), "")

    def _candidates(self, job: JobInfo) -> Iterator[str]:
        """Yield the queues that it names, by itself or its namespace, then all others, the oldest first."""
        queues = self._cluster.queues
        first = next(iter(job.tasks.values()), None)
        own = first.spec.annotations.get(QUEUE_NAME, "") if first is not None else ""
        named = [own, self._namespaces.get(job.namespace, ""), self._default]
        if job.spec.implicit:  # pods without PodGroups are placed by the default queue
            named.insert(0, self._default)
        yield from (name for name in named if name in queues)
        parents = {queue.spec.parent for queue in queues.values()}
        leaves = (queue for queue in queues.values() if queue.name != ROOT and queue.name not in parents)
        yield from (queue.name for queue in sorted(leaves, key=lambda queue: (queue.spec.created, queue.name)))


def _event(task: TaskInfo) -> RecordEvent:
    return RecordEvent("Pod", "v1", task.namespace, task.name, task.uid, "Warning", COUNTS_IN_NO_QUEUE, _MESSAGE)
