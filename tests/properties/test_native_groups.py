"""Gangs of both kinds in random clusters: whole or not at all, and every engine decides the same."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volsched.framework.config.loading import DEFAULT_CONFIGURATION, IN_KUBE_SCHEDULERS_PLACE
from volsched.framework.engine.engine import Engine, FastEngine
from volsched.model.changes import Change, Gone
from volsched.model.cluster import Cluster
from volsched.model.job import JobInfo
from volsched.model.status import IS_READY
from volsched.testing.builders import ClusterBuilder, Rig, a_cluster, a_group, a_member, a_native_group, a_pod, a_rig
from volsched.testing.builders import put as shown
from volsched.testing.checked import CheckedEngine
from volsched.testing.naive import NaiveEngine
from volsched.testing.recount import faults, leftovers

WITHOUT_GANG = """
actions: "allocate, preempt"
tiers:
- plugins: [{name: priority}, {name: predicates}, {name: nodeorder}]
"""
CONFIGURATIONS = (DEFAULT_CONFIGURATION, IN_KUBE_SCHEDULERS_PLACE, WITHOUT_GANG)
RACK = {"schedulingConstraints": {"topology": [{"key": "rack"}]}}
Manifests = list[dict[str, Any]]


@st.composite
def clusters(draw: st.DrawFn) -> ClusterBuilder:
    """Some nodes in some racks, some of them full, and two queues, one of them with a limit."""
    cluster = a_cluster().queue("default").queue("small", capability={"cpu": "3"})
    for number in range(draw(st.integers(1, 6))):
        labels = {"rack": draw(st.sampled_from(["a", "b", "c"]))} if draw(st.integers(0, 4)) else {}
        cluster.node(f"n{number}", cpu=draw(st.integers(1, 4)), labels=labels)
        if draw(st.booleans()):
            cluster.pod(f"there-{number}", on=f"n{number}", cpu=1, spec={"priority": draw(st.integers(0, 2))})
    return cluster


@st.composite
def gangs(draw: st.DrawFn) -> list[Manifests]:
    """Gangs of either kind, each with its pods, of which the last may be missing."""
    found: list[Manifests] = []
    for number in range(draw(st.integers(1, 5))):
        name, size, cpu = f"g{number}", draw(st.integers(1, 5)), draw(st.sampled_from([0, 1, 1, 2]))
        minimum, priority = draw(st.integers(1, size)), draw(st.integers(0, 3))
        queue = draw(st.sampled_from(["default", "default", "small"]))
        spec = {"priority": priority}
        if draw(st.integers(0, 3)) == 0:
            pods = [a_pod(f"{name}-{n}", name, cpu=cpu, spec=spec) for n in range(size)]
            found.append([a_group(name, queue, minimum), *pods])
            continue
        wanted = {**(RACK if draw(st.booleans()) else {}), "priority": priority}
        wanted["disruptionMode"] = draw(st.sampled_from(["Pod", "PodGroup"]))
        note = {"scheduling.volcano.sh/queue-name": queue}
        group = a_native_group(name, draw(st.sampled_from([minimum, None])), annotations=note, **wanted)
        pods = [a_member(f"{name}-{n}", name, cpu=cpu, spec=spec) for n in range(size - draw(st.integers(0, 1)))]
        found.append([group, *pods])
    return found


def of_all(gangs: list[Manifests]) -> list[Change]:
    return [shown(manifest) for gang in gangs for manifest in gang]


def is_whole(job: JobInfo) -> bool:
    """Whether a native gang that has not started before has its minimum of members with room, or none has any."""
    placed = sum(1 for task in job.tasks.values() if IS_READY[task.status])
    return placed == 0 or placed >= job.min_available


def domains(job: JobInfo) -> set[str]:
    return {task.node.spec.labels.get("rack", "") for task in job.tasks.values() if task.node is not None}


def check(rig: Rig, broken: Collection[str] = ()) -> None:
    assert faults(rig.cluster) == []
    assert leftovers(rig.cluster) == []
    for job in rig.cluster.native_jobs.values():
        assert is_whole(job) or job.group_name in broken, job
        if job.native is not None and job.native.topology_key:
            assert len(domains(job)) < 2
            assert "" not in domains(job)


def lived(
    cluster: ClusterBuilder, gangs: list[Manifests], configuration: str, engine: Callable[[Cluster], Engine]
) -> list[Any]:
    """What a scheduler decides of gangs that come one after the other, where bound pods run and victims leave."""
    rig, found = a_rig(cluster, configuration, engine), []
    broken: set[str] = set()
    pods = {manifest["metadata"]["name"]: manifest for gang in gangs for manifest in gang[1:]}
    for changes in [*map(of_all, ([gang] for gang in gangs)), []]:
        decision = rig.cycle(*changes)
        broken |= groups_of(rig, decision.evictions)
        check(rig, broken)
        found.append((decision.bindings, sorted(decision.evictions), decision.waiting))
        rig.mirror.apply([_runs(pods[name], node) for name, node in decision.bindings.items()])
        rig.mirror.apply([_gone(rig, name) for name in decision.evictions])
    return found


def groups_of(rig: Rig, evictions: list[str]) -> set[str]:
    """Native groups of which some pods go: where these go one by one, what is left may be less than the minimum."""
    return {task.scheduling_group for task in rig.cluster.tasks.values() if task.name in evictions}


def _runs(pod: dict[str, Any], node: str) -> Change:
    return shown({**pod, "spec": {**pod["spec"], "nodeName": node}, "status": {"phase": "Running"}})


def _gone(rig: Rig, name: str) -> Gone:
    task = next(task for task in rig.cluster.tasks.values() if task.name == name)
    return Gone("Pod", task.namespace, task.name, task.uid)


@pytest.mark.slow(reason="random clusters")
@given(clusters(), gangs(), st.sampled_from(CONFIGURATIONS))
def test_gangs_of_both_kinds_start_whole_or_not_at_all(
    cluster: ClusterBuilder, gangs: list[Manifests], configuration: str
) -> None:
    rig = a_rig(cluster, configuration)
    rig.cycle(*of_all(gangs))
    check(rig)


@pytest.mark.slow(reason="random clusters in three engines")
@given(clusters(), gangs(), st.sampled_from(CONFIGURATIONS))
def test_all_engines_decide_the_same(cluster: ClusterBuilder, gangs: list[Manifests], configuration: str) -> None:
    fast = lived(cluster, gangs, configuration, FastEngine)

    assert lived(cluster, gangs, configuration, NaiveEngine) == fast
    assert lived(cluster, gangs, configuration, CheckedEngine) == fast
