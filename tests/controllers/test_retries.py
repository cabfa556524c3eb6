"""What counts as a retry of a Volcano Job: that something happened, and not how long it can be seen."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.controllers.cases import NOW, Cluster, Json, a_member, a_task, metadata
from volsched.controllers.counted import (
    KEY,
    MOST_RESTARTS,
    MOST_SESSIONS,
    NOTHING,
    Cause,
    Counted,
    Restart,
    counted_in,
)
from volsched.controllers.job_controller import reconcile
from volsched.controllers.objects import ManagedPodGroup
from volsched.controllers.pod_index import JobPodIndex
from volsched.controllers.writes import Create, Delete, Patch
from volsched.model import api
from volsched.model.changes import Deleted
from volsched.model.plan import EVICTED
from volsched.operator.reading import job_view

UIDS = itertools.count()


def merged(before: Any, patch: Any) -> Any:
    """JSON merge patch (RFC 7386), as the API server has it."""
    if not isinstance(patch, dict):
        return patch
    result = dict(before) if isinstance(before, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


class World:
    """A Job, its PodGroup and its pods as the API server has them, and controllers that look at them.

    Pods run at once and, once they are to go, take as long as the test says.
    """

    def __init__(self, *tasks: Json, pod_phase: str = "Running", **spec: Any) -> None:
        self.pod_phase = pod_phase
        self.job: Json = {"metadata": metadata("train"), "spec": {"tasks": list(tasks), **spec}, "status": {}}
        self.group: Json | None = None
        self.pods: dict[str, Json] = {}
        self.versions = itertools.count(10**6)
        self.told: list[str] = []
        self.leader = self.replica()
        self.settle()

    def replica(self, now: float = NOW) -> Cluster:
        """Controllers that have just started, or that follow from now on."""
        made = Cluster()
        made.now = now
        self._show_job(made)
        self._show_group(made)
        for pod in self.pods.values():
            made.put(api.decode_as(api.Pod, pod))
        return made

    def settle(self, leader: Cluster | None = None, *followers: Cluster) -> None:
        """Look until nothing is left to write, as another leader from now on if there is one."""
        self.leader = leader or self.leader
        self.followers = followers
        for _ in range(50):
            if not self.look():
                return
        raise AssertionError("the controllers never come to an end")

    def look(self, refused: tuple[type, ...] = ()) -> bool:
        """Look once; whether anything was written. Writes of some kinds, and all after them, may be refused."""
        store = self.leader.store
        view = store.jobs["ns/train"]
        outcome = reconcile(view, store.around(view), self.leader.now)
        self.told += [event.message for event in outcome.events if event.reason == "ExecuteAction"]
        view.obeyed = outcome.command
        for write in outcome.writes:
            if isinstance(write, refused):
                break
            self._write(write)
        return bool(outcome.writes)

    def _write(self, write: Create | Patch | Delete) -> None:
        if isinstance(write, Patch) and write.kind.name == "Job":
            wanted = write.body["metadata"].get("resourceVersion", self.job["metadata"]["resourceVersion"])
            assert wanted == self.job["metadata"]["resourceVersion"]
            self.job = merged(self.job, {"status": write.body["status"]})
            self.job["metadata"]["resourceVersion"] = self.version()
            self._show(self._show_job)
        elif isinstance(write, Patch) and write.kind.name == "PodGroup":
            self.group = merged(self.group, {"spec": write.body["spec"]})
            self._show(self._show_group)
        elif isinstance(write, Create) and write.kind.name == "PodGroup":
            body = merged(write.body, {"metadata": {"uid": f"uid-group-{next(UIDS)}"}, "status": {"phase": "Inqueue"}})
            body["metadata"]["ownerReferences"] = [dict(owner) for owner in body["metadata"]["ownerReferences"]]
            self.group = body
            self._show(self._show_group)
        elif isinstance(write, Create) and write.kind.name == "Pod":
            self._made(write)
        elif isinstance(write, Delete) and write.kind.name == "Pod":
            [pod] = [pod for pod in self.pods.values() if pod["metadata"]["uid"] == write.uid]
            self._kill(write.uid)
            if pod["status"]["phase"] in ("Succeeded", "Failed"):
                self.gone(write.name)
            else:
                self.delete(write.name)
        elif isinstance(write, Delete) and write.kind.name == "PodGroup" and self.group is not None:
            gone = Deleted("PodGroup", "ns", write.name, write.uid)
            self.group = None
            self._show(lambda replica: replica.store.gone(gone))

    def _made(self, write: Create) -> None:
        assert write.name not in self.pods
        meta = {"uid": f"uid-{write.name}-{next(UIDS)}"}
        self.pods[write.name] = merged(write.body, {"metadata": meta, "status": {"phase": self.pod_phase}})
        self.change(write.name)

    def _kill(self, uid: str) -> None:
        pod_index = self.leader.store.pod_index_of(uid)
        assert pod_index is not None
        pod_index.kill(uid)
        pod_index.asked(uid)

    # -- what happens to pods -------------------------------------------------------------------------------------

    def change(self, name: str, **status: Any) -> None:
        pod = self.pods[name] = merged(self.pods[name], {"status": status})
        pod["metadata"]["resourceVersion"] = self.version()
        self._show(lambda replica: replica.put(api.decode_as(api.Pod, pod)))

    def delete(self, name: str, session: str = "", at: str = "2026-01-01T00:00:00Z") -> None:
        """Begin to delete a pod, as volsched evicts it where it names a session."""
        if session:
            self.change(name, conditions=[{"type": EVICTED, "status": "True", "message": session}])
        self.pods[name]["metadata"]["deletionTimestamp"] = at
        self.change(name)

    def gone(self, name: str) -> None:
        meta = self.pods.pop(name)["metadata"]
        self._show(lambda replica: replica.store.gone(Deleted("Pod", "ns", name, meta["uid"])))

    def patch_job(self, patch: Json) -> None:
        self.job = merged(self.job, patch)
        self.job["metadata"]["resourceVersion"] = self.version()
        self._show(self._show_job)

    # -- what is seen ---------------------------------------------------------------------------------------------

    def version(self) -> str:
        return str(next(self.versions))

    def _show(self, show: Any) -> None:
        for replica in (self.leader, *self.followers):
            show(replica)

    followers: tuple[Cluster, ...] = ()

    def _show_job(self, replica: Cluster) -> None:
        replica.store.put_job("ns/train", job_view(self.job, ("volsched",), "default"))

    def _show_group(self, replica: Cluster) -> None:
        if self.group is not None:
            replica.put(api.decode_as(ManagedPodGroup, {**self.group, "status": {**self.group["status"]}}))

    @property
    def status(self) -> Json:
        return dict(self.job["status"])

    @property
    def phase(self) -> str:
        return str(self.status["state"]["phase"])

    @property
    def retries(self) -> int:
        return int(self.status["retryCount"])

    def going(self) -> list[str]:
        return sorted(name for name, pod in self.pods.items() if "deletionTimestamp" in pod["metadata"])

    def uids(self) -> dict[str, str]:
        return {name: pod["metadata"]["uid"] for name, pod in self.pods.items()}


def a_world(action: str, event: str = "PodEvicted", pods: int = 4, **spec: Any) -> World:
    """Two tasks, the first one divided into parts of two pods."""
    parts = {"totalPartitions": pods // 2, "partitionSize": 2}
    worker = a_task("worker", pods, partitionPolicy=parts, policies=[{"event": event, "action": action}])
    return World(worker, a_task("ps", 1), minAvailable=1, **spec)


TARGETED = ["RestartPod", "RestartTask", "RestartPartition"]
GOES_TOO = {
    "RestartPod": ["train-worker-0"],
    "RestartPartition": ["train-worker-0", "train-worker-1"],
    "RestartTask": [f"train-worker-{number}" for number in range(4)],
}


@pytest.mark.parametrize("action", TARGETED)
def test_one_eviction_is_one_retry_however_long_the_pod_terminates(action: str) -> None:
    world = a_world(action)
    before = world.uids()

    world.delete("train-worker-0")
    for _ in range(5):
        world.settle()

    assert (world.retries, world.phase) == (1, "Running")
    assert world.going() == GOES_TOO[action]
    for name in world.going():
        world.gone(name)
    world.settle()
    assert (world.retries, world.phase) == (1, "Running")
    changed = sorted(name for name, uid in world.uids().items() if before[name] != uid)
    assert changed == GOES_TOO[action]


@pytest.mark.parametrize("action", TARGETED)
def test_controllers_that_start_while_the_pods_terminate_count_nothing_again(action: str) -> None:
    world = a_world(action)
    world.delete("train-worker-0")
    world.settle()

    for _ in range(3):
        world.settle(world.replica())

    assert (world.retries, world.phase) == (1, "Running")
    for name in world.going():
        world.gone(name)
        world.settle(world.replica())
    assert (world.retries, world.phase, len(world.pods)) == (1, "Running", 5)


@pytest.mark.parametrize("action", TARGETED)
@pytest.mark.parametrize("phase", ["Running", "Pending"])
def test_a_replica_that_saw_the_pods_go_counts_nothing_again_when_it_leads(action: str, phase: str) -> None:
    world = a_world(action, pod_phase=phase)
    follower = world.replica()
    world.settle(None, follower)
    world.delete("train-worker-0")
    world.settle(None, follower)
    for name in world.going():
        world.gone(name)
    world.settle(None, follower)
    assert world.retries == 1

    world.settle(follower)

    assert (world.retries, world.phase) == (1, phase)
    assert world.going() == []


def test_what_the_leader_counted_and_did_not_come_to_delete_the_next_one_deletes_and_does_not_count() -> None:
    world = a_world("RestartTask", event="PodFailed")
    world.change("train-worker-2", phase="Failed")

    world.look(refused=(Delete,))
    assert (world.retries, world.going()) == (1, [])

    world.settle(world.replica())
    assert (world.retries, world.phase) == (1, "Running")
    assert world.going() == ["train-worker-0", "train-worker-1", "train-worker-3"]


@pytest.mark.parametrize("action", TARGETED)
def test_two_evictions_one_after_the_other_are_two_retries_and_the_third_is_one_too_many(action: str) -> None:
    world = a_world(action)
    for number, phase in ((1, "Running"), (2, "Running"), (3, "Failed")):
        world.delete("train-worker-0")
        world.settle()
        for name in world.going():
            world.gone(name)
        world.settle()
        assert (world.retries, world.phase) == (number, phase)


def test_two_pods_that_are_evicted_at_a_time_are_two_retries_whether_they_are_seen_going_or_gone() -> None:
    for is_seen in (True, False):
        world = a_world("RestartPod")
        for name in ("train-worker-0", "train-worker-3"):
            world.delete(name)
        if is_seen:
            world.settle()
        for name in ("train-worker-0", "train-worker-3"):
            world.gone(name)
        world.settle()

        assert (world.retries, world.phase, len(world.pods)) == (2, "Running", 5)


def test_a_pod_that_ends_while_it_is_evicted_was_evicted_and_one_that_had_ended_was_not() -> None:
    world = a_world("RestartPod", pods=2)
    world.delete("train-worker-0")
    world.change("train-worker-0", phase="Failed")
    world.settle()
    assert world.retries == 1

    world.delete("train-worker-1")
    world.change("train-worker-1", phase="Failed")
    world.gone("train-worker-1")
    world.settle()
    assert world.retries == 2

    world.change("train-ps-0", phase="Succeeded")
    world.patch_job({"spec": {"policies": [{"event": "PodEvicted", "action": "AbortJob"}]}})
    world.delete("train-ps-0")
    world.gone("train-ps-0")
    world.settle()
    assert world.phase == "Running"


# --- sessions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("action", TARGETED)
def test_pods_that_one_session_evicts_are_one_retry(action: str) -> None:
    world = a_world(action)
    for number, name in enumerate(("train-worker-0", "train-worker-2", "train-worker-3")):
        world.delete(name, "of nine")
        world.settle(world.replica() if number == 1 else None)
    world.gone("train-worker-0")
    world.settle(world.replica())
    world.delete("train-worker-1", "of nine") if "train-worker-1" not in world.going() else None
    world.settle()

    assert (world.retries, world.phase) == (1, "Running")
    for name in world.going():
        world.gone(name)
    world.settle()
    assert (world.retries, world.phase, len(world.pods)) == (1, "Running", 5)

    world.delete("train-worker-2", "of ten")
    world.settle()
    assert world.retries == 2


def test_a_session_that_evicts_more_pods_than_there_are_retries_fails_no_job() -> None:
    world = a_world("RestartPod", pods=8)
    for number in range(7):
        world.delete(f"train-worker-{number}", "of nine")
    for number in range(7):
        world.gone(f"train-worker-{number}")
    world.settle()

    assert (world.retries, world.phase, len(world.pods)) == (1, "Running", 9)
    assert world.told == ["RestartPod because of PodEvicted of pod train-worker-0"]


def test_a_session_that_evicts_from_two_tasks_is_one_retry_and_restarts_both() -> None:
    policies = [{"event": "PodEvicted", "action": "RestartTask"}]
    world = World(a_task("a", 2), a_task("b", 2), minAvailable=1, policies=policies)
    world.delete("train-a-0", "of nine")
    world.delete("train-b-1", "of nine")
    world.settle()

    assert (world.retries, world.phase) == (1, "Running")
    assert world.going() == ["train-a-0", "train-a-1", "train-b-0", "train-b-1"]


def test_pods_that_one_session_evicts_restart_a_job_once() -> None:
    world = a_world("RestartJob")
    world.delete("train-worker-0", "of nine")
    world.settle()
    world.delete("train-worker-1", "of nine") if "train-worker-1" not in world.going() else None
    for name in world.going():
        world.gone(name)
        world.settle(world.replica())

    assert (world.retries, world.phase, len(world.pods)) == (1, "Running", 5)


# --- other events and actions ---------------------------------------------------------------------------------------


EVENTS: dict[str, Json] = {
    "PodFailed": {"phase": "Failed"},
    "PodPending": {"phase": "Pending"},
    "TaskFailed": {"containerStatuses": [{"name": "main", "restartCount": 4}]},
}


@pytest.mark.parametrize("action", [*TARGETED, "RestartJob"])
@pytest.mark.parametrize("event", ["PodEvicted", "TaskCompleted", *EVENTS])
def test_every_event_is_one_retry(event: str, action: str) -> None:
    world = a_world(action, event=event, pods=2)
    if event == "PodEvicted":
        world.delete("train-worker-1")
    elif event == "TaskCompleted":
        world.change("train-worker-0", phase="Succeeded")
        world.change("train-worker-1", phase="Succeeded")
    else:
        world.change("train-worker-1", **EVENTS[event])
    world.look(refused=(Delete,))
    for _ in range(3):
        world.settle(world.replica())
    for name in world.going():
        world.gone(name)
        world.settle(world.replica())

    assert (world.retries, world.phase, len(world.pods)) == (1, "Running", 3)
    assert len(world.told) == 1


@pytest.mark.parametrize(
    ("action", "phase"), [("AbortJob", "Aborted"), ("TerminateJob", "Terminated"), ("CompleteJob", "Completed")]
)
def test_an_action_that_ends_a_job_is_carried_out_once_and_counts_no_retry(action: str, phase: str) -> None:
    world = a_world(action)
    world.delete("train-worker-0")
    world.settle()
    for name in list(world.going()):
        world.gone(name)
        world.settle(world.replica())

    assert (world.retries, world.phase, world.pods, len(world.told)) == (0, phase, {}, 1)


def test_an_unknown_podgroup_restarts_a_job_once_even_while_it_is_still_seen() -> None:
    world = World(a_task("w", 1), policies=[{"event": "Unknown", "action": "RestartJob"}])
    assert world.group is not None
    old = world.group = merged(world.group, {"status": {"phase": "Unknown"}})
    world._show(world._show_group)
    world.look(refused=(Delete,))
    world.gone("train-w-0")
    for _ in range(3):
        world.look(refused=(Delete,))
        world.group = old
        world.leader = world.replica()

    assert world.retries == 1


def test_an_unknown_podgroup_names_no_task_so_there_is_nothing_that_these_could_restart() -> None:
    for action in TARGETED:
        world = World(a_task("w", 1), policies=[{"event": "Unknown", "action": action}])
        world.group = merged(world.group, {"status": {"phase": "Unknown"}})
        world._show(world._show_group)
        world.settle()

        assert (world.retries, world.going(), world.told) == (0, [], [])


def test_a_podgroup_may_be_unknown_for_as_long_as_the_policy_waits() -> None:
    world = World(a_task("w", 1), policies=[{"event": "Unknown", "action": "AbortJob", "timeout": "10m"}])
    world.group = merged(world.group, {"status": {"phase": "Unknown"}})
    world._show(world._show_group)
    world.leader.now += 599
    world.settle()
    assert world.told == []

    world.leader.now += 1
    world.settle()
    assert world.told == ["AbortJob because of Unknown"]


def test_the_timeout_of_an_eviction_begins_with_it_and_not_with_the_pod() -> None:
    world = World(a_task("w", 1), policies=[{"event": "PodEvicted", "action": "AbortJob", "timeout": "10m"}])
    world.leader.now += 3600
    world.delete("train-w-0")
    world.settle()
    world.leader.now += 300
    world.change("train-w-0", phase="Failed")
    world.gone("train-w-0")
    world.pod_phase = "Pending"
    world.settle()
    assert world.told == []

    world.leader.now += 300
    world.settle()
    assert world.told == ["AbortJob because of PodEvicted of pod train-w-0"]


def stamp(after: float) -> str:
    """Return the time so many seconds after `NOW`, as objects have it."""
    return datetime.fromtimestamp(NOW + after, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def ended(*after: float, code: int = 0) -> Json:
    states = [{"terminated": {"exitCode": code, "startedAt": stamp(-900), "finishedAt": stamp(a)}} for a in after]
    return {"containerStatuses": [{"name": f"c{number}", "state": state} for number, state in enumerate(states)]}


RAN = {"terminated": {"exitCode": 1, "startedAt": stamp(0), "finishedAt": stamp(200)}}
AGAIN = {"name": "main", "restartCount": 1, "state": {"running": {"startedAt": stamp(205)}}, "lastState": RAN}
STARTED = {"name": "main", "state": {"running": {"startedAt": stamp(0)}}}
DISRUPTED = {"type": "DisruptionTarget", "status": "True", "lastTransitionTime": stamp(0)}
STATED: list[tuple[Json, Json]] = [
    ({"event": "PodFailed"}, {"phase": "Failed", **ended(-200, 0, code=1)}),
    ({"exitCode": 3}, {"phase": "Failed", **ended(0, code=3)}),
    ({"event": "PodFailed"}, {"phase": "Failed", "reason": "OutOfcpu", "startTime": stamp(0)}),
    ({"event": "PodFailed"}, {"phase": "Failed", "containerStatuses": [STARTED, AGAIN], "conditions": [DISRUPTED]}),
    ({"event": "TaskCompleted"}, {"phase": "Succeeded", **ended(-200, 0)}),
    ({"event": "PodRunning"}, {"phase": "Running", "containerStatuses": [STARTED]}),
    ({"event": "PodRunning"}, {"phase": "Running", "containerStatuses": [AGAIN]}),
]


@pytest.mark.parametrize(("about", "status"), STATED)
def test_a_timeout_goes_on_when_the_controllers_start_anew(about: Json, status: Json) -> None:
    policy = {**about, "action": "AbortJob", "timeout": "10m"}
    world = World(a_task("w", 1), a_task("goes-on"), policies=[policy], pod_phase="Pending")
    world.change("train-w-0", **status)

    assert told_at(world, 300) == []
    assert told_at(world, 599) == []
    [told] = told_at(world, 600)
    assert told.startswith("AbortJob because of ")


def told_at(world: World, after: float) -> list[str]:
    """Return what controllers have done that start so many seconds later."""
    world.settle(world.replica(NOW + after))
    return world.told


@pytest.mark.parametrize("grace", [0, 30])
def test_the_timeout_of_an_eviction_goes_on_from_its_deletion(grace: int) -> None:
    world = World(a_task("w", 1), policies=[{"event": "PodEvicted", "action": "AbortJob", "timeout": "10m"}])
    world.pods["train-w-0"]["metadata"]["deletionGracePeriodSeconds"] = grace
    world.delete("train-w-0", at=stamp(grace))

    assert told_at(world, 599) == []
    assert told_at(world, 600) == ["AbortJob because of PodEvicted of pod train-w-0"]


def test_the_timeout_of_an_unknown_podgroup_goes_on_from_its_condition() -> None:
    world = World(a_task("w", 1), policies=[{"event": "Unknown", "action": "AbortJob", "timeout": "10m"}])
    condition = {"type": "Unschedulable", "status": "True", "reason": "x", "lastTransitionTime": stamp(0)}
    world.group = merged(world.group, {"status": {"phase": "Unknown", "conditions": [condition]}})

    assert told_at(world, 599) == []
    assert told_at(world, 600) == ["AbortJob because of Unknown"]


@pytest.mark.parametrize("off", [-500.0, 500.0])
def test_what_controllers_have_seen_goes_before_clocks_of_nodes(off: float) -> None:
    policy = {"event": "PodFailed", "action": "AbortJob", "timeout": "10m"}
    world = World(a_task("w", 1), a_task("goes-on"), policies=[policy], pod_phase="Pending")
    world.change("train-w-0", phase="Failed", **ended(off))
    world.leader.now += 599
    world.settle()
    assert world.told == []

    world.leader.now += 1
    world.settle()
    assert world.told == ["AbortJob because of PodFailed of pod train-w-0"]


def test_a_time_that_is_yet_to_come_is_now() -> None:
    policy = {"event": "PodFailed", "action": "AbortJob", "timeout": "10m"}
    world = World(a_task("w", 1), a_task("goes-on"), policies=[policy], pod_phase="Pending")
    world.change("train-w-0", phase="Failed", **ended(3600))
    world.settle(world.replica())
    world.leader.now += 600
    world.settle()

    assert world.told == ["AbortJob because of PodFailed of pod train-w-0"]


def test_a_pod_that_was_made_again_before_its_policy_is_due_is_not_restarted_for_the_one_before() -> None:
    world = World(
        a_task("w", 1), policies=[{"event": "PodEvicted", "action": "RestartPod", "timeout": "10m"}], minAvailable=0
    )
    world.pod_phase = "Pending"
    world.delete("train-w-0")
    world.gone("train-w-0")
    world.settle()
    world.leader.now += 700
    world.settle()

    assert (world.retries, world.going()) == (0, [])


@pytest.mark.parametrize("is_follower", [False, True])
def test_a_pod_that_a_job_was_scaled_down_by_was_not_evicted_when_it_is_scaled_up_again(is_follower: bool) -> None:
    world = World(a_task("w", 2), minAvailable=1, policies=[{"event": "PodEvicted", "action": "RestartJob"}])
    follower = world.replica()
    world.settle(None, follower)
    one, two = ({"spec": {"tasks": [{**world.job["spec"]["tasks"][0], "replicas": n}]}} for n in (1, 2))
    world.patch_job(one)
    world.settle(None, follower)
    assert world.going() == ["train-w-1"]

    world.patch_job(two)
    world.settle(follower if is_follower else None, follower)
    world.gone("train-w-1")
    world.settle()
    assert (world.retries, len(world.pods)) == (0, 2)

    world.patch_job(one)
    world.settle(world.leader, follower)
    world.gone("train-w-1")
    world.patch_job(two)
    world.settle(follower if is_follower else None, follower)
    assert (world.retries, len(world.pods)) == (0, 2)

    world.patch_job(one)
    world.gone("train-w-1")
    world.patch_job(two)
    world.settle()
    assert (world.retries, len(world.pods)) == (0, 2)


def test_a_policy_that_asks_for_what_policies_do_not_do_stands_in_no_others_way() -> None:
    resume = a_task("a", 1, policies=[{"event": "PodFailed", "action": "ResumeJob"}])
    world = World(resume, a_task("b", 1, policies=[{"event": "PodFailed", "action": "AbortJob"}]), minAvailable=1)
    world.change("train-a-0", phase="Failed")
    world.change("train-b-0", phase="Failed")
    world.settle()

    assert world.told == ["AbortJob because of PodFailed of pod train-b-0"]


@pytest.mark.parametrize(("event", "ended"), [("PodFailed", "Failed"), ("TaskCompleted", "Succeeded")])
def test_a_job_whose_pods_have_ended_is_not_over_while_they_are_restarted(event: str, ended: str) -> None:
    world = World(a_task("w", 1), policies=[{"event": event, "action": "RestartTask"}])
    world.change("train-w-0", phase=ended)
    for _ in range(3):
        world.look(refused=(Delete,))
    assert (world.retries, world.phase) == (1, "Running")

    world.settle()
    assert (world.retries, world.phase, len(world.pods)) == (1, "Running", 1)


def test_what_is_counted_is_written_into_the_version_by_which_it_was_decided_and_other_figures_into_any() -> None:
    world = World(a_task("w", 2), policies=[{"event": "PodEvicted", "action": "RestartPod"}], minAvailable=1)

    def versions() -> list[str]:
        store = world.leader.store
        view = store.jobs["ns/train"]
        writes = reconcile(view, store.around(view), world.leader.now).writes
        return [write.body["metadata"].get("resourceVersion", "") for write in writes if isinstance(write, Patch)]

    world.change("train-w-0", phase="Pending")
    assert versions() == [""]
    world.delete("train-w-0")
    assert versions() == [world.job["metadata"]["resourceVersion"]]


# --- commands -------------------------------------------------------------------------------------------------------


def test_a_command_is_carried_out_once_although_deletions_were_refused() -> None:
    world = World(a_task("w", 1))
    world.leader.store.jobs["ns/train"].command = "RestartJob"
    world.look(refused=(Delete,))
    assert (world.retries, world.phase) == (1, "Restarting")

    world.settle()
    world.gone("train-w-0")
    world.settle()

    assert (world.retries, world.phase, list(world.pods)) == (1, "Running", ["train-w-0"])


def test_a_command_that_comes_while_another_one_is_carried_out_is_not_forgotten() -> None:
    world = World(a_task("w", 1))
    view = world.leader.store.jobs["ns/train"]
    view.command = view.obeyed = "RestartJob"
    view.command = "AbortJob"
    world.patch_job({"status": {"version": 1}})
    assert world.leader.store.jobs["ns/train"].command == "AbortJob"


# --- what is remembered ---------------------------------------------------------------------------------------------


def test_what_others_keep_beside_it_stays_and_nonsense_is_nothing() -> None:
    world = a_world("RestartPod", pods=2)
    world.patch_job({"status": {"controlledResources": {"plugin-svc": "svc", KEY: "nonsense"}}})
    world.delete("train-worker-0")
    world.settle()

    resources = world.status["controlledResources"]
    assert resources["plugin-svc"] == "svc"
    assert counted_in(resources) == Counted(restarts=(Restart("worker", 0, 0, 1),))
    assert all(counted_in(odd) == NOTHING for odd in (None, 7, {}, {KEY: 7}, {KEY: "[]"}, {KEY: '{"restarts":[[1]]}'}))


def test_restarts_that_are_over_are_forgotten_and_others_are_not() -> None:
    there = [a_member("w", number, terminating=True) for number in range(100)]
    pod_index, counted = JobPodIndex.of("train", there), NOTHING
    for number in range(600):
        counted = counted.with_restart(Restart("w", number, number, number + 1), pod_index)

    firsts = [restart.first for restart in counted.restarts]
    assert firsts == [*range(1, 100), *range(583, 600)] or firsts == [*range(100), *range(583, 600)]
    assert len(counted.restarts) <= MOST_RESTARTS
    whole = counted.with_restart(Restart("w", 0, None, 700), pod_index)
    assert whole.restarts == (Restart("w", 0, None, 700),)
    assert whole.with_restart(Restart("v", 0, 0, 701), pod_index).restarts[0] == Restart("w", 0, None, 700)


def test_no_more_is_remembered_than_there_is_room_for() -> None:
    many = range(MOST_RESTARTS + 100)
    pod_index, counted = JobPodIndex.of("train", [a_member("w", number, terminating=True) for number in many]), NOTHING
    for number in many:
        counted = counted.with_restart(Restart("w", number, number, 1), pod_index)
        going = [a_member("w", other, session=f"session {other}") for other in many]
        counted = counted.with_cause(Cause(session=f"session {number}"), going)

    assert (len(counted.restarts), len(counted.sessions)) == (MOST_RESTARTS, MOST_SESSIONS)
    assert counted.sessions[-1] == f"session {many[-1]}"
    assert counted.restarts[-1].first == many[-1]
    assert len(counted.text()) < 50_000
    assert counted_in({KEY: counted.text()}) == counted


def test_of_more_than_is_ever_written_the_latest_counts() -> None:
    many = Counted(tuple(Restart("w", n, n, 1) for n in range(2000)), tuple(map(str, range(2000))))

    found = counted_in({KEY: many.text()})

    assert found == Counted(many.restarts[-MOST_RESTARTS:], many.sessions[-MOST_SESSIONS:])


def test_sessions_are_remembered_for_as_long_as_their_pods_are_there() -> None:
    world = a_world("RestartPod", pods=80, maxRetry=100)
    for number in range(40):
        for place in (number, 79 - number):
            world.delete(f"train-worker-{place}", f"number {number}")
        world.settle()
    assert (world.retries, len(world.going())) == (40, 80)

    for name in world.going():
        world.gone(name)
    world.settle(world.replica())
    assert (world.retries, len(world.pods)) == (40, 81)
    world.delete("train-worker-0", "another one")
    world.settle()
    assert len(counted_in(world.status["controlledResources"]).sessions) == 17


@pytest.mark.parametrize("forged", ["0", "999"])
def test_a_pod_that_is_annotated_with_another_retry_is_what_it_was(forged: str) -> None:
    world = a_world("RestartPod", pods=2)
    world.delete("train-worker-0")
    world.gone("train-worker-0")
    world.settle()
    before = world.uids()

    world.pods["train-worker-0"]["metadata"]["annotations"]["volcano.sh/job-retry-count"] = forged
    world.change("train-worker-0")
    world.settle()
    assert (world.retries, world.uids(), world.going()) == (1, before, [])

    world.delete("train-worker-0")
    world.settle()
    assert (world.retries, world.phase) == (2, "Running")


def test_no_retries_are_the_usual_number_as_in_volcano() -> None:
    world = a_world("RestartPod", pods=2, maxRetry=0)
    for number, phase in ((1, "Running"), (2, "Running"), (3, "Failed")):
        world.delete("train-worker-0")
        world.gone("train-worker-0")
        world.settle()
        assert (world.retries, world.phase) == (number, phase)
