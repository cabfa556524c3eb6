"""An admitted PodGroup whose pods do not come holds its queue's room for a while, and not for ever."""

from __future__ import annotations

from typing import Final

from volsched.framework.accounts.admissions import PAUSE_SECONDS, Admissions
from volsched.framework.boundary import Bounds
from volsched.mirror.apply import Mirror
from volsched.model.changes import Deleted
from volsched.model.plan import RecordEvent, StepRecorder, WriteGroupStatus
from volsched.registry import load_profile
from volsched.scheduler import Scheduler
from volsched.testing.builders import ClusterBuilder, CycleDecision, Rig, SteadyClock, a_cluster

TIMEOUT: Final = 600.0
CONFIGURATION: Final = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: predicates
  - name: capacity
"""
WITHOUT_ENQUEUE: Final = CONFIGURATION.replace("enqueue, ", "")
WHOLE: Final = {"minResources": {"cpu": "8"}}
"""All that the queue may have."""


def a_world() -> ClusterBuilder:
    """A queue of 8 cores, and a PodGroup without pods that wants all of them."""
    cluster = a_cluster().node("n1", cpu=16, memory="64Gi").queue("team", capability={"cpu": "8"})
    return cluster.group("squats", "team", 2, "Pending", created="2026-01-01T00:00:01Z", **WHOLE)


def rig_of(cluster: ClusterBuilder, text: str = CONFIGURATION, timeout: float = TIMEOUT) -> Rig:
    mirror = Mirror()
    mirror.apply(cluster.changes())
    recorder, clock = StepRecorder(), SteadyClock()
    bounds = Bounds(admissions=Admissions(timeout))
    return Rig(mirror, Scheduler(mirror, load_profile(text)[0], recorder, clock, bounds=bounds), recorder, clock)


def later(rig: Rig, seconds: float) -> CycleDecision:
    rig.clock.time += seconds
    return rig.cycle()


def phases(rig: Rig) -> dict[str, str]:
    return {job.name: job.phase for job in rig.cluster.jobs.values()}


def uid_of(rig: Rig, pod: str) -> str:
    [uid] = [task.uid for task in rig.cluster.tasks.values() if task.name == pod]
    return uid


def add(rig: Rig, cluster: ClusterBuilder) -> None:
    rig.mirror.apply(cluster.changes())


def a_job(name: str, created: str) -> ClusterBuilder:
    cluster = ClusterBuilder([]).group(name, "team", 2, "Pending", created=created, **WHOLE)
    for number in range(2):
        cluster.pod(f"{name}-{number}", name, cpu=4)
    return cluster


def test_what_is_kept_for_pods_that_do_not_come_is_given_back() -> None:
    rig = rig_of(a_world())
    rig.cycle()
    add(rig, a_job("works", "2026-01-01T00:00:02Z"))
    rig.cycle()
    assert phases(rig) == {"squats": "Inqueue", "works": "Pending"}

    assert later(rig, TIMEOUT - 1).bindings == {}
    decision = later(rig, 1)

    assert phases(rig)["squats"] == "Pending"
    assert decision.bindings.keys() == {"works-0", "works-1"}
    [event] = [step for step in rig.recorder.steps if isinstance(step, RecordEvent) and step.name == "squats"]
    assert (event.reason, event.type) == ("AdmissionExpired", "Warning")
    assert "has 0 of the 2 pods that it starts with after 600s" in event.message
    written = [step for step in rig.recorder.steps if isinstance(step, WriteGroupStatus) and step.name == "squats"]
    assert [step.phase for step in written] == ["Pending"]


def test_the_next_admission_comes_after_a_pause_and_behind_all_others_of_the_queue() -> None:
    rig = rig_of(a_world())
    rig.cycle()
    later(rig, TIMEOUT)
    assert later(rig, PAUSE_SECONDS - 1).bindings == {}
    assert phases(rig)["squats"] == "Pending"

    add(rig, a_job("works", "2026-01-01T00:01:39Z"))  # younger, and served first
    assert later(rig, 1).bindings.keys() == {"works-0", "works-1"}
    assert phases(rig)["squats"] == "Pending"

    rig.mirror.apply(
        [Deleted("Pod", "default", f"works-{number}", uid_of(rig, f"works-{number}")) for number in range(2)]
    )
    rig.mirror.apply([Deleted("PodGroup", "default", "works", "")])
    rig.cycle()
    assert phases(rig)["squats"] == "Inqueue"


def test_one_whose_pods_have_come_stays_admitted() -> None:
    rig = rig_of(a_world())
    rig.cycle()
    gate = {"schedulingGates": [{"name": "example.com/wait"}]}
    add(rig, ClusterBuilder([]).pod("squats-0", "squats", cpu=1, spec=gate).pod("squats-1", "squats", cpu=1, spec=gate))
    later(rig, TIMEOUT)
    later(rig, TIMEOUT)
    assert phases(rig)["squats"] == "Inqueue"


def test_the_time_begins_anew_when_a_pod_goes_and_not_when_one_comes() -> None:
    rig = rig_of(a_world())
    rig.cycle()
    gate = {"schedulingGates": [{"name": "example.com/wait"}]}
    add(rig, ClusterBuilder([]).pod("squats-0", "squats", cpu=1, spec=gate))
    later(rig, 400)
    rig.mirror.apply([Deleted("Pod", "default", "squats-0", uid_of(rig, "squats-0"))])
    later(rig, 0)
    later(rig, 500)
    assert phases(rig)["squats"] == "Inqueue"
    add(rig, ClusterBuilder([]).pod("squats-1", "squats", cpu=1, spec=gate))
    later(rig, 100)
    assert phases(rig)["squats"] == "Pending"


def test_the_scheduler_wakes_when_the_time_is_over() -> None:
    rig = rig_of(a_world())
    rig.cycle()
    assert rig.scheduler.wake_at() == rig.clock.time + TIMEOUT
    later(rig, TIMEOUT)
    assert rig.scheduler.wake_at() == rig.clock.time + PAUSE_SECONDS


def test_without_the_enqueue_action_it_is_the_same() -> None:
    rig = rig_of(a_world(), WITHOUT_ENQUEUE)
    rig.cycle()
    assert phases(rig)["squats"] == "Inqueue"
    later(rig, TIMEOUT)
    assert phases(rig)["squats"] == "Pending"
    later(rig, PAUSE_SECONDS)
    assert phases(rig)["squats"] == "Inqueue"


def test_nothing_is_remembered_of_groups_that_have_gone() -> None:
    admissions = Admissions(TIMEOUT)
    rig = rig_of(a_world())
    rig.scheduler._bounds = Bounds(admissions=admissions)
    rig.cycle()
    assert len(admissions) == 1
    later(rig, TIMEOUT)
    rig.mirror.apply([Deleted("PodGroup", "default", "squats", "")])
    later(rig, 1)
    assert len(admissions) == 0


def test_without_a_timeout_it_is_kept_for_ever() -> None:
    rig = rig_of(a_world(), timeout=float("inf"))
    rig.cycle()
    later(rig, 1e9)
    assert phases(rig)["squats"] == "Inqueue"
