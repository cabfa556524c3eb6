"""What is written and told, how often, and what becomes of it when the API server is slow to answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import msgspec
import pytest

from tools.patience import PATIENCE
from volsched.kube.client.rest import Api
from volsched.kube.errors import ApiError
from volsched.kube.fence import Fence
from volsched.kube.write import events as events_module
from volsched.kube.write.events import Events
from volsched.kube.write.statuses import Statuses
from volsched.kube.write.views import Views
from volsched.model import api
from volsched.model.changes import Put
from volsched.model.job import PodGroupCondition
from volsched.model.plan import RecordEvent, WriteGroupStatus


class Unsteady:
    """An API server for Events that answers what it is told to: 429 for what it did not do, 504 for what it did."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.messages: list[str] = []
        self.asked = asyncio.Event()
        self.answers: asyncio.Queue[int] = asyncio.Queue()

    async def request(self, method: str, path: str, resource: str, *, body: bytes, **_: Any) -> bytes:
        self.asked.set()
        status = await self.answers.get()
        found = msgspec.json.decode(body)
        name = found["metadata"]["name"] if method == "POST" else path.rpartition("/")[2]
        if method == "POST" and name in self.counts:
            status = 409
        if status not in (409, 429):
            self.counts[name] = found["count"]
            self.messages.append(found["message"])
        if status:
            raise ApiError(status, "Refused", "as the test says")
        return b"{}"


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 - what is waited for is no event
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("first", [0, 429, 504])
async def test_what_is_told_again_while_it_is_being_told_is_counted_however_that_ends(
    monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    """As a configuration that is mended with the same text as before, while the API server is slow to answer."""
    monkeypatch.setattr(events_module, "SETTLE_SECONDS", 0.0)
    server = Unsteady()
    lane = Events(cast("Api", server), Fence.always_open(), lambda: 0)
    verdict = RecordEvent("ConfigMap", "v1", "ns", "c", "u", "Normal", "ConfigurationLoaded", "in force", each=True)

    lane.record(verdict)
    await server.asked.wait()
    lane.record(verdict)
    for status in first, 0, 0, 0:
        server.answers.put_nowait(status)
    await until(lambda: lane.depth == 0 and not lane._under_way)

    assert sum(server.counts.values()) == 2
    await lane.drain(0.0)


async def test_an_event_keeps_its_lines_and_shows_control_characters() -> None:
    """A refused configuration has a line for each fault; what a tenant wrote moves no cursor."""
    server = Unsteady()
    lane = Events(cast("Api", server), Fence.always_open(), lambda: 0)
    lane.record(
        RecordEvent("Pod", "v1", "ns", "p", "u", "Warning", "Refused", "line 1: odd\x1b[2J\nline 2: bad", each=True)
    )

    server.answers.put_nowait(0)
    await until(lambda: lane.depth == 0 and not lane._under_way)

    assert server.messages == ["line 1: odd\\x1b[2J\nline 2: bad"]
    await lane.drain(0.0)


def a_refusal(message: str, running: int = 0) -> WriteGroupStatus:
    condition = PodGroupCondition("Unschedulable", "True", "NotEnoughResources", message)
    return WriteGroupStatus("g", "ns", "g", "Pending", running, 0, 0, (condition,))


class Obedient:
    """An API server of PodGroups, whose answers are what was written."""

    def __init__(self) -> None:
        self.written: list[str] = []

    async def get(self, *_: object) -> object:
        return {"resources": [{"name": "podgroups/status"}]}

    async def request(self, method: str, path: str, resource: str, *, body: bytes, **_: Any) -> bytes:
        said = msgspec.json.decode(body)["status"]
        self.written.append(said["conditions"][0]["message"])
        version = str(len(self.written) + 1)
        meta = {"name": "g", "namespace": "ns", "uid": "g", "resourceVersion": version}
        return msgspec.json.encode({"metadata": meta, "status": said})


async def test_why_a_podgroup_waits_is_written_ever_later_where_only_the_words_change() -> None:
    server, views = Obedient(), Views()
    meta = api.ObjectMeta(name="g", namespace="ns", uid="g", resource_version="1")
    views.observe([Put(api.PodGroup(metadata=meta))])
    lane = Statuses(cast("Api", server), Fence.always_open(), views, lambda _: None, lambda: 0)

    async def pause_before(step: WriteGroupStatus) -> float:
        """Seconds that a step has to wait now; it is then written at once all the same."""
        lane.add(step)
        due = lane._due(step) - (lane._paces["g"].written_at if "g" in lane._paces else 0.0)
        if due:
            lane._paces["g"].written_at -= due
        lane._route("g")
        lane._pump()
        await until(lambda: server.written[-1:] == [step.conditions[0].message] and not lane._under_way)
        return due

    pauses = [await pause_before(a_refusal(f"{number} nodes")) for number in range(9)]
    assert [round(pause) for pause in pauses] == [0, 5, 10, 20, 40, 80, 160, 300, 300]
    assert round(await pause_before(a_refusal("one runs", running=1))) == 1, "what is not words is not put off"
    assert round(await pause_before(a_refusal("one runs, one waits", running=1))) == 5, "and words begin anew"
    await lane.stop(0.0)
