"""Random clusters, configurations and what happens between cycles: stories that many schedulers can live through.

A story is decided by dice alone. The world does what an API server and its controllers would: bound pods run, evicted
pods leave, statuses that were written come back.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import msgspec
from hypothesis import strategies as st

from tests.framework.dra.worlds import claim, device, device_class, exactly, part
from tests.properties.lives import Reader, Scenario
from volsched.model import api
from volsched.model.changes import BindFailed, Change, Deleted, Put
from volsched.model.dra import api as dra
from volsched.model.plan import Bind, Evict, LiftGate, ReleaseClaim, WriteGroupStatus, WritePodCondition
from volsched.model.pods.task import ADMISSION_GATE, UNGATED
from volsched.simulation import claims
from volsched.testing.builders import put

Manifest = dict[str, Any]
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
GROUP, ROLE = "scheduling.k8s.io/group-name", "volcano.sh/task-spec"
VOLCANO = "scheduling.volcano.sh/v1beta1"
CLAIMING = "claiming"
"""In the spec of a pod that has no name yet: it will have a claim for one device, of its own and named as it is."""

# -- configurations ---------------------------------------------------------------------------------------------------

ACTIONS = (
    "allocate",
    "allocate, backfill",
    "enqueue, allocate, backfill",
    "enqueue, allocate",
    "backfill, allocate",
)
EVICTING = ("enqueue, allocate, preempt, reclaim, backfill", "allocate, preempt, backfill")
PLUGINS = ("priority", "gang", "conformance", "overcommit", "predicates", "nodeorder", "binpack")
FAIR = ("drf", "proportion")
QUOTAS = ("capacity-dra",)
WEIGHTS = ("leastrequested", "mostrequested", "nodeaffinity", "podaffinity", "balancedresource", "tainttoleration",
           "imagelocality", "podtopologyspread")  # fmt: skip


def a_configuration(dice: Random, evicting: bool = False) -> str:
    """Some plugins in some order, in one to three tiers, with some arguments and switches."""
    lines = [f'actions: "{dice.choice(EVICTING if evicting else ACTIONS)}"', "tiers:"]
    known = PLUGINS + QUOTAS + FAIR if dice.choice((False, True)) else PLUGINS
    plugins = dice.sample(known, len(known))
    kept = plugins if dice.randint(0, 2) else plugins[: dice.randint(1, len(plugins))]
    for number, name in enumerate(kept):
        if number == 0 or dice.randint(0, 3) == 0:
            lines.append("- plugins:")
        lines.append(f"  - name: {name}")
        if name == "nodeorder":
            weights = (f"{key}.weight: {dice.choice([0, 1, 3])}" for key in WEIGHTS)
            lines.append(f"    arguments: {{{', '.join(weights)}}}")
        if name == "binpack":
            lines.append(f"    arguments: {{binpack.weight: {dice.choice([0, 1, 10])}}}")
        if name == "gang" and dice.randint(0, 5) == 0:
            lines.append("    enablePreemptable: false")
    return "\n".join(lines)


# -- worlds -----------------------------------------------------------------------------------------------------------

FEATURES = (
    "zones",
    "taints",
    "ports",
    "near",
    "spread",
    "roles",
    "cards",
    "images",
    "idle",
    "gates",
    "others",
    "classes",
    "devices",
)
THEMES = (
    frozenset({"zones", "near"}),
    frozenset({"zones", "spread"}),
    frozenset({"zones", "near", "spread", "others"}),
    frozenset({"roles", "idle", "classes"}),
    frozenset({"ports", "cards", "taints"}),
    frozenset({"classes", "cards", "idle"}),
    frozenset({"devices", "idle", "roles"}),
    frozenset({"devices", "idle", "classes"}),
)
ZONES = ("a", "b")
APPS = ("x", "y")


def stamp(second: int) -> str:
    return f"2026-01-01T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}Z"


@dataclass
class Draws:
    """What a world is drawn with: the features that may occur in it, and how many things it has by now."""

    dice: Random
    features: frozenset[str]
    names: dict[str, int] = field(default_factory=dict)

    def may(self, feature: str, one_in: int = 2) -> bool:
        return feature in self.features and self.dice.randint(1, one_in) == 1

    def next(self, what: str) -> int:
        self.names[what] = self.names.get(what, -1) + 1
        return self.names[what]

    def node(self, name: str | None = None) -> Manifest:
        dice = self.dice
        name = name or f"n{self.next('node')}"
        labels = {HOST: name}
        if "zones" in self.features:
            labels[ZONE] = dice.choice(ZONES)
        amounts = {"cpu": str(dice.randint(0, 6)), "memory": f"{dice.randint(1, 8)}Gi"}
        amounts["pods"] = str(dice.choice([2, 5, 110]))
        if self.may("cards"):
            amounts["example.com/card"] = str(dice.randint(0, 2))
        taints = [{"key": "t", "effect": dice.choice(["NoSchedule", "PreferNoSchedule"])}]
        images = [{"names": ["img:1"], "sizeBytes": 300 << 20}]
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "uid": f"node-{name}-{self.next('uid')}", "labels": labels},
            "spec": {
                **({"taints": taints} if self.may("taints", 3) else {}),
                **({"unschedulable": True} if self.may("taints", 6) else {}),
            },
            "devices": dice.randint(0, 2) if "devices" in self.features else 0,
            "status": {
                "allocatable": amounts,
                "capacity": amounts,
                **({"images": images} if self.may("images") else {}),
            },
        }

    def queue(self, name: str) -> Manifest:
        spec: Manifest = {"weight": self.dice.randint(1, 3), "priority": self.dice.randint(0, 2)}
        if self.may("devices"):
            spec["dra"] = {"capability": {"gpu": {"count": self.dice.randint(0, 2)}}}
        meta = {"name": name, "uid": f"queue-{name}", "creationTimestamp": stamp(self.dice.randint(0, 2))}
        return {"apiVersion": VOLCANO, "kind": "Queue", "metadata": meta, "spec": spec}

    def job(self) -> list[Manifest]:
        """A PodGroup and its pods."""
        dice, number = self.dice, self.next("job")
        tasks = dice.randint(1, 4)
        name = f"j{number}"
        spec: Manifest = {"queue": dice.choice(["q1", "q1", "q2", "default"])}
        spec["minMember"] = dice.randint(0, tasks + 1)
        if self.may("roles", 3):
            spec["minTaskMember"] = {"w": dice.randint(0, 2), "m": dice.randint(0, 1)}
        if dice.randint(0, 2) == 0:
            spec["minResources"] = {"cpu": str(dice.randint(0, 5))}
        if self.may("classes"):
            spec["priorityClassName"] = dice.choice(["low", "high"])
        phase = dice.choice(["Pending", "Inqueue", "Inqueue", "Running"])
        meta = {"name": name, "namespace": "default", "uid": f"pg-{name}", "creationTimestamp": stamp(10 + number // 2)}
        group = {"apiVersion": VOLCANO, "kind": "PodGroup", "metadata": meta, "spec": spec, "status": {"phase": phase}}
        like, app = self.pod_spec(), dice.choice(APPS)
        alike = dice.randint(0, 2) > 0
        pods = [
            self.pod(f"{name}-w-{number}", name, like, app) if alike else self.pod(f"{name}-w-{number}", name)
            for number in range(tasks)
        ]
        return [group, *pods]

    def pod(self, name: str, group: str, spec: Manifest | None = None, app: str = "") -> Manifest:
        dice = self.dice
        spec, app = spec or self.pod_spec(), app or dice.choice(APPS)
        meta: Manifest = {"name": name, "namespace": "default", "uid": f"pod-{name}", "labels": {"app": app}}
        meta["creationTimestamp"] = stamp(100 + dice.randint(0, 2))
        meta["annotations"] = {GROUP: group, **({ROLE: dice.choice(["w", "m"])} if self.may("roles") else {})}
        spec = copy.deepcopy(spec)
        spec["priority"] = dice.randint(0, 2) if "classes" in self.features else 0
        if spec.pop(CLAIMING, False):
            spec["resourceClaims"] = [{"name": "gpu", "resourceClaimName": name}]
        if self.may("gates", 4):
            spec["schedulingGates"] = [{"name": dice.choice(["example.com/gate", ADMISSION_GATE])}]
        return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": {"phase": "Pending"}}

    def late_pod(self, group: str) -> Manifest:
        """One more member of a group."""
        return self.pod(f"{group}-late-{self.next('late')}", group)

    def pod_spec(self) -> Manifest:
        dice = self.dice
        requests: Manifest = {}
        if not self.may("idle", 3):
            requests = {"cpu": f"{dice.randint(1, 6)}00m", "memory": f"{dice.randint(0, 2)}Gi"}
            if dice.choice((False, True)):
                requests["cpu"] = str(dice.randint(1, 3))
        if self.may("cards", 3):
            requests["example.com/card"] = "1"
        container: Manifest = {"name": "c", "image": "img:1", "resources": {"requests": requests}}
        if self.may("ports", 3):
            container["ports"] = [{"containerPort": 80, "hostPort": 80 + dice.randint(0, 1)}]
        spec: Manifest = {"schedulerName": "volsched", "containers": [container]}
        if self.may("devices"):
            spec[CLAIMING] = True
        if self.may("zones", 4):
            spec["nodeSelector"] = {ZONE: dice.choice(ZONES)}
        if self.may("taints"):
            spec["tolerations"] = [{"key": "t", "operator": "Exists"}]
        affinity: Manifest = {}
        if self.may("near"):
            affinity["podAffinity" if dice.choice((False, True)) else "podAntiAffinity"] = self.terms()
        if self.may("zones", 4):
            term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [dice.choice(ZONES)]}]}
            preferred = [{"weight": dice.randint(1, 5), "preference": term}]
            affinity["nodeAffinity"] = {"preferredDuringSchedulingIgnoredDuringExecution": preferred}
        if affinity:
            spec["affinity"] = affinity
        if self.may("spread"):
            spec["topologySpreadConstraints"] = [
                {
                    "maxSkew": dice.randint(1, 2),
                    "topologyKey": dice.choice([ZONE, HOST]),
                    "whenUnsatisfiable": dice.choice(["DoNotSchedule", "ScheduleAnyway"]),
                    "labelSelector": {"matchLabels": {"app": dice.choice(APPS)}},
                }
            ]
        return spec

    def terms(self) -> Manifest:
        dice = self.dice
        term = {
            "topologyKey": dice.choice([ZONE, HOST]),
            "labelSelector": {"matchLabels": {"app": dice.choice(APPS)}},
        }
        if dice.choice((False, True)):
            return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        weighted = {"weight": dice.randint(1, 10), "podAffinityTerm": term}
        return {"preferredDuringSchedulingIgnoredDuringExecution": [weighted]}

    def old_group(self, evicting: bool) -> Manifest:
        """The group of pods that run already; where pods are evicted, these may go."""
        group = self.job()[0]
        group["metadata"] |= {"name": "old", "uid": "pg-old"}
        if evicting:
            group["spec"] = {"queue": "q1", "minMember": self.dice.randint(0, 1), "priorityClassName": "low"}
        return group

    def placed(self, nodes: list[str], evicting: bool) -> list[Manifest]:
        """Pods that run already; where pods are evicted, some are there."""
        return [self.runs(nodes) for _ in range(self.dice.randint(2, 6) if evicting else self.dice.randint(0, 4))]

    def runs(self, nodes: list[str]) -> Manifest:
        """A pod that runs already: of a group, or one of another scheduler."""
        dice, name = self.dice, f"r{self.next('running')}"
        pod = self.pod(name, "old")
        pod["spec"].pop("schedulingGates", None)
        pod["spec"].pop("resourceClaims", None)
        pod["spec"]["nodeName"] = dice.choice(nodes)
        pod["status"]["phase"] = dice.choice(["Running", "Running", "Pending"])
        if self.may("others"):
            pod["spec"]["schedulerName"] = "default-scheduler"
            del pod["metadata"]["annotations"]
        elif dice.randint(0, 5) == 0:
            pod["metadata"]["deletionTimestamp"] = stamp(0)
        return pod


@dataclass(repr=False)
class Story:
    """Objects at the start, a configuration, and for each cycle what happens before the next one."""

    configuration: str
    objects: list[Manifest]
    chapters: list[list[Happening]]
    words: list[list[str]]

    def __repr__(self) -> str:
        """All that is needed to tell it again by hand."""
        objects = "\n".join(json.dumps(item) for item in self.objects)
        return f"{self.configuration}\n{objects}\n{self.words}"


def worlds(evicting: bool = False) -> st.SearchStrategy[World]:
    """Small worlds and a few cycles in each; a seed is drawn and all else with dice, so that much happens in most."""
    return st.integers(0, 1 << 30).map(lambda seed: World(a_story(Random(seed), evicting)))  # noqa: S311 - a game


def a_story(dice: Random, evicting: bool = False, cycles: int = 4) -> Story:
    """Roll a small world and a few cycles in it."""
    features = frozenset(dice.sample(FEATURES, dice.randint(0, 5))) if dice.randint(0, 1) else dice.choice(THEMES)
    drawn = Draws(dice, features | {"classes"} if evicting else features)
    nodes = [drawn.node() for _ in range(dice.randint(1, 5))]
    names = [node["metadata"]["name"] for node in nodes]
    objects = [*nodes, drawn.queue("q1"), drawn.queue("q2")]
    for name, value in (("low", 1), ("high", 10)):
        meta = {"name": name, "uid": name}
        version = "scheduling.k8s.io/v1"
        objects.append({"apiVersion": version, "kind": "PriorityClass", "metadata": meta, "value": value})
    objects += [drawn.old_group(evicting), *drawn.placed(names, evicting)]
    for _ in range(dice.randint(1, 4)):
        objects += drawn.job()
    told = [[happening(drawn) for _ in range(dice.randint(1, 4))] for _ in range(cycles - 1)]
    chapters = [[happens for _, happens in chapter] for chapter in told]
    words = [[word for word, _ in chapter] for chapter in told]
    return Story(a_configuration(dice, evicting), objects, chapters, words)


Happening = Callable[["World"], None]


def _put(items: list[Manifest]) -> Happening:
    def happens(world: World) -> None:
        for item in items:
            world.put(item)

    return happens


def _change_node(drawn: Draws, number: int, what: str) -> Happening:
    other = drawn.node("other")
    return lambda world: world.change_node(number, other, what)


def _relabel_pod(drawn: Draws, number: int) -> Happening:
    app = drawn.dice.choice(APPS)
    return lambda world: world.relabel_pod(number, app)


HAPPENINGS: dict[str, Callable[[Draws, int], Happening]] = {
    "nothing": lambda drawn, number: lambda world: None,
    "add node": lambda drawn, number: _put([drawn.node()]),
    "drop node": lambda drawn, number: lambda world: world.drop("Node", number),
    "relabel node": lambda drawn, number: _change_node(drawn, number, "relabel"),
    "resize node": lambda drawn, number: _change_node(drawn, number, "resize"),
    "queue": lambda drawn, number: _put([drawn.queue(f"q{number % 2 + 1}")]),
    "drop queue": lambda drawn, number: lambda world: world.drop("Queue", number),
    "job": lambda drawn, number: _put(drawn.job()),
    "grow gang": lambda drawn, number: _put([drawn.late_pod(f"j{number % 3}")]),
    "drop group": lambda drawn, number: lambda world: world.drop("PodGroup", number),
    "relabel pod": _relabel_pod,
    "ask for less": lambda drawn, number: lambda world: world.ask_for_less(number),
    "lift gate": lambda drawn, number: lambda world: world.lift_gate(number),
    "fail binds": lambda drawn, number: lambda world: world.fail_next(number),
    "finish": lambda drawn, number: lambda world: world.end_pod(number, "finish"),
    "delete": lambda drawn, number: lambda world: world.end_pod(number, "delete"),
    "go": lambda drawn, number: lambda world: world.end_pod(number, "go"),
}


OFTEN = (*HAPPENINGS, "relabel node", "relabel node", "resize node", "go", "job")
"""What happens between cycles: what engines have to ask again about is told more often."""


def happening(drawn: Draws) -> tuple[str, Happening]:
    """Something that happens between two cycles; its number says to which pod or node, modulo how many there are."""
    word, number = drawn.dice.choice(OFTEN), drawn.dice.randint(0, 20)
    return f"{word} {number}", HAPPENINGS[word](drawn, number)


class World(Scenario):
    """The objects of a story as the API server has them, and the changes that tell of them."""

    plain_pods = True

    def __init__(self, story: Story) -> None:
        self.story, self.configuration = story, story.configuration
        self.sessions = 1 + len(story.chapters)
        self.objects: dict[tuple[str, str], Manifest] = {}
        self.claims: dict[str, dra.ResourceClaim] = {}
        self.coming: list[Change] = [put(device_class())]
        self.chapters = iter([[], *story.chapters])
        self.failing = 0
        self.version = 0
        for item in story.objects:
            self.put(item)

    def __repr__(self) -> str:
        return repr(self.story)

    def changes(self) -> list[Change]:
        for happens in next(self.chapters, []):
            happens(self)
        taken, self.coming = self.coming, []
        return taken

    def of(self, kind: str) -> list[Manifest]:
        return [item for (of, _), item in sorted(self.objects.items()) if of == kind]

    def put(self, item: Manifest) -> None:
        """Keep a copy of an object in place of the one before, and tell of it."""
        self.version += 1
        item = msgspec.json.decode(msgspec.json.encode(item))
        name = item["metadata"]["name"]
        item["metadata"]["resourceVersion"] = str(self.version)
        self.objects[item["kind"], name] = item
        if devices := item.pop("devices", 0):
            offered = part(f"of-{name}", [device(f"d{number}") for number in range(devices)], node=name, pool=name)
            self.coming.append(put(offered))
        if item["kind"] == "Pod" and "resourceClaims" in item["spec"] and name not in self.claims:
            self.put_claim(api.decode_as(dra.ResourceClaim, claim(name, exactly())))
        self.coming.append(put(item))

    def put_claim(self, found: dra.ResourceClaim) -> None:
        """Keep a pod's claim as it is now."""
        self.version += 1
        meta = msgspec.structs.replace(found.metadata, resource_version=str(self.version))
        found = self.claims[meta.name] = msgspec.structs.replace(found, metadata=meta)
        self.coming.append(Put(found))

    def remove(self, item: Manifest) -> None:
        meta = item["metadata"]
        del self.objects[item["kind"], meta["name"]]
        if item["kind"] == "Node":
            self.coming.append(Deleted("ResourceSlice", "", f"of-{meta['name']}", ""))
        if item["kind"] == "Pod" and self.claims.pop(meta["name"], None) is not None:
            self.coming.append(Deleted("ResourceClaim", "default", meta["name"], f"uid-{meta['name']}"))
        self.coming.append(Deleted(item["kind"], meta.get("namespace", ""), meta["name"], meta["uid"]))

    def drop(self, kind: str, number: int) -> None:
        found = self.of(kind)
        if len(found) > 1:
            self.remove(found[number % len(found)])

    def pick(self, number: int, which: Callable[[Manifest], bool]) -> Manifest | None:
        found = [pod for pod in self.of("Pod") if which(pod)]
        return found[number % len(found)] if found else None

    def change_node(self, number: int, other: Manifest, what: str) -> None:
        found = self.of("Node")
        if not found:
            return
        node = found[number % len(found)]
        if what == "relabel":
            node["metadata"]["labels"] = {**other["metadata"]["labels"], HOST: node["metadata"]["name"]}
            node["spec"] = other["spec"]
        else:
            node["status"] = other["status"]
        self.put(node)

    def relabel_pod(self, number: int, app: str) -> None:
        if pod := self.pick(number, lambda pod: True):
            pod["metadata"]["labels"] = {"app": app}
            self.put(pod)

    def ask_for_less(self, number: int) -> None:
        if pod := self.pick(number, lambda pod: "nodeName" not in pod["spec"]):
            pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "100m"}}
            self.put(pod)

    def lift_gate(self, number: int) -> None:
        if pod := self.pick(number, lambda pod: "schedulingGates" in pod["spec"]):
            del pod["spec"]["schedulingGates"]
            self.put(pod)

    def end_pod(self, number: int, how: str) -> None:
        pod = self.pick(number, lambda pod: how == "go" or "nodeName" in pod["spec"])
        if pod is None:
            return
        if how == "go":
            self.remove(pod)
        elif how == "finish":
            pod["status"]["phase"] = "Succeeded" if number % 3 else "Failed"
            if (found := self.claims.get(pod["metadata"]["name"])) is not None:
                self.put_claim(claims.deallocated(found))
            self.put(pod)
        else:
            pod["metadata"]["deletionTimestamp"] = stamp(0)
            self.put(pod)

    def fail_next(self, number: int) -> None:
        """Some of the next bindings are refused."""
        self.failing = 1 + number % 3

    def reserve_claims(self, step: Bind, item: Manifest) -> None:
        """Write what a pod that is being bound is to have."""
        for write in step.claims:
            self.put_claim(claims.reserved(self.claims[step.name], write, api.decode_as(api.Pod, item)))

    def carry_out(self, reader: Reader) -> None:
        leaving = [pod for pod in self.of("Pod") if "deletionTimestamp" in pod["metadata"]]
        for pod in leaving:
            self.remove(pod)
        for step in reader.steps[-1]:
            key = ("PodGroup" if isinstance(step, WriteGroupStatus) else "Pod", getattr(step, "name", ""))
            item = self.objects.get(key)
            if item is None:
                continue
            match step:
                case Bind() if self.failing:
                    self.failing -= 1
                    self.coming.append(
                        BindFailed(step.uid, step.node, "refused", reader.clock.now() + 1.5 if self.failing else None)
                    )
                    continue
                case Bind():
                    self.reserve_claims(step, item)
                    item["spec"]["nodeName"] = step.node
                    item["status"] = {"phase": "Running"}
                case ReleaseClaim():
                    self.put_claim(claims.deallocated(self.claims[step.name]))
                    continue
                case LiftGate():
                    del item["spec"]["schedulingGates"]
                    item["status"].setdefault("conditions", []).append({"type": UNGATED, "status": "True"})
                case Evict():
                    item["metadata"]["deletionTimestamp"] = stamp(0)
                case WriteGroupStatus():
                    conditions = [{"type": c.type, "status": c.status, "reason": c.reason, "message": c.message}
                                  for c in step.conditions]  # fmt: skip
                    counts = {"running": step.running, "succeeded": step.succeeded, "failed": step.failed}
                    item["status"] = {"phase": step.phase, "conditions": conditions, **counts}
                case WritePodCondition():
                    condition = {"type": "PodScheduled", "status": "False", "reason": step.reason}
                    item["status"] = {**item["status"], "conditions": [{**condition, "message": step.message}]}
                    if step.nominated:
                        item["status"]["nominatedNodeName"] = step.nominated
                    else:
                        item["status"].pop("nominatedNodeName", None)
                case _:
                    continue
            self.put(item)
