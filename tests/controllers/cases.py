"""Builders of what the controllers see: objects as an API server would have them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from volsched.controllers.authors import WRITTEN
from volsched.controllers.lifecycle import JobPod
from volsched.controllers.objects import PodOwner, ReplicaSet
from volsched.controllers.store import Key, Store
from volsched.model import api
from volsched.operator.reading import job_view

VERSIONS = itertools.count(1)
NOW = 1_000_000.0

Json = dict[str, Any]


def metadata(name: str, namespace: str = "ns", **fields: Any) -> Json:
    return {
        "name": name,
        "namespace": namespace,
        "uid": f"uid-{name}",
        "resourceVersion": str(next(VERSIONS)),
        **fields,
    }


def annotations_of(body: Mapping[str, Any]) -> Json:
    """Return the annotations of a PodGroup without the one in which we note what we wrote."""
    return {key: text for key, text in body["metadata"].get("annotations", {}).items() if key != WRITTEN}


def reference(kind: str, name: str, version: str = "apps/v1") -> Json:
    return {"kind": kind, "name": name, "uid": f"uid-{name}", "apiVersion": version, "controller": True}


def a_pod(
    name: str,
    *,
    owner: Json | None = None,
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    phase: str = "Pending",
    node: str = "",
    cpu: str = "1",
    **spec: Any,
) -> api.Pod:
    meta = metadata(name, annotations=dict(annotations or {}), labels=dict(labels or {}))
    if owner is not None:
        meta["ownerReferences"] = [owner]
    container = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
    raw = {"metadata": meta, "spec": {"containers": [container], **spec}, "status": {"phase": phase}}
    if node:
        raw["spec"]["nodeName"] = node
    return api.decode_as(api.Pod, raw)


def a_workload(name: str, replicas: int | None = 1, annotations: Mapping[str, str] | None = None) -> PodOwner:
    raw = {"metadata": metadata(name, annotations=dict(annotations or {})), "spec": {"replicas": replicas}}
    return api.decode_as(ReplicaSet, raw)


def a_group(name: str, *, queue: str = "default", phase: str = "Pending", **spec: Any) -> api.PodGroup:
    raw = {"metadata": metadata(name), "spec": {"queue": queue, **spec}, "status": {"phase": phase}}
    return api.decode_as(api.PodGroup, raw)


def a_queue(name: str, stands: str = "Open", annotations: Mapping[str, str] | None = None, **spec: Any) -> api.Queue:
    meta = metadata(name, namespace="", annotations=dict(annotations or {}))
    allocated = {"cpu": "0", "memory": "0"}
    raw = {"metadata": meta, "spec": {"parent": "" if name == "root" else "root", **spec}}
    return api.decode_as(api.Queue, raw | {"status": {"state": stands, "allocated": allocated}})


class Cluster:
    """A store and the keys that its changes named."""

    def __init__(self, **settings: Any) -> None:
        self.keys: list[Key] = []
        self.now = NOW
        self.store = Store(self.keys.append, lambda: self.now, **settings)

    def put(self, *found: api.ApiObject) -> Cluster:
        for one in found:
            self.store.put(one)
        return self


# --- Volcano Jobs ---------------------------------------------------------------------------------------------------


def a_task(name: str, replicas: int = 1, **fields: Any) -> Json:
    template = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]}}
    return {"name": name, "replicas": replicas, "template": template, **fields}


def a_job(*tasks: Json, phase: str = "", status: Json | None = None, **spec: Any) -> Any:
    """A Volcano Job as the controllers keep it; `status` are further fields of its status."""
    raw = {
        "metadata": metadata("train"),
        "spec": {"tasks": list(tasks), **spec},
        "status": {**(status or {}), "state": {"phase": phase, "lastTransitionTime": "1970-01-12T13:46:40Z"}},
    }
    return job_view(raw, ("volsched",), "default")


def a_member(task: str, number: int, phase: str = "Running", **fields: Any) -> JobPod:
    values: Json = {
        "uid": f"{task}-{number}",
        "namespace": "ns",
        "name": f"train-{task}-{number}",
        "task": task,
        "number": number,
        "version": 0,
        "phase": phase,
        "terminating": False,
        "killed": False,
        "exit_code": 0,
        "restarts": 0,
        "created": NOW,
        "since": NOW,
    }
    return JobPod(**values | fields)
