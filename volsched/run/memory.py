"""Gives memory back to the machine that a burst of large objects took.

The C library keeps what was freed between what is still in use; only `malloc_trim` gives whole pages of it back
(malloc_trim(3)). Other C libraries than glibc do not have it, and need no asking or cannot be asked.
"""

from __future__ import annotations

import asyncio
import ctypes
from typing import Final

TRIM_SECONDS: Final = 30.0
"""How often it is done; it takes milliseconds, on a thread of its own."""

_KEPT_BYTES: Final = 0
"""What may stay free at the end of the heap."""


async def give_back() -> None:
    """Have what was freed given back, for ever."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    while True:
        await asyncio.sleep(TRIM_SECONDS)
        if trim is not None:
            await asyncio.to_thread(trim, _KEPT_BYTES)
