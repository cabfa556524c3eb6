"""The leader goes while one pod a second arrives: nothing is lost, and how long a pod waits is said."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime

import pytest

from tests.realnode.cluster import SYSTEM, Cluster, Json, ProcessOf, a_pod, eventually

SCHEDULER = "volsched-scheduler"
GRACEFUL_SECONDS = 3.0
"""A leader that is told to end gives the Lease back."""
LEASE_SECONDS = 22.0
"""One that cannot is followed when its Lease is over, 15 s, and the next look at it."""


@contextmanager
def arriving(cluster: Cluster, namespace: str) -> Iterator[list[str]]:
    """Have one pod a second come within a ``with`` block; yields the names so far."""
    names: list[str] = []
    is_over = threading.Event()

    def come() -> None:
        while not is_over.wait(1.0):
            name = f"arrival-{len(names)}"
            cluster.apply(a_pod(name, cpu="1m"), namespace=namespace)
            names.append(name)

    thread = threading.Thread(target=come)
    thread.start()
    try:
        yield names
    finally:
        is_over.set()
        thread.join()


def longest_wait(pods: list[Json]) -> float:
    """Seconds from a pod's creation to its binding; both are said in whole seconds."""
    waits = []
    for pod in pods:
        bound = next(c for c in pod["status"]["conditions"] if c["type"] == "PodScheduled")["lastTransitionTime"]
        made = pod["metadata"]["creationTimestamp"]
        waits.append((datetime.fromisoformat(bound) - datetime.fromisoformat(made)).total_seconds())
    return max(waits)


def delete(cluster: Cluster, leader: Json) -> None:
    cluster.kubectl("delete", "pod", leader["metadata"]["name"], "-n", SYSTEM, "--wait=false")


def restart(cluster: Cluster, leader: Json) -> None:
    cluster.kubectl("rollout", "restart", "deployment", SCHEDULER, "-n", SYSTEM)


def kill(cluster: Cluster, leader: Json) -> None:
    ProcessOf(leader).signal(signal.SIGKILL)


def stop(cluster: Cluster, leader: Json) -> None:
    """The liveness probe has it killed some time."""
    ProcessOf(leader).signal(signal.SIGSTOP)


@pytest.mark.parametrize(
    ("strike", "bar"),
    [(delete, GRACEFUL_SECONDS), (restart, GRACEFUL_SECONDS), (kill, LEASE_SECONDS), (stop, LEASE_SECONDS)],
    ids=lambda given: getattr(given, "__name__", ""),
)
def test_no_pod_is_lost_when_the_leader_goes(
    installed: Cluster,
    namespace: str,
    strike: Callable[[Cluster, Json], None],
    bar: float,
    figure: Callable[[str, float], None],
) -> None:
    eventually(lambda: is_whole(installed))
    before, leader = installed.holder(SCHEDULER), installed.leader(SCHEDULER)
    with arriving(installed, namespace) as names:
        eventually(lambda: len(names) > 5)
        strike(installed, leader)
        eventually(lambda: installed.holder(SCHEDULER) not in ("", before))
        seen = len(names)
        eventually(lambda: len(names) > seen + 5)

    def bound() -> list[Json]:
        return [pod for pod in installed.list("pods", namespace) if pod["spec"].get("nodeName")]

    eventually(lambda: len(bound()) == len(names))
    longest = longest_wait(bound())
    figure(f"longest wait for a binding, {strike.__name__}, seconds", longest)
    assert longest <= bar + 1.0  # times are in whole seconds
    eventually(lambda: is_whole(installed))


def is_whole(cluster: Cluster) -> bool:
    """Whether both replicas are ready."""
    replicas = cluster.replicas(SCHEDULER)
    ready = [all(s["ready"] for s in pod["status"].get("containerStatuses", [{"ready": False}])) for pod in replicas]
    return ready == [True, True]
