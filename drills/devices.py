"""Devices for drills: nodes that have some, and pods that get them by claims of their own, a shared one, or none.

Claims of pods are made from a template by Kubernetes' controller, and go with their pods. A shared claim is made here.
Pods without a claim ask for an extended resource that the DeviceClass stands for; the scheduler makes their claims.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from drills.reading import Json
from tools.controlplane import ApiClient

API: Final = "/apis/resource.k8s.io/v1"
DRIVER: Final = "gpu.drills.volsched.io"
CLASS: Final = "drill"
TEMPLATE: Final = "one"
EXTENDED: Final = "drills.volsched.io/slot"
PER_NODE: Final = 8
_REQUEST: Final[Json] = {"name": "gpu", "exactly": {"deviceClassName": CLASS}}
_SPEC: Final[Json] = {"devices": {"requests": [_REQUEST]}}


def furnish(api: ApiClient, nodes: list[str]) -> None:
    """Give each of these nodes eight devices, and make the class of all of them."""
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    spec = {"selectors": [selector], "extendedResourceName": EXTENDED}
    api.create(f"{API}/deviceclasses", {"metadata": {"name": CLASS}, "spec": spec})
    for node in nodes:
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        devices = [{"name": f"gpu-{number}"} for number in range(PER_NODE)]
        body = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices}
        api.create(f"{API}/resourceslices", {"metadata": {"name": f"drill-{node}"}, "spec": body})


def make_template(api: ApiClient, namespace: str) -> None:
    """Make the template of which pods of a namespace have claims of their own."""
    body = {"metadata": {"name": TEMPLATE}, "spec": {"spec": _SPEC}}
    api.create(f"{API}/namespaces/{namespace}/resourceclaimtemplates", body)


def make_claim(api: ApiClient, namespace: str, name: str) -> None:
    """Make a claim that pods share."""
    api.create(claims(namespace), {"metadata": {"name": name}, "spec": _SPEC})


def claims(namespace: str) -> str:
    """Return where the claims of a namespace are."""
    return f"{API}/namespaces/{namespace}/resourceclaims"


def own() -> dict[str, Any]:
    """Return the part of a pod's spec by which it has a claim of its own."""
    return {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": TEMPLATE}]}


def shared(claim: str) -> dict[str, Any]:
    """Return the part of a pod's spec by which it shares a claim."""
    return {"resourceClaims": [{"name": "gpu", "resourceClaimName": claim}]}


def by_resource(count: int = 1) -> Mapping[str, Any]:
    """Return the requests of a pod that gets devices without a claim."""
    return {EXTENDED: str(count)}
