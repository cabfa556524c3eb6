"""The jobs for which victims were searched, so that they are not searched for again in the same cluster."""

from __future__ import annotations

from collections.abc import Iterable

from volsched.framework.session import Session
from volsched.model.cluster import Cluster
from volsched.model.job import JobInfo


class VictimSearches:
    """The jobs for which an action searched victims in the cluster as it is now."""

    def __init__(self, cluster: Cluster) -> None:
        self._generations = cluster.generations
        self._changes = -1
        self._searched: set[tuple[str, str]] = set()

    @classmethod
    def of(cls, session: Session) -> VictimSearches:
        """Return what is remembered of a session's cluster."""
        return session.account("victim.searches", cls)

    def add(self, action: str, jobs: Iterable[JobInfo]) -> None:
        """Remember that an action searched victims for some jobs."""
        if self._changes != self._generations.change:
            self._changes = self._generations.change
            self._searched.clear()
        self._searched.update((action, job.key) for job in jobs)

    def has(self, action: str, job: JobInfo) -> bool:
        """Return whether an action searched victims for a job, and nothing has changed since."""
        return self._changes == self._generations.change and (action, job.key) in self._searched


def note_searched(session: Session, jobs: Iterable[JobInfo]) -> None:
    """Remember that this action searched victims for some jobs in the cluster as it is now."""
    VictimSearches.of(session).add(session.action, jobs)


def was_searched(session: Session, job: JobInfo) -> bool:
    """True if this action searched victims for a job in the cluster as it is now."""
    return VictimSearches.of(session).has(session.action, job)
