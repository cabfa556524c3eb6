"""What a burst of large objects took goes back to the machine."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

PROGRAM = """
import asyncio, resource
from volsched.run import memory

def resident():
    with open("/proc/self/statm") as figures:
        return int(figures.read().split()[1]) * resource.getpagesize() / 2**20

async def story():
    memory.TRIM_SECONDS = 0.1
    burst = [bytes(2000) for _ in range(100_000)]
    peak = resident()
    kept = burst[::500]  # what lasts lies between
    del burst
    if {asked}:
        giving = asyncio.create_task(memory.give_back())
    await asyncio.sleep(1)
    print(peak - resident())

asyncio.run(story())
"""


CIRCLES = """
import asyncio, gc, weakref
from volsched.run import memory

class Knot:
    pass

async def story():
    memory.TRIM_SECONDS = 0.1
    gc.set_threshold(1_000_000)
    if {listed}:
        gc.freeze()
    giving = asyncio.create_task(memory.give_back())
    knot = Knot()
    knot.itself, seen = knot, weakref.ref(knot)
    del knot
    await asyncio.sleep(1)
    print(seen() is None)

asyncio.run(story())
"""


@pytest.mark.process
def test_circles_of_young_objects_are_collected_once_listing_is_over() -> None:
    def are_collected(*, listed: bool) -> str:
        command = [sys.executable, "-c", CIRCLES.replace("{listed}", str(listed))]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    assert are_collected(listed=True) == "True"
    assert are_collected(listed=False) == "False"


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="malloc_trim is glibc's")
@pytest.mark.process
def test_what_was_freed_between_what_lasts_goes_back() -> None:
    def given_back(*, asked: bool) -> float:
        command = [sys.executable, "-c", PROGRAM.replace("{asked}", str(asked))]
        return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    assert given_back(asked=True) > 150
    assert given_back(asked=False) < 50
