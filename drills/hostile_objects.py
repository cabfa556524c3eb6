"""Objects that somebody with the right `edit` in one namespace may create to harm others, and some of administrators.

Each says what is done with it (`Hostile.fate`): whether it must be named in an Event, or only if nothing comes of it.
What the API server itself refuses harms nobody and is not judged.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from random import Random
from typing import Any, Final

from drills.fuzz_inputs import Maker
from drills.fuzz_words import ANNOTATIONS, CLAIMS, LABELS, LISTS_OF_CARDS, NAMESPACES, QUANTITIES, SELECTORS
from tools.controlplane import a_pod

Json = dict[str, Any]

GROUPS: Final = "scheduling.volcano.sh/v1beta1"
JOBS: Final = "batch.volcano.sh/v1alpha1"
DEVICES: Final = "resource.k8s.io/v1"
COMMANDS: Final = "bus.volcano.sh/v1alpha1"
NATIVE: Final = "scheduling.k8s.io/v1alpha2"
DRIVER: Final = "gpu.example.com"
GROUP_NAME: Final = "scheduling.k8s.io/group-name"
MGPU: Final = "vke.volcengine.com/mgpu"

_DEEP: Final = "DEEP"
"""Stands in a body for a value that is nested deeper than decoders in Python go."""


class Fate(Enum):
    """What must become of an object that the API server took."""

    NAMED = "it is refused, and an Event on it says so"
    DONE_OR_NAMED = "what it asks for is done, or an Event on it, or on what was made of it, says why not"
    HARMLESS = "nothing: nobody asks anything by it alone"


@dataclass(frozen=True, slots=True)
class Hostile:
    """One object as it is sent; `what` is the attack. `cleans_up` objects belong to no namespace."""

    version: str
    kind: str
    plural: str
    name: str
    body: bytes
    what: str
    fate: Fate
    is_cluster_wide: bool = False

    def path(self, namespace: str) -> str:
        """Return the path of its collection."""
        root = f"/apis/{self.version}" if "/" in self.version else f"/api/{self.version}"
        return f"{root}/{self.plural}" if self.is_cluster_wide else f"{root}/namespaces/{namespace}/{self.plural}"


@dataclass(frozen=True, slots=True)
class Target:
    """Whom it is aimed at: the scheduler's name, a queue and a running Job of another team, its uid, and nodes."""

    scheduler: str
    queue: str
    job: str
    uid: str
    own_queue: str
    nodes: tuple[str, ...] = ()


class Attacker:
    """Writes objects; what is written follows from the seed."""

    def __init__(self, target: Target, seed: int) -> None:
        self._target = target
        self._random = Random(seed)
        self._maker = Maker()
        self._maker.begin(f"hostile/{seed}")
        self._number = 0

    # -- making

    def _named(self, stem: str) -> str:
        self._number += 1
        return f"{stem}-{self._number}"

    def _hostile(self, kind: tuple[str, str, str], what: str, body: Json, fate: Fate, levels: int = 4_000) -> Hostile:
        version, name, plural = kind
        whole = {"apiVersion": version, "kind": name, **body}
        metadata = whole["metadata"]
        whole["metadata"] = {**metadata, "annotations": metadata.get("annotations", {})}
        deep = '{"a":' * levels + "{}" + "}" * levels
        text = json.dumps(whole).replace(f'"{_DEEP}"', deep).encode()
        return Hostile(version, name, plural, metadata["name"], text, what, fate, kind in _CLUSTER_WIDE)

    def pod(self, what: str, spec: Json | None = None, fate: Fate = Fate.DONE_OR_NAMED, **metadata: Any) -> Hostile:
        """Return a pod of ours with something odd in its spec or metadata."""
        body = a_pod(self._named("pod"), scheduler=self._target.scheduler, cpu="10m", memory="8Mi")
        body["metadata"] |= metadata
        annotations = {"scheduling.volcano.sh/queue-name": self._target.own_queue}
        body["metadata"]["annotations"] = annotations | metadata.get("annotations", {})
        container = {**body["spec"]["containers"][0], **(spec or {}).pop("container", {})}
        body["spec"] |= {"containers": [container], "terminationGracePeriodSeconds": 0, **(spec or {})}
        return self._hostile(_POD, what, body, fate)

    def group(self, what: str, spec: Json, fate: Fate = Fate.HARMLESS, **metadata: Any) -> Hostile:
        """Return a PodGroup without pods."""
        queue = {"minMember": 1, "queue": self._target.own_queue}
        return self._hostile(
            _GROUP, what, {"metadata": {"name": self._named("group"), **metadata}, "spec": queue | spec}, fate
        )

    def job(
        self,
        what: str,
        spec: Json | None = None,
        fate: Fate = Fate.DONE_OR_NAMED,
        task: Json | None = None,
        **container: Any,
    ) -> Hostile:
        """Return a Volcano Job of one task with something odd in it."""
        pod = a_pod("x", scheduler=self._target.scheduler, cpu="10m")["spec"]
        pod["containers"][0] |= container
        template = {"spec": {**pod, "restartPolicy": "Never"}}
        one = {"name": "worker", "replicas": 1, "template": template, **(task or {})}
        whole = {
            "schedulerName": self._target.scheduler,
            "queue": self._target.own_queue,
            "minAvailable": 1,
            "tasks": [one],
        }
        return self._hostile(_JOB, what, {"metadata": {"name": self._named("job")}, "spec": whole | (spec or {})}, fate)

    def claim(self, what: str, devices: Json, kind: tuple[str, str, str] | None = None) -> list[Hostile]:
        """Return a claim and a pod that wants it."""
        name = self._named("claim")
        spec: Json = {"devices": devices}
        body = {"metadata": {"name": name}, "spec": spec if kind is None else {"spec": spec}}
        source = {"resourceClaimName": name} if kind is None else {"resourceClaimTemplateName": name}
        found = self._hostile(kind or _CLAIM, what, body, Fate.HARMLESS, 1_500)
        return [found, self.pod(f"wants: {what}", {"resourceClaims": [{"name": "gpu", **source}]})]

    def native_group(
        self, what: str, policy: Json, spec: Json, pods: Json | None = None, **metadata: Any
    ) -> list[Hostile]:
        """Return a PodGroup of Kubernetes' own and two pods that are in it, which have something odd, too."""
        name = self._named("native")
        whole = {"schedulingPolicy": policy, **spec}
        group = self._hostile(
            _NATIVE_GROUP, what, {"metadata": {"name": name, **metadata}, "spec": whole}, Fate.HARMLESS
        )
        member = {"schedulingGroup": {"podGroupName": name}, **(pods or {})}
        return [group, *(self.pod(f"in: {what}", dict(member)) for _ in range(2))]

    def command(self, what: str, action: Any, target: Any) -> Hostile:
        """Return a Command."""
        body = {"metadata": {"name": self._named("command")}, "action": action, "target": target}
        return self._hostile(_COMMAND, what, body, Fate.NAMED)

    def workload(self, what: str, kind: str, spec: Json) -> Hostile:
        """Return a workload whose pods have something odd."""
        name = self._named(kind.lower())
        found = json.loads(self.pod(what, spec).body)
        labels = {"app": name}
        template = {
            "metadata": {"labels": labels, "annotations": found["metadata"]["annotations"]},
            "spec": found["spec"],
        }
        body: Json = {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": labels}, "template": template}}
        if kind != "DaemonSet":
            body["spec"]["replicas"] = 2
        if kind == "StatefulSet":
            body["spec"]["serviceName"] = "none"
        return self._hostile(("apps/v1", kind, f"{kind.lower()}s"), what, body, Fate.DONE_OR_NAMED)

    # -- the rows of the issue

    def rows(self, replicas: int = 4_000) -> Iterator[Hostile]:
        """Yield the objects that took volsched down, robbed it or switched it off."""
        deep = {"subGroupPolicy": [{"name": "a", "deep": _DEEP}]}
        yield self.group("a PodGroup nested 4,000 levels deep", deep)
        yield from self.claim("parameters nested 1,500 levels deep", self._devices(config=[_opaque(_DEEP)]))
        yield self.job("a template nested 4,000 levels deep", fate=Fate.NAMED, odd=_DEEP)
        plugins: Json = {"plugins": {"env": [], "svc": []}}
        yield self.job("env: 5", plugins, Fate.NAMED, env=5)
        yield self.job("volumeMounts: 5", plugins, Fate.NAMED, volumeMounts=5)
        volumes = {"volumes": [{"mountPath": "/a", "volumeClaimName": "a"}]}
        yield self.job("volumeMounts: 5 with volumes", volumes, Fate.NAMED, volumeMounts=5)
        yield self.pod("the label of Volcano's controllers", labels={"app": "volcano-controller"})
        lease = {"metadata": {"name": "vc-controller-manager"}, "spec": {"holderIdentity": "me"}}
        yield self._hostile(_LEASE, "the Lease of Volcano's controllers", lease, Fate.HARMLESS)
        yield self.pod("2,500 names of resources", {"container": _resources(2_500)}, Fate.NAMED)
        for _ in range(3):
            yield self.pod("10,000 keys of node affinity", {"affinity": _node_terms(self._random, 10_000)}, Fate.NAMED)
        loops = "[1,2,3,4,5,6,7,8,9].all(a, [1,2,3,4,5,6,7,8,9].all(b, [1,2,3,4,5,6,7,8,9].all(c, "
        heavy = f"{loops}a * b * c > 0))) && " * 4 + "device.attributes.size() >= 0"
        yield from self.claim("a selector that takes long", self._devices(heavy))
        tensorflow = {"plugins": {"tensorflow": ["--worker=worker", "--ps=ps"], "svc": []}, "minAvailable": 1}
        yield self.job("very many replicas with tensorflow", tensorflow, task={"replicas": replicas})
        yield self.job("150,000 replicas", {"minAvailable": 150_000}, task={"replicas": 150_000})
        yield from self._robberies()
        yield from self._claims_to_room()
        yield from self._passers_by()
        yield from self._remembered()

    def _claims_to_room(self) -> Iterator[Hostile]:
        """Yield PodGroups that would have room kept for nothing."""
        nowhere = {"nodeSelector": {"nowhere": "true"}}
        gated = {"schedulingGates": [{"name": "example.com/never"}]}
        for what, spec in (("a selector that no node meets", nowhere), ("a gate that is never lifted", gated)):
            group = self.group(f"minResources of all, and a pod with {what}", {"minResources": {"cpu": "19"}})
            yield group
            yield self.pod(f"small, with {what}", spec, annotations={GROUP_NAME: group.name})
        at_once = {"volsched.io/reserve-after": "0s", "sla-waiting-time": "1s"}
        group = self.group(
            "nodes held at once, for a gang of all nodes", {"minMember": len(self._target.nodes)}, annotations=at_once
        )
        yield group
        for _ in self._target.nodes:
            yield self.pod("of all nodes", {"container": _amounts(cpu="62")}, annotations={GROUP_NAME: group.name})

    def _remembered(self) -> Iterator[Hostile]:
        """Yield texts that were remembered after their objects were gone, and lists without an end."""
        yield self.group("a long name in minResources", {"minResources": {"n" * 200_000: "1"}})
        cards = ", ".join(f"card-{number}" for number in range(5_000))
        yield self.pod("5,000 cards", annotations={"volcano.sh/card.name": cards})
        attributes = " || ".join(f'"a{n}" in device.attributes["x.example.com"]' for n in range(200))
        yield from self.claim("a selector that reads 200 attributes", self._devices(attributes[:10_000]))
        many = [{"name": f"c{number}", "image": f"i{number}"} for number in range(600)]
        yield self.pod("600 containers", {"initContainers": many}, Fate.NAMED)
        yield self.pod("a time of 200,000 digits", annotations={"volsched.io/expected-duration": "9" * 200_000})

    def _passers_by(self) -> Iterator[Hostile]:
        """Yield pods that come with a node, as many as fill the other team's queue if they counted there."""
        other = {"scheduling.volcano.sh/queue-name": self._target.queue}
        group = self.group("in another's queue, for pods that come with a node", {"queue": self._target.queue})
        yield group
        for number, node in enumerate(self._target.nodes[: len(self._target.nodes) // 2]):
            named = other if number % 2 else {GROUP_NAME: group.name}
            spec = {"container": _amounts(cpu="63"), "nodeName": node}
            yield self.pod("comes with a node, for another's queue", spec, annotations=named)

    def _robberies(self) -> Iterator[Hostile]:
        other = {"scheduling.volcano.sh/queue-name": self._target.queue}
        ungated = {"container": _amounts(cpu="98"), "schedulingGates": [{"name": "volsched.io/queue-admission"}]}
        yield self.pod(
            "ungated by itself in another's queue", ungated, annotations={**other, "volsched.io/ungated": "true"}
        )
        yield self.group(
            "minResources in another's queue", {"queue": self._target.queue, "minResources": {"cpu": "900"}}
        )
        yield self.group("a class of the system", {"priorityClassName": "system-node-critical"})
        bad = [{"key": "a", "operator": "Odd", "value": str(number)} for number in range(8_000)]
        spec = a_pod("x", scheduler=self._target.scheduler)["spec"] | {"tolerations": bad}
        yield self.job("8,000 bad tolerations", fate=Fate.NAMED, task={"template": {"spec": spec}})
        owner = {
            "apiVersion": JOBS,
            "kind": "Job",
            "name": self._target.job,
            "uid": self._target.uid,
            "controller": True,
        }
        labels = {"volcano.sh/job-name": self._target.job}
        forged = {
            "volcano.sh/job-name": self._target.job,
            "volcano.sh/task-spec": "worker",
            "volcano.sh/job-version": "0",
        }
        yield self.pod("a forged owner", ownerReferences=[owner], labels=labels, annotations=forged)
        shared = {"container": _amounts(**{f"{MGPU}-core": "20", f"{MGPU}-memory": "1024"})}
        yield self.pod("shared cards, told by itself", shared, annotations={f"{_INDEX}main": "x"})
        yield self.group("a time of 200,000 digits", {}, annotations={"sla-waiting-time": "9" * 200_000})

    # -- as large as may be

    def large(self, count: int) -> Iterator[Hostile]:
        """Yield so many objects that are as large as the API server takes: with what nobody reads, and with what is."""
        makers = (self._large_claim, self._large_template, self._noted_pod, self._labelled_pod, self._noted_volume)
        others = (self._noted_group, self._noted_group, self._noted_native, self._noted_workload, self._noted_job)
        for number in range(count):
            yield (*makers, *others)[number % 10]()

    def _large_devices(self) -> Json:
        draw = self._random
        filling: Any = draw.choice(([[]] * 2_400, ["x" * 9_000], [{"a": 1}] * 800, {f"k{n}": n for n in range(700)}))
        return self._devices(config=[_opaque({"a": filling})] * 32)

    def _large_claim(self) -> Hostile:
        return self.claim("a claim with 320 KiB of parameters", self._large_devices())[0]

    def _large_template(self) -> Hostile:
        return self.claim("a template with 320 KiB of parameters", self._large_devices(), _TEMPLATE)[0]

    def _noted(self, *, read: bool = False) -> Json:
        """Return annotations of 240 KiB, under a key that nobody reads, or that is read."""
        keys = ("volsched.io/expected-duration", "volcano.sh/sla-waiting-time") if read else ("example.com/note",)
        return {self._random.choice(keys): f"{self._random.random()}" + "x" * 240_000}

    def _noted_pod(self) -> Hostile:
        gate = {"schedulingGates": [{"name": "example.com/never"}]}
        return self.pod("a pod with a long note", gate, annotations=self._noted())

    def _labelled_pod(self) -> Hostile:
        gate = {"schedulingGates": [{"name": "example.com/never"}]}
        stem = self._random.randrange(10**6)
        return self.pod("8,000 labels", gate, labels={f"k{stem}-{n}": f"v{n}" for n in range(8_000)})

    def _noted_group(self) -> Hostile:
        read = self._random.random() < 0.7
        return self.group(
            f"a PodGroup with a long {'wish' if read else 'note'}", {}, annotations=self._noted(read=read)
        )

    def _noted_native(self) -> Hostile:
        policy: Json = {"gang": {"minCount": 2}}
        return self.native_group("a group with a long note", policy, {}, annotations=self._noted())[0]

    def _noted_workload(self) -> Hostile:
        found = json.loads(self.workload("a workload with a long note", "ReplicaSet", {}).body)
        found["metadata"]["annotations"] = {**self._noted(), f"volcano.sh/{self._number}": "x" * 200_000}
        found["spec"]["replicas"] = 0
        kind = ("apps/v1", "ReplicaSet", "replicasets")
        return self._hostile(kind, "a workload with a long note", found, Fate.HARMLESS)

    def _noted_job(self) -> Hostile:
        if self._random.random() < 0.5:
            found = json.loads(self.job("a Job with a long note").body)
            found["metadata"]["annotations"] = self._noted()
            return self._hostile(_JOB, "a Job with a long note", found, Fate.DONE_OR_NAMED)
        found = json.loads(self.job("a Job with a long wish").body)
        found["metadata"]["annotations"] = self._noted(read=True)
        return self._hostile(_JOB, "a Job with a long wish", found, Fate.NAMED)

    def _noted_volume(self) -> Hostile:
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "gone",
            "resources": {"requests": {"storage": "1"}},
        }
        body = {"metadata": {"name": self._named("volume"), "annotations": self._noted()}, "spec": spec}
        return self._hostile(_VOLUME, "a volume claim with a long note", body, Fate.HARMLESS)

    # -- more

    def more(self, count: int) -> Iterator[Hostile]:
        """Yield so many more objects over all kinds."""
        made = 0
        makers = tuple(self._makers())
        while made < count:
            for make in makers:
                found = make()
                yield from found
                made += len(found)
                if made >= count:
                    return

    def _makers(self) -> Iterator[Callable[[], list[Hostile]]]:
        for twist in _TWISTS.values():
            yield lambda twist=twist: [self._twisted_pod(twist)]  # type: ignore[misc]
        yield lambda: [self._twisted_workload()]
        yield from (lambda: [self._odd_annotations()], lambda: [self._odd_annotations()])
        yield from (lambda: [self._odd_group()], lambda: [self._odd_group()], lambda: [self._odd_group()])
        yield from (lambda: [self._odd_job()], lambda: [self._odd_job()], lambda: [self._spoilt_job()])
        yield from (self._odd_claim, self._odd_template)
        yield lambda: [self._odd_command()]
        yield self._odd_volume
        yield from (self._odd_native_group, self._odd_native_group, self._odd_native_workload)

    def _twisted_pod(self, twist: _Twist) -> Hostile:
        what, spec = twist(self._random)
        return self.pod(what, spec)

    def _twisted_workload(self) -> Hostile:
        what, spec = self._random.choice(list(_TWISTS.values()))(self._random)
        kind = self._random.choice(("Deployment", "StatefulSet", "ReplicaSet"))
        return self.workload(f"{kind}: {what}", kind, spec)

    def _odd_annotations(self) -> Hostile:
        annotations = {
            key: text for key, text in self._maker.texts(ANNOTATIONS).items() if _is_key(key) and len(text) < 1e5
        }
        labels = {key: text for key, text in self._maker.texts(LABELS).items() if _is_key(key) and _is_label(text)}
        annotations.pop("scheduling.volcano.sh/queue-name", None)
        return self.pod("odd annotations and labels", annotations=annotations, labels=labels)

    def _odd_group(self) -> Hostile:
        draw = self._random
        annotations = {
            "sla-waiting-time": draw.choice(("1h" * draw.randint(1, 50_000), "-1s", "9" * draw.randint(1, 200_000))),
            "volcano.sh/card.request": draw.choice(LISTS_OF_CARDS),
            "volsched.io/resource-claims": draw.choice((*CLAIMS, "[" * 20_000)),
        }
        key = draw.choice(list(annotations))
        spec = draw.choice(
            (
                {"minMember": draw.choice((0, 2**31 - 1, 100_000))},
                {"minTaskMember": {f"t{n}": 1 for n in range(draw.randint(1, 5_000))}},
                {"minResources": {f"example.com/r{n}": "1" for n in range(draw.randint(1, 2_500))}},
                {"minResources": {"cpu": draw.choice(QUANTITIES)}},
                {"queue": draw.choice(("root", "gone", self._target.queue, "q" * 250))},
                {"priorityClassName": draw.choice(("system-cluster-critical", "gone", "c" * 250))},
                {"networkTopology": {"mode": "hard", "highestTierAllowed": draw.choice((0, 2**31 - 1))}},
                {"subGroupPolicy": [{"name": f"s{n}", "deep": _DEEP} for n in range(3)]},
            )
        )
        return self.group(f"PodGroup: {next(iter(spec))}", spec, annotations={key: annotations[key]})

    def _odd_job(self) -> Hostile:
        draw = self._random
        port = draw.choice(("1", "0", "99999", "9" * 400, "x", ""))
        spec = draw.choice(
            (
                {"plugins": {draw.choice(_JOB_PLUGINS): [f"--port={port}"]}},
                {"plugins": {name: ["--" + "x" * draw.randint(1, 9_999)] for name in _JOB_PLUGINS}},
                {
                    "policies": [
                        {"event": "PodFailed", "action": "RestartJob", "timeout": "9" * draw.randint(1, 9_999) + "h"}
                    ]
                    * 2
                },
                {"minAvailable": draw.choice((0, 7, 2**31 - 1))},
                {"maxRetry": 2**31 - 1, "ttlSecondsAfterFinished": 2**31 - 1},
                {"volumes": [{"mountPath": f"/{n}", "volumeClaim": {"a": _DEEP}} for n in range(draw.randint(1, 40))]},
                {"priorityClassName": "gone", "queue": draw.choice(("gone", "root", self._target.queue))},
                {"tasks": [self._task(f"t{n}") for n in range(draw.choice((0, 2, 300)))]},
                {"networkTopology": {"mode": "odd", "highestTierAllowed": -1}},
            )
        )
        return self.job(f"Job: {next(iter(spec))}", spec)

    def _task(self, name: str) -> Json:
        template = {"spec": a_pod("x", scheduler=self._target.scheduler, cpu="10m")["spec"]}
        depends = {"name": [self._random.choice(("t0", "t1", "gone"))], "iteration": "all"}
        return {"name": name, "replicas": self._random.choice((0, 1, 1)), "template": template, "dependsOn": depends}

    def _spoilt_job(self) -> Hostile:
        """Return a Job with another value at some places of its template, of which the API server knows no types."""
        template = {"metadata": {"labels": {"a": "b"}}, "spec": a_pod("x", scheduler=self._target.scheduler)["spec"]}
        whole = self._maker.spoilt({"template": template})
        spoilt = whole.get("template") if isinstance(whole, dict) else whole
        text = json.dumps(spoilt) if not isinstance(spoilt, dict) else ""
        return self.job("Job: a spoilt template", task={"template": spoilt if not text else {"spec": spoilt}})

    def _devices(self, *expressions: str, config: list[Json] | None = None, **exactly: Any) -> Json:
        selectors = [{"cel": {"expression": text}} for text in expressions]
        request = {"name": "gpu", "exactly": {"deviceClassName": DRIVER, "selectors": selectors, **exactly}}
        return {"requests": [request], "config": config or []}

    def _odd_devices(self) -> tuple[str, Json]:
        draw = self._random
        expression = draw.choice((*SELECTORS, " && ".join([draw.choice(SELECTORS)] * 30)))[:10_000]
        match draw.randrange(6):
            case 0:
                return "an odd selector", self._devices(expression)
            case 1:
                return "32 selectors", self._devices(*[f"device.attributes.size() >= {n}" for n in range(32)])
            case 2:
                return "very many devices", self._devices(count=draw.choice((33, 10_000, 2**62)))
            case 3:
                many = [{"name": f"r{n}", "exactly": {"deviceClassName": DRIVER}} for n in range(32)]
                matched = [{"matchAttribute": f"{DRIVER}/index"}, {"distinctAttribute": f"{DRIVER}/model"}]
                return "32 requests that must agree", {"requests": many, "constraints": matched}
            case 4:
                either = [{"name": f"s{n}", "deviceClassName": DRIVER, "count": 9} for n in range(8)]
                return "8 alternatives of each of 32", {
                    "requests": [{"name": f"r{n}", "firstAvailable": either} for n in range(32)]
                }
            case _:
                return "deep parameters", self._devices(config=[_opaque({"a": [1] * draw.randint(1, 2_000)})])

    def _odd_claim(self) -> list[Hostile]:
        return self.claim(*self._odd_devices())

    def _odd_template(self) -> list[Hostile]:
        return self.claim(*self._odd_devices(), _TEMPLATE)

    def _odd_command(self) -> Hostile:
        draw = self._random
        action: Any = draw.choice(("AbortJob", "CloseQueue", "Odd", "x" * 5_000, 5, None, [], {"a": 1}))
        kind = draw.choice(("Job", "Queue", "Pod", "", 5, "x" * 5_000))
        target = {"kind": kind, "name": draw.choice((self._target.job, self._target.queue, "", 5)), "uid": "no such"}
        return self.command("an odd Command", action, draw.choice((target, target, target, 5, [])))

    def _odd_volume(self) -> list[Hostile]:
        draw = self._random
        name = self._named("volume")
        spec = {
            "accessModes": [draw.choice(("ReadWriteOnce", "ReadWriteOncePod"))],
            "storageClassName": draw.choice(("gone", "", "c" * 60)),
            "volumeName": draw.choice(("", "gone")),
            "resources": {"requests": {"storage": draw.choice(("1", "9Ei", "1Gi"))}},
            "selector": {
                "matchExpressions": [{"key": f"k{n}", "operator": "Exists"} for n in range(draw.randint(0, 500))]
            },
        }
        claim = self._hostile(_VOLUME, "an odd volume claim", {"metadata": {"name": name}, "spec": spec}, Fate.HARMLESS)
        volumes = [{"name": f"v{n}", "persistentVolumeClaim": {"claimName": name}} for n in range(draw.randint(1, 50))]
        return [claim, self.pod("wants an odd volume claim", {"volumes": volumes})]

    def _odd_native_group(self) -> list[Hostile]:
        draw = self._random
        gang: Json = {"gang": {"minCount": draw.choice((1, 2, 2, 3, 100_000, 2**31 - 1))}}
        policy: Json = draw.choice((gang, gang, {"basic": {}}))
        claim = {"name": "gpu", draw.choice(("resourceClaimName", "resourceClaimTemplateName")): "gone"}
        key = draw.choice(("kubernetes.io/hostname", "gone", f"{'k' * 200}.example.com/{'z' * 63}"))
        spec = draw.choice(
            (
                {},
                {"schedulingConstraints": {"topology": [{"key": key}]}},
                {"disruptionMode": "PodGroup"},
                {"resourceClaims": [claim]},
                {"podGroupTemplateRef": {"workload": {"workloadName": "gone", "podGroupTemplateName": "t"}}},
                {"priorityClassName": draw.choice(("gone", "system-node-critical"))},
            )
        )
        texts = self._maker.texts(ANNOTATIONS).items()
        annotations = {key: text for key, text in texts if _is_key(key) and len(text) < 1e5}
        queue = draw.choice(("hostile", "gone", "root", "", self._target.queue, "q" * 250, "\u202equeue"))
        annotations |= draw.choice(({}, {"scheduling.volcano.sh/queue-name": queue}))
        what, pods = draw.choice((*_TWISTS.values(), _nothing_odd))(draw)
        what = f"a group of Kubernetes' own, {next(iter(policy))} {next(iter(spec), '')}; its pods: {what}"
        return self.native_group(what, policy, spec, pods, annotations=annotations)

    def _odd_native_workload(self) -> list[Hostile]:
        """Return a Workload of many templates, and a pod in a group that is not there, or in a group of each kind."""
        draw = self._random
        templates = [
            {"name": f"t{n}", "schedulingPolicy": {"gang": {"minCount": 2**31 - 1}}} for n in range(draw.randint(1, 8))
        ]
        owner = {"apiGroup": "batch.volcano.sh", "kind": "Job", "name": self._target.job}
        body = {
            "metadata": {"name": self._named("workload")},
            "spec": {"podGroupTemplates": templates, "controllerRef": owner},
        }
        workload = self._hostile(_NATIVE_WORKLOAD, "a Workload of another's Job", body, Fate.HARMLESS)
        group = {"schedulingGroup": {"podGroupName": draw.choice(("gone", "g" * 253))}}
        annotations = draw.choice(({}, {GROUP_NAME: "gone-too"}))
        return [workload, self.pod("in a group that is not there", group, annotations=annotations)]

    # -- administrators

    def of_administrators(self, count: int) -> Iterator[Hostile]:
        """Yield Queues and devices that an administrator may have written wrongly."""
        for _ in range(count):
            yield self._odd_queue() if self._random.random() < 0.6 else self._odd_slice()

    def _odd_queue(self) -> Hostile:
        draw = self._random
        keys = ("volcano.sh/card.quota", "volsched.io/card.deserved", "volsched.io/card.guarantee")
        annotations = {
            draw.choice(keys): draw.choice(LISTS_OF_CARDS),
            "volsched.io/allowed-namespaces": draw.choice(NAMESPACES),
        }
        amounts = {"cpu": draw.choice(QUANTITIES), f"example.com/r{draw.randint(0, 99)}": "1"}
        spec: Json = {
            "weight": 1,
            draw.choice(("capability", "deserved")): amounts,
            "parent": draw.choice(("", "root", "gone")),
        }
        spec |= {"dra": draw.choice(({"capability": 5}, {"odd": {}}, {"deserved": {DRIVER: {"count": "-1"}}}, {}))}
        metadata = {"name": self._named("hostile-queue"), "annotations": annotations}
        return self._hostile(_QUEUE, "an odd Queue", {"metadata": metadata, "spec": spec}, Fate.HARMLESS)

    def _odd_slice(self) -> Hostile:
        draw = self._random
        values = ({"int": 2**63 - 1}, {"string": "x" * 64}, {"version": "1.0.0"}, {"bool": True})
        attributes = {f"a{n}": draw.choice(values) for n in range(draw.randint(0, 32))}
        devices = [{"name": f"d{n}", "attributes": attributes} for n in range(draw.randint(1, 128))]
        pool = {
            "name": self._named("pool"),
            "generation": draw.choice((1, 2**62)),
            "resourceSliceCount": draw.choice((1, 9)),
        }
        spec = {
            "driver": "odd.example.com",
            "pool": pool,
            "nodeName": draw.choice(("gone", "node-0")),
            "devices": devices,
        }
        body = {"metadata": {"name": self._named("hostile-slice")}, "spec": spec}
        return self._hostile(_SLICE, "an odd ResourceSlice", body, Fate.HARMLESS)


_INDEX: Final = "vke.volcengine.com/gpu-index-container-"
_JOB_PLUGINS: Final = ("env", "svc", "ssh", "tensorflow", "pytorch", "mpi", "ray")
_POD: Final = ("v1", "Pod", "pods")
_GROUP: Final = (GROUPS, "PodGroup", "podgroups")
_QUEUE: Final = (GROUPS, "Queue", "queues")
_JOB: Final = (JOBS, "Job", "jobs")
_CLAIM: Final = (DEVICES, "ResourceClaim", "resourceclaims")
_TEMPLATE: Final = (DEVICES, "ResourceClaimTemplate", "resourceclaimtemplates")
_SLICE: Final = (DEVICES, "ResourceSlice", "resourceslices")
_COMMAND: Final = (COMMANDS, "Command", "commands")
_LEASE: Final = ("coordination.k8s.io/v1", "Lease", "leases")
_NATIVE_GROUP: Final = (NATIVE, "PodGroup", "podgroups")
_NATIVE_WORKLOAD: Final = (NATIVE, "Workload", "workloads")
_VOLUME: Final = ("v1", "PersistentVolumeClaim", "persistentvolumeclaims")
_CLUSTER_WIDE: Final = (_QUEUE, _SLICE)


def _is_key(text: str) -> bool:
    name = text.rpartition("/")[2]
    return text.isascii() and 0 < len(name) < 64 and all(letter.isalnum() or letter in "/.-_" for letter in text)


def _is_label(text: str) -> bool:
    return len(text) < 64 and all(letter.isascii() and (letter.isalnum() or letter in "._-") for letter in text)


def _opaque(parameters: Any) -> Json:
    return {"opaque": {"driver": DRIVER, "parameters": parameters if parameters != _DEEP else _DEEP}}


def _amounts(**amounts: str) -> Json:
    return {"resources": {"requests": amounts, "limits": amounts}}


def _resources(count: int) -> Json:
    return _amounts(**{f"example.com/r{number}": "1" for number in range(count)})


def _node_terms(draw: Random, count: int, *, preferred: bool = False) -> Json:
    stem = draw.randrange(1_000_000)
    expressions = [{"key": f"k{stem}-{number}", "operator": "Exists"} for number in range(count)]
    if preferred:
        terms = [{"weight": 1, "preference": {"matchExpressions": [one]}} for one in expressions]
        return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}
    terms = [{"matchExpressions": expressions}]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


def _pod_terms(draw: Random, count: int, kind: str) -> Json:
    stem = draw.randrange(1_000_000)
    terms = [
        {
            "topologyKey": draw.choice(("kubernetes.io/hostname", f"z{stem}")),
            "labelSelector": {"matchLabels": {f"l{stem}": str(n)}},
        }
        for n in range(count)
    ]
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


def _spread(draw: Random, count: int) -> list[Json]:
    return [
        {
            "maxSkew": 1,
            "topologyKey": f"t{draw.randrange(10**6)}-{n}",
            "whenUnsatisfiable": draw.choice(("DoNotSchedule", "ScheduleAnyway")),
        }
        for n in range(count)
    ]


_Twist = Callable[[Random], tuple[str, Json]]


def _nothing_odd(_draw: Random) -> tuple[str, Json]:
    return "nothing odd", {}


_TWISTS: Final[Mapping[str, _Twist]] = {
    "keys": lambda draw: ("many keys of node affinity", {"affinity": _node_terms(draw, draw.randint(50, 3_000))}),
    "preferred": lambda draw: ("many wishes", {"affinity": _node_terms(draw, draw.randint(50, 3_000), preferred=True)}),
    "near": lambda draw: ("many pods to be near", _pod_terms(draw, draw.randint(1, 1_000), "podAffinity")),
    "far": lambda draw: ("many pods to be far from", _pod_terms(draw, draw.randint(1, 1_000), "podAntiAffinity")),
    "spread": lambda draw: (
        "many constraints of spreading",
        {"topologySpreadConstraints": _spread(draw, draw.randint(1, 500))},
    ),
    "tolerations": lambda draw: (
        "many tolerations",
        {
            "tolerations": [
                {"key": f"t{draw.randrange(10**6)}", "operator": "Exists"} for _ in range(draw.randint(1, 3_000))
            ]
        },
    ),
    "labels": lambda draw: (
        "many labels of nodes",
        {"nodeSelector": {f"l{draw.randrange(10**6)}": "a" for _ in range(draw.randint(1, 3_000))}},
    ),
    "resources": lambda draw: ("many resources", {"container": _resources(draw.randint(1, 2_500))}),
    "amounts": lambda draw: (
        "an odd amount",
        {"container": _amounts(cpu=draw.choice(QUANTITIES), memory=draw.choice(QUANTITIES))},
    ),
    "huge": lambda draw: (
        "a huge amount",
        {"container": _amounts(**{f"h{draw.randint(0, 9)}.example.com/x": str(2**63 - 1)})},
    ),
    "containers": lambda draw: (
        "many containers",
        {
            "initContainers": [
                {"name": f"c{n}", "image": "i", "resources": _resources(9)["resources"]}
                for n in range(draw.randint(1, 200))
            ]
        },
    ),
    "ports": lambda draw: (
        "many ports",
        {"container": {"ports": [{"containerPort": n, "hostPort": n} for n in range(1, draw.randint(2, 2_000))]}},
    ),
    "claims": lambda draw: (
        "claims that are not there",
        {
            "resourceClaims": [
                {"name": f"c{n}", "resourceClaimName": f"gone-{draw.randrange(10**6)}"}
                for n in range(draw.randint(1, 60))
            ]
        },
    ),
    "volumes": lambda draw: (
        "volumes that are not there",
        {
            "volumes": [
                {"name": f"v{n}", "persistentVolumeClaim": {"claimName": f"gone-{n}"}}
                for n in range(draw.randint(1, 500))
            ]
        },
    ),
    "gates": lambda draw: (
        "many gates",
        {"schedulingGates": [{"name": f"example.com/g{draw.randrange(10**6)}"} for _ in range(draw.randint(1, 300))]},
    ),
    "class": lambda draw: (
        "a class that is not there",
        {"priorityClassName": draw.choice(("gone", "system-node-critical"))},
    ),
    "mgpu": lambda draw: (
        "odd shares of cards",
        {
            "container": _amounts(
                **{f"{MGPU}-core": str(draw.choice((1, 7, 150, 2**40))), f"{MGPU}-memory": str(draw.choice((1, 2**40)))}
            )
        },
    ),
    "node": lambda draw: ("a node that is not there", {"nodeName": f"gone-{draw.randrange(9)}"}),
    "image": lambda draw: ("a long image", {"container": {"image": "i" * draw.randint(1, 60_000)}}),
    "value": lambda draw: (
        "a long list of values",
        {
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [
                            {
                                "matchExpressions": [
                                    {
                                        "key": "a",
                                        "operator": "In",
                                        "values": [f"v{n}" for n in range(draw.randint(1, 9_000))],
                                    }
                                ]
                            }
                        ]
                    }
                }
            }
        },
    ),
}
"""What may be odd about a pod's spec; the API server takes most of it."""
