"""What a burst of large objects took goes back to the machine."""

from __future__ import annotations

import gc
import platform
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from tools.patience import PATIENCE
from volsched.framework.boundary import Bounds
from volsched.kube.watch.inbox import Inbox
from volsched.mirror.apply import Mirror
from volsched.model.plan import StepRecorder
from volsched.run.loop import GC_THRESHOLDS, LoopSettings, SchedulingThread

ROUNDS = """
import asyncio
from volsched.run import memory

async def rounds(count):
    '''Return once so many rounds of giving back are over: the next pause begins.'''
    over, pauses, sleep = asyncio.Event(), [], asyncio.sleep

    async def pause(seconds):
        pauses.append(seconds)
        if len(pauses) > count:
            over.set()
            await sleep(3600)

    asyncio.sleep = pause
    giving = asyncio.create_task(memory.give_back())
    await over.wait()
    asyncio.sleep = sleep
"""

PROGRAM = (
    ROUNDS
    + """
import resource

def resident():
    with open("/proc/self/statm") as figures:
        return int(figures.read().split()[1]) * resource.getpagesize() / 2**20

async def story():
    burst = [bytes(2000) for _ in range(100_000)]
    peak = resident()
    kept = burst[::500]  # what lasts lies between
    del burst
    if {asked}:
        await rounds(1)
    print(peak - resident())

asyncio.run(story())
"""
)

CIRCLES = (
    ROUNDS
    + """
import gc, weakref

class Knot:
    pass

async def story():
    gc.set_threshold(1_000_000)
    if {listed}:
        gc.freeze()
    knot = Knot()
    knot.itself, seen = knot, weakref.ref(knot)
    del knot
    await rounds(2)
    print(seen() is None)

asyncio.run(story())
"""
)


@pytest.fixture
def collector() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.freeze()  # as tests/conftest.py does: the collector is not to look at all modules and tests from here on
    gc.set_threshold(*before)


def wait_for_turns(thread: SchedulingThread, count: int) -> None:
    """Wait until the thread has begun so many turns, and ended those before the last."""
    deadline = time.monotonic() + PATIENCE
    for _ in range(count + 1):
        seen = thread.heartbeat
        while thread.heartbeat == seen and time.monotonic() < deadline:
            time.sleep(0.001)


@pytest.mark.usefixtures("collector")
def test_a_follower_hides_from_the_collector_what_was_listed_and_no_earlier() -> None:
    crashes: list[BaseException] = []
    listed = threading.Event()
    thread = SchedulingThread(
        Mirror(),
        Inbox(),
        LoopSettings(0.01, Bounds()),
        lambda: False,
        listed.is_set,
        lambda: 0,
        lambda _: None,
        crashes.append,
    )
    gc.unfreeze()
    thread.start(StepRecorder())

    wait_for_turns(thread, 2)  # the first may have begun before
    hidden_before = gc.get_freeze_count()
    listed.set()
    deadline = time.monotonic() + PATIENCE
    while not gc.get_freeze_count() and time.monotonic() < deadline:
        time.sleep(0.01)

    assert thread.stop(PATIENCE)
    assert (hidden_before, crashes) == (0, [])
    assert gc.get_freeze_count() > 0
    assert gc.get_threshold() == GC_THRESHOLDS


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
