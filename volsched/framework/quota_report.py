"""Reports of plugins about quotas: usage, tables, consumers and suggestions (types; ``reports`` has the rule).

A plugin with quotas by resource or by card gives the ``Usage`` of all queues. Quotas of anything else are a
``QuotaTable``, whose columns the plugin names. ``volsched.quota.report`` makes both from a plugin's accounts.

Amounts are integers in each resource's unit, cards in milli-cards; None is an amount that is not set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, Final, NamedTuple, TypeAlias, overload

from volsched.model.api import ApiObject
from volsched.model.queues.queue import QueueInfo
from volsched.model.values.resources import CPU, MEMORY

Names: TypeAlias = tuple[str, ...]
"""Alternative cards."""

Value: TypeAlias = int | str | None
"""A number, a quantity or a word in a table; None where there is nothing to show."""


# --- tables of any kind ---------------------------------------------------------------------------------------------


IS_STRANDED: Final = "stranded"
IS_PROMISED: Final = "promised"
"""States of free cards: no pod can use them now, or they are kept for certain pods."""

STRANDED_CARDS: Final = "strandedCards"
"""The name of the table of cards that cannot be used now, which ``volsched simulate`` shows, too."""

RESERVATIONS: Final = "reservations"
"""The name of the table of jobs for which nodes are held, which ``volsched simulate`` shows, too."""


@dataclass(frozen=True, slots=True)
class QuotaRow:
    """One row: its names in the order of the table's ``about``, and its figures by name.

    None in place of the first name stands for all rows together.
    """

    about: tuple[Value, ...]
    figures: Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class QuotaTable:
    """Quotas that a plugin keeps. ``name`` is that of the field in ``-o json``, ``title`` what people read.

    ``about`` and ``figures`` name the columns, in camel case, in their order; a figure that no row has is not shown.
    """

    name: str
    title: str
    about: tuple[str, ...]
    figures: tuple[str, ...]
    rows: Sequence[QuotaRow]

    def objects(self) -> list[dict[str, Value]]:
        """Return the rows for programs: the names and figures of each."""
        return [
            {
                **dict(zip(self.about, row.about, strict=True)),
                **{name: row.figures[name] for name in self.figures if name in row.figures},
            }
            for row in self.rows
        ]


# --- queues ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Dimension:
    """One resource, or one card, of a queue. ``quota``: None without a limit, and then ``headroom`` is None as well.

    ``deserved``, ``guarantee`` and ``reclaimable`` are columns of their own where any queue has them.
    """

    quota: int | None = None
    used: int = 0
    reserved: int = 0
    headroom: int | None = None
    deserved: int | None = None
    guarantee: int | None = None
    reclaimable: int | None = None

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to show."""
        amounts = (self.quota, self.used, self.reserved, self.deserved, self.guarantee, self.reclaimable)
        return not any(amounts)


@dataclass(frozen=True, slots=True)
class PodUse:
    """The card charge of one pod on a node, in milli-cards. The name is empty if the pod has no charge."""

    pod: str
    node: str
    card: str = ""
    amount: int = 0


@dataclass(frozen=True, slots=True)
class JobUse:
    """The allocated, reserved and wanted amounts of one job, without zeros; lists of cards as ``A|B``."""

    name: str
    phase: str
    held: Mapping[str, int]
    reserved: Mapping[str, int]
    pending: Mapping[str, int]
    pods: tuple[PodUse, ...]
    waiting: int

    @property
    def is_idle(self) -> bool:
        """True if the job neither holds nor wants anything."""
        return not (self.pods or self.waiting or self.held or self.reserved)


class JobUses(Sequence[JobUse]):
    """The jobs of a queue that hold or want something, computed on the first request.

    ``each`` yields all of its jobs, from the accounts at the time of the call.
    """

    def __init__(self, each: Callable[[], Iterable[JobUse]]) -> None:
        self._each = each

    @cached_property
    def _found(self) -> tuple[JobUse, ...]:
        return tuple(use for use in self._each() if not use.is_idle)

    @overload
    def __getitem__(self, place: int) -> JobUse: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[JobUse]: ...

    def __getitem__(self, place: int | slice) -> JobUse | Sequence[JobUse]:
        return self._found[place]

    def __len__(self) -> int:
        return len(self._found)


@dataclass(frozen=True, slots=True)
class QueueUse:
    """One queue. ``lists``: milli-cards reserved for any card of a list; ``jobs``: those in the queue itself.

    ``others``: resources beside cpu and memory, where they are counted by resource.
    """

    queue: QueueInfo
    cpu: Dimension
    memory: Dimension
    cards: Mapping[str, Dimension]
    lists: Mapping[Names, int]
    jobs: Sequence[JobUse]
    others: Mapping[str, Dimension] = field(default_factory=dict)

    @property
    def dimensions(self) -> Iterator[tuple[str, Dimension]]:
        """Everything, cards first."""
        yield from self.cards.items()
        yield from self.others.items()
        yield from ((CPU, self.cpu), (MEMORY, self.memory))


@dataclass(frozen=True, slots=True)
class CardUse:
    """One card in the whole cluster, in milli-cards. More ``quota`` than ``total`` is over-committed."""

    total: int
    idle: int
    used: int
    quota: int | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """All queues and all cards, by name. ``by_card``: jobs hold cards, not resources; else ``cards`` is empty."""

    queues: Mapping[str, QueueUse]
    cards: Mapping[str, CardUse] = field(default_factory=dict)
    by_card: bool = False


# --- consumers and suggestions -------------------------------------------------------------------------------------


class Consumer(NamedTuple):
    """The amount of one dimension that one job holds. ``amount`` orders jobs, ``text`` is for display.

    ``reserved`` is the amount kept for the admitted job beside that; empty for nothing.
    """

    job: str
    queue: str
    resource: str
    amount: int | Fraction
    text: str
    pods: int
    reserved: str = ""


MOST: Final = 1 << 20
"""The largest size of a suggestion that is tried: more than any cluster has of whole cards, cores or GiB."""

QUOTA: Final = "quota"
NODE_QUOTA: Final = "nodeQuota"
CARD: Final = "card"

Target: TypeAlias = tuple[type[ApiObject], str]
"""The kind of an object, and its key."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A change of objects, in sizes from 1 to ``most``; a larger size helps at least as much.

    ``changed`` returns one of the ``objects`` with a change of that size, ``text`` the words for a size and a number of
    objects: what follows "Raise", or a sentence of an ``is_alternative``. Suggestions of one sort are tried together,
    each as small as possible, except alternatives. ``is_each``: fewer of the objects, the first ones, may do as well.
    """

    sort: str
    objects: tuple[Target, ...]
    changed: Callable[[Any, int], Any]
    text: Callable[[int, Sequence[str]], str]
    most: int = MOST
    is_each: bool = False
    is_alternative: bool = False
