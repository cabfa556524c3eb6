"""Cards that queues take back from each other on a real control plane: pods go, Events tell why, then it is quiet."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.scheduling import GROUPS, Installed, SchedulerProcess, eventually
from tests.cluster.signals import after_session
from tests.cluster.test_capacity_card import CONFIGURATION, Cluster, kind
from tests.plugins.capacity_card.clusters import GPU, A, some
from tools.controlplane import ControlPlane

pytest_plugins = ["tests.cluster.scheduling_fixtures"]

RECLAIM = CONFIGURATION.replace("allocate, backfill", "allocate, preempt, reclaim, backfill")


class Teams(Cluster):
    """Queues that say what they deserve, and PodGroups whose pods want one card each."""

    def team(self, name: str, quota: int, **said: int) -> str:
        full = f"{self.namespace}-{name}"
        notes = {f"volsched.io/card.{what}": json.dumps({A: count}) for what, count in said.items()}
        notes["volcano.sh/card.quota"] = json.dumps({A: quota})
        body = {"metadata": {"name": full, "annotations": notes}, "spec": {"weight": 1}, **kind("Queue")}
        self.api.create(f"{GROUPS}/queues", body)
        self.queues.append(full)
        return full

    def launch(self) -> SchedulerProcess:
        path = self.installed.folder / "reclaim.conf"
        path.write_text(RECLAIM)
        flags = ("--scheduler-conf", str(path), "--plain-pods", "direct")
        return self.installed.start(*flags).wait_leading()

    def submit(self, name: str, queue: str, count: int, minimum: int = 1) -> None:
        spec = {"minMember": minimum, "queue": queue}
        path = f"{GROUPS}/namespaces/{self.namespace}/podgroups"
        self.api.create(path, {"metadata": {"name": name}, "spec": spec, **kind("PodGroup")})
        pods = [self.installed.pod(f"{name}-{n}", group=name, **some({GPU: 1})) for n in range(count)]
        for pod in pods:
            pod["metadata"]["annotations"]["volcano.sh/card.name"] = A
        self.installed.make_pods(self.namespace, pods)

    def running(self) -> dict[str, int]:
        """Running pods of each piece of work; those that are being deleted left out."""
        found: dict[str, int] = {}
        for name, pod in self.installed.pods(self.namespace).items():
            if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]:
                job = name.partition("-")[0]
                found[job] = found.get(job, 0) + 1
        return found

    def wait_running(self, **expected: int) -> None:
        eventually(lambda: self.running() == expected, what=f"{expected} run, and not {self.running()}")

    def told(self, reason: str) -> list[str]:
        return [event["message"] for event in self.installed.events(self.namespace) if event["reason"] == reason]


@pytest.fixture
def teams(installed: Installed, namespace: str, control_plane: ControlPlane) -> Iterator[Teams]:
    found = Teams(installed, namespace)
    yield found
    control_plane.delete_nodes(found.nodes)
    for name in found.queues:
        control_plane.api.delete(f"{GROUPS}/queues/{name}")


def start_with_all_taken(teams: Teams, minimum: int, **said: Any) -> SchedulerProcess:
    """Four cards, all of which the queue `borrows` holds."""
    teams.node("a1", A, **some({GPU: 2}))
    teams.node("a2", A, **some({GPU: 2}))
    borrows = teams.team("borrows", 4, **said)
    scheduler = teams.launch()
    teams.submit("work", borrows, 4, minimum)
    teams.wait_running(work=4)
    return scheduler


def test_a_queue_below_what_it_deserves_gets_its_cards_back_from_one_above(teams: Teams) -> None:
    scheduler = start_with_all_taken(teams, 1, deserved=1)
    owns = teams.team("owns", 4, deserved=2)

    teams.submit("ours", owns, 3)

    teams.wait_running(work=2, ours=2)
    eventually(lambda: len(teams.told("Preempted")) == 2, what="both victims are told")
    said = f'(queue "{owns}", priority 0) needs the room of this pod'
    assert all(said in message for message in teams.told("Preempted"))
    eventually(lambda: any(said in message for message in teams.told("Evict")), what="their PodGroup is told")
    after_session(teams.installed)
    assert teams.running() == {"work": 2, "ours": 2}
    assert (len(teams.told("Preempted")), scheduler.metric("volsched_evictions_sent_total")) == (2, 2)
    deserved = f'volcano_queue_card_deserved{{card="{A}",queue_name="{owns}"}}'
    beyond = f'volsched_queue_card_reclaimable{{card="{A}",queue_name="{teams.queues[0]}"}}'
    eventually(lambda: scheduler.metric(beyond) == 1, what=scheduler.page("/metrics")[1])
    assert scheduler.metric(deserved) == 2


def test_a_gang_goes_as_a_whole_on_all_its_nodes(teams: Teams) -> None:
    start_with_all_taken(teams, 4)
    owns = teams.team("owns", 4, guarantee=1)

    teams.submit("ours", owns, 1)

    teams.wait_running(ours=1)
    words = "without which its gang is below its minimum"
    eventually(lambda: sum(words in said for said in teams.told("Preempted")) == 3, what="the rest of the gang is told")


def test_nobody_is_evicted_for_a_queue_that_does_not_say_what_it_deserves(teams: Teams) -> None:
    scheduler = start_with_all_taken(teams, 1, deserved=1)

    teams.submit("others", teams.team("silent", 4), 2)

    eventually(
        lambda: any("Insufficient nvidia.com/gpu" in said for said in teams.told("FailedScheduling")), what="told"
    )
    after_session(teams.installed)
    assert teams.running() == {"work": 4}
    assert (teams.told("Preempted"), scheduler.metric("volsched_evictions_sent_total")) == ([], 0)
