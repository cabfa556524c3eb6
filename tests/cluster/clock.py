"""A clock that a test turns: what a rule says of seconds is tried exactly, however fast the machine is."""

from __future__ import annotations

import time


class Clock:
    """What a module of the program takes for the module `time`; it stands still unless it is turned."""

    def __init__(self) -> None:
        self.now = time.monotonic()

    def monotonic(self) -> float:
        return self.now
