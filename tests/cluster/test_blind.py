"""Who hears nothing of a kind any more is not ready: it must not be the one that an upgrade relies on."""

from __future__ import annotations

import pytest

from tests.cluster.controlling import AT_WORK, Controlled, ControllersProcess
from tests.cluster.scheduling import SchedulerProcess, VolschedProcess, eventually
from tests.cluster.signals import ready
from tools.controlplane.faults import BlackHole, FaultProxy, StallWatch

pytest_plugins = ["tests.cluster.scheduling_fixtures", "tests.cluster.controlling_fixtures"]

QUICK = """
from volsched.kube.watch import informer
informer.BLIND_SECONDS, informer.WATCH_SECONDS = 15.0, (3, 3)
"""
"""Watches end after three seconds, so that one that is well is heard from all the time."""

PODS = "^/api/v1/pods$"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for process in (SchedulerProcess, ControllersProcess):
        monkeypatch.setattr(process, "prelude", QUICK)


def follower(controlled: Controlled, kind: str, proxy: FaultProxy, *flags: str) -> VolschedProcess:
    """A process that does not lead, as another one does."""
    if kind == "scheduler":
        controlled.start().wait_leading()
        process: VolschedProcess = controlled.start(*flags, proxy=proxy)
    else:
        controlled.control().wait_for(AT_WORK)
        process = controlled.control(*flags, proxy=proxy)
    ready(process)
    return process


@pytest.mark.parametrize("kind", ["scheduler", "controllers"])
def test_a_follower_that_cannot_watch_is_not_ready_until_it_can(
    controlled: Controlled, fault_proxy: FaultProxy, kind: str
) -> None:
    process = follower(controlled, kind, fault_proxy, "--watch-silence", "5s")

    with fault_proxy.inject(BlackHole(), path=PODS):
        eventually(lambda: process.page("/readyz") == (503, "nothing heard for 15s: pods\n"))
        assert process.page("/livez")[0] == 200

    eventually(lambda: process.page("/readyz")[0] == 200)


def test_a_follower_whose_watch_is_open_and_says_nothing_is_not_ready(
    controlled: Controlled, fault_proxy: FaultProxy
) -> None:
    process = follower(controlled, "scheduler", fault_proxy)

    fault_proxy.inject(StallWatch(), path=PODS)

    eventually(lambda: process.page("/readyz") == (503, "nothing heard for 15s: pods\n"))
