"""A process of which a part has died does not go on as if nothing had happened."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import structlog.testing

from volsched.run.process import FAILED, STOPPED, Process, run_process


async def dies() -> None:
    raise ValueError("odd")


async def ends() -> None:
    await asyncio.sleep(0)


async def waits() -> None:
    await asyncio.Event().wait()


class Program(Process):
    """One with these parts, and nothing else; it is told to stop once `is_over`."""

    def __init__(self, *parts: Callable[[], Coroutine[Any, Any, None]], is_over: bool = False) -> None:
        super().__init__(leader_elect=False)
        self._parts = parts
        self._is_over = is_over

    async def _start(self) -> None:
        self._cleanup.push_async_callback(self._cancel_tasks)
        for part in self._parts:
            self._spawn(part(), part.__name__)
        self._spawn(ends(), "has an end", ends=True)
        if self._is_over:
            asyncio.get_running_loop().call_later(0.1, self._finish, STOPPED, "told to")


@pytest.mark.parametrize(
    ("parts", "status", "said"),
    [
        ((waits, dies), FAILED, "dies failed: odd"),
        ((waits, ends), FAILED, "ends failed: it ended"),
    ],
)
def test_a_part_that_dies_or_ends_takes_the_process_with_it(parts: Any, status: int, said: str) -> None:
    with structlog.testing.capture_logs() as lines:
        assert run_process(lambda: Program(*parts)) == status

    assert [line["event"] for line in lines] == ["a task failed", said]


def test_a_process_that_is_told_to_stop_says_of_no_part_that_it_failed() -> None:
    with structlog.testing.capture_logs() as lines:
        assert run_process(lambda: Program(waits, is_over=True)) == STOPPED

    assert [line["event"] for line in lines] == ["told to"]


def test_what_goes_wrong_in_a_callback_is_logged_and_ends_nothing() -> None:
    def odd() -> None:
        raise ValueError("odd")

    async def calls() -> None:
        asyncio.get_running_loop().call_soon(odd)
        await waits()

    with structlog.testing.capture_logs() as lines:
        assert run_process(lambda: Program(calls, is_over=True)) == STOPPED

    assert [line["event"] for line in lines] == ["unforeseen on the event loop", "told to"]
    assert isinstance(lines[0]["exc_info"], ValueError)


@pytest.mark.parametrize(
    ("message", "error", "level"),
    [
        ("Fatal error on SSL protocol", RuntimeError("... <TCPTransport closed=True>; the handler is closed"), "info"),
        ("Fatal error on SSL protocol", RuntimeError("odd"), "error"),
        ("Fatal error on SSL protocol", ValueError("the handler is closed"), "error"),
        ("odd", RuntimeError("the handler is closed"), "error"),
    ],
)
def test_a_connection_that_is_cut_off_while_it_is_read_is_no_fault(message: str, error: Exception, level: str) -> None:
    async def calls() -> None:
        asyncio.get_running_loop().call_exception_handler({"message": message, "exception": error})
        await waits()

    with structlog.testing.capture_logs() as lines:
        assert run_process(lambda: Program(calls, is_over=True)) == STOPPED

    assert [line["log_level"] for line in lines] == [level, "info"]
