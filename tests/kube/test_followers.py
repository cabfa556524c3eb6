"""What a process keeps that may not write: one entry for each object, as long as there is that object.

Nothing is sent while the fence is closed, so there is no API server here.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from tests.cluster.clock import Clock
from tests.kube.scheduler_page import KUBECONFIG
from tools.patience import PATIENCE
from volsched.kube.client.credentials import Source
from volsched.kube.client.rest import Api
from volsched.kube.fence import Fence
from volsched.kube.write import events as events_module
from volsched.kube.write import statuses as statuses_module
from volsched.kube.write import views as views_module
from volsched.kube.write.events import Events
from volsched.kube.write.executor import ClusterExecutor
from volsched.kube.write.resource_claims import ResourceClaims
from volsched.kube.write.statuses import Statuses
from volsched.kube.write.views import PodRefusal, Views
from volsched.model import api
from volsched.model.changes import Change, Deleted, Put
from volsched.model.plan import RecordEvent, WriteGroupStatus, WritePodCondition, WriteQueueStatus

NOBODY = cast("Api", None)


def a_tell(uid: str, message: str = "no room", kind: str = "Pod", type_: str = "Warning") -> RecordEvent:
    return RecordEvent(kind, "v1", "ns", f"name-{uid}", uid, type_, "FailedScheduling", message)


def sizes(part: Any) -> dict[str, int]:
    return {name: size() for name, size in part.tables().items()}


@pytest.fixture
async def events() -> Any:
    made = Events(NOBODY, Fence(), lambda: 0)
    yield made
    await made.drain(0.0)


async def test_an_object_about_which_much_is_said_waits_once(events: Events, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events_module, "SETTLE_SECONDS", 0.0)
    for number in range(1_000):
        events.record(a_tell("u", f"{number} nodes"))

    assert sizes(events)["events.waiting"] == 1
    assert sizes(events)["events.due"] <= 70


async def test_where_each_message_counts_none_replaces_another_and_the_same_again_waits_once(events: Events) -> None:
    for number in range(30):
        events.record(msgspec.structs.replace(a_tell("u", f"problem {number % 10}"), each=True))

    assert sizes(events)["events.waiting"] == 10
    events.cancel("u")
    assert sizes(events)["events.waiting"] == sizes(events)["events.warnings"] == 0


@pytest.mark.parametrize("kind", ["Pod", "PodGroup", "Job", "Queue"])
async def test_what_is_wrong_with_an_object_ends_with_it(events: Events, kind: str) -> None:
    for number in range(1_000):
        events.record(a_tell(f"u{number}", kind=kind))
        events.cancel(f"u{number}")

    found = sizes(events)
    assert (found["events.waiting"], found["events.warnings"]) == (0, 0)
    assert found["events.due"] <= 70


async def test_what_waits_to_be_told_has_a_bound(events: Events, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events_module, "WAITING_LIMIT", 100)
    for number in range(1_000):
        events.record(a_tell(f"u{number}"))
        events.record(a_tell(f"n{number}", type_="Normal"))

    found = sizes(events)
    assert found["events.waiting"] == 100
    assert found["events.warnings"] <= 100
    assert events.dropped == 1_900


def statuses(views: Views | None = None) -> Statuses:
    return Statuses(NOBODY, Fence(), views or Views(), lambda _: None, lambda: 1_000_000)


async def test_a_pod_that_is_refused_again_and_again_has_one_status_that_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statuses_module, "SETTLE_SECONDS", 3_600.0)  # however slow the machine, none is written yet
    lane = statuses()
    for number in range(1_000):
        lane.add(WritePodCondition("u", "ns", "p", "Unschedulable", f"{number} nodes"))

    found = sizes(lane)
    assert (found["statuses.waiting"], found["statuses.paces"]) == (1, 0)
    assert found["statuses.due"] <= 70
    await lane.stop(0.0)


@pytest.mark.parametrize("settle", [statuses_module.SETTLE_SECONDS, 0.0])
async def test_statuses_end_with_their_objects(monkeypatch: pytest.MonkeyPatch, settle: float) -> None:
    monkeypatch.setattr(statuses_module, "SETTLE_SECONDS", settle)
    lane = statuses()
    for number in range(1_000):
        lane.add(WritePodCondition(f"p{number}", "ns", "p", "Unschedulable", "x"))
        lane.add(WriteGroupStatus(f"g{number}", "ns", "g", "Pending", 0, 0, 0, ()))
        lane.add(WriteQueueStatus(f"q{number}", "q", {}))
        for kind in "pgq":
            lane.forget(f"{kind}{number}")

    found = sizes(lane)
    assert found.pop("statuses.due") <= 70
    assert found.pop("statuses.waiting") <= 8  # what is under way
    assert set(found.values()) <= {0, 8}
    await lane.stop(1.0)
    assert sizes(lane)["statuses.waiting"] == 0


async def test_a_later_word_about_an_object_keeps_its_turn() -> None:
    lane = statuses()
    for word, name in enumerate("123abca"):
        lane.add(WriteGroupStatus(name, "ns", name, "Pending", word, 0, 0, ()))

    assert list(lane._ready) == ["3", "a", "b", "c"], "two are under way"
    await lane.stop(0.0)


async def test_a_write_that_fails_over_an_object_that_is_gone_by_then_leaves_nothing_behind(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG)
    client = await Api.connect(Source(str(kubeconfig)))
    lane = Statuses(client, Fence.always_open(), Views(), lambda _: None, lambda: 0)
    for uid in ("there", "gone"):
        lane.add(WritePodCondition(uid, "ns", "p", "Unschedulable", "x", nominated="n"))
    await asyncio.sleep(0)
    lane.forget("gone")

    await asyncio.wait_for(asyncio.gather(*map(lane.under_way, ("there", "gone"))), PATIENCE)
    await asyncio.sleep(0)

    assert list(lane._entries) == ["there"], "the API server does not answer"
    assert (lane._gone, lane._paces) == (set(), {})
    await lane.stop(0.0)
    await client.close()


async def test_what_is_kept_of_a_waiting_pod_ends_when_it_has_a_node() -> None:
    placed: list[str] = []
    views = Views(on_placed=placed.append)
    condition = api.Condition(type="PodScheduled", status="False", reason="Unschedulable", message="x")
    meta = api.ObjectMeta(name="p", namespace="ns", uid="u", resource_version="1")
    views.observe([Put(api.Pod(metadata=meta, status=api.PodStatus(conditions=(condition,))))])
    assert sizes(views)["views.refusals"] == 1

    views.observe([Put(api.Pod(metadata=meta, spec=api.PodSpec(node_name="n")))])

    assert sizes(views)["views.refusals"] == 0
    assert placed == ["u"]


async def test_the_late_answer_to_a_write_brings_nothing_back_that_is_gone() -> None:
    """A claim that came back would hold its devices for ever."""
    views, told = Views(), list[Change]()
    claims = ResourceClaims(NOBODY, Fence(), views, told.append, lambda _: None)
    claim = {"metadata": {"name": "c", "namespace": "ns", "uid": "c", "resourceVersion": "2"}}
    refused = PodRefusal("Unschedulable", "x")

    claims._heard(claim)
    views.wrote_refusal("p", refused, "2")
    assert (len(told), views.refusal("p")) == (1, refused)

    views.observe([Deleted("ResourceClaim", "ns", "c", "c"), Deleted("Pod", "ns", "p", "p")])
    claims._heard(claim)
    views.wrote_refusal("p", refused, "3")

    assert len(told) == 1
    assert {name for name, size in sizes(views).items() if size} == {"views.gone"}


async def test_what_is_gone_is_forgotten_once_no_write_to_it_can_be_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, views = Clock(), Views()
    monkeypatch.setattr(views_module, "time", clock)
    views.observe([Deleted("Pod", "ns", f"p{number}", f"p{number}") for number in range(1_000)])
    clock.now += views_module.DELETED_LATELY_SECONDS
    views.observe([Deleted("Pod", "ns", "late", "late")])
    assert sizes(views)["views.gone"] == 1_001

    clock.now += 1.0
    views.observe([])

    assert sizes(views)["views.gone"] == 1
    assert not views.wrote(api.Pod(metadata=api.ObjectMeta(uid="late")))


async def test_what_fails_over_one_object_ends_with_it() -> None:
    def odd(_: api.Queue) -> None:
        raise ValueError("odd")

    views = Views(on_queue=odd)
    queue = api.Queue(metadata=api.ObjectMeta(name="q", uid="q"))
    node = api.Node(metadata=api.ObjectMeta(name="n", uid="n"))

    views.observe([Put(queue), Put(node), Deleted("Queue", "", "q", "q")])

    assert views.node_exists("n")
    assert views.queues == {}


async def test_every_table_of_the_executor_is_empty_again_when_its_objects_are_gone() -> None:
    executor = ClusterExecutor(NOBODY, Fence(), Views(), lambda _: None)
    for number in range(500):
        uid = f"u{number}"
        executor.execute([a_tell(uid), WritePodCondition(uid, "ns", "p", "Unschedulable", "x")])
    while sizes(executor)["executor.incoming"]:
        executor._sort()
    assert sizes(executor)["events.waiting"] == 500

    for number in range(500):
        executor.forget(f"u{number}")

    small = {"events.due", "statuses.due", "statuses.waiting"}
    assert {name for name, size in sizes(executor).items() if size} <= small
    assert all(size <= 70 for size in sizes(executor).values())
    await executor.stop()
