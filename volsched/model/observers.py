"""Observers follow the changes of the cluster, so that accounts need not recount.

There are many moves, and few observers follow most of them: the observers of a template are looked up once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from volsched.model.status import TaskStatus

if TYPE_CHECKING:
    from volsched.model.job import JobInfo
    from volsched.model.nodes.node import NodeInfo, NodeProperties
    from volsched.model.pods.task import TaskInfo
    from volsched.model.pods.template import PodTemplate
    from volsched.model.queues.queue import QueueInfo


class Observer:
    """Something that keeps an account over the cluster and follows its changes instead of recounting.

    Subclasses override what they care for.
    """

    def follows(self, template: PodTemplate) -> bool:
        """Return whether moves of this template's tasks matter at all; asked once for each template."""
        return True

    def task_moved(self, task: TaskInfo, before: TaskStatus, node_before: NodeInfo | None) -> None:
        """Hear that ``task`` left ``(before, node_before)`` for its present status and node.

        Also called when tasks come or go: a new task comes from ``(PENDING, None)``, a removed one leaves to it. Not
        called when a task goes on to a status that takes the same room on the same node (allocated, binding, bound,
        running).
        """

    def run_allocated(self, tasks: Sequence[TaskInfo]) -> None:
        """Handle that one or more equal tasks of one job, pending without a node, were allocated."""
        for task in tasks:
            self.task_moved(task, TaskStatus.PENDING, None)

    def task_annotated(self, task: TaskInfo) -> None:
        """Handle that a task with a node has other annotations, or first shows those of its Binding."""

    def task_ungated(self, task: TaskInfo, *, counts: bool) -> None:
        """Handle that a task without a node counts in its queue since its gate was lifted, or no longer.

        It ceases to count before it gets a node, and counts again after it has lost the node.
        """

    def task_started(self, task: TaskInfo) -> None:
        """Handle that a bound task's pod runs now; called once for each pod, when the API server shows it.

        It is not called for pods that already ran when the observer was added, or when this process first saw them; the
        observer reads these itself. It is called for a pod that was bound then, by whichever scheduler. It is not
        called for a pod that was terminating, or had ended, when it was first seen to have started.
        """

    def task_lost(self, task: TaskInfo) -> None:
        """Handle that a task is about to leave ``task.node``: its pod is gone without having ended, or has failed.

        It is not called for pods whose node was gone before. ``task.evicted`` tells whether it was evicted for another.
        """

    def node_changed(self, node: NodeInfo, before: NodeProperties | None) -> None:
        """``node`` is new (``before`` is None), or its properties or amounts changed."""

    def node_removed(self, node: NodeInfo) -> None:
        """``node`` is gone. Its tasks have been moved away already."""

    def job_changed(self, job: JobInfo, *, gone: bool) -> None:
        """Handle that a job came, went (``gone``), or changed spec, phase, queue or members.

        Moves of its tasks have their own calls.
        """

    def queue_changed(self, queue: QueueInfo, *, gone: bool) -> None:
        """Handle that a queue is new, changed its properties, or went (``gone``). Moves have their own calls."""


class Observers:
    """All observers of a cluster. ``lost`` are the failures of observers that are no longer notified."""

    def __init__(self) -> None:
        self.lost: dict[int, Exception] = {}
        self._all: tuple[Observer, ...] = ()
        self._of_jobs: tuple[Observer, ...] = ()
        self._of_template: dict[int, tuple[Observer, ...]] = {}

    def __iter__(self) -> Iterator[Observer]:
        return iter(self._all)

    def add(self, observer: Observer) -> None:
        """Notify ``observer`` of every later change. It reads the present state itself."""
        self._set((*self._all, observer))

    def remove(self, observer: Observer) -> None:
        """Stop telling ``observer``."""
        self._set(tuple(o for o in self._all if o is not observer))

    def _set(self, observers: tuple[Observer, ...]) -> None:
        self._all = observers
        self._of_jobs = tuple(o for o in observers if type(o).job_changed is not Observer.job_changed)
        self._of_template.clear()

    def lose(self, observer: Observer, error: Exception) -> None:
        """Stop notifying an observer that failed: its account is wrong now."""
        self.lost[id(observer)] = error
        self.remove(observer)

    def notify(self, notify: Callable[[Observer], None]) -> None:
        """Tell all of a change. One that fails is lost, the others hear of it."""
        self._notify(self._all, notify)

    def notify_job(self, job: JobInfo, *, gone: bool = False) -> None:
        """Notify the observers concerned that a job came, changed or went."""
        self._notify(self._of_jobs, lambda observer: observer.job_changed(job, gone=gone))

    def notify_annotations(self, task: TaskInfo) -> bool:
        """Notify the observers concerned that a task shows other annotations. Return True if there is any."""
        following = self._following(task, "task_annotated")
        self._notify(following, lambda observer: observer.task_annotated(task))
        return bool(following)

    def notify_started(self, task: TaskInfo) -> None:
        """Notify the observers concerned that a task's pod has started."""
        self._notify(self._following(task, "task_started"), lambda observer: observer.task_started(task))

    def notify_lost(self, task: TaskInfo) -> None:
        """Notify observers that a task's pod is gone or has failed. It still has its status and node."""
        self._notify(self._following(task, "task_lost"), lambda observer: observer.task_lost(task))

    def _following(self, task: TaskInfo, method: str) -> tuple[Observer, ...]:
        """Return who overrides a method and follows tasks of this template."""
        overriding = (o for o in self._all if getattr(type(o), method) is not getattr(Observer, method))
        return tuple(o for o in overriding if self._follows(o, task.template))

    def _follows(self, observer: Observer, template: PodTemplate) -> bool:
        """Ask whether an observer follows a template. One that fails is lost, and follows none."""
        try:
            return observer.follows(template)
        except Exception as error:
            self.lose(observer, error)
            return False

    def _notify(self, observers: tuple[Observer, ...], notify: Callable[[Observer], None]) -> None:
        for observer in observers:
            try:
                notify(observer)
            except Exception as error:
                self.lose(observer, error)

    def of_moves(self, template: PodTemplate) -> tuple[Observer, ...]:
        """Return the observers of moves of this template's tasks."""
        found = self._of_template.get(template.id)
        if found is None:
            found = self._of_template[template.id] = tuple(
                o for o in self._all if type(o).task_moved is not Observer.task_moved and o.follows(template)
            )
        return found

    def forget(self, template: PodTemplate) -> None:
        """Drop data about a template without tasks."""
        self._of_template.pop(template.id, None)
