"""The visible part of a picture: hidden names become counts, before anything else is done.

Filters and pages come after, so no question shows more than the lists do.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from volsched.diagnose.cards import Cell, NodeCards
from volsched.diagnose.diff import SORTS
from volsched.diagnose.records import Difference, PodDifference, QueueState, WaitingJob
from volsched.diagnose.redaction import OTHERS
from volsched.framework.redaction import without
from volsched.ui.access import WHOLE, Visibility
from volsched.ui.job_lines import Blocks, JobLine
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
    jobs: VisibleJobs = field(default_factory=lambda: VisibleJobs(WHOLE, {}))


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


def namespaces_in(picture: Picture) -> frozenset[str]:
    """Return the namespaces whose objects a picture names."""
    jobs = {key.namespace for key in picture.jobs}
    holders = {pod.partition("/")[0] for cards in picture.cards for cell in cards.cells for pod in _pods(cell.holder)}
    return frozenset((jobs | holders) - {""})


def seen_by(scope: Visibility, picture: Picture) -> VisiblePicture:
    """Return the visible part."""
    if scope.is_whole:
        jobs = VisibleJobs(scope, picture.jobs)
        return VisiblePicture(picture.queues, picture.cards, picture.waiting, {}, jobs=jobs)
    others = Counter(_queue_name(scope, job.queue) for job in picture.waiting if not scope.names(job.namespace))
    queues = tuple(queue for queue in picture.queues if scope.names_queue(queue.name))
    return VisiblePicture(
        tuple(_under_seen(scope, queue) for queue in queues),
        _cards(scope, picture.cards),
        tuple(_job_without_names(scope, job) for job in picture.waiting if scope.names(job.namespace)),
        dict(others),
        len(picture.queues) - len(queues),
        visible_jobs(scope, picture.jobs),
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
        yield NodeCards(f"{len(found)} nodes", model, sort, used, total, cells)


# --- what if --------------------------------------------------------------------------------------------------------


def difference_for(scope: Visibility, difference: Difference) -> tuple[Difference, dict[str, int]]:
    """Return the visible pods of a difference, and the number of others, by sort."""
    if scope.is_whole:
        return difference, {}
    own = [pod for pod in difference.pods if scope.names(pod.pod.partition("/")[0])]
    counts = Counter(pod.sort for pod in difference.pods if not scope.names(pod.pod.partition("/")[0]))
    shown = Difference(difference.summary, {}, {}, tuple(_pod(scope, pod) for pod in own))
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
