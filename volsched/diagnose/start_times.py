"""When a job that waits starts: by its reservation, else estimated from the durations that pods declare.

An estimate follows the room that is short. If a limit of a queue refuses the job, jobs that hold the limited amounts
free them when they end. If nodes refuse it, each node frees what its pods hold when they end. Pods that declare no
duration are assumed to stay. The rules for ends are those of docs/reserve.md, "How long pods run".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from volsched.diagnose.ends import annotations_of, expected_end, expected_end_of_pod
from volsched.diagnose.explain import OF_QUOTA, AskedAbout, roomless_nodes
from volsched.diagnose.queries import quantities
from volsched.diagnose.records import ExpectedStart
from volsched.framework.quota_report import Consumer
from volsched.model.errors import QuantityError
from volsched.model.held_nodes import stated_reservation_of
from volsched.model.job import JobInfo
from volsched.model.nodes.node import NodeInfo
from volsched.model.pods.task import TaskInfo
from volsched.model.status import ON_NODE
from volsched.model.values.quantity import parse
from volsched.model.verdict import Step, Verdict
from volsched.quota.report import asked_of
from volsched.simulation.result import Looked

NO_ESTIMATE: Final = {
    Step.GATED: "It waits for a scheduling gate, which is lifted by the controller that set it.",
    Step.NO_QUEUE: "Its queue does not exist.",
    Step.NO_PODGROUP: "Its PodGroup does not exist.",
    Step.INVALID: "It is invalid as it is written.",
}
"""Why no time is estimated for a job that is stopped at these steps."""


def expected_start(
    looked: Looked, found: AskedAbout, refusal: Verdict, held: Sequence[Consumer], now: float
) -> ExpectedStart:
    """Return when a job that waits for this reason starts. ``held`` are the consumers of what it lacks.

    ``now`` is in seconds since the epoch.
    """
    promised = _promised(found.job)
    if promised is not None:
        return promised
    if lacks_pods(found.job, refusal):
        pods = f"{len(found.job.tasks)} of the {found.job.spec.min_available} pods that it starts with"
        return ExpectedStart("unknown", None, f"Its controller has made only {pods}.")
    if refusal.step in NO_ESTIMATE:
        return ExpectedStart("unknown", None, NO_ESTIMATE[refusal.step])
    if refusal.shortfalls:
        return _once_quota_is_free(looked, refusal, held, now)
    if refusal.step in OF_QUOTA:
        return _once_share_is_free(looked, found.job, held, now)
    return _once_nodes_are_free(looked, found, now)


def lacks_pods(job: JobInfo, refusal: Verdict) -> bool:
    """True if a job waits for pods that do not exist yet, and not for room."""
    return refusal.step is Step.GANG and len(job.tasks) < job.spec.min_available


def _promised(job: JobInfo) -> ExpectedStart | None:
    reservation = stated_reservation_of(job)
    if reservation is None:
        return None
    nodes = f"{len(reservation.nodes)} node{'s are' if len(reservation.nodes) != 1 else ' is'} reserved for it"
    if reservation.start is None:
        text = f"{nodes}. It starts once their pods have ended; not all of them declare how long they run."
        return ExpectedStart("promised", None, text)
    return ExpectedStart("promised", reservation.start, f"{nodes}, and it starts there at this time at the latest.")


# --- limits of queues -----------------------------------------------------------------------------------------------


def _once_quota_is_free(looked: Looked, refusal: Verdict, held: Sequence[Consumer], now: float) -> ExpectedStart:
    """Return when jobs that hold a limited amount have freed as much as is short of each resource."""
    lacking: dict[str, float] = {}
    for item in refusal.shortfalls:
        texts = item.human()
        if item.requested > item.limit:
            limit = f"It requests {texts['requested']} of {item.resource}, more than its limit of {texts['limit']}"
            return ExpectedStart("unknown", None, f"{limit}: it does not start, whatever ends.")
        amount = float(parse(texts["used"]) + parse(texts["requested"]) - parse(texts["limit"]))
        lacking[item.resource] = max(amount, lacking.get(item.resource, 0.0))
    return _once_freed(looked, lacking, held, now)


def _once_share_is_free(looked: Looked, job: JobInfo, held: Sequence[Consumer], now: float) -> ExpectedStart:
    """Return when jobs that use up a share have freed as much of it as a job requests."""
    asked = quantities(asked_of(job))
    names = {one.resource for one in held}
    return _once_freed(looked, {name: float(parse(asked[name])) for name in asked if name in names}, held, now)


def _once_freed(looked: Looked, lacking: Mapping[str, float], held: Sequence[Consumer], now: float) -> ExpectedStart:
    """Return when holders have freed as much of each resource as is lacking."""
    starts: list[float] = []
    ending = 0
    for resource, amount in lacking.items():
        holders = [one for one in held if one.resource == resource]
        at, count = _freed(amount, [(_end_of(looked, one, now), _amount(one)) for one in holders])
        if at is None:
            return _unknown(resource, len(holders), count)
        starts.append(at)
        ending = max(ending, count)
    if not starts:
        return ExpectedStart("unknown", None, "It waits for no amount that jobs hold.")
    return _estimated(max(starts), ending, "job")


def _end_of(looked: Looked, consumer: Consumer, now: float) -> float | None:
    job = looked.mirror.cluster.jobs.get(consumer.job)
    return expected_end(job, annotations_of(looked.mirror.cluster, job.queue), now) if job is not None else None


def _amount(consumer: Consumer) -> float:
    """Return what a job holds, without what is kept for it and not held."""
    try:
        return float(parse(consumer.text)) - float(parse(consumer.reserved or "0"))
    except (ValueError, QuantityError):
        return 0.0


def _freed(lacking: float, releases: Iterable[tuple[float | None, float]]) -> tuple[float | None, int]:
    """Return when so much is freed, and by how many releases; None, and those with a known time, if it never is."""
    known = sorted((at, amount) for at, amount in releases if at is not None)
    freed = 0.0
    for count, (at, amount) in enumerate(known, 1):
        freed += amount
        if freed >= lacking:
            return at, count
    return None, len(known)


def _unknown(resource: str, holders: int, declaring: int) -> ExpectedStart:
    if not holders:
        return ExpectedStart("unknown", None, f"No job holds {resource} that it could wait for.")
    if declaring == holders:
        return ExpectedStart("unknown", None, f"Even when all jobs that hold {resource} have ended it is not enough.")
    if holders == 1:
        return _undeclared(f"The job that holds {resource} does not declare how long it runs")
    how_many = f"Only {declaring} of the {holders}" if declaring else f"None of the {holders}"
    return _undeclared(f"{how_many} jobs that hold {resource} declare how long they run")


def _undeclared(text: str) -> ExpectedStart:
    return ExpectedStart("unknown", None, f"{text} (annotation volsched.io/expected-duration).")


def _estimated(at: float, count: int, what: str) -> ExpectedStart:
    which = f"this {what} ends as it declares" if count == 1 else f"{count} {what}s end as they declare"
    text = f"It assumes that {which}, and that no other job takes the room first."
    return ExpectedStart("estimated", at, text)


# --- nodes ----------------------------------------------------------------------------------------------------------


def _once_nodes_are_free(looked: Looked, found: AskedAbout, now: float) -> ExpectedStart:
    """Return when enough nodes have room, kind of pod by kind of pod."""
    alike: dict[int, list[TaskInfo]] = {}
    for task in found.waiting:
        alike.setdefault(id(task.template), []).append(task)
    starts: list[float] = []
    ending = 0
    for tasks in alike.values():
        nodes = list(roomless_nodes(looked, tasks[0]))
        if not nodes:
            return ExpectedStart("unknown", None, "No node would take its pods, even if nothing ran there.")
        times = sorted(each for node in nodes for each in _room_on(looked, node, tasks[0], len(tasks), now))
        wanted = min(len(tasks), max(1, found.job.lacking))
        if len(times) < wanted:
            return _unknown_nodes(len(nodes))
        starts.append(times[wanted - 1][0])
        ending += sum(count for _, count in times[:wanted])
    if not starts:
        return ExpectedStart("unknown", None, "It has no pods that could be placed.")
    if not ending:
        return ExpectedStart("unknown", None, "There are nodes with the amounts that it requests: it waits for no pod.")
    return _estimated(max(*starts, now), ending, "pod")


def _unknown_nodes(nodes: int) -> ExpectedStart:
    where = "the node" if nodes == 1 else f"the {nodes} nodes"
    return _undeclared(f"Too few pods on {where} that could take it declare how long they run")


def _room_on(looked: Looked, node: NodeInfo, task: TaskInfo, most: int, now: float) -> Iterator[tuple[float, int]]:
    """Yield when a node has room for one more of equal pods, for each of ``most``, and how many pods end for it."""
    needs = {name: amount for name, amount in task.template.request.items() if amount}
    idle = {name: node.idle_of(name) for name in needs}
    room, ended = 0, 0
    for at, leaving in [(now, None), *_leaving(looked, node, now)]:
        if leaving is not None:
            ended += 1
            for name in needs:
                idle[name] += leaving.template.request.get(name, 0)
        fits = min((idle[name] // amount for name, amount in needs.items()), default=most)
        while room < min(fits, most):
            room += 1
            yield at, ended
            ended = 0


def _leaving(looked: Looked, node: NodeInfo, now: float) -> list[tuple[float, TaskInfo]]:
    """Return the pods of a node that declare how long they run, the first to end first."""
    cluster = looked.mirror.cluster
    ends = [
        (end, task)
        for task in node.tasks.values()
        if ON_NODE[task.status]
        and (end := expected_end_of_pod(task, annotations_of(cluster, task.queue), now)) is not None
    ]
    return sorted(ends, key=lambda one: (one[0], one[1].key))
