"""Gangs of both kinds in random clusters: whole or not at all, and every engine decides the same."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from tests.properties.lives import Property, Reader, Scenario
from volsched.framework.config.loading import DEFAULT_CONFIGURATION, IN_KUBE_SCHEDULERS_PLACE
from volsched.model.changes import Change, Deleted
from volsched.model.job import JobInfo
from volsched.model.plan import Bind, Evict, PlanStep
from volsched.model.status import IS_READY
from volsched.testing.builders import ClusterBuilder, a_cluster, a_group, a_member, a_native_group, a_pod
from volsched.testing.builders import put as shown

WITHOUT_GANG = """
actions: "allocate, preempt"
tiers:
- plugins: [{name: priority}, {name: predicates}, {name: nodeorder}]
"""
CONFIGURATIONS = {
    "default": DEFAULT_CONFIGURATION,
    "in kube-scheduler's place": IN_KUBE_SCHEDULERS_PLACE,
    "without gang": WITHOUT_GANG,
}
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


class Arrivals(Scenario):
    """Gangs that come at once, or one after the other; bound pods run and victims leave."""

    def __init__(self, configuration: str, cluster: ClusterBuilder, gangs: list[Manifests], at_once: bool) -> None:
        self.configuration = configuration
        self.cluster, self.gangs, self.at_once = cluster, gangs, at_once
        self.pods = {manifest["metadata"]["name"]: manifest for gang in gangs for manifest in gang[1:]}
        self.groups = [[manifest for gang in gangs for manifest in gang]] if at_once else gangs
        self.sessions = 1 + len(self.groups)
        self.arriving = iter(self.groups)
        self.coming: list[Change] = cluster.changes()

    def __repr__(self) -> str:
        objects = [*self.cluster.objects, *(manifest for gang in self.gangs for manifest in gang)]
        listed = "\n".join(json.dumps(item) for item in objects)
        return f"{self.configuration}\n{'at once' if self.at_once else 'one by one'}\n{listed}"

    def changes(self) -> list[Change]:
        came, self.coming = self.coming, []
        return [*came, *map(shown, next(self.arriving, []))]

    def carry_out(self, reader: Reader) -> None:
        for step in reader.steps[-1]:
            if isinstance(step, Bind):
                pod = self.pods[step.name]
                spec = {**pod["spec"], "nodeName": step.node}
                self.coming.append(shown({**pod, "spec": spec, "status": {"phase": "Running"}}))
            if isinstance(step, Evict):
                self.coming.append(Deleted("Pod", step.namespace, step.name, step.uid))


def arrivals(name: str) -> st.SearchStrategy[Arrivals]:
    return st.builds(Arrivals, st.just(CONFIGURATIONS[name]), clusters(), gangs(), st.booleans())


class WholeGangs(Property):
    """Native gangs start whole or not at all, each in one domain of its topology."""

    of_every_reader = True

    def __init__(self, scenario: Any, reader: Reader) -> None:
        super().__init__(scenario, reader)
        self.broken: set[str] = set()

    def after(self, steps: list[PlanStep]) -> None:
        """Where pods of a gang are evicted one by one, what is left may be less than the minimum."""
        evicted = {step.uid for step in steps if isinstance(step, Evict)}
        self.broken |= {task.spec.scheduling_group for uid, task in self.cluster.tasks.items() if uid in evicted}
        for job in self.cluster.native_jobs.values():
            assert is_whole(job) or job.group_name in self.broken, job
            if job.spec.native is not None and job.spec.native.topology_key:
                assert len(domains(job)) < 2
                assert "" not in domains(job)


def is_whole(job: JobInfo) -> bool:
    """Whether a native gang that has not started before has its minimum of members with room, or none has any."""
    placed = sum(1 for task in job.tasks.values() if IS_READY[task.status])
    return placed == 0 or placed >= job.spec.min_available


def domains(job: JobInfo) -> set[str]:
    return {task.node.spec.labels.get("rack", "") for task in job.tasks.values() if task.node is not None}
