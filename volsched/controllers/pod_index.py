"""The pods of one Volcano Job, counted as they change.

A Job may have too many pods to go through at every change. So they are kept by task and number, and by the events of
policies; a look at the Job asks for counts, and only for the pods that it acts on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, TypeVar

from volsched.controllers import jobs
from volsched.controllers.lifecycle import ENDED, FIELDS, JobPod, Loss, Tally
from volsched.mirror.reading import ROLE, seconds
from volsched.model import api
from volsched.model.plan import EVICTED as EVICTED_IN_SESSION

Key = TypeVar("Key")
Inner = TypeVar("Inner")

_DISRUPTED: Final = "DisruptionTarget"

PENDING: Final = "PodPending"
RUNNING: Final = "PodRunning"
FAILED: Final = "PodFailed"
EVICTED: Final = "PodEvicted"
SUCCEEDED: Final = "Succeeded"
OTHER: Final = ""
"""The event of a policy for a pod, or that it has succeeded, or none."""


class PodEvent(NamedTuple):
    """The common part of pods to which a policy applies alike."""

    version: int
    task: str
    event: str
    exit_code: int


def pod_event_of(pod: JobPod) -> PodEvent:
    """Return how a pod stands."""
    event = _event_of(pod)
    return PodEvent(pod.version, pod.task, event, pod.exit_code if event == FAILED else 0)


def _event_of(pod: JobPod) -> str:
    if pod.killed:
        return OTHER
    if pod.terminating:
        return EVICTED if pod.evicted or not pod.is_finished else OTHER
    if pod.phase == "Succeeded":
        return SUCCEEDED
    if pod.phase == "Failed":
        return FAILED
    return RUNNING if pod.phase == "Running" else PENDING


def member_of(pod: api.Pod, before: JobPod | None, now: float) -> JobPod:
    """Return a pod of a Job as it is. `before` is what was known of it, `now` is in seconds since the epoch."""
    meta = pod.metadata
    terminating = meta.deletion_timestamp is not None
    session = next((found.message for found in pod.status.conditions if found.type == EVICTED_IN_SESSION), "")
    ended = [status.state.terminated for status in pod.status.container_statuses if status.state is not None]
    return JobPod(
        uid=meta.uid,
        namespace=meta.namespace,
        name=meta.name,
        task=meta.annotations.get(ROLE, ""),
        number=_number(meta.annotations.get(jobs.TASK_INDEX, "")),
        version=_number(meta.annotations.get(jobs.JOB_VERSION, "")),
        phase=pod.status.phase,
        terminating=terminating,
        killed=before is not None and before.killed,
        exit_code=next((state.exit_code for state in ended if state is not None and state.exit_code), 0),
        restarts=sum(status.restart_count for status in pod.status.container_statuses),
        created=seconds(meta.creation_timestamp) or now,
        since=_since(pod, before, now),
        reason=pod.status.reason if pod.status.phase == "Failed" else "",
        retry=before.retry if before is not None else _number(meta.annotations.get(jobs.RETRY_COUNT, "")),
        session=session,
        evicted=terminating and _began_alive(pod, before, session),
    )


def _since(pod: api.Pod, before: JobPod | None, now: float) -> float:
    """Return since when a pod has been in its phase, or terminating: an observation goes before its own times."""
    if before is None:
        return min(now, _stated_since(pod) or now)
    return before.since if _stood_so(before, pod.status.phase, pod.metadata.deletion_timestamp is not None) else now


def _stated_since(pod: api.Pod) -> float | None:
    """Return since when a pod has its state by its own times, so that no timeout starts again, or None if unknown.

    No object states when a phase began: it is derived from other times.
    """
    meta, status = pod.metadata, pod.status
    if meta.deletion_timestamp is not None:
        ends = seconds(meta.deletion_timestamp)
        return None if ends is None else ends - (meta.deletion_grace_period_seconds or 0)
    if status.phase == "Running":
        return _began_to_run(status)
    return _ended(status) if status.phase in ENDED else None


def _began_to_run(status: api.PodStatus) -> float | None:
    """Return the first known start of a container. A pod may run for longer, if all started again."""
    states = [state for found in status.container_statuses for state in (found.state, found.last_state) if state]
    begun = (part.started_at for state in states for part in (state.running, state.terminated) if part is not None)
    return min(filter(None, map(seconds, begun)), default=None)


def _ended(status: api.PodStatus) -> float | None:
    """Return when the last container ended, or the pod left its node, or a kubelet refused it."""
    states = [found.state.terminated if found.state is not None else None for found in status.container_statuses]
    ends = [seconds(state.finished_at) if state is not None else None for state in states]
    if ends and None not in ends:
        return max(filter(None, ends), default=None)
    off = (found.last_transition_time for found in status.conditions if found.type == _DISRUPTED)
    return seconds(next(off, None if ends else status.start_time))


def _stood_so(before: JobPod, phase: str, terminating: bool) -> bool:
    """True if a pod was in its phase, or terminating, already."""
    return before.terminating == terminating and (terminating or before.phase == phase)


def _began_alive(pod: api.Pod, before: JobPod | None, session: str) -> bool:
    """True if the deletion of a terminating pod began before the pod had ended."""
    if pod.status.phase not in ENDED or session:
        return True
    return before is not None and (before.evicted or not before.is_finished)


def _number(text: str) -> int:
    """Return a whole number of up to nine digits, 0 for any other text."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


class JobPodIndex:
    """The pods of the Job of this name."""

    def __init__(self, job: str) -> None:
        self._job = job
        self._members: dict[str, JobPod] = {}
        self._numbers: dict[str, dict[int, JobPod]] = {}
        self._strays: dict[str, JobPod] = {}
        self._pod_events: dict[PodEvent, dict[str, JobPod]] = {}
        self._phases: dict[str, Counter[str]] = {}
        self._terminating = 0
        self._owed: dict[str, JobPod] = {}

    @classmethod
    def of(cls, job: str, pods: Iterable[JobPod]) -> JobPodIndex:
        """Return pods as a roster, themselves where they are one."""
        if isinstance(pods, JobPodIndex):
            return pods
        made = cls(job)
        for pod in pods:
            made.put(pod)
        return made

    def __iter__(self) -> Iterator[JobPod]:
        return iter(self._members.values())

    def __len__(self) -> int:
        return len(self._members)

    # -- changes --------------------------------------------------------------------------------------------------

    def put(self, pod: JobPod) -> None:
        """Take in a pod as it is now."""
        self.drop(pod.uid)
        before = self._called(pod)
        if before is not None:
            self.drop(before.uid)  # the pod that has its name now is newer
        self._members[pod.uid] = pod
        if self.is_in_order(pod):
            self._numbers.setdefault(pod.task, {})[pod.number] = pod
        else:
            self._strays[pod.name] = pod
        self._pod_events.setdefault(pod_event_of(pod), {})[pod.uid] = pod
        if pod.killed and not pod.terminating:
            self._owed[pod.uid] = pod
        self._count(pod, 1)

    def drop(self, uid: str) -> JobPod | None:
        """Forget a pod, and return what was known of it."""
        pod = self._members.pop(uid, None)
        if pod is None:
            return None
        if self.is_in_order(pod):
            _discard(self._numbers, pod.task, pod.number)
        else:
            del self._strays[pod.name]
        _discard(self._pod_events, pod_event_of(pod), uid)
        self._owed.pop(uid, None)
        self._count(pod, -1)
        return pod

    def kill(self, uid: str) -> None:
        """Note that a controller wants a pod deleted. The deletion is owed until it is `asked`."""
        pod = self._members.get(uid)
        if pod is not None and not pod.killed:
            self.put(pod._replace(killed=True))

    def asked(self, uid: str) -> None:
        """Note that the API server was asked to delete a pod."""
        self._owed.pop(uid, None)

    def _count(self, pod: JobPod, by: int) -> None:
        if pod.is_leaving:
            self._terminating += by
            return
        counts = self._phases.setdefault(pod.task, Counter())
        counts[pod.phase or "Unknown"] += by
        if not counts[pod.phase or "Unknown"]:
            del counts[pod.phase or "Unknown"]
        if not counts:
            del self._phases[pod.task]

    def _called(self, pod: JobPod) -> JobPod | None:
        numbered = self._numbers.get(pod.task, {}).get(pod.number)
        known = numbered if self.is_in_order(pod) else self._strays.get(pod.name)
        return known if known is not None and known.name == pod.name else None

    def is_in_order(self, pod: JobPod | Loss) -> bool:
        """True if a pod has the right name for its task and number."""
        return pod.name == f"{self._job}-{pod.task}-{pod.number}"

    # -- questions ------------------------------------------------------------------------------------------------

    def get(self, uid: str) -> JobPod | None:
        """Return a pod."""
        return self._members.get(uid)

    def numbers(self, task: str) -> Mapping[int, JobPod]:
        """Return the pods of a task with the right names, by number."""
        return self._numbers.get(task, _NOBODY)

    def tasks(self) -> Iterable[str]:
        """Return the tasks that have such pods, wanted or not."""
        return self._numbers

    def strays(self) -> Mapping[str, JobPod]:
        """Return the pods that no task can want, by name."""
        return self._strays

    def owed(self) -> Iterable[JobPod]:
        """Return the pods to delete whose deletion was not requested yet."""
        return self._owed.values()

    def staying(self, *, finished: bool) -> Iterator[JobPod]:
        """Yield the pods that are not about to go; ended ones only on request."""
        events = {PENDING, RUNNING, *((SUCCEEDED, FAILED) if finished else ())}
        for pod_event, pods in self._pod_events.items():
            if pod_event.event in events:
                yield from pods.values()

    def pod_events(self) -> Mapping[PodEvent, Mapping[str, JobPod]]:
        """Return the pods by how they stand."""
        return self._pod_events

    def tally(self) -> Tally:
        """Return how many pods stand how."""
        counts: Counter[str] = Counter(terminating=self._terminating)
        for phases in self._phases.values():
            for phase, number in phases.items():
                counts[FIELDS.get(phase, "unknown")] += number
        shown = tuple((task, tuple(sorted(phases.items()))) for task, phases in sorted(self._phases.items()))
        return Tally(**counts, by_task=shown)


_NOBODY: Final[Mapping[int, JobPod]] = MappingProxyType({})


def _discard(table: dict[Key, dict[Inner, JobPod]], key: Key, inner: Inner) -> None:
    """Remove an entry from a table of tables, and the inner one with its last entry."""
    found = table[key]
    del found[inner]
    if not found:
        del table[key]
