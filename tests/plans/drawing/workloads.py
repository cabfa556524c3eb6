"""Pods, their PodGroups of both kinds, their claims, and pods that run already."""

from __future__ import annotations

import json
from random import Random

from tests.plans.cluster import FINALIZER, START, Manifest, stamp
from tests.plans.drawing.objects import (
    CARDS,
    CLASSES,
    CORE,
    DRIVER,
    GPU,
    HOST,
    MEMORY,
    MIG,
    POLICY,
    RACK,
    RESOURCE,
    SHARE_CARD,
    SHARES,
    SLICE_CARD,
    VOLCANO,
    ZONE,
    Draws,
)

GROUP, ROLE, QUEUE = "scheduling.k8s.io/group-name", "volcano.sh/task-spec", "scheduling.volcano.sh/queue-name"
GATE = "scheduling.volcano.sh/queue-allocation-gate"
CARD_NAME, CARD_REQUEST = "volcano.sh/card.name", "volcano.sh/card.request"
COUNTS = "vke.volcengine.com/container-multiple-gpu"


class Workloads(Draws):
    """Draws what asks for room. ``queue_names`` are the queues that there are."""

    def __init__(self, rng: Random, features: frozenset[str]) -> None:
        super().__init__(rng, features)
        self.queue_names: tuple[str, ...] = ("q1", "q2", "default")
        self.room: dict[str, int] = {}
        """Cores of each node that pods which run leave free."""
        self.free_devices: dict[str, list[str]] = {}
        """Devices of each node that no pod has that runs."""
        self.rank = ""
        """The priority class of the workload that is being drawn; empty: none."""

    def workload(self) -> list[Manifest]:
        """Return a gang or some single pods, with all that belongs to them."""
        self.rank = self.pick("low", "middle", "high", "high", "high", "") if "classes" in self.features else ""
        if self.may("native", 0.75):
            return self._native()
        size, name = self.some(1, 5), self.name("j")
        group = self._group(name, size)
        return [group, *self.pods(name, size, group["metadata"]["namespace"])]

    def pods(self, group: str, size: int, namespace: str = "default") -> list[Manifest]:
        """Return pods of a PodGroup, alike or not, with their claims."""
        like = self.pod(group, namespace) if self.rng.random() < 0.65 else None
        found: list[Manifest] = []
        for _ in range(size):
            pod = json.loads(json.dumps(like)) if like is not None else self.pod(group, namespace)
            pod["metadata"]["name"] = self.name(f"{group}-")
            if "roles" in self.features:
                pod["metadata"]["annotations"][ROLE] = self.pick("w", "m")
            if self.may("wrong", 0.05):
                del pod["metadata"]["annotations"][GROUP]
            found += [*self._claims_of(pod), pod]
        return found

    # -- PodGroups ----------------------------------------------------------------------------------------------------

    def _group(self, name: str, size: int) -> Manifest:
        spec: Manifest = {"queue": self._queue_of_new(), "minMember": self.pick(self.some(1, size + 1), 1, size)}
        notes: Manifest = {}
        if self.may("roles", 0.3):
            spec["minTaskMember"] = {"w": self.some(0, 2), "m": self.some(0, 1)}
        if self.may("waiting", 0.7) or self.may("old", 0.25):
            spec["minResources"] = {"cpu": str(self.some(0, 8)), "memory": f"{self.some(0, 16)}Gi"}
        if self.rank:
            spec["priorityClassName"] = self.rank
        if self.may("topology", 0.25):
            spec["networkTopology"] = {"mode": self.pick("hard", "soft"), "highestTierAllowed": 1}
        if self.may("waiting", 0.3):
            notes["sla-waiting-time"] = self.pick("5s", "30s")
        if self.may("cards", 0.2):
            notes[CARD_REQUEST] = json.dumps({"|".join(self.rng.sample(CARDS, self.some(1, 2))): self.some(1, 4)})
        self._promise(notes)
        self._misname(spec, notes)
        namespace = self.pick("tests", "default") if "wrong" in self.features else "default"
        meta: Manifest = {"name": name, "namespace": namespace, "annotations": notes}
        meta["creationTimestamp"] = stamp(START - self.pick(0, 2, 4, 60))
        phase = self.pick("Pending", "Pending", "Inqueue", "Running")
        status = {"phase": phase}
        return {"apiVersion": VOLCANO, "kind": "PodGroup", "metadata": meta, "spec": spec, "status": status}

    def _queue_of_new(self) -> str:
        """Return a queue, mostly one in which nothing runs yet where queues are what a scenario is about."""
        if "queues" not in self.features:
            return str(self.pick("default", "default", "default", self.pick(*self.queue_names)))
        return str(self.pick("q2", "q2", *self.queue_names))

    def _promise(self, notes: Manifest) -> None:
        """State how long pods run, and after which time nodes are held for them."""
        if self.may("durations", 0.6):
            notes["volsched.io/expected-duration"] = self.pick("2s", "20s", "10m", "soon")
        if self.may("whole", 0.5):
            notes["volsched.io/reserve-after"] = self.pick("0s", "0s", "2s")

    def _misname(self, spec: Manifest, notes: Manifest) -> None:
        if self.may("wrong", 0.15):
            spec["queue"] = "nowhere"
        if self.may("wrong", 0.15):
            notes[CARD_REQUEST] = self.pick("a few", '{"NVIDIA-A100": "two"}')
        if self.may("wrong", 0.15):
            spec["minResources"] = {"cpu": "some"}
        if self.may("devices", 0.1):
            wanted = [{"name": "gpu", "template": "one-gpu"}]
            notes["volsched.io/resource-claims"] = self.pick(json.dumps({"": wanted}), "[")

    def _native(self) -> list[Manifest]:
        """Return a PodGroup of scheduling.k8s.io and its members, the last of which may be missing."""
        size, name = self.some(1, 5), self.name("g")
        basic = self.rng.random() < 0.15
        spec: Manifest = {"schedulingPolicy": {"basic": {}} if basic else {"gang": {"minCount": self.some(1, size)}}}
        if self.may("racks", 0.5):
            spec["schedulingConstraints"] = {"topology": [{"key": RACK}]}
        spec["priority"] = CLASSES.get(self.rank, 0)
        spec["disruptionMode"] = self.pick("Pod", "PodGroup")
        if self.rng.random() < 0.05:
            spec["fancy"] = True
        meta: Manifest = {"name": name, "namespace": "default", "annotations": {}}
        meta["creationTimestamp"] = stamp(START - self.pick(0, 2, 60))
        meta["annotations"] |= {QUEUE: self.pick(*self.queue_names)} if self.rng.random() < 0.7 else {}
        self._promise(meta["annotations"])
        group: Manifest = {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "metadata": meta}
        members = self.pods(name, size - self.pick(0, 0, 0, 1))
        for pod in members:
            if pod["kind"] == "Pod":
                pod["metadata"]["annotations"].pop(GROUP, None)
                pod["spec"] |= {"schedulingGroup": {"podGroupName": name}, "priority": spec["priority"]}
        return [{**group, "spec": spec, "status": {}}, *members]

    # -- pods ---------------------------------------------------------------------------------------------------------

    def pod(self, group: str, namespace: str = "default") -> Manifest:
        """Return a pod of a PodGroup; its name is still to come."""
        notes: Manifest = {GROUP: group}
        meta: Manifest = {"namespace": namespace, "labels": {"app": self.pick("x", "y")}, "annotations": notes}
        meta["creationTimestamp"] = stamp(START - self.pick(0, 1, 1, 50))
        if self.may("owners", 0.6):
            owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": group, "uid": group, "controller": True}
            meta["ownerReferences"] = [owner]
        container = {"name": "c", "image": self.pick("img:1", "img:2"), "resources": self._resources(notes)}
        if self.may("ports", 0.3):
            container["ports"] = [{"containerPort": 80, "hostPort": self.pick(80, 81)}]
        spec: Manifest = {"schedulerName": "volsched", "containers": [container], "priority": 0}
        if "classes" in self.features:
            spec["priority"] = CLASSES.get(self.rank, 0) if self.rng.random() < 0.85 else self.pick(0, 100)
            spec |= {"preemptionPolicy": "Never"} if self.rng.random() < 0.06 else {}
        self._choose_nodes(spec)
        self._ask_devices(spec)
        if self.may("volumes", 0.7):
            claim = {"claimName": self.pick("", "", "", "missing")}
            spec["volumes"] = [{"name": "v", "persistentVolumeClaim": claim}]
        if self.may("gates", 0.2):
            spec["schedulingGates"] = [{"name": self.pick("example.com/gate", GATE, GATE)}]
        if self.may("durations", 0.3):
            notes["volsched.io/expected-duration"] = self.pick("1s", "3s", "30s")
        elif self.may("durations", 0.15):
            spec["activeDeadlineSeconds"] = self.pick(3, 100)
        self._mistake(meta, spec)
        return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": {"phase": "Pending"}}

    def _mistake(self, meta: Manifest, spec: Manifest) -> None:
        if self.may("old", 0.03):
            meta["annotations"]["volcano.sh/preemptable"] = "false"
        if not self.may("wrong", 0.2):
            return
        wrong = self.some(0, 4)
        if wrong == 0:
            meta["annotations"][GROUP] = "nobody"
        elif wrong == 1:
            spec["nodeSelector"] = {"a key that is none": "x"}
        elif wrong == 2:
            spec["containers"][0]["resources"]["requests"]["cpu"] = "two"
        elif wrong == 3:
            term = {"topologyKey": "", "labelSelector": {"matchLabels": {"app": "x"}}}
            spec["affinity"] = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        else:
            spec["schedulerName"] = "default-scheduler"

    def _resources(self, notes: Manifest) -> Manifest:
        if self.may("idle", 0.15):
            return {"requests": {}}
        wide = self.pick(1, 4) if "wide" in self.features else 1
        cpu = self.pick("500m", "1", "1", "2", "2", "3") if "old" not in self.features else self.pick("1", "1", "2")
        if "whole" in self.features and self.rng.random() < 0.5:
            cpu = self.pick("4", "6")
        amounts: Manifest = {"cpu": cpu if wide == 1 else f"{int(self.some(2, 8))}", "memory": f"{self.some(0, 4)}Gi"}
        if "exact" in self.features:
            amounts = {"cpu": "1", "memory": "2Gi"}
        if self.may("gpus"):
            amounts[GPU] = str(self.pick(1, 1, 2, 4))
        if self.may("cards", 0.75):
            self._name_card(notes, amounts)
        if self.may("mgpu", 0.75):
            self._share(notes, amounts)
        if self.may("devices", 0.08):
            amounts[self.pick("example.com/gpu", "deviceclass.resource.kubernetes.io/big")] = "1"
        if self.may("crossquota", 0.3):
            notes["volcano.sh/crossquota-scoring-strategy"] = self.pick("least-allocated", "most-allocated")
        return {"requests": amounts, "limits": {name: n for name, n in amounts.items() if "/" in name}}

    def _name_card(self, notes: Manifest, amounts: Manifest) -> None:
        kind = self.rng.random()
        if self.cards and self.rng.random() < 0.75:
            card = self.rng.choice(list(self.cards.values()))
            resource = _resource_of(card)
            amounts[resource] = "1"
            both = resource == GPU and self.rng.random() < 0.3
            notes[CARD_NAME] = "|".join([card, *(other for other in CARDS if both and other != card)])
        elif kind < 0.7:
            amounts[GPU] = str(self.pick(1, 1, 2))
            notes[CARD_NAME] = "|".join(self.rng.sample(CARDS, self.some(1, 2)))
        elif kind < 0.8:
            amounts[SHARES], notes[CARD_NAME] = str(self.some(1, 2)), SHARE_CARD
        elif kind < 0.9:
            amounts[MIG], notes[CARD_NAME] = "1", SLICE_CARD
        elif kind < 0.94:
            amounts[GPU] = "1"
        elif kind < 0.97:
            notes[CARD_NAME] = CARDS[0]
        else:
            amounts[GPU], notes[CARD_NAME] = "1", self.pick("NVIDIA-X", f"{CARDS[0]}|{SLICE_CARD}")

    def _share(self, notes: Manifest, amounts: Manifest) -> None:
        """Ask for a part of a card, for whole cards, or for parts of several."""
        kind = self.rng.random()
        if kind < 0.55:
            amounts[CORE], amounts[MEMORY] = str(self.pick(20, 30, 50, 60)), str(self.pick(1024, 2048, 3000))
        elif kind < 0.75:
            amounts[CORE] = str(self.pick(100, 100, 200))
        elif kind < 0.92:
            amounts[CORE], amounts[MEMORY], notes[COUNTS] = "100", str(self.pick(2048, 4096)), "2"
            notes[POLICY] = "native-burst-share"
        elif kind < 0.96:
            amounts[CORE] = "120"
        else:
            amounts[CORE], amounts[MEMORY], notes[COUNTS] = "130", "2000", self.pick("3", "1,1", "two")
        if self.rng.random() < 0.25:
            notes[POLICY] = self.pick("native-burst-share", "fixed-share")

    # -- where pods may go --------------------------------------------------------------------------------------------

    def _choose_nodes(self, spec: Manifest) -> None:
        affinity: Manifest = {}
        if self.may("zones", 0.2):
            spec["nodeSelector"] = {ZONE: self.pick("a", "b")}
        if self.may("taints", 0.4):
            spec["tolerations"] = [{"key": "t", "operator": "Exists"}]
        if self.may("near", 0.35):
            affinity[self.pick("podAffinity", "podAntiAffinity")] = self._near()
        if self.may("zones", 0.25):
            term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [self.pick("a", "b")]}]}
            preferred = [{"weight": self.some(1, 5), "preference": term}]
            affinity["nodeAffinity"] = {"preferredDuringSchedulingIgnoredDuringExecution": preferred}
        if affinity:
            spec["affinity"] = affinity
        if self.may("spread", 0.4):
            keys = {"topologyKey": self.pick(ZONE, HOST), "maxSkew": self.some(1, 2)}
            keys["whenUnsatisfiable"] = self.pick("DoNotSchedule", "ScheduleAnyway")
            spec["topologySpreadConstraints"] = [
                {**keys, "labelSelector": {"matchLabels": {"app": self.pick("x", "y")}}}
            ]

    def _near(self) -> Manifest:
        selector = {"matchLabels": {"app": self.pick("x", "y")}}
        term: Manifest = {"topologyKey": self.pick(ZONE, HOST), "labelSelector": selector}
        if self.rng.random() < 0.6:
            return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        weighted = {"weight": self.some(1, 10), "podAffinityTerm": term}
        return {"preferredDuringSchedulingIgnoredDuringExecution": [weighted]}

    # -- claims -------------------------------------------------------------------------------------------------------

    def _ask_devices(self, spec: Manifest) -> None:
        if not self.may("devices", 0.65):
            return
        use: Manifest = {"name": "gpu"}
        kind = self.rng.random()
        if kind < 0.4:
            use["resourceClaimTemplateName"] = self.pick("one-gpu", "one-gpu", "two-gpus", "no-template")
        else:
            use["resourceClaimName"] = "" if kind < 0.9 else "shared"
        spec["resourceClaims"] = [use]

    def _claims_of(self, pod: Manifest) -> list[Manifest]:
        """Return the claims that a pod names and that are its own, and let it name them."""
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        found: list[Manifest] = []
        for use in pod["spec"].get("resourceClaims", ()):
            if use.get("resourceClaimName") == "":
                use["resourceClaimName"] = f"{name}-claim"
                found += [self.claim(f"{name}-claim", namespace)] if self.rng.random() < 0.95 else []
        for volume in pod["spec"].get("volumes", ()):
            if volume["persistentVolumeClaim"]["claimName"] == "":
                volume["persistentVolumeClaim"]["claimName"] = f"{name}-data"
                found += self.volume_claim(f"{name}-data")
        return found

    def claim(self, name: str, namespace: str = "default") -> Manifest:
        """Return a ResourceClaim."""
        wanted: Manifest = {"deviceClassName": self.pick("gpu", "gpu", "gpu", "big")}
        kind = self.rng.random()
        if kind < 0.1:
            wanted["allocationMode"] = "All"
        elif kind < 0.3:
            wanted["count"] = 2
        elif kind < 0.45:
            wanted["capacity"] = {"requests": {"memory": self.pick("4Gi", "8Gi")}}
        elif kind < 0.6:
            text = self.pick(
                'device.attributes["gpu.example.com"].numa == 1', 'device.attributes["gpu.example.com"].model == "a"'
            )
            wanted["selectors"] = [{"cel": {"expression": text}}]
        elif kind < 0.65:
            wanted["tolerations"] = [{"key": "hot", "operator": "Exists"}]
        elif kind < 0.68:
            wanted = {"deviceClassName": "no-class"}
        elif kind < 0.72:
            wanted["adminAccess"] = True
        request: Manifest = {"name": "r0", "exactly": wanted}
        if 0.72 < kind < 0.82:
            alternatives = [
                {"name": "big", "deviceClassName": "big"},
                {"name": "two", "deviceClassName": "gpu", "count": 2},
            ]
            request = {"name": "r0", "firstAvailable": alternatives}
        devices: Manifest = {"requests": [request]}
        if wanted.get("count") == 2 and self.rng.random() < 0.5:
            devices["constraints"] = [{"requests": ["r0"], "matchAttribute": "gpu.example.com/model"}]
        meta = {"name": name, "namespace": namespace}
        return {"apiVersion": RESOURCE, "kind": "ResourceClaim", "metadata": meta, "spec": {"devices": devices}}

    def volume_claim(self, name: str) -> list[Manifest]:
        """Return a PersistentVolumeClaim and, where it has to be there already, a volume for it."""
        storage_class, mode = (
            self.pick("local", "local", "csi", "csi", "now"),
            self.pick(*["ReadWriteOnce"] * 4, "ReadWriteOncePod"),
        )
        spec: Manifest = {"accessModes": [mode], "storageClassName": storage_class}
        spec["resources"] = {"requests": {"storage": self.pick("1Gi", "50Gi")}}
        meta = {"name": name, "namespace": "default"}
        status: Manifest = {"phase": "Pending"}
        found: list[Manifest] = []
        if storage_class == "local" or self.rng.random() < 0.3:
            volume = self._volume(f"pv-of-{name}", spec)
            bound = self.rng.random() < 0.5
            if bound:
                spec["volumeName"], status = volume["metadata"]["name"], {"phase": "Bound"}
                reference = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": name}
                volume["spec"]["claimRef"] = {**reference, "uid": f"uid-PersistentVolumeClaim/default/{name}"}
            found += [volume] if self.rng.random() < 0.93 else []
        claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": spec, "status": status}
        return [*found, claim]

    def _volume(self, name: str, claim: Manifest) -> Manifest:
        labels = {ZONE: self.pick("a", "b")} if self.rng.random() < 0.3 else {}
        spec: Manifest = {"capacity": {"storage": "10Gi"}, "accessModes": claim["accessModes"]}
        spec["storageClassName"] = claim["storageClassName"]
        if self.rng.random() < 0.5:
            here = {"key": HOST, "operator": "In", "values": self.rng.sample(["n0", "n1", "n2", "n3"], 2)}
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}}
        if claim["storageClassName"] == "csi":
            spec["csi"] = {"driver": "csi.example.com", "volumeHandle": name}
        meta = {"name": name, "labels": labels}
        return {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": meta,
            "spec": spec,
            "status": {"phase": "Available"},
        }

    # -- pods that run already ----------------------------------------------------------------------------------------

    def running(self, nodes: list[Manifest]) -> list[Manifest]:
        """Return a gang that runs on some nodes, each pod where there is room by cpu."""
        name, size = self.name("old"), self.some(2, 4)
        self.rank = ""
        group = self._group(name, size)
        group["metadata"]["namespace"] = "default"
        queue = self.pick("q1", "q1", *self.queue_names) if "queues" in self.features else self._queue_of_new()
        group["spec"] |= {"minMember": self.pick(1, 1, 1, 1, size), "queue": queue}
        group["spec"].pop("minTaskMember", None)
        group["status"] = {"phase": "Running"}
        found: list[Manifest] = [group]
        for node in nodes:
            cores = node["status"]["allocatable"]["cpu"]
            self.room = {node["metadata"]["name"]: int(cores), **self.room}
        for _ in range(size):
            found += self._placed(name)
        return found

    def _placed(self, group: str) -> list[Manifest]:
        """Return a pod of a gang that runs, where there is room for one, and the claim by which it has a device."""
        cores = self.pick(1, 1, 2)
        fitting = [name for name, free in self.room.items() if free >= cores]
        if not fitting:
            return []
        node = self.rng.choice(fitting)
        self.room = {**self.room, node: self.room[node] - cores}
        pod = self._running_pod(group, node, cores)
        device = next(iter(self.free_devices.get(node, [])), None)
        if device is None or self.rng.random() < 0.3 or pod["metadata"]["namespace"] != "default":
            return [pod]
        self.free_devices = {**self.free_devices, node: self.free_devices[node][1:]}
        return [self._claim_held(pod, node, device), pod]

    def _claim_held(self, pod: Manifest, node: str, device: str) -> Manifest:
        """Return a claim by which a pod that runs has a device of its node, and let the pod name it."""
        name = pod["metadata"]["name"]
        pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": f"{name}-claim"}]
        request = {"name": "r0", "exactly": {"deviceClassName": "gpu"}}
        result = {"request": "r0", "driver": DRIVER, "pool": node, "device": device}
        consumer = {"resource": "pods", "name": name, "uid": f"uid-Pod/default/{name}"}
        meta = {"name": f"{name}-claim", "namespace": "default", "finalizers": [FINALIZER]}
        status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": [consumer]}
        found = {"apiVersion": RESOURCE, "kind": "ResourceClaim", "metadata": meta}
        return {**found, "spec": {"devices": {"requests": [request]}}, "status": status}

    def _running_pod(self, group: str, node: str, cores: int) -> Manifest:
        pod = self.pod(group)
        meta, spec = pod["metadata"], pod["spec"]
        meta["name"] = self.name(f"{group}-")
        for name in ("schedulingGates", "resourceClaims", "volumes"):
            spec.pop(name, None)
        amounts = {"cpu": str(cores), "memory": "1Gi"}
        wanted = spec["containers"][0]["resources"]["requests"]
        amounts |= {GPU: wanted[GPU]} if GPU in wanted and "gpus" in self.features else {}
        amounts |= self._cards_held(meta["annotations"], node)
        spec["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
        spec["nodeName"] = node
        pod["status"] = {"phase": "Running", "startTime": stamp(START - self.pick(1, 30))}
        if self.rng.random() < 0.06:
            meta["namespace"], spec["priorityClassName"] = "kube-system", "system-node-critical"
        elif self.rng.random() < 0.08:
            spec["schedulerName"] = "default-scheduler"
            del meta["annotations"][GROUP]
        elif self.rng.random() < 0.05:
            meta["deletionTimestamp"] = stamp(START)
        return pod

    def _cards_held(self, notes: Manifest, node: str) -> Manifest:
        """Return what a pod that runs has of the cards of its node; its annotations tell which."""
        for name in (CARD_NAME, COUNTS, POLICY):
            notes.pop(name, None)
        if self.cards.get(node) and self.rng.random() < 0.8:
            notes[CARD_NAME] = self.cards[node]
            return {_resource_of(self.cards[node]): "1"}
        if self.may("mgpu", 0.6):
            notes |= {
                "vke.volcengine.com/assumed": "true",
                "vke.volcengine.com/gpu-index-container-c": self.pick(*"000001"),
            }
            return {CORE: self.pick("20", "30"), MEMORY: "1024"}
        return {}

    def shared_claim(self) -> list[Manifest]:
        return [self.claim("shared")] if "devices" in self.features and self.rng.random() < 0.85 else []


def _resource_of(card: str) -> str:
    """Return the resource by which pods ask for a card."""
    if "/mps" in card:
        return SHARES
    return MIG if "/mig" in card else GPU
