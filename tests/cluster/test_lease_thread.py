"""The Lease is renewed whatever the program is busy with, and nothing is written by one that has lost it."""

from __future__ import annotations

import signal
import time
from collections import Counter

import pytest

from tests.cluster.control_plane import MakeNodes
from tests.cluster.controlling import AT_WORK, Controlled, ControllersProcess
from tests.cluster.controlling import LEASE as CONTROLLERS_LEASE
from tests.cluster.forks import ForkServer
from tests.cluster.scheduling import LEASE, QUICK_LEASE, Installed, SchedulerProcess, VolschedProcess, eventually
from tests.cluster.signals import ready
from tools.controlplane.faults import FaultProxy, Latency
from tools.controlplane.request_counts import WRITES

pytest_plugins = ["tests.cluster.scheduling_fixtures", "tests.cluster.controlling_fixtures"]

pytestmark = pytest.mark.no_retry(reason="double binding")

BLOCKED_SECONDS = 11
"""Longer than `QUICK_LEASE` lasts."""

LATE_LEASE = (
    *("--leader-elect-lease-duration", "20s", "--leader-elect-renew-deadline", "4s"),
    *("--leader-elect-retry-period", "3s"),
)
"""Nobody else takes it soon after its leader may write no more, so there is time to renew it late."""

BUSY_WHEN_TOLD = f"""
import signal, time
REST_SECONDS = 0.0
def busy(*_):
    end = time.monotonic() + {BLOCKED_SECONDS}
    while time.monotonic() < end:
        rest = time.monotonic() + 0.02
        while time.monotonic() < rest:
            pass
        if REST_SECONDS:
            time.sleep(REST_SECONDS)
signal.signal(signal.SIGALRM, busy)
"""
"""The loop is blocked all the time, and other threads have to wait for the interpreter."""

MOSTLY_HALTED_WHEN_TOLD = f"""{BUSY_WHEN_TOLD}
REST_SECONDS = 0.08
"""
"""The same for a fifth of the processor time."""

SOON_STUCK = f"""{MOSTLY_HALTED_WHEN_TOLD}
from volsched.kube.serve import loop_lag
loop_lag.STUCK_SECONDS = 1.0
"""


@pytest.fixture
def forks() -> None:
    """Stopped processes are what these tests are about: they are started as users start them. Who follows is a fork."""


def holder(installed: Installed, lease: str) -> tuple[str, int]:
    spec = installed.api.get(lease)["spec"]
    return spec["holderIdentity"], spec["leaseTransitions"]


def block_the_loop(process: VolschedProcess) -> None:
    process.process.send_signal(signal.SIGALRM)
    eventually(lambda: any(each["seconds"] > 10 for each in process.said("the event loop stood still")))


def stalls_of(process: VolschedProcess, seconds: str) -> float:
    """How many stalls were longer than that; of one page, as the loop is looked at all the time."""
    name = "volsched_loop_stall_seconds"
    page = dict(line.rsplit(" ", 1) for line in process.page("/metrics")[1].splitlines())
    return float(page[f"{name}_count"]) - float(page[f'{name}_bucket{{le="{seconds}"}}'])


def test_a_scheduler_whose_loop_is_busy_for_longer_than_the_lease_lasts_keeps_it(
    installed: Installed,
    namespace: str,
    make_nodes: MakeNodes,
    monkeypatch: pytest.MonkeyPatch,
    fork_server: ForkServer | None,
) -> None:
    make_nodes(1, cpu="4")
    monkeypatch.setattr(SchedulerProcess, "prelude", BUSY_WHEN_TOLD)
    leader = installed.start("--plain-pods", "direct", *QUICK_LEASE).wait_leading()
    monkeypatch.setattr(SchedulerProcess, "prelude", "")
    installed.forks = fork_server
    follower = installed.start("--plain-pods", "direct")
    follower.wait_for("waiting for leadership")
    ready(follower)
    before = holder(installed, LEASE)

    block_the_loop(leader)

    assert holder(installed, LEASE) == before
    assert not follower.said("leading")
    assert leader.metric("volsched_leader") == 1
    assert stalls_of(leader, "10") == 1
    installed.make_pods(namespace, [installed.pod("after", cpu="1")])
    installed.wait_bound(namespace, 1)
    assert leader.terminate() == 0


def test_controllers_whose_loop_is_busy_for_longer_than_the_lease_lasts_keep_it(
    controlled: Controlled, namespace: str, monkeypatch: pytest.MonkeyPatch, fork_server: ForkServer | None
) -> None:
    monkeypatch.setattr(ControllersProcess, "prelude", MOSTLY_HALTED_WHEN_TOLD)
    leader = controlled.control(*QUICK_LEASE)
    leader.wait_for(AT_WORK)
    monkeypatch.setattr(ControllersProcess, "prelude", "")
    controlled.forks = fork_server
    follower = controlled.control()
    follower.wait_for("waiting for leadership")
    ready(follower)
    before = holder(controlled, CONTROLLERS_LEASE)

    block_the_loop(leader)

    assert holder(controlled, CONTROLLERS_LEASE) == before
    assert not follower.said("leading")
    controlled.make_pods(namespace, [controlled.pod("plain", cpu="1")])
    controlled.wait_groups(namespace, 1)
    assert leader.terminate() == 0


def test_a_program_that_is_stuck_does_not_keep_the_lease(
    installed: Installed, monkeypatch: pytest.MonkeyPatch, fork_server: ForkServer | None
) -> None:
    monkeypatch.setattr(SchedulerProcess, "prelude", SOON_STUCK)
    leader = installed.start("--plain-pods", "direct", *QUICK_LEASE).wait_leading()
    before = holder(installed, LEASE)
    leader.process.send_signal(signal.SIGALRM)
    monkeypatch.setattr(SchedulerProcess, "prelude", "")
    installed.forks = fork_server

    installed.start("--plain-pods", "direct").wait_leading()

    assert holder(installed, LEASE)[1] == before[1] + 1
    assert leader.wait() == 1
    assert leader.said("lost the lease: the event loop has stood still")


def test_a_leader_that_was_stopped_for_long_writes_nothing_when_it_goes_on(
    installed: Installed,
    namespace: str,
    make_nodes: MakeNodes,
    fault_proxy: FaultProxy,
    fork_server: ForkServer | None,
) -> None:
    """When it is stopped most of its bindings have passed the fence, and wait for the limit of requests."""
    make_nodes(10, cpu="32")
    slowly = ("--kube-api-qps", "10", "--kube-api-burst", "1")
    first = installed.start("--plain-pods", "direct", *QUICK_LEASE, *slowly, proxy=fault_proxy).wait_leading()
    installed.forks = fork_server
    second = installed.start("--plain-pods", "direct")
    ready(second)
    rule = fault_proxy.inject(Latency(0.3), method="POST", path="/binding$")
    installed.make_pods(namespace, [installed.pod(f"p{i}", cpu="1") for i in range(100)])
    eventually(lambda: fault_proxy.counts.count("create", "/pods/*/binding", status=201) > 5)

    first.process.send_signal(signal.SIGSTOP)
    second.wait_for("leading")
    installed.wait_bound(namespace, 100)
    rule.remove()
    eventually(lambda: fault_proxy.counts.count("create", "/pods/*/binding") == rule.hits, what="all is through")
    written = writes_of(fault_proxy)
    first.process.send_signal(signal.SIGCONT)

    assert first.wait() == 1
    assert first.said("lost the lease")
    time.sleep(1.0)  # no signal: the proxy may still read what was sent before the process ended
    assert writes_of(fault_proxy) == written


def stop_when_renewed(process: VolschedProcess, proxy: FaultProxy) -> None:
    """Stop a leader while no renewal is under way: the next one is due seconds after the last."""
    renewals = proxy.counts.count("update", "/leases/*", status=200)
    eventually(lambda: proxy.counts.count("update", "/leases/*", status=200) > renewals)
    process.process.send_signal(signal.SIGSTOP)


def renew_late(process: VolschedProcess, proxy: FaultProxy) -> None:
    """Have a stopped leader go on when it may write no more; its next renewal, which succeeds, takes long."""
    rule = proxy.inject(Latency(1.5), method="PUT", path="/leases/")
    time.sleep(4.5)  # no signal: the renew deadline passes
    process.process.send_signal(signal.SIGCONT)
    assert process.wait() == 1
    assert process.said("lost the lease: a write was refused, as it was not renewed within 4s")
    rule.remove()


def test_what_was_to_be_bound_when_the_lease_was_renewed_late_is_bound_by_the_next_leader(
    installed: Installed,
    namespace: str,
    make_nodes: MakeNodes,
    fault_proxy: FaultProxy,
    fork_server: ForkServer | None,
) -> None:
    make_nodes(4, cpu="32")
    flags = ("--plain-pods", "direct", *LATE_LEASE)
    first = installed.start(*flags, "--kube-api-qps", "4", "--kube-api-burst", "1", proxy=fault_proxy).wait_leading()
    installed.make_pods(namespace, [installed.pod(f"p{i}", cpu="1") for i in range(100)])
    eventually(lambda: fault_proxy.counts.count("create", "/pods/*/binding", status=201) > 5)

    stop_when_renewed(first, fault_proxy)
    renew_late(first, fault_proxy)

    installed.api.delete(LEASE)
    installed.forks = fork_server
    installed.start(*flags)
    installed.wait_bound(namespace, 100)


def test_what_was_to_be_made_when_the_lease_was_renewed_late_is_made_by_the_next_leader(
    controlled: Controlled, namespace: str, fault_proxy: FaultProxy, fork_server: ForkServer | None
) -> None:
    first = controlled.control(*LATE_LEASE, proxy=fault_proxy)
    first.wait_for(AT_WORK)
    stop_when_renewed(first, fault_proxy)
    controlled.make_pods(namespace, [controlled.pod("plain", cpu="1")])

    renew_late(first, fault_proxy)

    controlled.api.delete(CONTROLLERS_LEASE)
    controlled.forks = fork_server
    controlled.control(*LATE_LEASE)
    controlled.wait_groups(namespace, 1)


def writes_of(proxy: FaultProxy) -> Counter[str]:
    """Everything that was sent to be written, refused or not."""
    found: Counter[str] = Counter()
    for key, number in proxy.counts.all().items():
        if key.verb in WRITES:
            found[f"{key.verb} {key.shape}"] += number
    return found
