"""What is promised to jobs that wait is charged to their queues, as if it were held.

The quota plugins are asked: what would be then is tried in a statement and undone. Others of the queue, and of queues
beneath the same parent, start only if the quota is enough for both.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from itertools import chain
from typing import Generic, Protocol, TypeAlias, TypeVar

from volsched.framework.rules import Allocatable
from volsched.framework.session import Session
from volsched.model.job import JobInfo
from volsched.model.nodes.node import NodeInfo
from volsched.model.pods.task import TaskInfo
from volsched.model.pods.template import PodTemplate
from volsched.model.queues.queue import ROOT, QueueInfo, levels
from volsched.model.verdict import Verdict

Placements: TypeAlias = Sequence[tuple[TaskInfo, NodeInfo]]
"""Who would be on which node."""


class Promised(Protocol):
    """A holder of promised room, and the priority with which the room is kept."""

    @property
    def job(self) -> JobInfo:
        """For which job."""

    @property
    def priority(self) -> int:
        """Pods of more priority are not kept from it."""


P = TypeVar("P", bound=Promised)
P_co = TypeVar("P_co", bound=Promised, covariant=True)


class Promises(Protocol[P_co]):
    """What is promised. ``is_trying``: tasks are moved only to find something out."""

    is_trying: bool

    @property
    def kept(self) -> Mapping[str, P_co]:
        """All promises."""


class KeptQuota(Generic[P]):
    """Charges promises to their queues; lives for one session."""

    def __init__(
        self,
        session: Session,
        book: Promises[P],
        charged: Callable[[Session, P], AbstractContextManager[Placements]],
        words: Callable[[P], Verdict],
    ) -> None:
        self._session = session
        self._book = book
        self._charged = charged
        self._words = words
        self._known: dict[Hashable, bool] = {}

    def applies_to(self, _: PodTemplate) -> bool:
        """True if there is a promise that is charged to a queue."""
        return bool(self._book.kept) and self._session.has_rule(Allocatable)

    def refusal(self, task: TaskInfo) -> Verdict | None:
        """Return why a pod of the same queue, or of one beneath the same parent, may not start now."""
        if self._book.is_trying:
            return None
        concerned = [reservation for reservation in self._book.kept.values() if self._concerns(reservation, task)]
        if not concerned or self._is_enough(concerned, task):
            return None
        return self._words(concerned[0])

    def _concerns(self, reservation: P, task: TaskInfo) -> bool:
        if task.job is reservation.job or task.eviction_priority > reservation.priority:
            return False
        return share_quota(self._session, task.queue, reservation.job.queue)

    def _is_enough(self, concerned: Sequence[P], task: TaskInfo) -> bool:
        """True if the quota is enough for a pod beside the jobs with a promise."""
        generations = self._session.generations
        asked = tuple(reservation.job.key for reservation in concerned), task.template.id, task.queue
        known = self._known.get((asked, generations.move))
        if known is None:
            known = self._try(concerned, task)
            self._known[asked, generations.move] = known  # what was tried is undone: it holds until something moves
        return known

    def _try(self, concerned: Sequence[P], task: TaskInfo) -> bool:
        queue = self._session.queues.get(task.queue)
        self._book.is_trying = True
        try:
            with ExitStack() as stack:
                stack.enter_context(self._session.without_requeue())
                placements = [stack.enter_context(self._charged(self._session, each)) for each in concerned]
                trial = self._session.statement()
                stack.callback(trial.discard)
                for member, node in chain.from_iterable(placements):
                    trial.pipeline(member, node)
                return queue is None or self._session.allocatable_refusal(queue, task) is None
        finally:
            self._book.is_trying = False


def share_quota(session: Session, one: str, other: str) -> bool:
    """Return whether two queues are one, or stand beneath the same parent, which may limit both."""
    queues = session.queues
    return one == other or bool(_parents(queues, one) & _parents(queues, other))


def _parents(queues: Mapping[str, QueueInfo], name: str) -> set[str]:
    """Return the queues above a queue that are not above all."""
    return set(levels(queues, name)) - {name, ROOT}
