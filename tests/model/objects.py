"""Builders for the objects that several tests need."""

from collections.abc import Mapping
from typing import Any

from volsched.model import api


def pod(
    spec: Mapping[str, Any] | None = None,
    *,
    name: str = "p",
    namespace: str = "default",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    status: Mapping[str, Any] | None = None,
) -> api.Pod:
    """Return a pod as it would be decoded from a manifest."""
    metadata = {"name": name, "namespace": namespace, "labels": labels or {}, "annotations": annotations or {}}
    return api.decode_as(api.Pod, {"metadata": metadata, "spec": spec or {}, "status": status or {}})


def container(name: str = "main", **fields: Any) -> dict[str, Any]:
    """Return a container; `requests` and `limits` may be given on the top level."""
    resources = {key: fields.pop(key) for key in ("requests", "limits") if key in fields}
    return {"name": name, "resources": resources, **fields}


def sidecar(name: str, **fields: Any) -> dict[str, Any]:
    """Return an init container that keeps running."""
    return container(name, restartPolicy="Always", **fields)
