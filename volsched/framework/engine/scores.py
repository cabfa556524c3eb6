"""The scores of thousands of nodes, with the highest of each block of them.

So the best node is found, and one node's score changed, by looking at one block.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from volsched.framework.columns.arrays import Floats, Rows

NEVER: Final = -np.inf
"""The score of a node where the task cannot go."""
BLOCK: Final = 256
"""Rows of one block."""
UNKNOWN: Final = -2
"""Instead of the best row: look it up."""


class NodeScores:
    """The score of each row.

    ``total`` has the scores, ``blocks`` the highest of each block of rows, ``best`` the row that is to be chosen (-1:
    none, ``UNKNOWN``: look it up) and ``top`` its score. Equal scores fall to the first row.
    """

    __slots__ = ("best", "blocks", "top", "total")

    def __init__(self) -> None:
        self.total: Floats
        self.blocks: Floats
        self.best = UNKNOWN
        self.top = NEVER

    def close_all(self, count: int) -> None:
        """Have so many rows where the task cannot go. ``renew_blocks`` has to follow."""
        self.total = np.full(count, NEVER)

    def possible(self) -> Rows:
        """Return the rows where the task can go."""
        return np.flatnonzero(self.total > NEVER)

    def first_best(self) -> int:
        """Return the row of the highest total, the first of equal ones; -1 when every node refuses."""
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

    def renew_blocks(self) -> None:
        """Find the highest score of each block of rows again."""
        starts = np.arange(0, len(self.total), BLOCK)
        self.blocks = np.maximum.reduceat(self.total, starts) if len(starts) else self.total
        self.best = UNKNOWN
