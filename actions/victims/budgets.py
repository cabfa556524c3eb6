"""Which victims their disruption budgets let go, those counted that the budgets' status does not know of yet."""

from __future__ import annotations

from collections.abc import Sequence

from volsched.framework.session import Session
from volsched.model.budget import Budget
from volsched.model.cluster import Cluster
from volsched.model.pods.task import TaskInfo
from volsched.model.status import TaskStatus


class Departures:
    """Evicted pods that the status of the budgets which protect them does not count yet.

    A budget's status follows evictions with a delay. Until the API server has shown both that a victim is being deleted
    and, after that, another status of the budget, the victim counts here.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._protected: dict[str, dict[str, Budget]] = {}

    def note(self, victim: TaskInfo) -> None:
        """Remember a victim with the budgets as they are now."""
        protecting = {budget.key: budget for budget in self._cluster.budgets.values() if budget.protects(victim)}
        if protecting:
            self._protected[victim.uid] = protecting

    def count(self, budget: Budget) -> int:
        """Return how many victims a budget's status does not count yet."""
        found = 0
        for uid in list(self._protected):
            task = self._cluster.tasks.get(uid)
            if task is None or task.status is not TaskStatus.RELEASING:
                del self._protected[uid]
            elif not task.spec.terminating:
                self.note(task)
                found += budget.protects(task)
            else:
                found += self._protected[uid].get(budget.key) is budget
        return found


def departures(session: Session) -> Departures:
    """Return the account of them, kept from one session to the next."""
    return session.account("eviction.departures", Departures)


def by_budget(session: Session, victims: Sequence[TaskInfo]) -> tuple[list[TaskInfo], list[TaskInfo]]:
    """Victims whose budgets allow that they go, in the order given, and those who would break one."""
    budgets = session.budgets.values()
    if not budgets:
        return list(victims), []
    left: dict[str, int] = {}
    within_budgets: list[TaskInfo] = []
    broken: list[TaskInfo] = []
    for victim in victims:
        protecting = [budget for budget in budgets if budget.protects(victim)]
        for budget in protecting:
            left[budget.key] = (left[budget.key] if budget.key in left else _left(session, budget)) - 1
        (broken if any(left[budget.key] < 0 for budget in protecting) else within_budgets).append(victim)
    return within_budgets, broken


def broken_by(session: Session, victim: TaskInfo) -> list[str]:
    """Keys of the budgets that allow no more, if this victim goes now."""
    budgets = session.budgets.values()
    return sorted(budget.key for budget in budgets if budget.protects(victim) and _left(session, budget) < 1)


def _left(session: Session, budget: Budget) -> int:
    """How many more pods of a budget may go, those counted that were chosen already and are not in its status."""
    return budget.allowed - departures(session).count(budget)
