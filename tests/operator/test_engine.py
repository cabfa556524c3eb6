"""What the controllers remember of objects ends with them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from volsched.controllers import job_controller
from volsched.controllers.job_controller import JobView, Outcome
from volsched.controllers.writes import JOB, QUEUE, Patch, Write
from volsched.kube.fence import Fence
from volsched.model.plan import Tell
from volsched.operator.engine import Engine
from volsched.operator.options import Options
from volsched.operator.reading import job_view
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


def test_a_job_over_which_a_controller_fails_is_set_aside_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of ours, as one that nobody thought of: the Job says so, the next one is run."""

    def failing(view: JobView, *rest: Any) -> Outcome:
        if view.job.metadata.name == "odd":
            raise ZeroDivisionError("ours")
        return reconcile(view, *rest)

    async def story() -> None:
        writer, told = Taken(), []
        engine = Engine(Options(), writer, told.append)
        engine.begin()
        worker = asyncio.create_task(engine.queue.worker())
        for name in ("odd", "even"):
            engine.see(JOB, True, job(name, "1"))
        while engine.queue.done["Job"] + engine.queue.errors["Job"] < 2:  # noqa: ASYNC110 - what is waited for is a number
            await asyncio.sleep(0)
        worker.cancel()

        assert [(tell.kind, tell.name, tell.uid, tell.reason) for tell in told] == [
            ("Job", "odd", "uid-odd", "Quarantined")
        ]
        assert "ZeroDivisionError: ours" in told[0].message
        assert engine.quarantine.counts == {("Job", "reconciling"): 1.0}
        assert {write.name for write in writer.writes} >= {"even-uid-even"}

        engine.see(JOB, False, job("odd", "1"))
        assert not engine.quarantine

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
