"""Manifests of small clusters for the tests of simulations, and a run of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from volsched import registry
from volsched.simulation.documents import Document
from volsched.simulation.manifests import Inventory, read_inventory
from volsched.simulation.result import result_of
from volsched.simulation.runner import Simulation, SimulationSettings, simulate

Manifest = dict[str, Any]

LEAN = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}]
"""


def stock(*manifests: Manifest) -> Inventory:
    return read_inventory([Document("test", f"document {n}", raw) for n, raw in enumerate(manifests, start=1)])


def simulation(*manifests: Manifest, config: str = LEAN, **settings: Any) -> Simulation:
    profile, _ = registry.load_profile(config)
    return simulate(stock(*manifests), profile, SimulationSettings(**settings))


def result(*manifests: Manifest, config: str = LEAN, **settings: Any) -> Manifest:
    return result_of(simulation(*manifests, config=config, **settings))


def placed(found: Mapping[str, Any]) -> dict[str, str]:
    return {bind["pod"].removeprefix("default/"): bind["node"] for bind in found["binds"]}


def pending(found: Mapping[str, Any]) -> dict[str, Manifest]:
    return {(e["pod"] or e["podGroup"]).removeprefix("default/"): e for e in found["pending"]}


def meta(name: str, namespace: str | None = None, **more: Any) -> Manifest:
    return {"name": name, **({"namespace": namespace} if namespace else {}), **more}


def node(name: str, cpu: Any = 8, memory: str = "32Gi", pods: int = 110, **more: Any) -> Manifest:
    labels = {"kubernetes.io/hostname": name, **more.pop("labels", {})}
    amounts = {"cpu": cpu, "memory": memory, "pods": pods, **more.pop("extended", {})}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": meta(name, labels=labels),
        "spec": more,
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def namespace(name: str, **labels: str) -> Manifest:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": meta(name, labels=labels)}


def queue(name: str, **spec: Any) -> Manifest:
    return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": meta(name), "spec": spec}


def group(name: str, least: int = 1, q: str = "default", phase: str = "Pending", **spec: Any) -> Manifest:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": meta(name),
        "spec": {"minMember": least, "queue": q, **spec},
        "status": {"phase": phase},
    }


def pod_spec(cpu: Any = 1, scheduler: str = "volsched", **more: Any) -> Manifest:
    resources = {"requests": {"cpu": cpu}} if cpu else {}
    return {"schedulerName": scheduler, "containers": [{"name": "main", "resources": resources}], **more}


def pod(name: str, in_group: str | None = None, on: str | None = None, **more: Any) -> Manifest:
    annotations = {**({"scheduling.k8s.io/group-name": in_group} if in_group else {}), **more.pop("annotations", {})}
    metadata = meta(name, more.pop("namespace", None), annotations=annotations, **more.pop("metadata", {}))
    status = {"status": more.pop("status")} if "status" in more else {}
    spec = pod_spec(**more, **({"nodeName": on} if on else {}))
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, **status}


def workload(kind: str, name: str, replicas: int | None = None, **more: Any) -> Manifest:
    spec = {**({"replicas": replicas} if replicas is not None else {}), **more.pop("spec", {})}
    template = {"metadata": {"labels": {"app": name}, "annotations": more.pop("template_annotations", {})}}
    return {
        "apiVersion": "batch/v1" if kind == "Job" else "apps/v1",
        "kind": kind,
        "metadata": meta(name, **more.pop("metadata", {})),
        "spec": {**spec, "template": {**template, "spec": pod_spec(**more)}},
    }


def volcano_job(name: str, tasks: Mapping[str, int], metadata: Manifest | None = None, **more: Any) -> Manifest:
    cpu = more.pop("cpu", 1)
    listed = [
        {
            "name": task,
            "replicas": count,
            "template": {"spec": {"containers": [{"name": "m", "resources": {"requests": {"cpu": cpu}}}]}},
        }
        for task, count in tasks.items()
    ]
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": meta(name, **(metadata or {})),
        "spec": {"tasks": listed, **more},
    }
