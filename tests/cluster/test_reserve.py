"""A gang that needs both nodes starts under a stream of small jobs, as promised, although the leader is killed."""

from __future__ import annotations

from datetime import datetime
from itertools import count
from typing import Any

import pytest

from tests.cluster.control_plane import MakeNodes
from tests.cluster.scheduling import GROUPS, QUICK_LEASE, Installed, eventually
from tests.cluster.signals import ready
from tools.controlplane.stages import RUN_FOR
from volsched.model.held_nodes import EXPECTED_DURATION, RESERVED, StatedReservation, stated_reservation_in

pytest_plugins = ["tests.cluster.scheduling_fixtures"]

CARD = "nvidia.com/gpu"
PER_NODE = 2
CONFIGURATION = """
actions: "enqueue, reserve, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: predicates
configurations:
- name: reserve
  arguments:
    reserve.after: 3s
"""


class Stream:
    """Pods of one card that run for a few seconds; more wait at any moment than all cards can take."""

    def __init__(self, installed: Installed, namespace: str, declared: str) -> None:
        self._installed = installed
        self._namespace = namespace
        self._declared = declared
        self._numbers = count()

    def keep_up(self) -> None:
        """Have as many pods wait as there are cards, and remove those that are over."""
        pods = [pod for name, pod in self._installed.pods(self._namespace).items() if name.startswith("small-")]
        waiting = [pod for pod in pods if "nodeName" not in pod["spec"]]
        for pod in pods:
            if pod["status"].get("phase") == "Succeeded":
                self._installed.api.delete(f"/api/v1/namespaces/{self._namespace}/pods/{pod['metadata']['name']}")
        missing = max(0, 2 * PER_NODE - len(waiting))
        self._installed.make_pods(self._namespace, [self._pod(f"small-{next(self._numbers)}") for _ in range(missing)])

    def _pod(self, name: str) -> dict[str, Any]:
        pod = self._installed.pod(name, **{CARD: 1})
        pod["metadata"]["annotations"] |= {RUN_FOR: "4s", EXPECTED_DURATION: self._declared}
        return pod


@pytest.fixture
def stream(installed: Installed, namespace: str) -> Stream:
    return Stream(installed, namespace, declared="40s")


def promise_to(installed: Installed, namespace: str, name: str) -> StatedReservation | None:
    """What the PodGroup says that it was promised."""
    status = installed.group(namespace, name).get("status", {})
    found = [c for c in status.get("conditions", ()) if c["type"] == RESERVED and c["status"] == "True"]
    return stated_reservation_in(found[0]["message"]) if found else None


def placed(installed: Installed, namespace: str, name: str) -> dict[str, str]:
    """The members of a gang that have a node, with it."""
    pods = installed.pods(namespace).items()
    return {
        key: pod["spec"]["nodeName"] for key, pod in pods if key.startswith(f"{name}-") and "nodeName" in pod["spec"]
    }


def started(installed: Installed, namespace: str, pod: str) -> str:
    """When a pod was bound."""
    return str(installed.condition(namespace, pod)["lastTransitionTime"])


def test_a_gang_starts_under_a_stream_of_small_jobs_as_promised_though_the_leader_is_killed(
    installed: Installed, namespace: str, make_nodes: MakeNodes, stream: Stream
) -> None:
    nodes = make_nodes(2, **{CARD: PER_NODE})
    conf = installed.folder / "reserve.conf"
    conf.write_text(CONFIGURATION)
    flags = ("--scheduler-conf", str(conf), "--plain-pods", "direct", *QUICK_LEASE)
    leader = installed.start(*flags).wait_leading()
    for name in ("first", "second"):
        other = installed.start(*flags)
        ready(other)
        stream.keep_up()
        eventually(lambda: _busy(installed, namespace) == 2 * PER_NODE)
        installed.make_gang(namespace, name, 2, **{CARD: PER_NODE})
        told: list[StatedReservation] = []

        def is_promised(name: str = name, told: list[StatedReservation] = told) -> bool:
            stream.keep_up()
            promise = promise_to(installed, namespace, name)
            if promise is not None:
                told.append(promise)
            return promise is not None

        eventually(is_promised)
        leader.kill()
        other.wait_for("caught up with the leader before")

        def has_started(name: str = name) -> bool:
            stream.keep_up()
            return len(placed(installed, namespace, name)) == 2

        eventually(has_started)
        leader = other
        promise = told[0]
        assert set(promise.nodes) == set(nodes) == set(placed(installed, namespace, name).values())
        assert promise.start is not None
        assert all(_bound_at(installed, namespace, f"{name}-{i}") <= promise.start for i in range(2))
        eventually(lambda other=other: other.metric('volsched_reservations{queue_name="default"}') == 0)
        eventually(lambda name=name: promise_to(installed, namespace, name) is None)
        _remove(installed, namespace, name)


def _busy(installed: Installed, namespace: str) -> int:
    pods = installed.pods(namespace).values()
    return sum("nodeName" in pod["spec"] and pod["status"].get("phase") == "Running" for pod in pods)


def _bound_at(installed: Installed, namespace: str, pod: str) -> float:
    return datetime.fromisoformat(started(installed, namespace, pod)).timestamp()


def _remove(installed: Installed, namespace: str, name: str) -> None:
    for number in range(2):
        installed.api.delete(f"/api/v1/namespaces/{namespace}/pods/{name}-{number}")
    installed.api.delete(f"{GROUPS}/namespaces/{namespace}/podgroups/{name}")
