"""One reader's questions and open pages keep nobody else waiting, and end when that reader has left."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, ClientTimeout, web

from tests.manifests.rendering import MANIFESTS
from tests.ui.worlds import read
from volsched.kube.serve.reviews import Person
from volsched.ui import streams
from volsched.ui.access import WHOLE
from volsched.ui.questions import AT_ONCE, MOST_WAITING
from volsched.ui.server import Ui
from volsched.ui.static_cluster import StaticCluster

pytestmark = pytest.mark.process  # a question is answered by a process of its own


class Named:
    """People by their token alone, who may all see everything."""

    async def who(self, authorization: str, address: str = "") -> Person:
        name = authorization.removeprefix("Bearer ")
        return Person(name, name)

    async def scope(self, *_: Any) -> Any:
        return WHOLE


Ask = Callable[..., Awaitable[int]]


def serving(story: Callable[[Ui, Ask], Awaitable[None]]) -> None:
    async def told() -> None:
        ui = Ui(StaticCluster(read(MANIFESTS / "examples"), schedules=False), Named())  # type: ignore[arg-type]
        runner = web.AppRunner(ui.application(), handler_cancellation=True, shutdown_timeout=1.0)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        async with ClientSession() as client:

            async def ask(who: str, path: str, stays: float = 0.0) -> int:
                headers = {"Authorization": f"Bearer {who}"}
                async with client.get(url + path, headers=headers, timeout=ClientTimeout(300)) as answer:
                    if "event-stream" not in answer.content_type:
                        await answer.read()
                    await asyncio.sleep(stays)
                    return answer.status

            await story(ui, ask)
        await runner.cleanup()

    asyncio.run(told())


def children() -> int:
    return len(Path("/proc/self/task").joinpath(str(main_thread()), "children").read_text().split())


def main_thread() -> int:
    return int(Path("/proc/self").resolve().name)


def test_questions_whose_reader_has_left_are_ended_and_others_are_answered() -> None:
    async def story(ui: Ui, ask: Ask) -> None:
        many = [f"/job/evil/nobody-{number}/suggestions" for number in range(3 * MOST_WAITING)]
        others = children()
        crowd = [asyncio.create_task(ask("evil", path)) for path in many]
        await asyncio.sleep(0.5)
        assert children() - others <= AT_ONCE
        assert len(ui.context.questions._turns) <= MOST_WAITING
        assert await ask("honest", "/job/honest/nobody/suggestions") == 200
        assert not all(task.done() for task in crowd)
        for task in crowd:
            task.cancel()
        await asyncio.gather(*crowd, return_exceptions=True)
        for _ in range(200):
            if children() <= others and not ui.context.questions._turns:
                break
            await asyncio.sleep(0.05)
        assert (children() - others, len(ui.context.questions._turns), len(ui.context.questions._work)) == (0, 0, 0)

    serving(story)


def test_open_pages_of_one_reader_are_counted_and_others_have_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "STREAMS_OF_ONE", 3)

    async def story(ui: Ui, ask: Ask) -> None:
        evil = "system:serviceaccount:evil"  # whose tenant makes many
        held = [asyncio.create_task(ask(f"{evil}:{number}", "/events/jobs", 300.0)) for number in range(3)]
        await asyncio.sleep(0.3)
        assert ui.streams.open_of[evil] == 3
        assert await ask(f"{evil}:3", "/events/jobs") == 429
        assert await ask("honest", "/events/jobs") == 200
        for task in held:
            task.cancel()
        await asyncio.gather(*held, return_exceptions=True)
        for _ in range(100):
            if not ui.streams.open_of:
                break
            await asyncio.sleep(0.05)
        assert not ui.streams.open_of
        assert await ask(f"{evil}:3", "/events/jobs") == 200

    serving(story)
