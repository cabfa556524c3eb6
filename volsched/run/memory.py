"""Gives memory back: to Python what is left in circles of references, to the machine what large objects took.

Sessions make little that stays, so the garbage collector's own count of it seldom tells it to look. What is young is
looked at here instead, once listing is over; circles of old objects are not left by anything that goes on for ever.

The C library keeps what was freed between what is still in use; only `malloc_trim` gives whole pages of it back
(malloc_trim(3)). Other C libraries than glibc do not have it, and need no asking or cannot be asked.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
from typing import Final

TRIM_SECONDS: Final = 30.0
"""How often it is done. The machine's part is on a thread of its own; the collector's stops everybody, for 0.07 s after
36,000 pods came in that time, and for next to nothing else."""

_YOUNG: Final = 1
"""The oldest generation that is collected; what is in the one behind it was looked at once."""

_KEPT_BYTES: Final = 0
"""What may stay free at the end of the heap."""


async def give_back() -> None:
    """Have it given back, for ever; garbage is collected once what was listed is out of the collector's sight."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    while True:
        await asyncio.sleep(TRIM_SECONDS)
        if gc.get_freeze_count():
            gc.collect(_YOUNG)
        if trim is not None:
            await asyncio.to_thread(trim, _KEPT_BYTES)
