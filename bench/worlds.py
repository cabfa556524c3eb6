"""Clusters to measure on: nodes of four card models, gangs that ask for some, and a scheduler without a network.

Everything is made of ordinary API objects and goes through the mirror as it would from a watch.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from volsched.framework.engine.fast import Engine, FastEngine
from volsched.mirror.apply import Mirror
from volsched.mirror.settings import MirrorSettings
from volsched.model.changes import Change
from volsched.model.cluster import Cluster
from volsched.model.plan import StepRecorder
from volsched.scheduler import Profile, Scheduler
from volsched.testing.builders import GROUP_NAME, HOSTNAME, SteadyClock, put

Json = dict[str, Any]

BASE = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: overcommit
  - name: predicates
  - name: nodeorder
  - name: binpack
"""
"""The base plugins: no queue has a quota, so that what is measured is the engine."""

CROSSQUOTA = """\
  - name: crossquota
    arguments:
      gpu-resource-names: nvidia.com/gpu
      quota-resources: cpu,memory
      quota-percentage.cpu: 50
      quota.memory: 512Gi
"""
"""What is put behind the base plugins where CPU pods have quotas."""

CARD = "bench.volsched/card"
CARDS = "nvidia.com/gpu"
MODELS = ("a100", "h100", "h200", "l40s")
ZONE = "topology.kubernetes.io/zone"
ZONES = ("a", "b", "c")
SHAPES = ((1, 4, 16), (1, 6, 32), (1, 2, 8), (2, 8, 64), (2, 12, 96), (4, 24, 192), (2, 4, 32))
"""Cards, cores and GiB of a pod; with four models and a preferred zone or none they make 56 templates."""
CORES_PER_NODE, GIB_PER_NODE, CARDS_PER_NODE = 128, 1024, 8


def a_node(index: int, pods: int = 110) -> Json:
    """Return a node with eight cards; models and zones alternate."""
    name = f"node-{index:05}"
    amounts = {
        "cpu": str(CORES_PER_NODE),
        "memory": f"{GIB_PER_NODE}Gi",
        "pods": str(pods),
        CARDS: str(CARDS_PER_NODE),
        "ephemeral-storage": "2Ti",
    }
    labels = {HOSTNAME: name, CARD: MODELS[index % 4], ZONE: ZONES[index % 3]}
    meta = {"name": name, "uid": f"node-{index}", "resourceVersion": "1", "labels": labels}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": meta,
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def a_queue(index: int) -> Json:
    """Return a queue."""
    meta = {"name": f"queue-{index}", "uid": f"queue-{index}", "resourceVersion": "1"}
    return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": meta, "spec": {"weight": 1}}


def a_group(name: str, queue: str, size: int, phase: str = "Inqueue") -> Json:
    """Return a PodGroup of which all members start together."""
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default", "uid": f"group-{name}", "resourceVersion": "1"},
        "spec": {"queue": queue, "minMember": size},
        "status": {"phase": phase},
    }


def a_pod(name: str, group: str, cards: int, cpu: str, gib: int, model: str, zone: str = "", on: str = "") -> Json:
    """Return a pod that asks for cards of one model, and would rather be in ``zone`` if one is given."""
    amounts = {"cpu": cpu, "memory": f"{gib}Gi", CARDS: str(cards)}
    spec: Json = {
        "schedulerName": "volsched",
        "nodeSelector": {CARD: model},
        "containers": [{"name": "main", "image": "bench:1", "resources": {"requests": amounts, "limits": amounts}}],
    }
    if zone:
        wanted = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}
        spec["affinity"] = {
            "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 10, "preference": wanted}]}
        }
    if on:
        spec["nodeName"] = on
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"pod-{name}",
            "resourceVersion": "1",
            "annotations": {GROUP_NAME: group},
        },
        "spec": spec,
        "status": {"phase": "Running" if on else "Pending"},
    }


def nodes(count: int) -> Iterator[Json]:
    """Return nodes."""
    return (a_node(index) for index in range(count))


def gangs(
    count: int,
    size: int,
    queues: int,
    *,
    own_requests: bool = False,
    hopeless_every: int = 25,
    with_cards: bool = True,
) -> Iterator[Json]:
    """Return queues, and gangs in them: 56 templates, or one for each gang; one gang in 25 asks for too much.

    Pods ask for cards, or for the same cpu and memory without any.
    """
    yield from (a_queue(index) for index in range(queues))
    for index in range(count):
        name = f"gang-{index:05}"
        yield a_group(name, f"queue-{index % queues}", size)
        cards, cores, gib = SHAPES[index % 7]
        if hopeless_every and index % hopeless_every == hopeless_every - 1:
            cards, cores, gib = 2 * CARDS_PER_NODE, 8, 64
        if not with_cards:
            cards, cores = 0, cores if cards <= CARDS_PER_NODE else 2 * CORES_PER_NODE
        cpu = f"{cores * 1000 + index}m" if own_requests else str(cores)
        zone = ZONES[0] if index // 28 % 2 else ""
        for member in range(size):
            yield a_pod(f"{name}-{member}", name, cards, cpu, gib, MODELS[index // 7 % 4], zone)


def a_scheduler(
    objects: Iterable[Json],
    profile: Profile,
    engine: Callable[[Cluster], Engine] = FastEngine,
) -> tuple[Scheduler, StepRecorder]:
    """Return a scheduler on a mirror that has these objects, and what takes its steps; garbage is settled first."""
    mirror = Mirror(MirrorSettings())
    mirror.apply(puts(objects))
    recorder = StepRecorder()
    scheduler = Scheduler(mirror, profile, recorder, SteadyClock(), engine)
    gc.collect()
    gc.freeze()  # as volsched run does once it has listed everything
    return scheduler, recorder


def puts(objects: Iterable[Json]) -> Iterator[Change]:
    """Return objects as an informer would send them."""
    return map(put, objects)


def as_stored(pod: Json) -> Json:
    """Return a pod as an API server sends it: 4.6 KB of what controllers, defaults and kubelets add."""
    meta, spec = pod["metadata"], pod["spec"]
    name, job = meta["name"], meta["annotations"][GROUP_NAME]
    meta["labels"] = {
        "app.kubernetes.io/name": "trainer",
        "app.kubernetes.io/part-of": "vision",
        "batch.kubernetes.io/job-name": job,
        "batch.kubernetes.io/job-completion-index": name.rpartition("-")[2],
    }
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": f"uid-of-{job}", "controller": True}
    meta["ownerReferences"] = [owner | {"blockOwnerDeletion": True}]
    meta["creationTimestamp"] = "2026-01-01T00:00:00Z"
    meta["managedFields"] = [_managed(manager) for manager in ("kube-controller-manager", "kubelet")]
    mount = {"name": "kube-api-access", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": True}
    spec["containers"][0] |= {
        "env": [{"name": f"SETTING_{number}", "value": f"value-{number}"} for number in range(12)],
        "volumeMounts": [mount],
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    }
    token = {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}
    certificate = {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}}
    spec |= {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": "default",
        "securityContext": {},
        "priority": 0,
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
        "volumes": [{"name": "kube-api-access", "projected": {"sources": [token, certificate], "defaultMode": 420}}],
        "tolerations": [
            {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            for key in ("not-ready", "unreachable")
        ],
    }
    if "nodeName" in spec:
        kinds = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
        pod["status"] |= {
            "conditions": [
                {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": "2026-01-01T00:00:05Z"}
                for kind in kinds
            ],
            "hostIP": "10.1.0.1",
            "podIP": "10.64.0.1",
            "podIPs": [{"ip": "10.64.0.1"}],
            "startTime": "2026-01-01T00:00:05Z",
            "qosClass": "Guaranteed",
            "containerStatuses": [
                {
                    "name": "main",
                    "state": {"running": {"startedAt": "2026-01-01T00:00:09Z"}},
                    "lastState": {},
                    "ready": True,
                    "restartCount": 0,
                    "image": "bench:1",
                    "imageID": f"registry.invalid/bench@sha256:{'0' * 64}",
                    "containerID": f"containerd://{'0' * 64}",
                    "started": True,
                }
            ],
        }
    return pod


def _managed(manager: str) -> Json:
    fields: Json = {
        f"f:{part}": {f"f:{key}-{number}": {} for number in range(8)} for part in ("metadata", "spec") for key in "ab"
    }
    return {
        "manager": manager,
        "operation": "Update",
        "apiVersion": "v1",
        "time": "2026-01-01T00:00:00Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }
