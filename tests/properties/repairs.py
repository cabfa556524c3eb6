"""Gangs lose pods, which are made again soon, late or never, while others of their queue and of another one come.

Pods may have a host port, or a device by a claim of their own, which goes with its pod.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from hypothesis import strategies as st

from actions.repair.rooms import ACCOUNT, LostRooms
from tests.actions.rigs import conf
from tests.framework.dra.worlds import claim, device, device_class, exactly, part
from tests.properties.lives import Property, Scenario
from volsched.model.changes import Change, Deleted
from volsched.model.cluster import Cluster
from volsched.model.dra.device import Claim
from volsched.model.plan import Bind, ClaimWrite, PlanStep
from volsched.model.values.resources import accumulate
from volsched.testing.builders import ClusterBuilder, a_cluster, a_group, a_pod, put

CPU = 8
REPAIRING = "\nconfigurations:\n- name: allocate\n  arguments: {repairTimeout: 4s}\n"
CONFIGURATIONS = {
    name: conf("enqueue, allocate, backfill", "priority gang", f"{plugins} predicates nodeorder") + REPAIRING
    for name, plugins in {"proportion": "proportion", "capacity": "capacity", "drf, capacity": "drf capacity"}.items()
}
"""Plugins that keep quotas."""

sizes = st.tuples(st.integers(1, 4), st.sampled_from([0, 1, 1, 2]), st.sampled_from(["", "port", "device", "device"]))
"""How many pods a gang has, how many cores each of them, and what else."""

happenings = st.fixed_dictionaries(
    {
        "lost": st.lists(st.integers(0, 20), max_size=2),
        "made": st.sampled_from([0, 0, 1, 3, 9]),
        "come": st.lists(st.tuples(sizes, st.booleans()), max_size=2),
    }
)
worlds = st.fixed_dictionaries(
    {
        "nodes": st.lists(st.integers(2, 4), min_size=2, max_size=5),
        "gangs": st.lists(sizes, min_size=1, max_size=3),
        "then": st.lists(happenings, min_size=4, max_size=8),
    }
)


class Losses(Scenario):
    """A queue of eight cores with gangs, all of one priority, and another queue without a quota."""

    def __init__(self, configuration: str, raw: Any) -> None:
        self.configuration, self.raw = configuration, raw
        self.sessions = 2 + len(raw["then"])
        self.pods: dict[str, dict[str, Any]] = {}
        self.claims: dict[str, dict[str, Any]] = {}
        self.kinds: dict[str, str] = {}
        self.bound: dict[str, str] = {}
        self.made: list[tuple[int, str]] = []
        self.number = 0
        self.coming: list[Change] = self._world().changes()
        for size in raw["gangs"]:
            self._come(size, "q")
        self.then = iter(raw["then"])
        self.session = 0

    def __repr__(self) -> str:
        return f"{self.configuration}\n{json.dumps(self.raw)}"

    def _world(self) -> ClusterBuilder:
        given = a_cluster().queue("q", capability={"cpu": str(CPU), "memory": "1Ti"}).queue("p")
        for number, cpu in enumerate(self.raw["nodes"]):
            name = f"n{number}"
            given.node(name, cpu=cpu, memory="64Gi")
            given.add(part(f"s-{name}", [device("d0")], node=name, pool=name))
        return given.add(device_class())

    def _come(self, size: tuple[int, int, str], queue: str) -> None:
        (count, cpu, kind), name = size, f"g{self.number}"
        self.number += 1
        self.coming.append(put(a_group(name, queue, count, "Pending", minResources={"cpu": str(count * cpu)})))
        for member in range(count):
            self._make(f"{name}-{member}", name, cpu, kind)

    def _make(self, name: str, group: str, cpu: int, kind: str) -> None:
        spec = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]} if kind == "device" else {}
        made = a_pod(name, group, cpu=cpu, created=f"2026-01-02T00:00:{len(self.pods) % 60:02}Z", spec=spec)
        if kind == "port":
            made["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]
        if kind == "device":
            made["status"] = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": f"{name}-gpu"}]}
            owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": made["metadata"]["uid"]}
            self.claims[name] = its = claim(f"{name}-gpu", exactly())
            its["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
            self.coming.append(put(its))
        self.pods[name], self.kinds[name] = made, kind
        self.coming.append(put(made))

    def changes(self) -> list[Change]:
        self.session += 1
        if self.session > 1:
            self._happen(next(self.then, {"lost": [], "made": 0, "come": []}))
        came, self.coming = self.coming, []
        return came

    def _happen(self, what: dict[str, Any]) -> None:
        for due, name in [each for each in self.made if each[0] <= self.session]:
            self.made.remove((due, name))
            lost = self.pods[name]
            cpu = lost["spec"]["containers"][0]["resources"]["requests"].get("cpu", "0")
            self._make(f"{name}x", name.split("-")[0], int(cpu), self.kinds[name])
        for place in what["lost"] if self.bound else ():
            name = sorted(self.bound)[place % len(self.bound)]
            del self.bound[name]
            self.coming.append(Deleted("Pod", "default", name, self.pods[name]["metadata"]["uid"]))
            if name in self.claims:
                self.coming.append(Deleted("ResourceClaim", "default", f"{name}-gpu", f"uid-{name}-gpu"))
            self.made.append((self.session + what["made"], name))
            if not self.bound:
                break
        for size, is_other in what["come"]:
            self._come(size, "p" if is_other else "q")

    def carry_out(self, reader: Any) -> None:
        for step in reader.steps[-1]:
            if isinstance(step, Bind):
                pod = self.pods[step.name]
                self.bound[step.name] = step.node
                spec, meta = {**pod["spec"], "nodeName": step.node}, {**pod["metadata"], "resourceVersion": "2"}
                status = {**pod.get("status", {}), "phase": "Running"}
                self.coming.append(put({**pod, "metadata": meta, "spec": spec, "status": status}))
                self.coming += (put(self._allocated(step.name, write)) for write in step.claims)

    def _allocated(self, name: str, write: ClaimWrite) -> dict[str, Any]:
        """Return the claim of a pod as it is with its devices."""
        consumer = {"resource": "pods", "name": name, "uid": self.pods[name]["metadata"]["uid"]}
        status = {"allocation": msgspec.to_builtins(write.allocation), "reservedFor": [consumer]}
        return {**self.claims[name], "status": status}


def losses(name: str) -> st.SearchStrategy[Losses]:
    return st.builds(Losses, st.just(CONFIGURATIONS[name]), worlds)


class KeepsRoom(Property):
    """No quota is exceeded, not even with what is kept, and no pod of a queue gets what is kept from it."""

    of_every_reader = True

    def after(self, steps: list[PlanStep]) -> None:
        rooms: LostRooms = self.reader.scheduler._accounts._kept[ACCOUNT]
        kept = [room for room in rooms.kept.values() if rooms.is_broken(room.job)]
        self.reader.seen["kept"] += bool(kept)
        self.reader.seen["refused"] += any("which lost a pod" in message for message in self.reader.waiting.values())
        held = dict(self.cluster.queues["q"].allocated)
        bound = {step.name: step.node for step in steps if isinstance(step, Bind)}
        assert held.get("cpu", 0) <= CPU * 1000
        for room in (room for room in kept if room.job.queue == "q"):
            accumulate(held, room.stand_in.template.request, 1)
        newcomers = [t for t in self.cluster.tasks.values() if t.name in bound and t.queue == "q"]
        if any(not rooms.is_broken(task.job) for task in newcomers if task.job is not None):
            assert held.get("cpu", 0) <= CPU * 1000
        for task in newcomers:
            others = [r for r in kept if r.node == bound[task.name] and r.job.queue == "q" and r.job is not task.job]
            assert not any(room.has_port_of(task) for room in others)
            lost = devices_of([each for room in others for each in room.claims], self.cluster)
            mine = (self.cluster.devices.claims.get(key) for _, key in task.claims_by_entry())
            assert lost.isdisjoint(devices_of([each for each in mine if each is not None], self.cluster))
            self.reader.seen["beside kept devices"] += bool(lost)
            if task.node is not None and others:
                left = [a - u for a, u in zip(task.node.allocatable, task.node.used, strict=True)]
                for column, amount in (each for room in others for each in room.stand_in.charge):
                    left[column] -= amount
                asked = self.cluster.columns.request(task.template)
                assert self._others_came(task.node.name, bound) or all(left[column] >= 0 for column, _ in asked)

    def _others_came(self, node: str, bound: Mapping[str, str]) -> bool:
        """Whether pods of another queue were placed on a node, too, which are not kept from it."""
        tasks = self.cluster.tasks.values()
        return any(bound.get(task.name) == node and task.queue == "p" for task in tasks)


def devices_of(claims: Iterable[Claim], cluster: Cluster) -> set[tuple[str, str]]:
    """Return the devices that claims have, each with its pool."""
    found = (each.allocation or cluster.devices.allocation_of(each) for each in claims)
    return {(result.pool, result.device) for each in found if each is not None for result in each.devices.results}
