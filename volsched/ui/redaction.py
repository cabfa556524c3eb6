"""The visible part of a picture: hidden names become counts, before anything else is done.

Filters and pages come after, so no question shows more than the lists do.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec

from volsched.diagnose.card_states import STATES
from volsched.diagnose.cards import Cell, NodeCards
from volsched.diagnose.diff import SORTS
from volsched.diagnose.reasons import frequent_reasons
from volsched.diagnose.records import Difference, PodDifference, QueueState, WaitingJob
from volsched.diagnose.redaction import OTHERS
from volsched.framework.quota_report import QuotaRow, QuotaTable, Value
from volsched.framework.redaction import without
from volsched.mirror.quarantine import QuarantinedObject
from volsched.ui.access import Visibility
from volsched.ui.overview import MOST_REASONS, Overview
from volsched.ui.picture import Picture

SOMEBODY: Final = "somebody else's"
"""Whose a card is."""
A_NODE: Final = "a node"
_NO_NODE: Final = re.compile(r"waits( \(.*\))?|evicted|absent")


@dataclass(frozen=True, slots=True)
class VisiblePicture:
    """The lists of all views for one person. ``others``: how many jobs of others wait, by queue."""

    queues: tuple[QueueState, ...]
    cards: tuple[NodeCards, ...]
    waiting: tuple[WaitingJob, ...]
    others: dict[str, int]
    hidden_queues: int = 0
    overview: Overview = field(default_factory=Overview)
    hidden_rows: Mapping[str, int] = field(default_factory=dict)
    """Rows of the overview's tables and faults that are only counted, by the name of the table."""


def namespaces_in(picture: Picture) -> frozenset[str]:
    """Return the namespaces whose objects a picture names."""
    jobs = {job.namespace for job in picture.waiting}
    holders = {pod.partition("/")[0] for cards in picture.cards for cell in cards.cells for pod in _pods(cell.holder)}
    return frozenset((jobs | holders) - {""})


def seen_by(scope: Visibility, picture: Picture) -> VisiblePicture:
    """Return the visible part."""
    if scope.is_whole:
        return VisiblePicture(picture.queues, picture.cards, picture.waiting, {}, overview=picture.overview)
    others = Counter(_queue_name(scope, job.queue) for job in picture.waiting if not scope.names(job.namespace))
    queues = tuple(queue for queue in picture.queues if scope.names_queue(queue.name))
    own = tuple(_job_without_names(scope, job) for job in picture.waiting if scope.names(job.namespace))
    overview, hidden_rows = overview_for(scope, picture.overview, own)
    return VisiblePicture(
        tuple(_under_seen(scope, queue) for queue in queues),
        _cards(scope, picture.cards),
        own,
        dict(others),
        len(picture.queues) - len(queues),
        overview,
        hidden_rows,
    )


def _queue_name(scope: Visibility, queue: str) -> str:
    return queue if scope.names_queue(queue) else OTHERS


def _under_seen(scope: Visibility, queue: QueueState) -> QueueState:
    return queue if scope.names_queue(queue.parent) else msgspec.structs.replace(queue, parent="")


def _job_without_names(scope: Visibility, job: WaitingJob) -> WaitingJob:
    return msgspec.structs.replace(job, message=without_names(scope, job.message))


def without_names(scope: Visibility, text: str) -> str:
    """Return a text without names of pods and jobs in namespaces that the reader may not see."""
    return text if scope.namespaces is None else without(text, scope.names)


# --- cards ----------------------------------------------------------------------------------------------------------


def _cards(scope: Visibility, cards: Iterable[NodeCards]) -> tuple[NodeCards, ...]:
    named = (_with_visible_holders(scope, each) for each in cards)
    return tuple(named) if scope.nodes else tuple(_by_model(named))


def _with_visible_holders(scope: Visibility, cards: NodeCards) -> NodeCards:
    """Return a node's cards without the names of holders that the reader may not see."""
    if scope.namespaces is None or not any(cell.holder for cell in cards.cells):
        return cards
    return msgspec.structs.replace(cards, cells=tuple(Cell(cell.name, _holder(scope, cell)) for cell in cards.cells))


def _holder(scope: Visibility, cell: Cell) -> str:
    pods = _pods(cell.holder)
    own = [pod for pod in pods if scope.names(pod.partition("/")[0])]
    return ", ".join([*own, *[SOMEBODY] * (len(own) < len(pods))])


def _pods(holder: str) -> list[str]:
    return holder.split(", ") if holder else []


def _by_model(cards: Iterable[NodeCards]) -> Iterator[NodeCards]:
    """Yield one entry for each model, with its number of nodes. Cells are those of the reader."""
    models: dict[tuple[str, str], list[NodeCards]] = {}
    for each in cards:
        models.setdefault((each.model, each.sort), []).append(each)
    for (model, sort), found in models.items():
        own = [cell for each in found for cell in each.cells if cell.holder not in ("", SOMEBODY)]
        cells = tuple(Cell(str(place), cell.holder) for place, cell in enumerate(own, 1))
        used, total = sum(each.used for each in found), sum(each.total for each in found)
        states = {state: sum(getattr(each, state) for each in found) for state in STATES}
        yield NodeCards(f"{len(found)} nodes", model, sort, used, total, cells, **states)


# --- overview -------------------------------------------------------------------------------------------------------

FAULTS: Final = "faults"
"""The name of the list of faults among hidden rows."""

_OPEN_COLUMNS: Final = ("card", "model", "resource", "deviceClass", "dimension")
"""Columns of tables that name no object of others."""


def overview_for(
    scope: Visibility, overview: Overview, own: Sequence[WaitingJob]
) -> tuple[Overview, Mapping[str, int]]:
    """Return the visible part of the overview, and by table how many rows are only counted.

    Cards and counts of jobs are for every reader. Reasons are those of the reader's ``own`` jobs.
    """
    tables = [(table, [row for row in table.rows if _is_visible(scope, table, row)]) for table in overview.tables]
    faults = [fault for fault in overview.faults if _names_fault(scope, fault)]
    hidden = {table.name: len(table.rows) - len(rows) for table, rows in tables}
    hidden[FAULTS] = len(overview.faults) - len(faults)
    shown = replace(
        overview,
        reasons=frequent_reasons(own, MOST_REASONS),
        tables=tuple(replace(table, rows=[_row(scope, row) for row in rows]) for table, rows in tables),
        faults=tuple(replace(fault, message=without_names(scope, fault.message)) for fault in faults),
    )
    return shown, {name: number for name, number in hidden.items() if number}


def _is_visible(scope: Visibility, table: QuotaTable, row: QuotaRow) -> bool:
    return all(_names(scope, column, name) for column, name in zip(table.about, row.about, strict=True))


def _names(scope: Visibility, column: str, name: Value) -> bool:
    """True if a reader may see a name in a column. Names in columns of an unknown kind are for no such reader."""
    text = str(name)
    match column:
        case "queue":
            return name is None or scope.names_queue(text)
        case "job" | "pod" | "namespace":
            return scope.names(text.partition("/")[0])
        case "node":
            return scope.nodes
    return name is None or column in _OPEN_COLUMNS


def _row(scope: Visibility, row: QuotaRow) -> QuotaRow:
    return replace(row, figures={name: _figure(scope, name, value) for name, value in row.figures.items()})


def _figure(scope: Visibility, name: str, value: Value) -> Value:
    if not isinstance(value, str):
        return value
    if name == "nodes":
        return value if scope.nodes else len(value.split(", "))
    return without_names(scope, value)


def _names_fault(scope: Visibility, fault: QuarantinedObject) -> bool:
    if fault.namespace:
        return scope.names(fault.namespace)
    return {"Node": scope.nodes, "Queue": scope.names_queue(fault.name)}.get(fault.kind, False)


# --- what if --------------------------------------------------------------------------------------------------------


def difference_for(scope: Visibility, difference: Difference) -> tuple[Difference, dict[str, int]]:
    """Return the visible pods of a difference, and the number of others, by sort."""
    if scope.is_whole:
        return difference, {}
    own = [pod for pod in difference.pods if scope.names(pod.pod.partition("/")[0])]
    counts = Counter(pod.sort for pod in difference.pods if not scope.names(pod.pod.partition("/")[0]))
    starts = tuple(start for start in difference.starts if scope.names(start.job.partition("/")[0]))
    shown = Difference(difference.summary, {}, {}, tuple(_pod(scope, pod) for pod in own), starts)
    return shown, {sort: counts[sort] for sort in SORTS if counts[sort]}


def _pod(scope: Visibility, pod: PodDifference) -> PodDifference:
    return msgspec.structs.replace(
        pod,
        why=without_names(scope, pod.why),
        before=_place(scope, pod.before),
        after=_place(scope, pod.after),
    )


def _place(scope: Visibility, word: str) -> str:
    return word if scope.nodes or _NO_NODE.fullmatch(word) else A_NODE
