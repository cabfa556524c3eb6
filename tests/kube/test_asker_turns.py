"""Askers take turns: what one of them fills keeps nobody else waiting, and who leaves waits no more."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from volsched.kube.asker_turns import AskerTurns, TooManyAskedError
from volsched.kube.serve.reader_access import REVIEWS_AT_ONCE, ReviewRates


class Desk:
    """Turns that last until they are ended by name; notes who had one."""

    def __init__(self, turns: AskerTurns) -> None:
        self.turns = turns
        self.had: list[str] = []
        self.ends: dict[str, asyncio.Event] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    def ask(self, asker: str, what: str) -> None:
        self.ends[what] = asyncio.Event()
        self.tasks[what] = asyncio.create_task(self._have(asker, what))

    async def _have(self, asker: str, what: str) -> None:
        async with self.turns.turn(asker):
            self.had.append(what)
            await self.ends[what].wait()

    async def end(self, what: str) -> None:
        self.ends[what].set()
        await self.tasks[what]
        await settled()


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def run(story: Callable[[Desk], Awaitable[None]], turns: AskerTurns | None = None) -> None:
    async def told() -> None:
        desk = Desk(turns or AskerTurns(at_once=2, of_one=1, waiting=20, in_all=30))
        await story(desk)
        for task in desk.tasks.values():
            task.cancel()
        await asyncio.gather(*desk.tasks.values(), return_exceptions=True)
        assert (len(desk.turns), desk.turns._free, not desk.turns._running) == (0, 2, True)

    asyncio.run(told())


def test_another_asker_is_served_at_once_whatever_one_has_asked() -> None:
    async def story(desk: Desk) -> None:
        for number in range(15):
            desk.ask("evil", f"e{number}")
        await settled()
        desk.ask("honest", "h")
        await settled()
        assert desk.had == ["e0", "h"]

    run(story)


def test_askers_have_turns_one_after_the_other_and_each_in_its_own_order() -> None:
    async def story(desk: Desk) -> None:
        for number in range(3):
            for asker in "abc":
                desk.ask(asker, f"{asker}{number}")
        await settled()
        for what in ("a0", "b0", "c0", "a1", "b1", "c1"):
            await desk.end(what)
        assert desk.had == ["a0", "b0", "c0", "a1", "b1", "c1", "a2", "b2"]

    run(story)


def test_who_leaves_waits_no_more_and_gives_back_the_turn_that_was_given() -> None:
    async def story(desk: Desk) -> None:
        for what in ("one", "two", "three"):
            desk.ask("a", what)
        await settled()
        desk.tasks["two"].cancel()
        await settled()
        assert len(desk.turns) == 1
        await desk.end("one")
        assert desk.had == ["one", "three"]
        desk.ask("a", "four")
        await settled()
        desk.ends["three"].set()
        await asyncio.sleep(0)
        desk.tasks["four"].cancel()
        desk.ask("a", "five")
        await settled()
        assert desk.had[-1] == "five"

    run(story)


def test_what_waits_is_bounded_for_each_and_for_all() -> None:
    async def story(desk: Desk) -> None:
        for asker in "abcd":
            for number in range(25):
                desk.ask(asker, f"{asker}{number}")
        await settled()
        assert len(desk.turns) == 30
        refused = [task.exception() for task in desk.tasks.values() if task.done()]
        assert len(refused) == 100 - 30 - 2
        assert all(isinstance(error, TooManyAskedError) for error in refused)

    run(story)


@pytest.mark.parametrize("addresses", [1, 200])
def test_readers_at_a_new_address_are_asked_about_whatever_others_send(addresses: int) -> None:
    rates = ReviewRates()
    taken = [rates.take(f"evil-{number % addresses}") for number in range(5000)]

    assert sum(taken) <= REVIEWS_AT_ONCE * addresses
    assert sum(taken) < 500
    assert rates.take("honest")
