"""What is known about the nodes for one template of tasks; see ``engine``.

The scores of thousands of nodes with the highest of each block of them, so that the best node is found, and one node's
score changed, by looking at one block.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Final, NamedTuple

import numpy as np

from volsched.framework.columns.arrays import Floats, Mask, Rows
from volsched.framework.columns.views import RequestReader
from volsched.framework.engine.node_shapes import KindScores
from volsched.framework.rules import NodeOrder, Predicate
from volsched.model.pods.task import TaskInfo
from volsched.model.pods.template import PodTemplate
from volsched.model.verdict import NodeRefusals

NEVER: Final = -np.inf
"""The score of a node where the task cannot go."""
BLOCK: Final = 256
"""Rows of one block."""
UNKNOWN: Final = -2
"""Instead of the best row: look it up."""


@dataclass(slots=True)
class Part:
    """One node order's share of an entry: a vector that holds for the entry, or a function to ask.

    ``place`` is where the order stands among those of the session, here and in other sessions.
    """

    place: int
    order: NodeOrder
    fixed: Floats | None


@dataclass(slots=True)
class Scoped:
    """A ``domain`` or ``queue`` callback of an entry, and the version at which its answers were taken."""

    place: int
    callback: Predicate | NodeOrder
    version: Hashable


class Question(NamedTuple):
    """A callback to ask about single nodes, and what it is given: the template or the task, amounts or the node."""

    fn: Callable[[Any, Any], Any]
    of_template: bool
    of_amounts: bool

    @classmethod
    def of(cls, callback: Predicate | NodeOrder) -> Question:
        """Return how a registered callback is asked."""
        return cls(callback.fn, callback.of_template, callback.signature.node == "amounts")


class Entry:
    """The answers about one template (see the module).

    ``total`` has the scores, ``blocks`` the highest of each block of rows, ``best`` the row that is to be chosen (-1:
    none, ``UNKNOWN``: look it up) and ``top`` its score. ``ok`` marks the nodes that have room now,
    or some day soon, and where the predicates let the task in. ``static_ok`` is what the ``static`` predicates say,
    ``facts_ok`` what all say that read facts only. ``checks`` and ``adds`` are what to ask about single
    nodes, of the session of that number: predicates, and node orders or the vectors that stand for them.
    ``kinds`` has the scores of nodes of each kind when they are made of amounts and facts alone, with a ``reader``
    where templates share them as long as nothing but requests is read; the sum of the first
    ``leading`` of its lines comes first in the score of a node, then ``others``, in order: the number of another line,
    or a vector.
    """

    __slots__ = (
        "adds",
        "best",
        "blocks",
        "charge",
        "checks",
        "explained",
        "facts_ok",
        "facts_position",
        "facts_predicates",
        "kinds",
        "leading",
        "ok",
        "others",
        "parts",
        "position",
        "reader",
        "row_predicates",
        "scoped",
        "session",
        "static_ok",
        "task",
        "top",
        "total",
    )

    def __init__(self, task: TaskInfo, charge: tuple[tuple[int, int], ...]) -> None:
        self.task = task
        self.charge = charge[::-1]  # cards come after cpu and memory, and are what nodes run out of
        self.position = 0
        self.facts_position = 0
        self.static_ok: Mask
        self.facts_ok: Mask
        self.ok: Mask
        self.total: Floats
        self.blocks: Floats
        self.best = UNKNOWN
        self.top = NEVER
        self.session = 0
        self.facts_predicates: list[tuple[int, Predicate]] = []
        self.row_predicates: list[tuple[int, Predicate]] = []
        self.parts: list[Part] = []
        self.kinds: KindScores | None = None
        self.reader: RequestReader | None = None
        self.leading = 0
        self.others: list[int | Floats] = []
        self.checks: list[Question] = []
        self.adds: list[tuple[Question, Floats | None]] = []
        self.scoped: list[Scoped] = []
        self.explained: tuple[tuple[int, int, list[Hashable]], dict[str, NodeRefusals]] | None = None

    @property
    def template(self) -> PodTemplate:
        """What callbacks about kinds of nodes are given: where scores are shared it is noted what they read."""
        return self.task.template if self.reader is None else self.reader.shown

    @property
    def has_read_more(self) -> bool:
        """Whether more was read of the template than those agree in that share scores by kind."""
        return self.reader is not None and self.reader.read_more

    def first_best(self) -> int:
        """The row of the highest total, the first of equal ones; -1 when every node refuses."""
        if self.best == UNKNOWN:
            self.best, self.top = -1, NEVER
            if len(self.blocks):
                block = int(self.blocks.argmax())
                self.top = float(self.blocks[block])
                if self.top > NEVER:
                    start = block * BLOCK
                    self.best = start + int(self.total[start : start + BLOCK].argmax())
        return self.best

    def put(self, row: int, total: float) -> None:
        """Note a node's score, and keep the blocks and the best row right."""
        before = self.total.item(row)
        if before == total:
            return
        self.total[row] = total
        block = row // BLOCK
        highest = self.blocks.item(block)
        if total >= highest:
            self.blocks[block] = total
        elif before == highest:
            start = block * BLOCK
            rest = self.total[start : start + BLOCK]
            place = int(rest.argmax())
            self.blocks[block] = highest = rest.item(place)
            if self.best == row and highest == before:  # the next of several that are as good
                self.best = start + place
                return
        if self.best == row:
            self.best, self.top = (row, total) if total > before else (UNKNOWN, NEVER)
        elif self.best != UNKNOWN and (total > self.top or (total == self.top and row < self.best)):
            self.best, self.top = row, total

    def renew_blocks(self, starts: Rows) -> None:
        """Find the highest score of each block of rows anew; the blocks start at these."""
        self.blocks = np.maximum.reduceat(self.total, starts) if len(starts) else self.total
        self.best = UNKNOWN

    def asked(self) -> list[tuple[int, Predicate | NodeOrder]]:
        """What is asked about single nodes, each with its place among those of its sort."""
        orders = [(part.place, part.order) for part in self.parts if part.fixed is None]
        return [*self.row_predicates, *orders]

    def arrange(self) -> None:
        """Lay out the sum of the scores by kind and the vectors; without a score that is asked, of zeros."""
        lines = iter(range(len(self.adds)))
        summed: list[int | Floats] = [next(lines) if fixed is None else fixed for _, fixed in self.adds]
        if not any(isinstance(other, int) for other in summed):
            summed.insert(0, 0)
        self.leading = sum(1 for _ in takewhile(lambda other: isinstance(other, int), summed))
        self.others = summed[self.leading :]
