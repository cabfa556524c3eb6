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


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="malloc_trim is glibc's")
@pytest.mark.process
def test_what_was_freed_between_what_lasts_goes_back() -> None:
    def given_back(*, asked: bool) -> float:
        command = [sys.executable, "-c", PROGRAM.replace("{asked}", str(asked))]
        return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    assert given_back(asked=True) > 150
    assert given_back(asked=False) < 50
