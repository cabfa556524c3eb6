"""What the controllers remember of objects ends with them."""

from __future__ import annotations

import asyncio
from typing import Any

from volsched.controllers.writes import JOB, QUEUE, Patch, Write
from volsched.kube.fence import Fence
from volsched.model.plan import Tell
from volsched.operator.engine import Engine
from volsched.operator.options import Options
from volsched.operator.writer import Writer


class Taken(Writer):
    """Takes every write and shows nothing of it; what is ``gone`` is said not to be there any more."""

    def __init__(self) -> None:
        super().__init__(None, Fence())  # type: ignore[arg-type]  # no API server is asked
        self.writes: list[Write] = []
        self.gone: set[str] = set()

    async def write(self, write: Write) -> bytes | None:
        self.writes.append(write)
        return None if isinstance(write, Patch) and write.name in self.gone else b""


def queue(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": "1"}, "spec": {"weight": 1}}


def job(name: str, version: str, **plugins: list[str]) -> dict[str, Any]:
    task = {"name": "w", "replicas": 1, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}
    return {
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", "resourceVersion": version},
        "spec": {"schedulerName": "volsched", "minAvailable": 1, "plugins": plugins, "tasks": [task]},
    }


async def settled(engine: Engine) -> None:
    """Look at all that waits, as a worker does."""
    while (key := engine.queue._next()) is not None:
        await engine._work(key)


def test_a_queue_that_is_gone_leaves_nothing_behind() -> None:
    async def story() -> None:
        writer = Taken()
        engine = Engine(Options(), writer, lambda _: None)
        engine.begin()
        engine.see(QUEUE, True, queue("a"))
        await settled(engine)
        assert any(isinstance(write, Patch) and write.name == "a" for write in writer.writes)
        assert "a" in engine._written_at

        engine.see(QUEUE, False, queue("a"))
        await settled(engine)
        assert "a" not in engine._written_at

    asyncio.run(story())


def test_nor_does_one_that_went_while_nothing_was_written() -> None:
    async def story() -> None:
        engine = Engine(Options(), Taken(), lambda _: None)
        engine.begin()
        engine.see(QUEUE, True, queue("a"))
        await settled(engine)
        engine.pause()
        engine.see(QUEUE, False, queue("a"))
        engine.begin()
        await settled(engine)
        assert "a" not in engine._written_at

    asyncio.run(story())


def test_a_job_that_a_write_finds_gone_leaves_nothing_behind() -> None:
    async def story() -> None:
        writer = Taken()
        told: list[Tell] = []
        engine = Engine(Options(), writer, told.append)
        engine.begin()
        engine.see(JOB, True, job("j", "1", unheard_of=[]))
        await settled(engine)
        assert [tell.name for tell in told] == ["j"]
        writer.gone.add("j")
        engine.see(JOB, True, job("j", "2"))
        await settled(engine)
        assert engine.store.jobs == {}
        assert engine._told == {}
        assert engine._pace._tokens == {}

    asyncio.run(story())
