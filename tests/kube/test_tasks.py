"""No task ends unnoticed."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
import structlog.testing

import volsched
from volsched.kube.tasks import Tasks


class Group(Tasks):
    """Tasks, and what was told of them."""

    def __init__(self) -> None:
        super().__init__(lambda what, error: self.failures.append((what, str(error))))
        self.failures: list[tuple[str, str]] = []


async def fails() -> None:
    raise ValueError("odd")


async def ends() -> int:
    await asyncio.sleep(0)
    return 1


async def waits() -> None:
    await asyncio.Event().wait()


async def turn() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_what_a_task_raises_is_logged_and_told() -> None:
    group = Group()
    with structlog.testing.capture_logs() as said:
        group.start(fails(), "one")
        await turn()

    assert group.failures == [("one", "odd")]
    assert [(line["event"], line["task"]) for line in said] == [("a task failed", "one")]
    assert len(group) == 0


async def test_the_end_of_a_task_that_has_none_of_its_own_is_told() -> None:
    group = Group()
    group.start(ends(), "short")
    group.start(ends(), "for ever", ends=False)
    await turn()

    assert group.failures == [("for ever", "it ended")]


async def test_a_task_that_somebody_else_cancels_is_told() -> None:
    group = Group()
    task = group.start(waits(), "one")
    await turn()
    task.cancel()
    await turn()

    assert group.failures == [("one", "it was cancelled")]


async def test_stopping_tells_nothing_but_what_went_wrong_meanwhile() -> None:
    async def fails_when_cancelled() -> None:
        try:
            await waits()
        finally:
            raise ValueError("odd")

    group = Group()
    group.start(waits(), "one")
    group.start(fails_when_cancelled(), "two")
    await turn()

    await group.stop()

    assert group.failures == [("two", "odd")]
    assert len(group) == 0


async def test_finishing_lets_tasks_end_and_cancels_those_that_do_not() -> None:
    group = Group()
    short, endless = group.start(ends(), "short"), group.start(waits(), "endless")

    await group.finish(0.05)

    assert short.result() == 1
    with pytest.raises(asyncio.CancelledError):
        endless.result()
    assert group.failures == []


AWAITED = (
    *("kube/tasks.py", "kube/watch/informer.py", "kube/watch/config_source.py", "run/process.py", "ui/follow.py"),
    *("run/following.py", "cli/watching.py"),
)
"""Beside the group itself: where a task is awaited by who begins it."""


def test_nobody_begins_a_task_outside_a_group() -> None:
    root = Path(volsched.__file__).parent
    begins = re.compile(r"\b(create_task|ensure_future)\(")
    found = [str(path.relative_to(root)) for path in root.rglob("*.py") if begins.search(path.read_text())]

    assert sorted(found) == sorted(AWAITED)
