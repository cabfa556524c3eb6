"""What the controllers remember of objects ends with them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from tests.controllers.cases import a_pod, reference
from tools.patience import PATIENCE
from volsched.controllers import job_controller
from volsched.controllers.counted import KEY
from volsched.controllers.job_controller import JobView, ReconcileResult
from volsched.controllers.store import Key
from volsched.controllers.writes import COMMAND, JOB, POD, QUEUE, Create, Delete, Patch, Write
from volsched.kube.errors import ApiError
from volsched.kube.fence import Fence
from volsched.model import api
from volsched.model.changes import Deleted, Refused
from volsched.model.plan import RecordEvent
from volsched.operator import reading
from volsched.operator.engine import KEYS_AT_ONCE, ControllerEngine
from volsched.operator.options import ControllerOptions
from volsched.operator.reading import job_view
from volsched.operator.writer import Writer
from volsched.operator.writing import _Slots


class Taken(Writer):
    """Takes every write and shows nothing of it; what is ``gone`` is said not to be there any more."""

    def __init__(self) -> None:
        super().__init__(None, Fence())  # type: ignore[arg-type]  # no API server is asked
        self.writes: list[Write] = []
        self.gone: set[str] = set()
        self.refused: set[str] = set()

    async def write(self, write: Create | Patch | Delete) -> bytes | None:
        self.writes.append(write)
        if write.name in self.refused:
            raise ApiError(403, "Forbidden", "exceeded quota")
        return None if isinstance(write, Patch | Delete) and write.name in self.gone else b""


def queue(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": "1"}, "spec": {"weight": 1}}


def job(name: str, version: str, **plugins: list[str]) -> dict[str, Any]:
    task = {"name": "w", "replicas": 1, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}
    return {
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", "resourceVersion": version},
        "spec": {"schedulerName": "volsched", "minAvailable": 1, "plugins": plugins, "tasks": [task]},
    }


async def settled(engine: ControllerEngine) -> None:
    """Look at all that waits, as a worker does."""
    while (key := engine.queue._next()) is not None:
        await engine._work(key)


def test_a_queue_that_is_gone_leaves_nothing_behind() -> None:
    async def story() -> None:
        writer = Taken()
        engine = ControllerEngine(ControllerOptions(), writer, lambda _: None)
        await engine.begin()
        engine.event_handlers.see(QUEUE, True, queue("a"))
        await settled(engine)
        assert any(isinstance(write, Patch) and write.name == "a" for write in writer.writes)
        assert "a" in engine._written_at

        engine.event_handlers.see(QUEUE, False, queue("a"))
        await settled(engine)
        assert "a" not in engine._written_at

    asyncio.run(story())


def test_nor_does_one_that_went_while_nothing_was_written() -> None:
    async def story() -> None:
        engine = ControllerEngine(ControllerOptions(), Taken(), lambda _: None)
        await engine.begin()
        engine.event_handlers.see(QUEUE, True, queue("a"))
        await settled(engine)
        engine.pause()
        engine.event_handlers.see(QUEUE, False, queue("a"))
        await engine.begin()
        await settled(engine)
        assert "a" not in engine._written_at

    asyncio.run(story())


def test_what_is_known_is_looked_at_some_at_a_time_so_that_others_have_their_turn() -> None:
    """A process that begins to write finds all pods of the cluster, and goes on hearing of changes meanwhile."""
    pods = 3 * KEYS_AT_ONCE

    async def story() -> tuple[list[int], set[str]]:
        engine = ControllerEngine(ControllerOptions(), Taken(), lambda _: None)
        for number in range(pods):
            engine.store.put(a_pod(f"p{number}", owner=reference("ReplicaSet", f"web-{number}")))
        seen = []

        async def watch() -> None:
            while True:
                seen.append(engine.queue.depth().total())
                engine.store.gone(Deleted("Pod", "ns", f"p{pods - len(seen)}", f"uid-p{pods - len(seen)}"))
                await asyncio.sleep(0)

        watching = asyncio.create_task(watch())
        await engine.begin()
        watching.cancel()
        return [*seen, engine.queue.depth().total()], {key.name for key in engine.queue._waiting._namespaces}

    depths, known = asyncio.run(story())

    assert max(after - before for before, after in pairwise(depths)) <= KEYS_AT_ONCE + 1
    assert {f"ns/podgroup-uid-web-{number}" for number in range(pods - len(depths))} <= known


def test_a_job_that_a_write_finds_gone_leaves_nothing_behind() -> None:
    async def story() -> None:
        writer = Taken()
        told: list[RecordEvent] = []
        engine = ControllerEngine(ControllerOptions(), writer, told.append)
        await engine.begin()
        engine.event_handlers.see(JOB, True, job("j", "1", unheard_of=[]))
        await settled(engine)
        assert [tell.name for tell in told] == ["j"]
        writer.gone.add("j")
        engine.event_handlers.see(JOB, True, job("j", "2"))
        await settled(engine)
        assert engine.store.jobs == {}
        assert engine._reported == {}
        assert engine._pace._tokens == {}

    asyncio.run(story())


def test_what_goes_after_its_job_brings_nothing_of_the_job_back() -> None:
    """Its PodGroup and pods are collected one by one, and each tells of the Job that it belonged to."""

    async def story() -> None:
        engine = ControllerEngine(ControllerOptions(), Taken(), lambda _: None)
        await engine.begin()
        engine.event_handlers.see(JOB, True, job("j", "1"))
        admitted(engine, "j")
        assert engine.tables()["engine.paces"]() == 1

        engine.event_handlers.see(JOB, False, job("j", "1"))
        engine.store.gone(Deleted("PodGroup", "default", "j-uid-j", "g-j"))
        await settled(engine)
        assert {name for name, size in engine.tables().items() if name.startswith("engine.") and size()} == set()

    asyncio.run(story())


def test_a_job_over_which_a_controller_fails_is_set_aside_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of ours, as one that nobody thought of: the Job says so, the next one is run."""

    def failing(view: JobView, *rest: Any) -> ReconcileResult:
        if view.job.metadata.name == "odd":
            raise ZeroDivisionError("ours")
        return reconcile(view, *rest)

    async def story() -> None:
        writer, told = Taken(), []
        engine = ControllerEngine(ControllerOptions(), writer, told.append)
        await engine.begin()
        worker = asyncio.create_task(engine.queue.worker())
        for name in ("odd", "even"):
            engine.event_handlers.see(JOB, True, job(name, "1"))
        while engine.queue.done["Job"] + engine.queue.errors["Job"] < 2:  # noqa: ASYNC110 - what is waited for is a number
            await asyncio.sleep(0)
        worker.cancel()

        assert [(tell.kind, tell.name, tell.uid, tell.reason) for tell in told] == [
            ("Job", "odd", "uid-odd", "Quarantined")
        ]
        assert "ZeroDivisionError: ours" in told[0].message
        assert engine.event_handlers.quarantine.counts == {("Job", "reconciling"): 1.0}
        assert {write.name for write in writer.writes} >= {"even-uid-even"}

        engine.event_handlers.see(JOB, False, job("odd", "1"))
        assert not engine.event_handlers.quarantine

    reconcile = job_controller.reconcile
    monkeypatch.setattr(job_controller, "reconcile", failing)
    asyncio.run(story())


@pytest.mark.parametrize(
    "container",
    [
        {"name": "c", "env": 5},
        {"name": "c", "env": [5]},
        {"name": "c", "env": [{"name": {"a": 1}}]},
        {"name": "c", "volumeMounts": 5},
        {"name": "c", "volumeMounts": [5]},
        {"name": "c", "ports": [{"containerPort": "x"}]},
    ],
)
@pytest.mark.parametrize("plugin", ["env", "svc", "ssh"])
def test_a_template_of_another_shape_is_told_on_its_job(container: dict[str, Any], plugin: str) -> None:
    raw = job("j", "1", **{plugin: []})
    raw["spec"]["tasks"][0]["template"]["spec"]["containers"] = [container]

    view = job_view(raw, ("volsched",), "default")

    assert "spec.tasks[0].template.spec.containers[0]" in view.problem


# --- Jobs in slices -------------------------------------------------------------------------------------------------


def admitted(engine: ControllerEngine, name: str) -> None:
    """The PodGroup of a Job, as it is once the scheduler has admitted it."""
    owner = {"kind": "Job", "name": name, "uid": f"uid-{name}", "apiVersion": JOB.group_version, "controller": True}
    meta = {"name": f"{name}-uid-{name}", "namespace": "default", "uid": f"g-{name}", "ownerReferences": [owner]}
    raw = {"metadata": meta | {"resourceVersion": "1"}, "spec": {"minMember": 1}, "status": {"phase": "Inqueue"}}
    engine.store.put(api.decode_as(api.PodGroup, raw))


def large_job(name: str, replicas: int) -> dict[str, Any]:
    raw = job(name, "1")
    raw["spec"]["tasks"][0]["replicas"] = replicas
    return raw


async def job_looked_at(engine: ControllerEngine) -> None:
    """Look at what waits until it was the turn of a Job."""
    while (key := engine.queue._next()) is not None:
        await engine._work(key)
        if key.kind == JOB.name:
            return


def pods_of(writer: Taken) -> list[str]:
    return [write.name for write in writer.writes if isinstance(write, Create) and write.kind is POD]


def test_others_have_their_turn_between_the_slices_of_a_large_job() -> None:
    async def story() -> None:
        writer = Taken()
        engine = ControllerEngine(ControllerOptions(job_pods_at_once=10), writer, lambda _: None)
        await engine.begin()
        for raw in (large_job("large", 25), large_job("small", 2)):
            engine.event_handlers.see(JOB, True, raw)
            admitted(engine, raw["metadata"]["name"])

        await job_looked_at(engine)
        await job_looked_at(engine)

        made = pods_of(writer)
        assert (len(made), made[-2:]) == (12, ["small-w-0", "small-w-1"])
        assert engine.queue.depth()["Job"] == 1  # the large one comes back by itself
        engine.queue.clear()

    asyncio.run(story())


def test_two_pods_do_not_stand_in_line_behind_the_hundreds_of_a_large_job() -> None:
    class Slow(Taken):
        async def write(self, write: Create | Patch | Delete) -> bytes | None:
            await asyncio.sleep(0)
            return await super().write(write)

    async def story() -> list[str]:
        writer = Slow()
        engine = ControllerEngine(ControllerOptions(), writer, lambda _: None)
        await engine.begin()
        for number, replicas in enumerate([400, 400, 400, 2]):
            engine.event_handlers.see(JOB, True, large_job(f"j{number}", replicas))
            admitted(engine, f"j{number}")
        await asyncio.gather(*(engine._work(Key(JOB.name, f"default/j{number}")) for number in range(4)))
        return pods_of(writer)

    names = asyncio.run(story())
    assert len(names) == 1202
    assert max(names.index("j3-w-0"), names.index("j3-w-1")) < 100


def test_the_first_pod_that_is_refused_stops_the_slice() -> None:
    async def story() -> None:
        writer = Taken()
        writer.refused = {f"large-w-{number}" for number in range(500)}
        engine = ControllerEngine(ControllerOptions(workers=4), writer, lambda _: None)
        await engine.begin()
        engine.event_handlers.see(JOB, True, large_job("large", 500))
        admitted(engine, "large")

        with pytest.raises(ApiError):
            await job_looked_at(engine)

        assert len(pods_of(writer)) <= 4

    asyncio.run(story())


def test_a_job_that_is_to_stay_for_ever_leaves_no_timer_when_it_is_gone() -> None:
    async def story() -> None:
        engine = ControllerEngine(ControllerOptions(), Taken(), lambda _: None)
        await engine.begin()
        raw = job("j", "1")
        raw["spec"]["ttlSecondsAfterFinished"] = 2**31 - 1
        raw["status"] = {"state": {"phase": "Completed", "lastTransitionTime": "2099-01-01T00:00:00Z"}}
        engine.event_handlers.see(JOB, True, raw)
        await settled(engine)
        assert len(engine.queue._timers) == 1

        engine.event_handlers.see(JOB, False, raw)

        assert (engine.queue._timers, engine.queue._backoffs, engine._reported, engine.store.jobs) == ({}, {}, {}, {})

    asyncio.run(story())


# --- reading Jobs ---------------------------------------------------------------------------------------------------


def changed(**parts: Any) -> dict[str, Any]:
    """A Job at a later version, with these fields of metadata, spec or status."""
    raw = job("j", "2", env=[])
    for part, fields in parts.items():
        raw[part] = raw.get(part, {}) | fields
    return raw


@pytest.mark.parametrize(
    ("before", "after", "is_read"),
    [
        (changed(), changed(status={"state": {"phase": "Running"}, "running": 1}), False),
        (changed(), changed(status={"controlledResources": {KEY: '{"restarts":[["w",0,null,1]]}'}}), False),
        (changed(status={"running": 1}), changed(metadata={"resourceVersion": "3", "managedFields": [{}]}), False),
        (changed(spec={"minAvailable": 5}), changed(spec={"minAvailable": 5}, status={"running": 1}), False),
        (changed(spec={"schedulerName": "x"}), changed(spec={"schedulerName": "x"}, status={"running": 1}), False),
        (changed(), changed(metadata={"labels": {"a": "b"}}), True),
        (changed(), changed(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}), True),
        (changed(), changed(metadata={"uid": "another"}), True),
        (changed(), changed(spec={"minAvailable": 0}), True),
        (changed(spec={"minAvailable": 5}), changed(), True),
        (changed(), changed(status={"running": "x"}), False),
    ],
)
def test_a_job_is_read_again_only_if_more_than_its_status_has_changed(
    before: dict[str, Any], after: dict[str, Any], is_read: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, expected = (job_view(raw, ("volsched",), "default") for raw in (before, after))
    read: list[str] = []
    original = reading._read

    def counted(*args: Any) -> JobView:
        read.append("")
        return original(*args)

    monkeypatch.setattr(reading, "_read", counted)

    assert job_view(after, ("volsched",), "default", known=known) == expected
    assert bool(read) == is_read


def test_what_the_answer_to_a_write_has_shown_of_a_job_is_not_read_again() -> None:
    engine = ControllerEngine(ControllerOptions(), Taken(), lambda _: None)
    engine.event_handlers.see(JOB, True, job("j", "1"))
    view = engine.store.jobs["default/j"]

    engine.event_handlers.see(JOB, True, job("j", "1"))
    assert engine.store.jobs["default/j"] is view

    engine.store.refuse(Refused("RawJob", "default", "j", "uid-j", "no memory"))
    engine.event_handlers.see(JOB, True, job("j", "1"))
    assert engine.store.jobs["default/j"] == view


# --- others beside a crowd ------------------------------------------------------------------------------------------


class Answering(Taken):
    """Takes every write, and answers once `rounds` of the loop are over."""

    def __init__(self, rounds: int = 3) -> None:
        super().__init__()
        self.under_way: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self._rounds = rounds

    async def write(self, write: Create | Patch | Delete) -> bytes | None:
        self.under_way[write.namespace] += 1
        self.most |= self.under_way
        answer = await super().write(write)
        for _ in range(self._rounds):
            await asyncio.sleep(0)
        self.under_way[write.namespace] -= 1
        return answer


async def beside(writer: Answering, crowd: Callable[[ControllerEngine], None]) -> int:
    """Return how many writes for a crowd come between a pod of another tenant and the PodGroup of that pod."""
    engine = ControllerEngine(ControllerOptions(), writer, lambda _: None)
    await engine.begin()
    workers = [asyncio.create_task(engine.queue.worker()) for _ in range(32)]
    crowd(engine)
    while len(writer.writes) < 100:  # noqa: ASYNC110 - as above
        await asyncio.sleep(0)
    before = len(writer.writes)
    engine.store.put(in_namespace(a_pod("honest"), "honest"))
    while not any(write.namespace == "honest" for write in writer.writes):  # noqa: ASYNC110 - as above
        await asyncio.sleep(0)
    for worker in workers:
        worker.cancel()
    await asyncio.gather(*workers, return_exceptions=True)
    return len(writer.writes) - before


def in_namespace(pod: api.Pod, namespace: str) -> api.Pod:
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, namespace=namespace))


def of_large_jobs(engine: ControllerEngine) -> None:
    for number in range(30):
        engine.event_handlers.see(JOB, True, large_job(f"j{number}", 5_000))
        admitted(engine, f"j{number}")


def of_bare_pods(engine: ControllerEngine) -> None:
    for number in range(5_000):
        engine.store.put(a_pod(f"p{number}"))


@pytest.mark.parametrize("crowd", [of_large_jobs, of_bare_pods])
def test_the_podgroup_of_another_tenant_waits_for_no_more_than_what_is_under_way(
    crowd: Callable[[ControllerEngine], None],
) -> None:
    writes = asyncio.run(beside(Answering(), crowd))
    assert writes <= 2 * 32


def test_the_writes_of_one_namespace_never_have_all_slots() -> None:
    """Nor do others wait for many that stand in line before them."""

    async def story() -> tuple[Answering, list[str]]:
        writer = Answering(rounds=20)
        engine = ControllerEngine(ControllerOptions(), writer, lambda _: None)
        await engine.begin()
        of_large_jobs(engine)
        crowd = [asyncio.ensure_future(engine._work(Key(JOB.name, f"default/j{number}"))) for number in range(20)]
        while len(writer.writes) < 50:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0)
        before = len(writer.writes)
        others = [
            Create(POD, "honest", f"pod-{number}", {"metadata": {"name": f"pod-{number}"}}) for number in range(8)
        ]
        await engine.writes.all(others)
        between = [write.name for write in writer.writes[before:] if write.namespace != "honest"]
        for one in crowd:
            one.cancel()
        await asyncio.gather(*crowd, return_exceptions=True)
        return writer, between

    writer, between = asyncio.run(story())
    assert writer.most["default"] == 24
    assert writer.most["honest"] == 8
    assert len(between) <= 2 * 24


def test_a_write_that_is_given_up_while_it_waits_for_its_turn_takes_no_slot() -> None:
    async def story() -> None:
        slots = _Slots(1)
        await slots.take("a")
        waiting = [asyncio.ensure_future(slots.take(name)) for name in "bc"]
        await asyncio.sleep(0)
        waiting[0].cancel()
        await asyncio.sleep(0)
        slots.give_back("a")
        waiting[1].cancel()  # it has its turn by now, and does not know yet
        await asyncio.gather(*waiting, return_exceptions=True)
        async with asyncio.timeout(PATIENCE):
            await slots.take("d")

    asyncio.run(story())


# --- Commands -------------------------------------------------------------------------------------------------------


def command(action: str, kind: str, name: str, namespace: str = "default") -> dict[str, Any]:
    meta = {"name": "c", "namespace": namespace, "uid": "uid-c"}
    return {"metadata": meta, "action": action, "target": {"kind": kind, "name": name}}


def carried_out(*commands: dict[str, Any], gone: bool = False) -> tuple[list[Write], list[RecordEvent]]:
    """What is written and told when these Commands are seen."""
    told: list[RecordEvent] = []

    async def story() -> list[Write]:
        writer = Taken()
        engine = ControllerEngine(ControllerOptions(queue_command_namespaces=("ops",)), writer, told.append)
        await engine.begin()
        engine.event_handlers.see(QUEUE, True, queue("q"))
        engine.event_handlers.see(JOB, True, job("j", "1"))
        await settled(engine)
        writer.writes.clear()
        writer.gone = {"c"} if gone else set()
        for raw in commands:
            engine.event_handlers.see(COMMAND, True, raw)
            await settled(engine)
        assert engine.event_handlers.commands == {}
        return [write for write in writer.writes if isinstance(write, Delete | Patch)]

    return asyncio.run(story()), told


@pytest.mark.parametrize("namespace", ["volsched-system", "ops"])
def test_a_command_to_a_queue_is_carried_out_from_the_namespaces_of_administrators(namespace: str) -> None:
    deleted, closed = carried_out(command("CloseQueue", "Queue", "q", namespace))[0]

    assert isinstance(deleted, Delete)
    assert isinstance(closed, Patch)
    assert closed.body["status"]["state"] == "Closing"


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (command("CloseQueue", "Queue", "q"), "taken from the namespaces ops, volsched-system only"),
        (command("AbortJob", "Job", "j", "elsewhere"), "there is no Job 'j' in namespace elsewhere"),
        (command("AbortJob", "Pod", "j"), "'Pod' is neither a Job of batch.volcano.sh nor a Queue"),
        (command("Destroy", "Job", "j"), "'Destroy' means nothing to a Job"),
    ],
)
def test_a_command_that_is_not_carried_out_says_why(raw: dict[str, Any], said: str) -> None:
    [deleted], [told] = carried_out(raw)

    assert isinstance(deleted, Delete)
    assert (told.kind, told.type, told.reason) == ("Command", "Warning", "CommandRefused")
    assert said in told.message


def test_a_command_that_somebody_else_has_taken_is_not_carried_out_again() -> None:
    assert [type(write) for write in carried_out(command("AbortJob", "Job", "j"), gone=True)[0]] == [Delete]
    assert len(carried_out(command("AbortJob", "Job", "j"))[0]) > 1


def test_a_command_or_queue_that_cannot_be_read_is_set_aside_until_it_changes() -> None:
    """Of a Command the controllers tell; of a Queue the scheduler does."""
    told: list[RecordEvent] = []
    engine = ControllerEngine(ControllerOptions(), Taken(), told.append)

    async def story() -> None:
        await engine.begin()
        engine.event_handlers.see(QUEUE, True, {**queue("q"), "spec": {"weight": "heavy"}})
        engine.event_handlers.see(COMMAND, True, {**command("AbortJob", "Job", "j"), "target": "j"})
        assert engine.event_handlers.quarantine.counts == {("Queue", "decoding"): 1.0, ("Command", "decoding"): 1.0}
        assert [(tell.kind, tell.name, tell.reason) for tell in told] == [("Command", "c", "Quarantined")]
        assert "target" in told[0].message

        engine.event_handlers.see(QUEUE, True, queue("q"))
        engine.event_handlers.see(COMMAND, True, command("AbortJob", "Job", "j"))
        await settled(engine)
        assert not engine.event_handlers.quarantine

    asyncio.run(story())


def test_a_pod_whose_podgroup_is_refused_says_so() -> None:
    async def story() -> None:
        writer, told = Taken(), list[RecordEvent]()
        writer.refused = {"podgroup-uid-p"}
        engine = ControllerEngine(ControllerOptions(), writer, told.append)
        await engine.begin()
        meta = {"name": "p", "namespace": "ns", "uid": "uid-p", "resourceVersion": "1"}
        engine.store.put(api.decode_as(api.Pod, {"metadata": meta}))

        with pytest.raises(ApiError):
            await settled(engine)

        assert [(tell.kind, tell.name, tell.reason) for tell in told] == [("Pod", "p", "FailedCreate")]
        assert "exceeded quota" in told[0].message

    asyncio.run(story())
