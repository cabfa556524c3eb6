"""A process that is told to end does so within the time that its Deployment gives it, whatever hangs."""

from __future__ import annotations

import signal
from typing import Any

import pytest
import yaml

from tests.cluster.control_plane import MakeNodes
from tests.cluster.scheduling import MANIFESTS, Installed, SchedulerProcess, eventually
from tools.controlplane.faults import BlackHole, FaultProxy
from volsched.run.process import END_SECONDS

pytest_plugins = ["tests.cluster.scheduling_fixtures"]

SLOW_WHEN_TOLD = """
import signal, time
from volsched.run import loop
told = []
signal.signal(signal.SIGALRM, lambda *_: told.append(1))
run = loop.SchedulingThread._run_session
def session(self, scheduler):
    run(self, scheduler)
    if told:
        print('{"event": "a long session"}', flush=True)
        time.sleep(100)
loop.SchedulingThread._run_session = session
"""


def grace(component: str) -> float:
    """How long the kubelet waits before it kills."""
    found: Any = yaml.safe_load((MANIFESTS / "base" / component / "deployment.yaml").read_text())
    return float(found["spec"]["template"]["spec"]["terminationGracePeriodSeconds"])


@pytest.mark.parametrize("component", ["scheduler", "controllers"])
def test_the_deployments_give_more_time_than_is_taken(component: str) -> None:
    assert grace(component) >= END_SECONDS + 5


def test_a_leader_in_which_everything_hangs_ends_before_it_is_killed(
    installed: Installed,
    namespace: str,
    make_nodes: MakeNodes,
    fault_proxy: FaultProxy,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A session, bindings, conditions, Events and the Lease: together their limits are more than there is time."""
    make_nodes(2, cpu="32")
    monkeypatch.setattr(SchedulerProcess, "prelude", SLOW_WHEN_TOLD)
    leader = installed.start("--plain-pods", "direct", proxy=fault_proxy).wait_leading()
    hanging = [fault_proxy.inject(BlackHole(), method=method, path="/pods/") for method in ("POST", "PATCH")]
    installed.make_pods(namespace, [installed.pod(f"p{number}", cpu="1") for number in range(40)])
    installed.make_pods(namespace, [installed.pod(f"large-{number}", cpu="100") for number in range(20)])
    eventually(lambda: all(rule.hits for rule in hanging))
    leader.process.send_signal(signal.SIGALRM)
    installed.make_pods(namespace, [installed.pod("last", cpu="1")])
    leader.wait_for("a long session")
    for method in ("POST", "PUT"):
        fault_proxy.inject(BlackHole(), method=method, path="/(events|leases)")

    leader.process.terminate()

    assert leader.process.wait(grace("scheduler")) == 0
