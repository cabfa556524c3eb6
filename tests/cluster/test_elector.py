"""The Lease elector against a real API server, with short times and through a proxy that fails."""

from __future__ import annotations

import asyncio
import re
import time
import uuid
from collections.abc import AsyncIterator

import pytest
import structlog.testing

from volsched.kube.client import Api
from volsched.kube.credentials import Source
from volsched.kube.elector import Elector, LeaseSettings
from volsched.kube.errors import FenceError
from volsched.kube.fence import Fence
from volsched.testing.controlplane import ControlPlane
from volsched.testing.controlplane.faults import (
    BlackHole,
    FaultProxy,
    Reset,
    bad_gateway_page,
    conflict,
    server_error,
)

DURATION, DEADLINE, RETRY = 3.0, 2.0, 0.3


class Candidate:
    """An elector with its own connections."""

    def __init__(self, api: Api, namespace: str) -> None:
        self.api = api
        self.fence = Fence()
        settings = LeaseSettings(namespace, "test", DURATION, DEADLINE, RETRY)
        self.elector = Elector(api, settings, self.fence)
        self.task: asyncio.Task[str] | None = None

    async def lead(self) -> None:
        await asyncio.wait_for(self.elector.acquire(), 15)
        self.task = asyncio.ensure_future(self.elector.keep())

    async def vanish(self) -> None:
        """Stop renewing without a word, as a killed process does."""
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)


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
            await asyncio.sleep(3 * RETRY)
        assert any(f'namespaces "{missing}" not found' in str(line) for line in said), said
        await asyncio.to_thread(control_plane.create_namespace, missing)
        await leading
    finally:
        leading.cancel()
        await candidate.vanish()


async def test_the_first_candidate_leads_and_the_second_waits(
    control_plane: ControlPlane, namespace: str, direct: Api
) -> None:
    first, second = Candidate(direct, namespace), Candidate(direct, namespace)
    await first.lead()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(second.elector.acquire(), DURATION + 1)

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
    control_plane: ControlPlane, namespace: str, direct: Api
) -> None:
    first, second = Candidate(direct, namespace), Candidate(direct, namespace)
    await first.lead()
    await first.vanish()
    await first.elector.release()
    assert not first.fence.is_open
    assert lease(control_plane, namespace)["holderIdentity"] == ""

    began = time.monotonic()
    await second.lead()

    assert time.monotonic() - began < 1.0
    assert lease(control_plane, namespace)["leaseTransitions"] == 1
    await second.vanish()


async def test_a_leader_that_vanishes_is_followed_after_the_duration_and_not_before(
    namespace: str, direct: Api
) -> None:
    first, second = Candidate(direct, namespace), Candidate(direct, namespace)
    await first.lead()
    await first.vanish()
    ends = first.fence.lease_ends

    await second.lead()

    assert time.monotonic() >= ends
    assert time.monotonic() < ends + DURATION
    assert not first.fence.is_open
    assert second.elector.previous_holder == first.elector.identity
    await second.vanish()


async def test_the_wall_clock_in_a_record_decides_nothing(
    control_plane: ControlPlane, namespace: str, direct: Api
) -> None:
    """A holder whose clock is hours behind is alive as long as its record changes."""
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
    body = {
        "metadata": {"name": "test"},
        "spec": {"holderIdentity": "old-clock", "leaseDurationSeconds": 2, "renewTime": "2001-01-01T00:00:00.000000Z"},
    }
    control_plane.api.create(path, body)
    candidate = Candidate(direct, namespace)
    waiting = asyncio.ensure_future(candidate.elector.acquire())
    for second in range(8):
        await asyncio.sleep(0.5)
        renewed = {"spec": {"renewTime": f"2001-01-01T00:00:{second:02}.000000Z"}}
        await asyncio.to_thread(control_plane.api.patch, f"{path}/test", renewed)
    assert not waiting.done()

    began = time.monotonic()
    await asyncio.wait_for(waiting, 10)

    assert time.monotonic() - began >= 1.5


@pytest.mark.parametrize("fault", [BlackHole(), Reset(), server_error(), bad_gateway_page()], ids=repr)
async def test_a_leader_that_cannot_renew_gives_up_before_the_lease_ends(
    namespace: str, proxied: Api, fault_proxy: FaultProxy, fault: object
) -> None:
    candidate = Candidate(proxied, namespace)
    await candidate.lead()
    fault_proxy.inject(fault, path="/leases/")  # type: ignore[arg-type]

    assert candidate.task is not None
    reason = await asyncio.wait_for(candidate.task, 10)

    assert "could not be renewed for 2s" in reason
    assert not candidate.fence.is_open
    assert time.monotonic() < candidate.fence.lease_ends


@pytest.mark.parametrize("fault", [Reset(after=True), server_error(after=True), conflict()], ids=repr)
async def test_a_renewal_of_which_nothing_is_known_is_no_loss(
    control_plane: ControlPlane, namespace: str, proxied: Api, fault_proxy: FaultProxy, fault: object
) -> None:
    candidate = Candidate(proxied, namespace)
    await candidate.lead()
    rule = fault_proxy.inject(fault, method="PUT", path="/leases/", times=2)  # type: ignore[arg-type]

    await asyncio.to_thread(rule.wait, 2)
    await asyncio.sleep(3 * RETRY)

    assert candidate.task is not None
    assert not candidate.task.done()
    assert candidate.fence.is_open
    assert lease(control_plane, namespace)["holderIdentity"] == candidate.elector.identity
    assert lease(control_plane, namespace)["leaseTransitions"] == 0
    await candidate.vanish()


async def test_a_lease_taken_by_force_is_noticed_and_not_taken_back(
    control_plane: ControlPlane, namespace: str, direct: Api
) -> None:
    candidate = Candidate(direct, namespace)
    await candidate.lead()
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/test"
    await asyncio.to_thread(control_plane.api.patch, path, {"spec": {"holderIdentity": "somebody"}})

    assert candidate.task is not None
    reason = await asyncio.wait_for(candidate.task, 5)

    assert "somebody" in reason
    assert not candidate.fence.is_open
    await candidate.elector.release()
    assert lease(control_plane, namespace)["holderIdentity"] == "somebody"


async def test_a_lease_deleted_under_its_holder_is_made_again(
    control_plane: ControlPlane, namespace: str, direct: Api
) -> None:
    candidate = Candidate(direct, namespace)
    await candidate.lead()
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/test"

    await asyncio.to_thread(control_plane.api.delete, path)
    await asyncio.sleep(3 * RETRY)

    assert candidate.fence.is_open
    assert lease(control_plane, namespace)["holderIdentity"] == candidate.elector.identity
    await candidate.vanish()


async def test_of_many_candidates_one_leads_at_any_time(namespace: str, direct: Api) -> None:
    candidates = [Candidate(direct, namespace) for _ in range(6)]
    tasks = [asyncio.ensure_future(candidate.lead()) for candidate in candidates]
    for _ in range(3):
        while not (open_ones := [c for c in candidates if c.fence.is_open]):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
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
