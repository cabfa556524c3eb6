"""Random small worlds, by seed: everything of a pod and of nodes that decides where the pod may go.

Small on purpose: few values for each label and few nodes, so that rules meet and contradict each other all the time.
"""

from __future__ import annotations

from random import Random
from typing import Any

Json = dict[str, Any]

HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
RACK = "example.com/rack"
GPU = "nvidia.com/gpu"
FPGA = "example.com/fpga"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
NAMESPACES = ("default", "blue", "green")
APPS = ("web", "db", "cache")
IMAGES = ("web:1", "db:2", "cache:latest", "base")
LABELS = ((ZONE, ("z1", "z2", "z3")), (RACK, ("a", "b")), ("disk", ("ssd", "hdd")), (HOST, ("n0", "n1")))
DRIVER = "csi.example.com"


class WorldMaker:
    """Makes one world."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)  # noqa: S311 - nothing here is secret
        self.claims: list[Json] = []
        self.volumes: list[Json] = []
        self.themes = {theme for theme in THEMES if self.chance(0.4)}
        self.plain_affinity = self.chance(0.5)
        """Whether placed pods have no required pod affinity (in whose score Volcano differs)."""

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def pick(self, *choices: Any) -> Any:
        return self.random.choice(choices)

    def some(self, choices: tuple[Any, ...], least: int = 1) -> list[Any]:
        return self.random.sample(choices, self.random.randint(least, len(choices)))

    def world(self) -> Json:
        nodes = [self.node(f"n{number}") for number in range(self.random.randint(1, 7))]
        world = {
            "nodes": nodes,
            "namespaces": [
                {"metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name, "team": team}}}
                for name, team in zip(NAMESPACES, ("one", "one", "two"), strict=True)
            ],
            **(self.storage(nodes) if "volumes" in self.themes else {}),
        }
        world["pods"] = [self.placed(number, nodes) for number in range(self.random.randint(0, 12))]
        world["pod"] = self.pod("new", "default" if self.chance(0.7) else "blue", rich=True)
        return world

    # -- nodes ------------------------------------------------------------------------------------------------------

    def node(self, name: str) -> Json:
        labels = {HOST: name}
        for key, values, probability in (
            (ZONE, ("z1", "z2", "z3"), 0.85),
            (REGION, ("r1",), 0.5),
            (RACK, ("a", "b"), 0.6),
            ("disk", ("ssd", "hdd"), 0.6),
            ("cores", ("4", "8", "16", "many", "-3"), 0.5),
        ):
            if self.chance(probability):
                labels[key] = self.pick(*values)
        allocatable = {"cpu": self.pick("1", "2", "4", "2500m"), "memory": self.pick("2Gi", "4Gi", "8G")}
        allocatable["pods"] = self.pick("110", "110", "3", "1")
        for key, values in (
            (GPU, ("1", "4")),
            (FPGA, ("2",)),
            ("ephemeral-storage", ("10Gi",)),
            ("hugepages-2Mi", ("64Mi", "1Gi")),
        ):
            if self.chance(0.4):
                allocatable[key] = self.pick(*values)
        spec: Json = {}
        if "taints" in self.themes:
            taints = [self.taint() for _ in range(self.pick(0, 0, 1, 2))]
            spec = {"taints": taints} if taints else {}
            if self.chance(0.15):
                spec["unschedulable"] = True
        status = {"allocatable": allocatable, "capacity": allocatable}
        if "images" in self.themes:
            status["images"] = [
                {"names": [image if ":" in image else f"{image}:latest"], "sizeBytes": 300_000_000 + 1_000_003 * number}
                for number, image in enumerate(IMAGES)
                if self.chance(0.5)
            ]
        return {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": status}

    def taint(self) -> Json:
        effect = self.pick("NoSchedule", "NoSchedule", "NoExecute", "PreferNoSchedule")
        return {"key": self.pick("dedicated", "old"), "value": self.pick("", "x", "y"), "effect": effect}

    def toleration(self) -> Json:
        found: Json = {}
        if self.chance(0.85):
            found["key"] = self.pick("dedicated", "old", "node.kubernetes.io/unschedulable")
        if "key" not in found or self.chance(0.5):
            found["operator"] = "Exists"
        elif self.chance(0.8):
            found["value"] = self.pick("", "x", "y")
        if self.chance(0.5):
            found["effect"] = self.pick("NoSchedule", "NoExecute", "PreferNoSchedule")
        return found

    # -- pods -------------------------------------------------------------------------------------------------------

    def placed(self, number: int, nodes: list[Json]) -> Json:
        pod = self.pod(f"p{number}", self.pick("default", "default", "blue", "green"), rich=self.chance(0.4))
        pod["spec"]["nodeName"] = self.pick(*nodes)["metadata"]["name"]
        pod["status"] = {"phase": self.pick("Running", "Running", "Running", "Pending", "Succeeded", "Failed")}
        if self.chance(0.12):
            pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        return pod

    def pod(self, name: str, namespace: str, *, rich: bool) -> Json:
        labels = {"app": self.pick(*APPS)}
        if self.chance(0.5):
            labels["tier"] = self.pick("front", "back")
        if self.chance(0.3):
            labels["hash"] = self.pick("1", "2")
        spec: Json = {"containers": [self.container("main")], "schedulerName": "volsched"}
        self.resources(spec)
        if "ports" in self.themes and self.chance(0.6):
            spec["containers"][0]["ports"] = [self.port() for _ in range(self.pick(1, 1, 2))]
            if self.chance(0.2):
                spec["hostNetwork"] = True
        if "volumes" in self.themes and self.chance(0.7 if name == "new" else 0.3):
            self.add_volumes(spec, namespace)
        if "disks" in self.themes and self.chance(0.6):
            spec.setdefault("volumes", []).append({"name": "disk", **self.disk()})
        if rich:
            self.enrich(spec, placed=name != "new")
        return {
            "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}", "labels": labels},
            "spec": spec,
        }

    def enrich(self, spec: Json, *, placed: bool) -> None:
        affinity: Json = {}
        if "nodes" in self.themes:
            if self.chance(0.3):
                spec["nodeSelector"] = {self.pick("disk", RACK): self.pick("ssd", "a")}
            affinity["nodeAffinity"] = self.node_affinity()
        if "neighbours" in self.themes:
            for kind in ("podAffinity", "podAntiAffinity"):
                if self.chance(0.6) and not (placed and self.plain_affinity and kind == "podAffinity"):
                    affinity[kind] = {REQUIRED: [self.pod_term() for _ in range(self.pick(0, 1, 1, 2))]}
                if self.chance(0.4):
                    liked = [{"weight": self.random.randint(1, 100), "podAffinityTerm": self.pod_term()}]
                    affinity.setdefault(kind, {})[PREFERRED] = liked
        if affinity:
            spec["affinity"] = affinity
        if "spread" in self.themes:
            pairs = [(k, w) for k in (HOST, ZONE, RACK) for w in ("DoNotSchedule", "ScheduleAnyway")]
            chosen = self.some(tuple(pairs), 0)[: self.pick(1, 1, 2, 3)]
            spec["topologySpreadConstraints"] = [self.spread(key, what) for key, what in chosen]
        if "taints" in self.themes and self.chance(0.6):
            spec["tolerations"] = [self.toleration() for _ in range(self.pick(1, 1, 2, 3))]

    def container(self, name: str, **more: Any) -> Json:
        requests: Json = {}
        for key, probability, values in (
            ("cpu", 0.7, ("100m", "250m", "1", "0.0015", "1500m")),
            ("memory", 0.6, ("128Mi", "1G", "1Gi", "3Gi")),
            (GPU, 0.1, ("1", "2")),
            (FPGA, 0.05, ("1",)),
            ("ephemeral-storage", 0.1, ("1Gi", "9Gi")),
            ("hugepages-2Mi", 0.05, ("2Mi", "64Mi")),
        ):
            if self.chance(probability):
                requests[key] = self.pick(*values)
        kind = "limits" if self.chance(0.15) else "requests"
        resources: Json = {kind: requests} if requests else {}
        if kind == "limits" and self.chance(0.3):
            resources["requests"] = {"cpu": "50m"}
        image = self.pick(*IMAGES) if "images" in self.themes else "none"
        return {"name": name, "image": image, "resources": resources, **more}

    def resources(self, spec: Json) -> None:
        if self.chance(0.3):
            spec["containers"].append(self.container("second"))
        if self.chance(0.3):
            spec["initContainers"] = [
                self.container(f"init{number}", **({"restartPolicy": "Always"} if self.chance(0.4) else {}))
                for number in range(self.pick(1, 2, 3))
            ]
        if self.chance(0.1):
            spec["overhead"] = {"cpu": "150m", "memory": "64Mi"}
        if self.chance(0.15):
            requests: Json = {key: value for key, value in (("cpu", "2"), ("memory", "2Gi")) if self.chance(0.7)}
            spec["resources"] = {self.pick("requests", "requests", "limits"): requests}

    def port(self) -> Json:
        found: Json = {"containerPort": self.pick(80, 443)}
        if self.chance(0.8):
            found["hostPort"] = self.pick(80, 443, 8080)
        if self.chance(0.4):
            found["hostIP"] = self.pick("10.0.0.1", "10.0.0.2", "0.0.0.0")  # noqa: S104 - data
        if self.chance(0.3):
            found["protocol"] = self.pick("UDP", "TCP")
        return found

    def disk(self) -> Json:
        read_only = self.chance(0.5)
        return self.pick(
            {"gcePersistentDisk": {"pdName": self.pick("a", "b"), "readOnly": read_only}},
            {"awsElasticBlockStore": {"volumeID": self.pick("a", "b"), "readOnly": read_only}},
            {"iscsi": {"targetPortal": "t", "iqn": self.pick("a", "b"), "lun": 0, "readOnly": read_only}},
            {"rbd": {"monitors": self.some(("m1", "m2", "m3")), "image": self.pick("a", "b"), "readOnly": read_only}},
        )

    # -- terms ------------------------------------------------------------------------------------------------------

    def expression(self) -> Json:
        operator = self.pick("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
        if operator in ("Gt", "Lt"):
            return {"key": "cores", "operator": operator, "values": [self.pick("3", "4", "8", "0")]}
        key, values = self.pick(*LABELS)
        if operator in ("Exists", "DoesNotExist"):
            return {"key": key, "operator": operator}
        return {"key": key, "operator": operator, "values": self.some(values)}

    def node_term(self) -> Json:
        found: Json = {}
        if self.chance(0.9):
            found["matchExpressions"] = [self.expression() for _ in range(self.pick(1, 1, 2))]
        if self.chance(0.15):
            operator = self.pick("In", "NotIn")
            found["matchFields"] = [{"key": "metadata.name", "operator": operator, "values": [self.pick("n0", "n1")]}]
        return found

    def node_affinity(self) -> Json:
        found: Json = {}
        if self.chance(0.6):
            found[REQUIRED] = {"nodeSelectorTerms": [self.node_term() for _ in range(self.pick(1, 1, 2, 3))]}
        if self.chance(0.5):
            found[PREFERRED] = [
                {"weight": self.random.randint(1, 100), "preference": self.node_term()} for _ in range(self.pick(1, 2))
            ]
        return found

    def selector(self) -> Json | None:
        if self.chance(0.05):
            return None
        if self.chance(0.08):
            return {}
        if self.chance(0.65):
            return {"matchLabels": {"app": self.pick(*APPS)}}
        operator = self.pick("In", "NotIn", "Exists", "DoesNotExist")
        key, values = self.pick(("app", APPS), ("tier", ("front", "back")))
        found: Json = {"key": key, "operator": operator}
        if operator in ("In", "NotIn"):
            found["values"] = self.some(values)
        return {"matchExpressions": [found]}

    def pod_term(self) -> Json:
        found: Json = {"topologyKey": self.pick(HOST, ZONE, ZONE, RACK)}
        selector = self.selector()
        if selector is not None:
            found["labelSelector"] = selector
            if self.chance(0.15):
                found[self.pick("matchLabelKeys", "mismatchLabelKeys")] = ["hash"]
        if self.chance(0.25):
            found["namespaces"] = self.some(NAMESPACES)
        if self.chance(0.2):
            team = self.pick("one", "two")
            found["namespaceSelector"] = self.pick({}, {"matchLabels": {"team": team}})
        return found

    def spread(self, key: str, what: str) -> Json:
        found: Json = {"topologyKey": key, "maxSkew": self.pick(1, 1, 2, 3), "whenUnsatisfiable": what}
        selector = self.selector()
        if selector is not None:
            found["labelSelector"] = selector
            if self.chance(0.2):
                found["matchLabelKeys"] = ["hash"]
        if what == "DoNotSchedule" and self.chance(0.25):
            found["minDomains"] = self.pick(1, 2, 3, 4)
        if self.chance(0.25):
            found["nodeAffinityPolicy"] = self.pick("Honor", "Ignore")
        if self.chance(0.3):
            found["nodeTaintsPolicy"] = self.pick("Honor", "Ignore")
        return found

    # -- volumes ----------------------------------------------------------------------------------------------------

    def storage(self, nodes: list[Json]) -> Json:
        names = [node["metadata"]["name"] for node in nodes]
        for number in range(self.random.randint(1, 6)):
            self.volumes.append(self.volume(f"pv{number}", names))
        for number in range(self.random.randint(1, 6)):
            self.claims.append(self.claim(f"c{number}"))
        zones = [{"matchLabelExpressions": [{"key": ZONE, "values": self.some(("z1", "z2", "z3"))}]}]
        classes = [
            {"metadata": {"name": "wait"}, "provisioner": DRIVER, "volumeBindingMode": "WaitForFirstConsumer"},
            {
                "metadata": {"name": "local"},
                "provisioner": "kubernetes.io/no-provisioner",
                "volumeBindingMode": "WaitForFirstConsumer",
            },
            {"metadata": {"name": "now"}, "provisioner": DRIVER, "volumeBindingMode": "Immediate"},
            {
                "metadata": {"name": "zoned"},
                "provisioner": DRIVER,
                "volumeBindingMode": "WaitForFirstConsumer",
                "allowedTopologies": zones,
            },
        ]
        capacities = [self.capacity(f"cap{number}") for number in range(self.random.randint(0, 4))]
        driver = {"metadata": {"name": DRIVER}, "spec": {"storageCapacity": self.chance(0.5)}}
        return {
            "pvs": self.volumes,
            "pvcs": self.claims,
            "storageClasses": classes,
            "csiDrivers": [driver] if self.chance(0.7) else [],
            "csiStorageCapacities": capacities,
        }

    def capacity(self, name: str) -> Json:
        topology: Json | None = self.pick({"matchLabels": {ZONE: self.pick("z1", "z2")}}, {}, None)
        found: Json = {
            "metadata": {"name": name, "namespace": "default"},
            "storageClassName": self.pick("wait", "zoned"),
            "capacity": self.pick("1Gi", "5Gi", "20Gi"),
        }
        if topology is not None:
            found["nodeTopology"] = topology
        if self.chance(0.3):
            found["maximumVolumeSize"] = self.pick("1Gi", "10Gi")
        return found

    def volume(self, name: str, nodes: list[str]) -> Json:
        spec: Json = {
            "capacity": {"storage": self.pick("1Gi", "2Gi", "10Gi")},
            "accessModes": self.some(("ReadWriteOnce", "ReadOnlyMany", "ReadWriteOncePod")),
            "storageClassName": self.pick("wait", "local", "local", "zoned", ""),
            "csi": {"driver": DRIVER, "volumeHandle": name},
        }
        if self.chance(0.1):
            spec["volumeMode"] = "Block"
        if self.chance(0.7):
            wanted = self.pick((HOST, self.random.sample(nodes, 1)), (ZONE, self.some(("z1", "z2", "z3"))))
            expression = {"key": wanted[0], "operator": "In", "values": wanted[1]}
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
        meta: Json = {"name": name, "labels": {"kind": self.pick("fast", "slow")}}
        if self.chance(0.15):
            meta["labels"][ZONE] = self.pick("z1", "z1__z2", "z3")
        phase = self.pick("Available", "Available", "Available", "Released", "Bound")
        return {"metadata": meta, "spec": spec, "status": {"phase": phase}}

    def claim(self, name: str) -> Json:
        namespace = "default" if self.chance(0.8) else "blue"
        meta: Json = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "annotations": {}}
        spec: Json = {
            "accessModes": [self.pick("ReadWriteOnce", "ReadOnlyMany", "ReadWriteOncePod")],
            "resources": {"requests": {"storage": self.pick("500Mi", "1Gi", "2Gi", "8Gi")}},
        }
        if self.chance(0.95):
            spec["storageClassName"] = self.pick("wait", "wait", "local", "local", "zoned", "now", "gone", "")
        if self.chance(0.15):
            spec["selector"] = {"matchLabels": {"kind": self.pick("fast", "slow")}}
        found: Json = {"metadata": meta, "spec": spec, "status": {"phase": "Pending"}}
        reference = {"kind": "PersistentVolumeClaim", "namespace": namespace, "name": name}
        if self.chance(0.35):
            volume = self.pick(*self.volumes)
            spec["volumeName"] = volume["metadata"]["name"] if self.chance(0.9) else "lost"
            if self.chance(0.85):
                meta["annotations"]["pv.kubernetes.io/bind-completed"] = "yes"
                found["status"]["phase"] = "Bound" if self.chance(0.9) else "Lost"
            volume["spec"].setdefault("claimRef", {**reference, "uid": f"uid-{name}"})
        elif self.chance(0.15):
            meta["annotations"]["volume.kubernetes.io/selected-node"] = self.pick("n0", "n1", "gone")
        elif self.chance(0.15):
            volume = self.pick(*self.volumes)
            volume["spec"].setdefault("claimRef", {**reference, **({"uid": "other"} if self.chance(0.2) else {})})
        if self.chance(0.05):
            meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        return found

    def add_volumes(self, spec: Json, namespace: str) -> None:
        own = [claim["metadata"]["name"] for claim in self.claims if claim["metadata"]["namespace"] == namespace]
        chosen = self.random.sample(own, min(len(own), self.pick(1, 1, 2)))
        if self.chance(0.03):
            chosen.append("absent")
        spec["volumes"] = [
            {"name": f"v{number}", "persistentVolumeClaim": {"claimName": name}} for number, name in enumerate(chosen)
        ]


THEMES = ("nodes", "taints", "ports", "neighbours", "spread", "volumes", "disks", "images")


def a_world(seed: int) -> Json:
    """Return the world of a seed."""
    return WorldMaker(seed).world()
