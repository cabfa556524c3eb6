"""Nodes, queues and what else a cluster has before anybody asks for room in it."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from tests.plans.cluster import START, Manifest, stamp

HOST, ZONE, RACK = "kubernetes.io/hostname", "topology.kubernetes.io/zone", "rack"
GPU, SHARES, MIG = "nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.5gb"
CORE, MEMORY = "vke.volcengine.com/mgpu-core", "vke.volcengine.com/mgpu-memory"
POLICY = "vke.volcengine.com/mgpu-compute-policy"
DRIVER = "gpu.example.com"
VOLCANO, RESOURCE = "scheduling.volcano.sh/v1beta1", "resource.k8s.io/v1"
CARDS = ("NVIDIA-A100", "NVIDIA-H100")
SHARE_CARD, SLICE_CARD = "NVIDIA-A100/mps-80g*1/4", "NVIDIA-A100/mig-1g.5gb-mixed"
CLASSES = {"low": 1, "middle": 10, "high": 100}
NAMESPACES = {"default": {}, "tests": {"team": "ml"}, "kube-system": {}}


class Draws:
    """Draws objects of a cluster with some features."""

    def __init__(self, rng: Random, features: frozenset[str]) -> None:
        self.rng = rng
        self.features = features
        self.tight = "old" in features and rng.random() < 0.6
        """Whether what runs already fills the nodes."""
        self.cards: dict[str, str] = {}
        """The card that each node has."""
        self._counts: dict[str, int] = {}

    def may(self, feature: str, part: float = 0.5) -> bool:
        """Return whether something of a feature is drawn now."""
        return feature in self.features and self.rng.random() < part

    def pick(self, *choices: Any) -> Any:
        return self.rng.choice(choices)

    def some(self, least: int, most: int) -> int:
        return self.rng.randint(least, most)

    def name(self, what: str) -> str:
        """Return a new name."""
        number = self._counts[what] = self._counts.get(what, -1) + 1
        return f"{what}{number}"

    # -- nodes --------------------------------------------------------------------------------------------------------

    def node(self, name: str = "") -> list[Manifest]:
        """Return a node, and the devices that it offers."""
        name = name or self.name("n")
        wide = 4 if "wide" in self.features else 1
        most = 4 if self.tight else 8
        amounts: Manifest = {"cpu": str(self.some(2, most) * wide), "memory": f"{self.some(4, 16) * wide}Gi"}
        amounts["pods"] = str(self.pick(3, 110, 110))
        meta: Manifest = {"name": name, "labels": {HOST: name}, "annotations": {}}
        spec: Manifest = {}
        self._place(meta, spec)
        self._accelerate(meta, amounts)
        status: Manifest = {"allocatable": amounts, "capacity": amounts}
        if self.may("images"):
            status["images"] = [{"names": [self.pick("img:1", "img:2")], "sizeBytes": 300 << 20}]
        found = [{"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": spec, "status": status}]
        return found + (self._devices(name) if self.may("devices", 0.8) else [])

    def _place(self, meta: Manifest, spec: Manifest) -> None:
        labels = meta["labels"]
        if "zones" in self.features and self.rng.random() < 0.9:
            labels[ZONE] = self.pick("a", "b")
        if "racks" in self.features and self.rng.random() < 0.9:
            labels[RACK] = self.pick("r1", "r2")
        if self.may("taints", 0.35):
            spec["taints"] = [{"key": "t", "effect": self.pick("NoSchedule", "PreferNoSchedule", "NoExecute")}]
        if self.may("taints", 0.1):
            spec["unschedulable"] = True
        if self.may("wrong", 0.1):
            meta["deletionTimestamp"] = stamp(START)

    def _accelerate(self, meta: Manifest, amounts: Manifest) -> None:
        """Give a node cards of the kinds that the features name."""
        labels, notes = meta["labels"], meta["annotations"]
        if self.may("gpus", 0.7):
            amounts[GPU] = str(self.pick(1, 2, 4, 8))
            if self.may("crossquota", 0.3):
                notes["volcano.sh/crossquota-cpu"] = self.pick("1", "3", "3", "a few")
                notes["volcano.sh/crossquota-memory"] = self.pick("4Gi", "8Gi", "64")
        if self.may("cards", 0.85):
            self._cards(meta["name"], labels, amounts)
        if self.may("mgpu", 0.8):
            cards = self.some(1, 3)
            amounts[CORE], amounts[MEMORY] = str(cards * 100), str(cards * self.pick(4096, 8192))
            labels |= {POLICY: self.pick("native-burst-share", "fixed-share")} if self.rng.random() < 0.6 else {}
            if self.rng.random() < 0.4:
                notes["volsched.io/mgpu-card-ids"] = ",".join(f"GPU-{n}" for n in range(cards - self.pick(0, 0, 1)))
            if self.rng.random() < 0.05:
                labels["vke.node.gpu.schedule"] = "other"

    def _cards(self, node: str, labels: Manifest, amounts: Manifest) -> None:
        card = self.pick(*CARDS)
        labels |= {"nvidia.com/gpu.product": card, "nvidia.com/gpu.count": "4"}
        if self.rng.random() < 0.92:
            labels["nvidia.com/gpu.memory"] = "81920"
        kind = self.rng.random()
        if kind < 0.7:
            amounts[GPU] = str(self.pick(1, 2, 4))
            self.cards[node] = card
        elif kind < 0.85:
            labels["nvidia.com/gpu.replicas"] = "4"
            amounts[SHARES] = "8"
            self.cards[node] = f"{card}/mps-80g*1/4"
        else:
            amounts[MIG] = "4"
            self.cards[node] = f"{card}/mig-1g.5gb-mixed"

    def _devices(self, node: str) -> list[Manifest]:
        devices: list[Manifest] = [self._device(f"d{number}") for number in range(self.some(1, 3))]
        pool = {"name": node, "generation": 1, "resourceSliceCount": 2 if self.rng.random() < 0.03 else 1}
        spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices}
        found = {"apiVersion": RESOURCE, "kind": "ResourceSlice", "metadata": {"name": f"of-{node}"}, "spec": spec}
        return [found]

    def _device(self, name: str) -> Manifest:
        found: Manifest = {"name": name, "attributes": {"model": {"string": self.pick("a", "b")}}}
        if self.rng.random() < 0.5:
            found["attributes"]["numa"] = {"int": self.pick(0, 1)}
        if self.rng.random() < 0.5:
            found["capacity"] = {"memory": {"value": self.pick("8Gi", "16Gi")}}
            found |= {"allowMultipleAllocations": True} if self.rng.random() < 0.5 else {}
        if self.rng.random() < 0.1:
            found["taints"] = [{"key": "hot", "value": "yes", "effect": "NoSchedule"}]
        if self.rng.random() < 0.08:
            found |= {"bindingConditions": ["attached"], "bindingFailureConditions": ["broken"]}
        return found

    # -- queues -------------------------------------------------------------------------------------------------------

    def queues(self) -> list[Manifest]:
        """Return the queues, those of a tree below one another."""
        if "tree" in self.features:
            found = [self.queue("top"), *(self.queue(name, "top") for name in ("q1", "q2"))]
            found.append(self.queue("q3", self.pick("", "", "nowhere", "q2") if self.may("wrong") else ""))
            return found
        return [self.queue(name) for name in ("q1", "q2", *(["q3"] if self.rng.random() < 0.4 else []))]

    def queue(self, name: str, parent: str = "") -> Manifest:
        rng, above = self.rng, 2 if name == "top" else 1
        spec: Manifest = {"weight": self.some(1, 3)}
        spec |= {"priority": self.some(1, 2)} if self.may("queues", 0.2) else {}
        spec |= {"parent": parent} if parent else {}
        spec |= {"reclaimable": False} if self.may("queues", 0.1) else {}
        notes: Manifest = {}
        limited = self.may("limits", 0.8) or self.may("queues", 0.3)
        if limited or "cards" in self.features:
            more = 2 * above if "cards" in self.features else above
            spec["capability"] = {"cpu": str(self.some(4, 12) * more), "memory": f"{self.some(4, 64) * more}Gi"}
        if "exact" in self.features:
            cores = self.some(1, 4)
            spec["capability"] = {"cpu": str(cores), "memory": f"{2 * cores}Gi"}
        if self.may("limits", 0.7) or self.may("deserved", 0.4):
            spec["deserved"] = {"cpu": str(self.some(0, 5) * above), "memory": f"{self.some(2, 8) * above}Gi"}
        if self.may("limits", 0.3):
            spec["guarantee"] = {"resource": {"cpu": str(self.some(0, 3) * above)}}
        if "cards" in self.features and rng.random() < 0.92:
            self._card_quota(notes, above)
        if "devices" in self.features and rng.random() < 0.8:
            self._device_quota(spec, above)
        if self.may("durations", 0.2):
            notes["volsched.io/default-duration"] = self.pick("5s", "1m")
        self._spoil(spec, notes)
        found: Manifest = {"apiVersion": VOLCANO, "kind": "Queue"}
        found["metadata"] = {"name": name, "annotations": notes, "creationTimestamp": stamp(START - self.some(7, 9))}
        state = self.pick("Closed", "Closing") if self.may("wrong", 0.15) else "Open"
        return {**found, "spec": spec, "status": {"state": state}}

    def _card_quota(self, notes: Manifest, above: int) -> None:
        quota = {card: self.some(0, 4) * above for card in CARDS}
        quota |= {f"{card}/{part}": 3 * above for card in CARDS for part in ("mps-80g*1/4", "mig-1g.5gb-mixed")}
        notes["volcano.sh/card.quota"] = json.dumps(quota)
        if self.may("deserved", 0.8):
            deserved = {card: self.some(0, 3) * above for card in CARDS}
            notes["volsched.io/card.deserved"] = json.dumps(deserved)
            if self.rng.random() < 0.4:
                notes["volsched.io/card.guarantee"] = json.dumps({card: n // 2 for card, n in deserved.items()})

    def _device_quota(self, spec: Manifest, above: int) -> None:
        quota: Manifest = {"count": self.some(0, 4) * above}
        quota |= {"capacity": {"memory": f"{self.some(8, 32) * above}Gi"}} if self.rng.random() < 0.4 else {}
        spec["dra"] = {"capability": {"gpu": quota}}
        if self.may("deserved", 0.8):
            spec["dra"]["deserved"] = {"gpu": {"count": self.some(0, 2) * above}}
        if self.may("deserved", 0.3):
            spec["dra"]["guarantee"] = {"gpu": {"count": 1}}

    def _spoil(self, spec: Manifest, notes: Manifest) -> None:
        """Write something wrong, or something that keeps others out."""
        if not self.may("wrong", 0.5):
            return
        wrong = self.some(0, 5)
        if wrong == 0:
            notes["volsched.io/allowed-namespaces"] = self.pick("tests", "team=ml", '{"matchLabels": {}}')
        elif wrong == 1:
            spec["capability"] = {**spec.get("capability", {}), "cpu": self.pick("much", "-1")}
        elif wrong == 2:
            notes["volcano.sh/card.quota"] = self.pick("many", '{"NVIDIA-A100": -1}', "{}")
        elif wrong == 3:
            spec["dra"] = {"capability": {"gpu": {"count": -1}}}
        elif wrong == 4:
            spec["guarantee"] = {"resource": {"cpu": "20"}}
        else:
            spec["weight"] = 0

    # -- what all share -----------------------------------------------------------------------------------------------

    def shared(self) -> list[Manifest]:
        """Return namespaces, priority classes, and what devices and volumes need."""
        found: list[Manifest] = []
        for name, labels in NAMESPACES.items():
            meta = {"name": name, "labels": {"kubernetes.io/metadata.name": name, **labels}}
            found.append({"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
        for name, value in CLASSES.items():
            version = "scheduling.k8s.io/v1"
            found.append({"apiVersion": version, "kind": "PriorityClass", "metadata": {"name": name}, "value": value})
        found.append({"apiVersion": VOLCANO, "kind": "Queue", "metadata": {"name": "default"}, "spec": {"weight": 1}})
        if "devices" in self.features:
            found += self._classes()
        if "volumes" in self.features:
            found += _storage_classes()
        if "budgets" in self.features:
            found += [self._budget(app) for app in ("x", "y") if self.rng.random() < 0.7]
        return found

    def _classes(self) -> list[Manifest]:
        first = f'device.driver == "{DRIVER}"'
        rules = {"gpu": [first], "big": [first, f'device.attributes["{DRIVER}"].model == "b"']}
        if self.rng.random() < 0.1:
            rules["gpu"].append(f'device.attributes["{DRIVER}"].numa == 0')
        found: list[Manifest] = []
        for name, texts in rules.items():
            spec: Manifest = {"selectors": [{"cel": {"expression": text}} for text in texts]}
            spec |= {"extendedResourceName": "example.com/gpu"} if name == "gpu" else {}
            found.append({"apiVersion": RESOURCE, "kind": "DeviceClass", "metadata": {"name": name}, "spec": spec})
        for name, count in (("one-gpu", 1), ("two-gpus", 2)):
            request = {"name": "r0", "exactly": {"deviceClassName": "gpu", "count": count}}
            meta = {"name": name, "namespace": "default"}
            inner = {"spec": {"devices": {"requests": [request]}}}
            found.append({"apiVersion": RESOURCE, "kind": "ResourceClaimTemplate", "metadata": meta, "spec": inner})
        if self.rng.random() < 0.1:
            taint = {"key": "broken", "value": "yes", "effect": "NoSchedule"}
            spec = {"deviceSelector": {"driver": DRIVER, "device": "d0"}, "taint": taint}
            rule = {"apiVersion": "resource.k8s.io/v1beta2", "kind": "DeviceTaintRule"}
            found.append({**rule, "metadata": {"name": "broken"}, "spec": spec})
        return found

    def _budget(self, app: str) -> Manifest:
        allowed = self.some(0, 1)
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}}
        meta = {"name": f"budget-{app}", "namespace": "default"}
        status = {"disruptionsAllowed": allowed}
        return {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": meta,
            "spec": spec,
            "status": status,
        }


def _storage_classes() -> list[Manifest]:
    modes = {"local": ("kubernetes.io/no-provisioner", "WaitForFirstConsumer"),
             "csi": ("csi.example.com", "WaitForFirstConsumer"),
             "now": ("csi.example.com", "Immediate")}  # fmt: skip
    found: list[Manifest] = []
    for name, (provisioner, mode) in modes.items():
        body = {"provisioner": provisioner, "volumeBindingMode": mode}
        found.append({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}, **body})
    driver = {"metadata": {"name": "csi.example.com"}, "spec": {"storageCapacity": True}}
    found.append({"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", **driver})
    return found
