"""What there is to say of a job at once, from the last session and the objects: why, when and who, and what was.

Nothing is tried here: what would help is the question of ``advice``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from volsched.diagnose.ends import EARLIEST, annotations_of, end_of_pod, expected_end, holds_since
from volsched.diagnose.explain import AskedAbout, explain_waiting, held_for, refusal_of
from volsched.diagnose.queries import is_waiting, quantities
from volsched.diagnose.records import AnswerRecord, ExpectedStart, Explanation, PodState, Subject, TimelineEntry
from volsched.diagnose.start_times import expected_start, lacks_pods
from volsched.diagnose.workload_names import with_workload, workload_of
from volsched.mirror.reading import admitted_at, seconds
from volsched.model import api
from volsched.model.errors import shortened
from volsched.model.held_nodes import stated_reservation_of
from volsched.model.job import LONE, JobInfo
from volsched.model.pods.task import TaskInfo
from volsched.model.status import IS_FINISHED, ON_NODE, TaskStatus
from volsched.simulation.result import Looked, waiting_refusal

Objects = Mapping[tuple[str, str, str], api.ApiObject]
"""Objects by kind, namespace and name."""

_LONGEST_REASON = 600
"""The longest text of a kubelet about a failed pod."""


class JobAnswers(AnswerRecord, frozen=True):
    """A job: its state, why and until when it waits, who holds what it waits for, its pods, and what happened so far.

    ``explanation`` and ``start`` are those of a job that waits. ``held`` is what its placed pods hold, ``ends`` when it
    is expected to end.
    """

    namespace: str
    name: str
    workload: str
    replica_set: str
    queue: str
    state: str
    since: float | None
    explanation: Explanation | None
    start: ExpectedStart | None
    timeline: tuple[TimelineEntry, ...]
    pods: tuple[PodState, ...]
    held: dict[str, str]
    ends: float | None
    minimum: int
    priority: int


def job_answers(looked: Looked, objects: Objects, job: JobInfo, now: float) -> JobAnswers:
    """Return the answers about a job. ``now`` is in seconds since the epoch."""
    state = _state(job)
    explanation, start = _waits(looked, job, now) if state == "waiting" else (None, None)
    if explanation is not None and not _is_real(explanation.since):
        explanation = msgspec.structs.replace(explanation, since=None)
    pods = {task.uid: _pod_of(objects, task) for task in job.tasks.values()}
    group = objects.get(("PodGroup", job.namespace, job.name))
    return JobAnswers(
        job.namespace,
        job.name,
        *workload_of(job),
        job.queue,
        state,
        explanation.since if explanation is not None else holds_since(job),
        explanation,
        start,
        tuple(sorted(filter(_is_of_real_time, _timeline(job, group, pods)), key=lambda entry: entry.at)),
        tuple(_pod_states(looked, job, pods)),
        quantities(job.allocated),
        expected_end(job, annotations_of(looked.mirror.cluster, job.queue), now),
        job.spec.min_available,
        job.priority,
    )


def _state(job: JobInfo) -> str:
    if is_waiting(job):
        return "waiting"
    if any(ON_NODE[task.status] for task in job.tasks.values()):
        return "running"
    return "ended" if job.tasks and all(IS_FINISHED[task.status] for task in job.tasks.values()) else "idle"


def _waits(looked: Looked, job: JobInfo, now: float) -> tuple[Explanation, ExpectedStart]:
    kind, name = ("pod", job.name.removeprefix(LONE)) if job.name.startswith(LONE) else ("podgroup", job.group_name)
    found = AskedAbout(job)
    explanation = explain_waiting(looked, Subject(kind, name, job.namespace), found, nodes=True)
    refusal = refusal_of(looked, found)
    start = expected_start(looked, found, refusal, held_for(looked, found, refusal), now)
    holders = () if lacks_pods(job, refusal) else explanation.holders
    return msgspec.structs.replace(
        explanation,
        workload=workload_of(job).name,
        holders=holders,
        sentence=with_workload(job, explanation.sentence),
        message=with_workload(job, explanation.message),
    ), start


def _pod_of(objects: Objects, task: TaskInfo) -> api.Pod | None:
    found = objects.get(("Pod", task.namespace, task.name))
    return found if isinstance(found, api.Pod) else None


def _is_real(at: float | None) -> bool:
    return at is not None and at > EARLIEST


def _is_of_real_time(entry: TimelineEntry) -> bool:
    return entry.at > EARLIEST


# --- pods -----------------------------------------------------------------------------------------------------------


def _pod_states(looked: Looked, job: JobInfo, pods: Mapping[str, api.Pod | None]) -> Iterator[PodState]:
    for task in sorted(job.tasks.values(), key=lambda task: (len(task.name), task.name)):
        node = task.node.name if task.node is not None else ""
        if task.status is TaskStatus.PENDING:
            refusal = waiting_refusal(looked, task)
            since = task.created if _is_real(task.created) else None
            yield PodState(task.name, "waits", node, since, refusal.step.value, with_workload(job, refusal.message))
        elif IS_FINISHED[task.status]:
            yield _ended_pod(task, pods[task.uid])
        else:
            started = task.spec.started if _is_real(task.spec.started) else None
            yield PodState(task.name, _WORDS.get(task.status, "starts"), node, started)


_WORDS = {
    TaskStatus.RUNNING: "runs",
    TaskStatus.RELEASING: "terminates",
    TaskStatus.PIPELINED: "room promised",
    TaskStatus.UNKNOWN: "not known",
}


def _ended_pod(task: TaskInfo, pod: api.Pod | None) -> PodState:
    state = "failed" if task.status is TaskStatus.FAILED else "completed"
    if pod is None:
        return PodState(task.name, state, "", None)
    status = pod.status
    codes = [
        f"container {each.name}: {each.state.terminated.reason or 'ended'}, exit code {each.state.terminated.exit_code}"
        for each in status.container_statuses
        if each.state and each.state.terminated and each.state.terminated.exit_code
    ]
    why = ": ".join(filter(None, (status.reason, shortened(status.message, _LONGEST_REASON)))) or "; ".join(codes)
    return PodState(task.name, state, pod.spec.node_name, end_of_pod(pod), message=why)


# --- what was -------------------------------------------------------------------------------------------------------


def _timeline(job: JobInfo, group: api.ApiObject | None, pods: Mapping[str, api.Pod | None]) -> Iterator[TimelineEntry]:
    known = [pod for pod in pods.values() if pod is not None]
    if group is not None and (made := seconds(group.metadata.creation_timestamp)):
        yield TimelineEntry(made, "created", "Its PodGroup was made.")
    if isinstance(group, api.PodGroup) and (at := admitted_at(group)):
        yield TimelineEntry(at, "admitted", "It was admitted: its pods may be made.")
    reservation = stated_reservation_of(job)
    if reservation is not None:
        yield TimelineEntry(reservation.at, "promised", f"{_count(len(reservation.nodes), 'node')} reserved for it.")
    yield from _moments("created", [seconds(pod.metadata.creation_timestamp) for pod in known], "was made", "were made")
    yield from _moments("started", [seconds(pod.status.start_time) for pod in known], "started", "started")
    evicted = [seconds(c.last_transition_time) for pod in known for c in pod.status.conditions if _is_eviction(c)]
    yield from _moments("evicted", evicted, "was evicted", "were evicted")
    ended = [end_of_pod(pod) for pod in known if pod.status.phase in ("Succeeded", "Failed")]
    yield from _moments("ended", ended, "ended", "ended")
    waits = [task.created for task in job.waiting.values() if _is_real(task.created)]
    if waits and len(waits) < len(job.tasks):
        yield TimelineEntry(min(waits), "waits", f"{_count(len(waits), 'pod')} waiting since then.")


def _is_eviction(condition: api.Condition) -> bool:
    return condition.type == "DisruptionTarget" and condition.status == "True"


def _moments(what: str, times: list[float | None], one: str, several: str) -> Iterator[TimelineEntry]:
    """Yield one entry for pods at the same time, else the first and the last."""
    known = sorted(at for at in times if at is not None)
    if not known:
        return
    first, last = known[0], known[-1]
    verb = one if len(known) == 1 else several
    pods = f"{len(known)} pod{'s' * (len(known) > 1)}"
    if first == last:
        yield msgspec.convert({"at": first, "what": what, "sentence": f"{pods} {verb}."}, TimelineEntry)
        return
    yield msgspec.convert({"at": first, "what": what, "sentence": f"The first of {pods} {one}."}, TimelineEntry)
    yield msgspec.convert({"at": last, "what": what, "sentence": f"The last of {pods} {one}."}, TimelineEntry)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{' is' if number == 1 else 's are'}"
