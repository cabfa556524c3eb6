"""The visible part of a picture: hidden names become counts, before anything else is done.

Filters and pages come after, so no question shows more than the lists do.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
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
from volsched.ui.job_lines import Blocks, JobLine
from volsched.ui.overview import MOST_REASONS, Overview
from volsched.ui.picture import Picture

SOMEBODY: Final = "somebody else's"
"""Whose a card is."""
A_NODE: Final = "a node"
_NO_NODE: Final = re.compile(r"waits( \(.*\))?|evicted|absent")


@dataclass(frozen=True, slots=True)
class VisibleJobs:
    """The blocks of jobs that a reader may see. Messages in them still name others: see ``message``.

    ``others``: how many jobs of others there are, by state.
    """

    scope: Visibility
    blocks: Blocks
    others: Mapping[str, int] = field(default_factory=dict)

    def message(self, line: JobLine) -> str:
        """Return the message of a job as the reader may see it."""
        return without_names(self.scope, line.message)

    def redacted(self, line: JobLine) -> JobLine:
        """Return a line as the reader may see it."""
        message = self.message(line)
        return line if message == line.message else msgspec.structs.replace(line, message=message)


def visible_jobs(scope: Visibility, blocks: Blocks) -> VisibleJobs:
    """Return the jobs that a reader may see. The work is that of the number of blocks."""
    if scope.namespaces is None:
        return VisibleJobs(scope, blocks)
    others: Counter[str] = Counter()
    for key, lines in blocks.items():
        if not scope.names(key.namespace):
            others[key.state] += len(lines)
    return VisibleJobs(scope, {key: lines for key, lines in blocks.items() if scope.names(key.namespace)}, others)


class VisiblePicture:
    """The lists of all views for one person. Each list is made when it is asked for."""

    def __init__(self, scope: Visibility, picture: Picture) -> None:
        self.scope = scope
        self.picture = picture

    @cached_property
    def queues(self) -> tuple[QueueState, ...]:
        """Return the queues that may be named."""
        if self.scope.is_whole:
            return self.picture.queues
        seen = (queue for queue in self.picture.queues if self.scope.names_queue(queue.name))
        return tuple(_under_seen(self.scope, queue) for queue in seen)

    @property
    def hidden_queues(self) -> int:
        """Return the number of queues that may not be named."""
        return len(self.picture.queues) - len(self.queues)

    @cached_property
    def cards(self) -> tuple[NodeCards, ...]:
        """Return the cards with the holders that may be named."""
        return self.picture.cards if self.scope.is_whole else _cards(self.scope, self.picture.cards)

    @cached_property
    def waiting(self) -> tuple[WaitingJob, ...]:
        """Return the waiting jobs that may be named."""
        if self.scope.is_whole:
            return self.picture.waiting
        own = (job for job in self.picture.waiting if self.scope.names(job.namespace))
        return tuple(_job_without_names(self.scope, job) for job in own)

    @cached_property
    def others(self) -> dict[str, int]:
        """Return how many jobs of others wait, by queue."""
        if self.scope.is_whole:
            return {}
        others = (job for job in self.picture.waiting if not self.scope.names(job.namespace))
        return dict(Counter(_queue_name(self.scope, job.queue) for job in others))

    @cached_property
    def jobs(self) -> VisibleJobs:
        """Return the blocks of jobs that may be named."""
        return visible_jobs(self.scope, self.picture.jobs)

    @property
    def overview(self) -> Overview:
        """Return the visible part of the overview."""
        return self._overview[0]

    @property
    def hidden_rows(self) -> Mapping[str, int]:
        """Return the rows of the overview's tables and faults that are only counted, by the name of the table."""
        return self._overview[1]

    @cached_property
    def _overview(self) -> tuple[Overview, Mapping[str, int]]:
        whole = self.picture.overview
        return (whole, {}) if self.scope.is_whole else overview_for(self.scope, whole, self.waiting)

    @cached_property
    def longest(self) -> dict[str, float]:
        """Return since when the visible job that waits longest has waited, by queue."""
        found: dict[str, float] = {}
        for job in self.waiting:
            if job.since is not None and job.since < found.get(job.queue, float("inf")):
                found[job.queue] = job.since
        return found


def seen_by(scope: Visibility, picture: Picture) -> VisiblePicture:
    """Return the visible part: one object for all readers with equal rights."""
    found: VisiblePicture | None = picture.seen.get(scope)
    if found is None:
        found = picture.seen[scope] = VisiblePicture(scope, picture)
    return found


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
    tables = [(table, [row for row in table.rows if is_visible_row(scope, table, row)]) for table in overview.tables]
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


def is_visible_row(scope: Visibility, table: QuotaTable, row: QuotaRow) -> bool:
    """True if a reader may see all names of a row."""
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
