"""Namespaces take turns in every lane of writes: what one fills keeps no other from its first write.

Each lane does one write at a time here, and the order of requests is judged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, cast

import msgspec
import pytest

from tools.patience import PATIENCE
from volsched.kube.client.rest import Api
from volsched.kube.errors import ApiError
from volsched.kube.fence import Fence
from volsched.kube.write import events, executor, pod_writer, resource_claims, statuses, volumes
from volsched.kube.write.events import Events
from volsched.kube.write.pod_writer import PodWriter, PrebindError
from volsched.kube.write.polls import Polls
from volsched.kube.write.resource_claims import ResourceClaims
from volsched.kube.write.statuses import Statuses
from volsched.kube.write.views import Views
from volsched.kube.write.volumes import Volumes
from volsched.model import api
from volsched.model.changes import Put
from volsched.model.dra.binding import Readiness
from volsched.model.plan import (
    Bind,
    ClaimWrite,
    Evict,
    LiftGate,
    RecordEvent,
    ReleaseClaim,
    VolumeWrite,
    WriteGroupStatus,
    WritePodCondition,
)
from volsched.model.pods.owners import as_pod

CROWD = 200
FENCE = Fence.always_open()


class Server:
    """An API server that notes whose objects are asked about, and refuses those of namespaces that the test names."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.refused: dict[str, ApiError] = {}
        self.is_open = asyncio.Event()
        self.is_open.set()

    @property
    def api(self) -> Api:
        return cast("Api", self)

    async def get(self, path: str, *_: Any, **__: Any) -> Any:
        if path.count("/") == 3:
            return {"resources": [{"name": "podgroups/status"}]}
        return msgspec.json.decode(await self.request("GET", path))

    async def request(self, method: str, path: str, *_: Any, body: bytes = b"{}", **__: Any) -> bytes:
        namespace, _, *names = path.split("/namespaces/")[1].split("/")
        self.asked.append(f"{namespace} {names[0] if names else ''}")
        await self.is_open.wait()
        if namespace in self.refused:
            raise self.refused[namespace]
        said = msgspec.json.decode(body)
        meta = {**said.get("metadata", {}), "name": "".join(names[:1]), "namespace": namespace, "resourceVersion": "9"}
        return msgspec.json.encode({**said, "metadata": meta})

    def spaces(self) -> list[str]:
        return [asked.split()[0] for asked in self.asked]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 - what is waited for is no event
            await asyncio.sleep(0.001)


def a_binding(space: str, number: int) -> Bind:
    return Bind(f"{space}-{number}", space, f"p{number}", "n")


def an_eviction(space: str, number: int) -> Evict:
    return Evict(f"{space}-{number}", space, f"p{number}", "preempt", "a/p", "for p")


def a_gate(space: str, number: int) -> LiftGate:
    return LiftGate(f"{space}-{number}", space, f"p{number}", "volsched.io/queue-admission")


def a_binder(server: Server) -> PodWriter:
    views = Views()
    views.observe([Put(api.Node(metadata=api.ObjectMeta(name="n")))])
    return PodWriter(server.api, FENCE, views, lambda _: None, lambda _: None, lambda _: None, in_flight=1)


@pytest.mark.parametrize("step", [a_binding, an_eviction, a_gate], ids=["binding", "eviction", "gate"])
async def test_writes_of_pods_take_turns_and_those_of_a_namespace_keep_their_order(
    step: Callable[[str, int], Bind | Evict | LiftGate],
) -> None:
    server = Server()
    lane = a_binder(server)
    for number in range(CROWD):
        lane.add(step("evil", number))
    for number in range(2):
        lane.add(step("honest", number))
    await until(lambda: lane.backlog == 0)

    pods = list(dict.fromkeys(server.asked))
    assert pods[:5] == ["evil p0", "honest p0", "evil p1", "honest p1", "evil p2"]
    assert pods[4:] == [f"evil p{number}" for number in range(2, CROWD)]


async def test_what_is_tried_again_stands_in_line_behind_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_writer, "FIRST_RETRY_SECONDS", 0.01)
    server = Server()
    server.refused["evil"] = ApiError(500, "Internal", "trouble")
    lane = a_binder(server)
    for number in range(CROWD):
        lane.add(a_binding("evil", number))
    await until(lambda: len(server.asked) >= CROWD)
    server.is_open.clear()
    await until(lambda: not lane._delayed and lane.waiting == CROWD - 1)  # all but one that is asked about now
    server.refused.clear()
    before = len(server.asked)
    lane.add(a_binding("honest", 0))
    server.is_open.set()
    await until(lambda: lane.backlog == 0)

    assert server.spaces()[before : before + 3] == ["evil", "honest", "evil"]
    assert lane.bound == CROWD + 1


async def test_a_write_that_goes_on_being_refused_keeps_no_other_from_its_turn() -> None:
    server = Server()
    server.refused["evil"] = ApiError(429, "TooManyRequests", "by a webhook of mine", 30.0)
    lane = a_binder(server)
    for number in range(CROWD):
        lane.add(a_binding("evil", number))
    await until(lambda: len(lane._delayed) == CROWD)
    lane.add(a_binding("honest", 0))
    await until(lambda: lane.bound == 1)

    assert server.spaces()[CROWD:] == ["honest"]
    await lane.stop()


# -- what comes before a binding --------------------------------------------------------------------------------------


def claims_of(server: Server) -> Callable[[Bind], Awaitable[None]]:
    return ResourceClaims(server.api, FENCE, Views(), lambda _: None, lambda _: None).prepare


def volumes_of(server: Server) -> Callable[[Bind], Awaitable[None]]:
    return Volumes(server.api, FENCE, Views()).prepare


def with_claim(space: str, number: int) -> Bind:
    claim = f"{space}/c{number}"
    return Bind(
        f"{space}-{number}",
        space,
        f"p{number}",
        "n",
        claims=(ClaimWrite(claim, "u"),),
        volumes=(VolumeWrite("dynamic", claim, "", "n"),),
    )


async def prepared(prepare: Callable[[Bind], Awaitable[None]], step: Bind) -> None:
    with suppress(PrebindError):
        await prepare(step)


LANES = pytest.mark.parametrize("lane", [claims_of, volumes_of], ids=["claims", "volumes"])


@pytest.fixture
def placed_singly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource_claims, "IN_FLIGHT", 1)
    monkeypatch.setattr(volumes, "IN_FLIGHT", 1)
    monkeypatch.setattr(statuses, "IN_FLIGHT", 1)
    monkeypatch.setattr(events, "IN_FLIGHT", 1)


@pytest.mark.usefixtures("placed_singly")
@LANES
async def test_claims_and_volumes_take_turns(lane: Callable[[Server], Callable[[Bind], Awaitable[None]]]) -> None:
    server = Server()
    server.refused = {space: ApiError(404, "NotFound", "gone") for space in ("evil", "honest")}
    prepare = lane(server)
    steps = [*(with_claim("evil", number) for number in range(CROWD)), with_claim("honest", 0)]
    server.is_open.clear()
    asking = asyncio.gather(*(prepared(prepare, step) for step in steps))
    await until(lambda: bool(server.asked))
    server.is_open.set()
    await asking

    assert server.spaces()[:3] == ["evil", "evil", "honest"]
    assert [asked for asked in server.asked if "evil" in asked] == [f"evil c{number}" for number in range(CROWD)]


@pytest.mark.usefixtures("placed_singly")
@LANES
async def test_a_pause_after_trouble_holds_no_turn(lane: Callable[[Server], Callable[[Bind], Awaitable[None]]]) -> None:
    server = Server()
    server.refused = {
        "evil": ApiError(500, "Internal", "trouble", 3600.0),
        "honest": ApiError(404, "NotFound", "gone"),
    }
    prepare = lane(server)
    paused = asyncio.create_task(prepared(prepare, with_claim("evil", 0)))
    await until(lambda: bool(server.asked))
    await prepared(prepare, with_claim("honest", 0))

    assert server.asked == ["evil c0", "honest c0"]
    paused.cancel()
    await asyncio.gather(paused, return_exceptions=True)


@pytest.mark.usefixtures("placed_singly")
async def test_claims_that_are_released_or_taken_back_take_turns() -> None:
    server = Server()
    server.refused = {space: ApiError(404, "NotFound", "gone") for space in ("evil", "honest")}
    lane = ResourceClaims(server.api, FENCE, Views(), lambda _: None, lambda _: None)
    server.is_open.clear()
    for number in range(CROWD):
        lane.release(ReleaseClaim("u", "evil", f"c{number}", as_pod("evil", "p", "u")))
    await until(lambda: bool(server.asked))
    taking_back = asyncio.create_task(lane.withdraw(with_claim("honest", 0)))
    await asyncio.sleep(0)
    server.is_open.set()
    await taking_back

    assert server.spaces().index("honest") <= 2
    await until(lambda: not len(lane._releasing))
    assert len(server.asked) == CROWD + 1


@LANES
async def test_the_more_pods_wait_for_claims_and_volumes_the_less_often_each_looks(
    lane: Callable[[Server], Callable[[Bind], Awaitable[None]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    goes_on = asyncio.Event()

    async def pause(polls: Polls) -> None:
        pauses.append(polls.seconds)
        await goes_on.wait()

    monkeypatch.setattr(Polls, "pause", pause)
    monkeypatch.setattr(Volumes, "_is_bound", lambda *_: False)
    monkeypatch.setattr(ResourceClaims, "_readiness", lambda *_: Readiness(("a condition",), ""))
    monkeypatch.setattr(ResourceClaims, "_persistently", nothing)
    monkeypatch.setattr(Volumes, "_persistently", nothing)
    prepare = lane(Server())
    waiting = [asyncio.create_task(prepared(prepare, with_claim("evil", number))) for number in range(4_000)]
    await until(lambda: len(pauses) == 4_000)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    last = asyncio.create_task(prepared(prepare, with_claim("honest", 0)))
    await until(lambda: len(pauses) == 4_001)

    assert (pauses[0], pauses[500], pauses[3_999], pauses[4_000]) == (0.25, 0.2505, 2.0, 0.25)
    last.cancel()
    await asyncio.gather(last, return_exceptions=True)


async def nothing(*_: Any) -> int:
    return 0


# -- what is told -----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("placed_singly")
async def test_conditions_of_pods_have_turns_beside_statuses_of_podgroups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statuses, "SETTLE_SECONDS", 0.0)
    server, views = Server(), Views()
    groups = [api.ObjectMeta(name=f"g{n}", namespace="evil", uid=f"g{n}") for n in range(CROWD)]
    views.observe([Put(api.PodGroup(metadata=meta)) for meta in groups])
    lane = Statuses(server.api, FENCE, views, lambda _: None, lambda: 0)
    for meta in groups:
        lane.add(WriteGroupStatus(meta.uid, meta.namespace, meta.name, "Pending", 1, 0, 0, ()))
    for space in ("evil", "honest", "honest"):
        number = lane.depth
        lane.add(WritePodCondition(f"{space}-{number}", space, f"p{number}", "Unschedulable", "no room"))
    await until(lambda: lane.depth == 0 and not lane._under_way)

    assert server.spaces().index("honest") <= 5
    assert len(server.asked) == CROWD + 3
    await lane.stop(0.0)


def told(space: str, number: int, reason: str, kind: str) -> RecordEvent:
    return RecordEvent("Pod", "v1", space, f"p{number}", f"{space}-{number}", kind, reason, "words", "Binding")


@pytest.mark.usefixtures("placed_singly")
@pytest.mark.parametrize("bindings", [0, 9])
async def test_where_pods_went_is_told_beside_refusals_and_bindings_of_others(
    monkeypatch: pytest.MonkeyPatch, bindings: int
) -> None:
    """As many as one second has of them: more than that only when nothing else is to be told or bound."""
    monkeypatch.setattr(events, "SETTLE_SECONDS", 0.0)
    monkeypatch.setattr(events, "SCHEDULED_PER_SECOND", 1e-9)  # as if no time went by
    monkeypatch.setattr(events, "QPS", 1e9)
    waiting = bindings
    server = Server()
    lane = Events(server.api, FENCE, lambda: waiting, qps=1e9)
    lane._scheduled_at_least = events.TokenBucket(1e-9, 2)
    server.is_open.clear()
    for number in range(CROWD):
        lane.record(told("evil", number, "FailedScheduling", "Warning"))
    for number in range(3):
        lane.record(told("evil", number, "Scheduled", "Normal"))
        lane.record(told("honest", number, "Scheduled", "Normal"))
    server.is_open.set()
    await until(lambda: len(server.asked) >= CROWD + 2 and not lane._under_way)

    assert server.spaces()[:4].count("honest") == 1
    assert server.spaces()[: CROWD + 2].count("honest") == 1, "what went where has two turns, and namespaces share them"
    waiting = 0
    await until(lambda: lane.depth == 0)
    assert server.spaces().count("honest") == 3
    await lane.drain(0.0)


# -- from sessions into lanes -----------------------------------------------------------------------------------------


def a_condition(space: str, number: int) -> WritePodCondition:
    return WritePodCondition(f"{space}-{number}", space, f"p{number}", "Unschedulable", "no room")


async def test_bindings_do_not_wait_until_everything_is_taken_over_that_is_to_be_told() -> None:
    server = Server()
    server.is_open.clear()
    views = Views()
    views.observe([Put(api.Node(metadata=api.ObjectMeta(name="n")))])
    lanes = executor.ClusterExecutor(server.api, FENCE, views, lambda _: None)
    taken_over = lanes.statuses.tables()["statuses.waiting"]  # on a slow machine some are being written already
    depths: list[int] = []
    asked_at: dict[str, int] = {}
    lanes.execute([a_condition("evil", number) for number in range(3_000)])
    lanes.execute([a_binding("honest", 0)])
    for _ in range(20):
        await asyncio.sleep(0)
        depths.append(taken_over())
        if server.asked:
            asked_at.setdefault(server.asked[0], len(depths))

    assert asked_at["honest p0"] <= 3
    assert [depth for depth in dict.fromkeys(depths) if depth] == [500, 1_000, 1_500, 2_000, 2_500, 3_000]
    await lanes.stop()


async def test_what_was_to_be_told_of_a_pod_before_it_was_bound_is_not_told_and_what_came_later_is() -> None:
    server = Server()
    server.is_open.clear()
    lanes = executor.ClusterExecutor(server.api, FENCE, Views(), lambda _: None)
    crowd = [a_condition("evil", number) for number in range(600)]
    words = [a_condition("honest", 0), told("honest", 0, "FailedScheduling", "Warning")]
    lanes.execute([*crowd, *words, a_binding("honest", 0), a_condition("honest", 1)])
    for _ in range(5):
        await asyncio.sleep(0)

    assert (lanes.statuses.depth, lanes.events.depth) == (601, 0)
    assert lanes.tables()["executor.incoming"]() == 0
    lanes.execute([a_condition("honest", 0)])
    await lanes.drain(0.0)
    assert lanes.statuses.dropped == 602, "what comes after the binding is not passed over"
