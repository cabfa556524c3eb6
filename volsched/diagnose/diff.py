"""The effect of another configuration, or of other objects: two runs compared pod by pod."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from volsched.diagnose.records import Difference, PodDifference, StartDifference
from volsched.framework.quota_report import RESERVATIONS
from volsched.mirror.reading import GROUP_NAME, seconds
from volsched.model import api
from volsched.model.status import TaskStatus
from volsched.simulation.result import waiting_refusal
from volsched.simulation.runner import Simulation

SORTS: Final = ("starts", "waits", "moves", "evicted", "spared", "reason")
"""The kinds of differences: a pod starts, waits, is on another node, is evicted or is not, only after the change.

Or it waits for another reason.
"""


_MINUTE: Final = 60


class _PodOutcome(NamedTuple):
    """The result for a pod. ``node``: empty without one."""

    node: str
    evicted_for: str | None
    why: str
    step: str
    gang: str
    queue: str


def diff(before: Simulation, after: Simulation) -> Difference:
    """Compare what became of each pod in two runs."""
    old, new = _outcomes(before), _outcomes(after)
    pods = tuple(_differences(old, new))
    return Difference(
        dict(sorted(Counter(pod.sort for pod in pods).items())),
        _counted((pod.queue, pod.sort) for pod in pods),
        _counted((pod.gang, pod.sort) for pod in pods),
        pods,
        tuple(_starts(_promised(before), _promised(after))),
    )


def _promised(simulation: Simulation) -> dict[str, tuple[str, str]]:
    """Return the queue and the promised start of each job for which nodes are held."""
    tables = (table() for table in simulation.quota_tables)
    rows = (row for table in tables if table.name == RESERVATIONS for row in table.rows)
    return {str(row.about[1]): (str(row.about[0]), str(row.figures.get("start") or "")) for row in rows}


def _starts(old: Mapping[str, tuple[str, str]], new: Mapping[str, tuple[str, str]]) -> Iterator[StartDifference]:
    """Yield the promised starts that differ by a minute or more."""
    for job in sorted(old.keys() & new.keys()):
        (queue, before), (_, after) = old[job], new[job]
        if (before == "") != (after == "") or abs(_at(before) - _at(after)) >= _MINUTE:
            yield StartDifference(job, queue, before, after)


def _at(stamp: str) -> float:
    return seconds(stamp) or 0.0


def _counted(found: Iterable[tuple[str, str]]) -> dict[str, dict[str, int]]:
    counts: dict[str, Counter[str]] = {}
    for name, sort in found:
        counts.setdefault(name, Counter())[sort] += 1
    return {name: dict(sorted(counts[name].items())) for name in sorted(counts)}


def _outcomes(simulation: Simulation) -> dict[str, _PodOutcome]:
    evicted = {f"{step.namespace}/{step.name}": step for _, step in simulation.api_server.history.evictions}
    found: dict[str, _PodOutcome] = {}
    for task in sorted(simulation.mirror.cluster.tasks.values(), key=lambda task: task.key):
        verdict = (
            waiting_refusal(simulation, task) if task.spec.is_managed and task.status is TaskStatus.PENDING else None
        )
        job, gone = task.job, evicted.pop(task.key, None)
        found[task.key] = _PodOutcome(
            task.node.name if task.node is not None else "",
            None if gone is None else gone.preemptor or gone.action,
            verdict.message if verdict is not None else "",
            verdict.step.value if verdict is not None else "",
            job.key if job is not None else "",
            job.queue if job is not None else "",
        )
    for key, step in evicted.items():
        found[key] = _PodOutcome("", step.preemptor or step.action, "", "", *_belonging(simulation, key))
    return found


def _belonging(simulation: Simulation, pod: str) -> tuple[str, str]:
    """Return the gang and the queue of a deleted pod, from the objects of the beginning."""
    for found in simulation.api_server.inventory.of(api.Pod):
        if found.key == pod:
            gang = f"{found.metadata.namespace}/{found.metadata.annotations.get(GROUP_NAME, '')}"
            job = simulation.mirror.cluster.jobs.get(gang)
            return gang, job.queue if job is not None else simulation.settings.default_queue
    return "", ""


def _differences(old: dict[str, _PodOutcome], new: dict[str, _PodOutcome]) -> Iterator[PodDifference]:
    for key in sorted({**old, **new}):
        before, after = old.get(key), new.get(key)
        sort = _sort(before, after)
        known = after or before
        if sort and known is not None:
            why = _why(sort, before, after)
            yield PodDifference(key, known.gang, known.queue, sort, _word(before), _word(after), why)


def _sort(before: _PodOutcome | None, after: _PodOutcome | None) -> str:
    """Name the difference; empty for none."""
    was_evicted = before is not None and before.evicted_for is not None
    is_evicted = after is not None and after.evicted_for is not None
    if was_evicted != is_evicted:
        return "evicted" if is_evicted else "spared"
    had, has = before.node if before is not None else "", after.node if after is not None else ""
    if had == has:
        steps = (before.step if before is not None else "", after.step if after is not None else "")
        return "reason" if before is not None and after is not None and steps[0] != steps[1] else ""
    if had and has:
        return "moves"
    return "starts" if has else "waits"


def _why(sort: str, before: _PodOutcome | None, after: _PodOutcome | None) -> str:
    if sort == "evicted" and after is not None:
        return f"evicted for {after.evicted_for}"
    if sort == "spared" and before is not None:
        return f"was evicted for {before.evicted_for}"
    if sort == "starts":
        return f"no longer: {before.why}" if before is not None and before.why else ""
    if after is not None and after.why:
        return after.why
    return "" if after is not None else "the pod is no more"


def _word(outcome: _PodOutcome | None) -> str:
    if outcome is None:
        return "absent"
    if outcome.node:
        return outcome.node
    return "evicted" if outcome.evicted_for is not None else f"waits ({outcome.step})" if outcome.step else "waits"
