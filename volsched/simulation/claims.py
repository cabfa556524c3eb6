"""Kinds of Dynamic Resource Allocation, as far as a result shows them.

This version allocates no claims; what a claim's status says already is shown as it stands.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from volsched.model import api


class DeviceResult(api.Record, frozen=True):
    """One device that a claim has."""

    driver: str = ""
    pool: str = ""
    device: str = ""


class DevicesAllocated(api.Record, frozen=True):
    """The devices that a claim has."""

    results: tuple[DeviceResult, ...] = ()


class Allocation(api.Record, frozen=True):
    """What a claim was given."""

    devices: DevicesAllocated = DevicesAllocated()


class Consumer(api.Record, frozen=True):
    """Who uses a claim."""

    resource: str = ""
    name: str = ""
    uid: str = ""


class ClaimStatus(api.Record, frozen=True):
    """How a claim is doing."""

    allocation: Allocation | None = None
    reserved_for: tuple[Consumer, ...] = ()


class ResourceClaim(api.ApiObject, frozen=True):
    """resource.k8s.io ResourceClaim."""

    status: ClaimStatus = ClaimStatus()


class ResourceClaimTemplate(api.ApiObject, frozen=True):
    """resource.k8s.io ResourceClaimTemplate."""

    spec: Any = None


class ResourceSlice(api.ApiObject, frozen=True):
    """resource.k8s.io ResourceSlice."""

    spec: Any = None


class DeviceClass(api.ApiObject, frozen=True):
    """resource.k8s.io DeviceClass."""

    spec: Any = None


CLAIM_VERSIONS: Final = ("resource.k8s.io/v1", "resource.k8s.io/v1beta2", "resource.k8s.io/v1beta1")

CLAIM_KINDS: Final[Mapping[str, type[api.ApiObject]]] = {
    "ResourceClaim": ResourceClaim,
    "ResourceClaimTemplate": ResourceClaimTemplate,
    "ResourceSlice": ResourceSlice,
    "DeviceClass": DeviceClass,
}
"""What each of these kinds is decoded into."""
