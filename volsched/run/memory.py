"""Gives memory back: to Python from reference cycles, to the machine from freed large objects.

Sessions leave few objects, so the garbage collector's own count of them rarely starts a collection. Young objects are
collected here instead, once listing is over; nothing that runs for ever leaves cycles of old objects.

The C library keeps freed memory between used parts; only `malloc_trim` gives whole pages of it back (malloc_trim(3)).
Other C libraries than glibc do not have it.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
from typing import Final

TRIM_SECONDS: Final = 30.0
"""The time between two runs. The machine's part is on a thread of its own.

The collector's part stops all threads, for 0.07 s after 36,000 pods came in that time, and hardly otherwise.
"""

_YOUNG: Final = 1
"""The oldest generation that is collected. The one behind it was collected once."""

_KEPT_BYTES: Final = 0
"""The free memory that may stay at the end of the heap."""


async def give_back() -> None:
    """Give memory back, for ever. Collect garbage once listed objects are out of the collector's sight."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    while True:
        await asyncio.sleep(TRIM_SECONDS)
        if gc.get_freeze_count():
            gc.collect(_YOUNG)
        if trim is not None:
            await asyncio.to_thread(trim, _KEPT_BYTES)
