"""The result of each job of a replay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from volsched.model.values.resources import Resources
from volsched.replay.jobs import ReplayJob, Role
from volsched.replay.virtual_cluster import Promise


@dataclass(frozen=True, slots=True)
class HeldInterval:
    """The amounts of one pod, and their start and end, in seconds of the replay."""

    request: Resources
    start: float
    end: float


@dataclass(slots=True)
class _RunningJob:
    role: str
    request: Resources
    node: str
    start: float


@dataclass(slots=True)
class JobRecord:
    """One job's way: ``start`` and ``end`` are those of the run that came to its end, None while they have not come.

    ``nodes`` are those of that run. ``evicted`` counts pods that were taken off their nodes. ``run`` counts starts.
    """

    job: ReplayJob
    start: float | None = None
    end: float | None = None
    evicted: int = 0
    run: int = 0
    nodes: dict[str, None] = field(default_factory=dict)
    promised: Sequence[Promise] = ()
    held: list[HeldInterval] = field(default_factory=list)
    _running: dict[str, _RunningJob] = field(default_factory=dict)

    @property
    def wait(self) -> float | None:
        """Seconds from the submission to the start; None when it never started."""
        return None if self.start is None else self.start - self.job.submit

    def bound(self, pod: str, node: str, now: float) -> bool:
        """Note a pod on its node. Return True if the job has all that it needs by it."""
        role = self._role_of(pod)
        self._running[pod] = _RunningJob(role.name, role.request, node, now)
        self.nodes[node] = None
        if self.start is not None or not self.is_complete():
            return False
        self.start = now
        self.run += 1
        return True

    def is_complete(self) -> bool:
        """True if as many pods run as the job needs, of each role too."""
        if len(self._running) < self.job.min_pods:
            return False
        roles = Counter(running.role for running in self._running.values())
        return all(roles[name] >= least for name, least in self.job.min_roles.items())

    def left(self, pod: str, now: float) -> None:
        """Note that a pod is off its node."""
        running = self._running.pop(pod, None)
        if running is not None:
            self.held.append(HeldInterval(running.request, running.start, now))

    def broke(self, now: float) -> None:
        """Note that the run came to nothing. The job waits again, with all of its pods."""
        self._all_left(now)
        self.start = None
        self.nodes.clear()

    def finished(self, now: float) -> None:
        """Note the end."""
        self._all_left(now)
        self.end = now

    def running(self) -> list[str]:
        """Return the names of pods that run."""
        return list(self._running)

    def _all_left(self, now: float) -> None:
        for pod in self.running():
            self.left(pod, now)

    def _role_of(self, pod: str) -> Role:
        number = int(pod.rpartition("-")[2])
        for role in self.job.roles:
            if number < role.count:
                return role
            number -= role.count
        raise LookupError(pod)
