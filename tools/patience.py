"""How long tests and drills wait, and how often they look.

Waiting ends when the thing has come, so a long limit costs a green test nothing. Looking costs something: a list of
thousands of pods takes the API server half a second.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

PATIENCE: Final = 300.0
"""Seconds that what has to come is waited for: so many that only a hang takes them, however slow the machine."""

_FIRST_PAUSE: Final = 0.02
_LONGEST_PAUSE: Final = 0.25
_PAUSE_PER_LOOK: Final = 4.0
"""A look is followed by a pause at least so many times as long, so that looking takes a fifth of the time at most."""
_LONGEST_PAUSE_PER_LOOK: Final = 4.0


def looks(timeout: float = PATIENCE) -> Iterator[None]:
    """Yield each time that a condition is to be looked at, once after `timeout` seconds for the last time.

    The caller leaves the loop when the condition holds. Pauses begin at 20 ms and grow to a quarter of a second; after
    a look that takes long they are longer, up to four seconds.
    """
    deadline = time.monotonic() + timeout
    pause = _FIRST_PAUSE
    is_last = False
    while not is_last:
        began = time.monotonic()
        is_last = began >= deadline
        yield
        took = time.monotonic() - began
        time.sleep(0.0 if is_last else max(pause, min(_LONGEST_PAUSE_PER_LOOK, _PAUSE_PER_LOOK * took)))
        pause = min(_LONGEST_PAUSE, pause * 1.3)
