"""The retries of a Volcano Job that were counted already, in its status.

A pod that was evicted or has failed exists for as long as its deletion takes, and may be looked at any number of times,
by one process and by the next. So the status that counts a retry states its cause in the same write. Every pod states
the retry at which it was made (`volcano.sh/job-retry-count`), so a few numbers are enough for thousands of pods that
have to go and count no more, and do not match their successors.

It is in `status.controlledResources`, a map of texts by Volcano's schema, of which its controllers read only their own
keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

import msgspec

from volsched.controllers.lifecycle import JobPod, Loss
from volsched.controllers.pod_index import JobPodIndex

KEY: Final = "volsched.io/counted"
FIELD: Final = "controlledResources"

MOST_RESTARTS: Final = 512
"""The most remembered restarts, some 20 KB; of more the oldest are dropped, although their pods may still exist."""

_LATEST: Final = 16
"""The restarts, and sessions, that are kept without pods: another replica may still see pods of theirs."""

MOST_SESSIONS: Final = 512
"""The most remembered sessions of the scheduler, some 30 KB. A pod's deletion may outlast them."""


class Restart(msgspec.Struct, frozen=True, array_like=True):
    """The pods of a task from the number `first` to `last`, both included, that were made before a retry: they go."""

    task: str
    first: int
    last: int | None
    retry: int

    @property
    def is_of_task(self) -> bool:
        """True if it is about a whole task."""
        return self.last is None

    def covers(self, pod: JobPod | Loss) -> bool:
        """True if it is about a pod."""
        return pod.task == self.task and pod.retry < self.retry and self.has(pod.number)

    def has(self, number: int) -> bool:
        """True if it includes pods of a number."""
        return self.first <= number and (self.last is None or number <= self.last)

    def replaces(self, other: Restart) -> bool:
        """True if an earlier restart is part of this one."""
        return other.task == self.task and self.has(other.first) and (self.last is None or self._covers_end_of(other))

    def _covers_end_of(self, other: Restart) -> bool:
        """True if both end at a pod number, and the other's is no higher."""
        return self.last is not None and other.last is not None and other.last <= self.last

    def pods(self, pod_index: JobPodIndex) -> Iterator[JobPod]:
        """Yield the pods that it is about."""
        numbers = pod_index.numbers(self.task)
        if self.last is None or self.last - self.first > len(numbers):
            found: Iterator[JobPod | None] = iter(tuple(numbers.values()))
        else:
            found = map(numbers.get, range(self.first, self.last + 1))
        yield from (pod for pod in found if pod is not None and self.covers(pod))


class Cause(NamedTuple):
    """The cause of a counted retry, beside pods: the session that evicted them, the PodGroup that became Unknown."""

    session: str = ""
    group: str = ""


class Counted(msgspec.Struct, frozen=True, omit_defaults=True):
    """Restarts of parts of a Job, sessions whose evictions were counted, and the PodGroup (uid) that was Unknown."""

    restarts: tuple[Restart, ...] = ()
    sessions: tuple[str, ...] = ()
    group: str = ""

    def covers(self, pod: JobPod | Loss) -> bool:
        """True if a counted retry deletes the pod."""
        return any(restart.covers(pod) for restart in self.restarts)

    def with_cause(self, cause: Cause, pods: Iterable[JobPod | Loss]) -> Counted:
        """Return it with the cause of an action, and without sessions whose `pods` are all gone."""
        sessions = self.sessions
        if cause.session and cause.session not in sessions:
            sessions = (*self._sessions_of(pods), cause.session)[-MOST_SESSIONS:]
        return msgspec.structs.replace(self, sessions=sessions, group=cause.group or self.group)

    def _sessions_of(self, pods: Iterable[JobPod | Loss]) -> Iterator[str]:
        """Yield the latest sessions, and the older ones that evicted one of these pods."""
        old, latest = self.sessions[:-_LATEST], self.sessions[-_LATEST:]
        there = {pod.session for pod in pods} if old else frozenset[str]()
        yield from (session for session in old if session in there)
        yield from latest

    def with_restart(self, restart: Restart, pod_index: JobPodIndex) -> Counted:
        """Return it with a restart more, and without those that are over."""
        earlier = [known for known in self.restarts if not restart.replaces(known)]
        old, latest = earlier[:-_LATEST], earlier[-_LATEST:]
        kept = [known for known in old if known.is_of_task or any(known.pods(pod_index))]
        return msgspec.structs.replace(self, restarts=(*kept, *latest, restart)[-MOST_RESTARTS:])

    def of_version(self) -> Counted:
        """Return the part that counts for the next version of the Job: causes among pods of this version are over."""
        return msgspec.structs.replace(self, restarts=())

    def text(self) -> str:
        """Return it as the status has it."""
        return msgspec.json.encode(self).decode()


NOTHING: Final = Counted()


def counted_in(resources: object) -> Counted:
    """Return what `status.controlledResources` states. Nothing where that cannot be read.

    Of more than volsched writes the latest counts: each pod is compared with all of it.
    """
    text = resources.get(KEY) if isinstance(resources, Mapping) else None
    if not isinstance(text, str):
        return NOTHING
    try:
        found = msgspec.json.decode(text, type=Counted)
    except (msgspec.DecodeError, UnicodeError):
        return NOTHING
    restarts, sessions = found.restarts[-MOST_RESTARTS:], found.sessions[-MOST_SESSIONS:]
    return msgspec.structs.replace(found, restarts=restarts, sessions=sessions)
