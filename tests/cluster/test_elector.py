"""The Lease elector against a real API server, and through a proxy that fails.

Seconds of the rules are those of a clock that the tests turn, so that nothing depends on how fast the machine is; only
the pauses between two looks, and the limits of requests, are real.
"""

from __future__ import annotations

import asyncio
import re
import time
import uuid
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import structlog.testing

from tests.cluster.clock import Clock
from tools.controlplane import ControlPlane
from tools.controlplane.faults import (
    BlackHole,
    FaultProxy,
    Latency,
    Reset,
    bad_gateway_page,
    conflict,
    server_error,
)
from tools.patience import PATIENCE
from volsched.kube.client.credentials import Source
from volsched.kube.client.rest import Api
from volsched.kube.errors import FenceError
from volsched.kube.fence import Fence
from volsched.kube.lead import elector
from volsched.kube.lead.elector import Elector, LeaseSettings

DURATION, DEADLINE, RETRY = 3.0, 2.0, 0.3


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    turned = Clock()
    monkeypatch.setattr(elector, "time", turned)
    return turned


class Looks:
    """An API server that remembers how long each request might take, and how many were answered, by method.

    `looks` counts reads, also those that found nothing.
    """

    def __init__(self, api: Api) -> None:
        self._api = api
        self.limits: list[float] = []
        self.answered = {"GET": 0, "POST": 0, "PUT": 0}
        self.looks = 0

    async def request(self, method: str, path: str, resource: str, *, within: float, **keywords: Any) -> bytes:
        self.limits.append(within)
        try:
            answer = await self._api.request(method, path, resource, within=within, **keywords)
        finally:
            self.looks += method == "GET"
        self.answered[method] += 1
        return answer


class Candidate:
    """An elector; `retry` is in real seconds."""

    def __init__(self, api: Api, namespace: str, clock: Clock | None = None, retry: float = RETRY) -> None:
        self.api = Looks(api)
        self.clock = clock
        self.fence = Fence(clock.monotonic if clock else time.monotonic)
        settings = LeaseSettings(namespace, "test", DURATION, DEADLINE, retry)
        self.elector = Elector(self.api, settings, self.fence)  # type: ignore[arg-type]
        self.task: asyncio.Task[str] | None = None

    async def lead(self) -> None:
        await asyncio.wait_for(self.elector.acquire(), PATIENCE)
        self.task = asyncio.ensure_future(self.elector.keep())

    async def looked(self) -> None:
        """Return once it has looked at the Lease as it is now: what is under way may see what was before."""
        before = self.api.looks
        await until(lambda: self.api.looks >= before + 2)

    async def renewed(self) -> None:
        """Return once it has renewed the Lease at the time that the clock shows."""
        assert self.clock is not None
        now = self.clock.now
        await until(lambda: self.fence.valid_until == now + DEADLINE)

    async def vanish(self) -> None:
        """Stop renewing without a word, as a killed process does."""
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)


@pytest.fixture
async def direct(control_plane: ControlPlane) -> AsyncIterator[Api]:
    api = await Api.connect(Source(kubeconfig=str(control_plane.kubeconfig)))
    yield api
    await api.close()
    await asyncio.sleep(0.05)  # the proxy sees it before it stops


@pytest.fixture
async def proxied(fault_proxy: FaultProxy) -> AsyncIterator[Api]:
    api = await Api.connect(Source(kubeconfig=str(fault_proxy.kubeconfig())))
    yield api
    await api.close()
    await asyncio.sleep(0.05)  # the proxy sees it before it stops


def lease(control_plane: ControlPlane, namespace: str) -> dict[str, object]:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/test"
    found: dict[str, object] = control_plane.api.get(path)["spec"]
    return found


def test_times_that_contradict_each_other_are_named() -> None:
    assert not LeaseSettings("n", "x").problem()
    assert "longer than the renew deadline" in LeaseSettings("n", "x", 10, 10, 2).problem()
    assert "retry periods" in LeaseSettings("n", "x", 15, 2, 2).problem()
    assert "positive" in LeaseSettings("n", "x", 15, 10, 0).problem()


async def test_a_namespace_that_is_missing_is_said_and_waited_for(control_plane: ControlPlane, direct: Api) -> None:
    missing = f"missing-{uuid.uuid4().hex[:8]}"
    candidate = Candidate(direct, missing)
    leading = asyncio.ensure_future(candidate.lead())
    try:
        with structlog.testing.capture_logs() as said:
            await until(lambda: any(f'namespaces "{missing}" not found' in str(line) for line in said))
        await asyncio.to_thread(control_plane.create_namespace, missing)
        await leading
    finally:
        leading.cancel()
        await candidate.vanish()


async def test_the_first_candidate_leads_and_the_second_waits(
    control_plane: ControlPlane, namespace: str, direct: Api, clock: Clock
) -> None:
    first, second = Candidate(direct, namespace, clock), Candidate(direct, namespace, clock)
    await first.lead()
    waiting = asyncio.ensure_future(second.elector.acquire())
    for _ in range(round(DURATION) + 1):
        clock.now += 1.0
        await first.renewed()
        await second.looked()
    assert not waiting.done()
    waiting.cancel()

    assert first.fence.is_open
    assert not second.fence.is_open
    with pytest.raises(FenceError):
        second.fence.check()
    record = lease(control_plane, namespace)
    assert record["holderIdentity"] == first.elector.identity
    assert record["leaseDurationSeconds"] == 3
    assert record["leaseTransitions"] == 0
    for key in ("acquireTime", "renewTime"):
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", str(record[key]))
    await first.vanish()


async def test_a_leader_that_releases_is_followed_at_once(
    control_plane: ControlPlane, namespace: str, direct: Api, clock: Clock
) -> None:
    """The clock stands still, so who waited for anything would wait for ever."""
    first, second = Candidate(direct, namespace, clock, retry=30.0), Candidate(direct, namespace, clock)
    await first.lead()
    await first.vanish()
    await first.elector.release()
    assert not first.fence.is_open
    assert lease(control_plane, namespace)["holderIdentity"] == ""

    await second.lead()

    assert second.api.answered == {"GET": 1, "POST": 0, "PUT": 1}
    assert lease(control_plane, namespace)["leaseTransitions"] == 1
    await second.vanish()


@pytest.mark.no_retry(reason="double binding")
async def test_a_leader_that_vanishes_is_followed_after_the_duration_and_not_before(
    namespace: str, direct: Api, clock: Clock
) -> None:
    first, second = Candidate(direct, namespace, clock, retry=30.0), Candidate(direct, namespace, clock)
    await first.lead()
    await first.vanish()
    leading = asyncio.ensure_future(second.lead())
    await second.looked()

    clock.now = first.fence.lease_ends
    await second.looked()
    assert not leading.done()
    clock.now += 0.001
    await asyncio.wait_for(leading, PATIENCE)

    assert not first.fence.is_open
    assert second.elector.predecessor.holder == first.elector.identity
    await second.vanish()


async def test_the_wall_clock_in_a_record_decides_nothing(
    control_plane: ControlPlane, namespace: str, direct: Api, clock: Clock
) -> None:
    """A holder whose clock is hours behind is alive as long as its record changes."""
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
    body = {
        "metadata": {"name": "test"},
        "spec": {"holderIdentity": "old-clock", "leaseDurationSeconds": 2, "renewTime": "2001-01-01T00:00:00.000000Z"},
    }
    control_plane.api.create(path, body)
    candidate = Candidate(direct, namespace, clock)
    waiting = asyncio.ensure_future(candidate.elector.acquire())
    await candidate.looked()
    for second in range(1, 8):
        clock.now += 1.5
        renewed = {"spec": {"renewTime": f"2001-01-01T00:00:{second:02}.000000Z"}}
        await asyncio.to_thread(control_plane.api.patch, f"{path}/test", renewed)
        await candidate.looked()
    clock.now += 2.0
    await candidate.looked()
    assert not waiting.done()

    clock.now += 0.001
    await asyncio.wait_for(waiting, PATIENCE)


@pytest.mark.parametrize("fault", [BlackHole(), Reset(), server_error(), bad_gateway_page()], ids=repr)
async def test_a_leader_that_cannot_renew_gives_up_before_the_lease_ends(
    namespace: str, proxied: Api, fault_proxy: FaultProxy, clock: Clock, fault: object
) -> None:
    """What it tries until its right to write ends is over before the lease is: no request may take longer."""
    candidate = Candidate(proxied, namespace, clock)
    await candidate.lead()
    rule = fault_proxy.inject(fault, path="/leases/")  # type: ignore[arg-type]
    await asyncio.to_thread(rule.wait, 3)

    assert candidate.task is not None
    assert not candidate.task.done()
    clock.now = candidate.fence.valid_until
    assert not candidate.fence.is_open
    reason = await asyncio.wait_for(candidate.task, PATIENCE)

    assert "could not be renewed for 2s" in reason
    assert max(candidate.api.limits) <= candidate.fence.lease_ends - candidate.fence.valid_until


@pytest.mark.parametrize("fault", [Reset(after=True), server_error(after=True), conflict()], ids=repr)
async def test_a_renewal_of_which_nothing_is_known_is_no_loss(
    control_plane: ControlPlane,
    namespace: str,
    proxied: Api,
    fault_proxy: FaultProxy,
    clock: Clock,
    fault: object,
) -> None:
    candidate = Candidate(proxied, namespace, clock)
    await candidate.lead()
    rule = fault_proxy.inject(fault, method="PUT", path="/leases/", times=2)  # type: ignore[arg-type]

    await asyncio.to_thread(rule.wait, 2)
    clock.now += 1.0
    await candidate.renewed()

    assert candidate.task is not None
    assert not candidate.task.done()
    assert candidate.fence.is_open
    assert lease(control_plane, namespace)["holderIdentity"] == candidate.elector.identity
    assert lease(control_plane, namespace)["leaseTransitions"] == 0
    await candidate.vanish()


@pytest.mark.parametrize("writes", [False, True])
async def test_a_leader_that_renews_late_leads_on_unless_a_write_was_refused_meanwhile(
    control_plane: ControlPlane, namespace: str, proxied: Api, fault_proxy: FaultProxy, clock: Clock, writes: bool
) -> None:
    candidate = Candidate(proxied, namespace, clock)
    await candidate.lead()
    assert candidate.task is not None
    late = fault_proxy.inject(Latency(0.5), method="PUT", path="/leases/")
    await asyncio.to_thread(late.wait, 1)
    clock.now += DEADLINE + 0.1
    if writes:
        with pytest.raises(FenceError):
            candidate.fence.check()
        reason = await asyncio.wait_for(candidate.task, PATIENCE)
        assert reason == "a write was refused, as it was not renewed within 2s"
        assert not candidate.fence.is_open
    else:
        await candidate.renewed()
        assert not candidate.task.done()
        assert candidate.fence.is_open
        await candidate.vanish()
    assert lease(control_plane, namespace)["leaseTransitions"] == 0


async def test_a_lease_taken_by_force_is_noticed_and_not_taken_back(
    control_plane: ControlPlane, namespace: str, direct: Api
) -> None:
    candidate = Candidate(direct, namespace)
    await candidate.lead()
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/test"
    await asyncio.to_thread(control_plane.api.patch, path, {"spec": {"holderIdentity": "somebody"}})

    assert candidate.task is not None
    reason = await asyncio.wait_for(candidate.task, PATIENCE)

    assert "somebody" in reason
    assert not candidate.fence.is_open
    await candidate.elector.release()
    assert lease(control_plane, namespace)["holderIdentity"] == "somebody"


async def test_a_lease_deleted_under_its_holder_is_made_again(
    control_plane: ControlPlane, namespace: str, direct: Api, clock: Clock
) -> None:
    candidate = Candidate(direct, namespace, clock)
    await candidate.lead()
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/test"

    await asyncio.to_thread(control_plane.api.delete, path)
    clock.now += 1.0
    await candidate.renewed()

    assert candidate.fence.is_open
    assert lease(control_plane, namespace)["holderIdentity"] == candidate.elector.identity
    await candidate.vanish()


async def test_a_lease_deleted_under_its_holder_is_not_taken_by_another_before_its_time(
    control_plane: ControlPlane, namespace: str, direct: Api, clock: Clock
) -> None:
    """The holder cannot know that it is gone, and may write as long as the lease would have lasted."""
    first, second = Candidate(direct, namespace, clock, retry=30.0), Candidate(direct, namespace, clock)
    await first.lead()
    waiting = asyncio.ensure_future(second.lead())
    await second.looked()

    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/test"
    await asyncio.to_thread(control_plane.api.delete, path)
    clock.now = first.fence.lease_ends
    for _ in range(3):
        await second.looked()  # and does not make it
    assert not waiting.done()

    clock.now += 0.001
    await asyncio.wait_for(waiting, PATIENCE)
    assert not first.fence.is_open
    await first.vanish()
    await second.vanish()


async def test_a_candidate_looks_again_as_soon_as_the_lease_may_have_ended(namespace: str, direct: Api) -> None:
    """With a retry period that is long, waiting for the next look alone would take up to 2.2 of it."""
    first = Candidate(direct, namespace)
    await first.lead()
    await first.vanish()
    second = Candidate(direct, namespace, retry=600.0)

    await asyncio.wait_for(second.lead(), PATIENCE)

    await second.vanish()


@pytest.mark.no_retry(reason="double binding")
async def test_of_many_candidates_one_leads_at_any_time(namespace: str, direct: Api) -> None:
    candidates = [Candidate(direct, namespace) for _ in range(6)]
    tasks = [asyncio.ensure_future(candidate.lead()) for candidate in candidates]
    for _ in range(3):
        await until(lambda: any(c.fence.is_open for c in candidates))
        open_ones = [c for c in candidates if c.fence.is_open]
        for _ in range(20):
            assert sum(c.fence.is_open for c in candidates) <= 1
            await asyncio.sleep(0.02)
        [leader] = open_ones
        await leader.vanish()
        await leader.elector.release()
    for task, candidate in zip(tasks, candidates, strict=True):
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await candidate.vanish()
