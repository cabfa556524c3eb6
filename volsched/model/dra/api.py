"""Dynamic Resource Allocation as it goes over the wire: slices, classes, claims and their templates.

A field that is not understood must stop each use of it: a toleration, a counter or a capacity that is passed
over gives one device to two pods. So specs are read strictly, and late (`parsed`): the object itself can always be
kept, and what is wrong with it becomes a fault that refuses the pods that need it.

Source: resource.k8s.io/v1 of Kubernetes 1.36. v1beta2 has the same shape, v1beta1 is turned into it. DeviceTaintRules
are of v1beta2, which a cluster serves when its API server was told to (`--runtime-config`); v1alpha3 of them is alike.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeVar

import msgspec

from volsched.model import api
from volsched.model.errors import FieldError
from volsched.model.values.quantity import QuantityText

GROUP_VERSION: Final = "resource.k8s.io/v1"
RULES_VERSION: Final = "resource.k8s.io/v1beta2"
"""The version by which DeviceTaintRules are watched: in Kubernetes 1.36 the one that kube-scheduler watches."""
EXACT_COUNT: Final = "ExactCount"
ALL: Final = "All"

FINALIZER: Final = "resource.kubernetes.io/delete-protection"
EXTENDED_CLAIM: Final = "resource.kubernetes.io/extended-resource-claim"
"""The annotation, "true", of a claim that a scheduler made for a pod's extended resources (KEP 5004)."""
IMPLICIT: Final = "deviceclass.resource.kubernetes.io/"
"""Begins the name of the extended resource that every class stands for."""

MOST_RESULTS: Final = 32
"""Devices that one claim may have."""
MOST_CONSUMERS: Final = 256
"""Consumers that one claim may be reserved for."""

Spec = TypeVar("Spec", bound="Strict")


class Strict(api.Record, frozen=True, forbid_unknown_fields=True):
    """A part of a spec in which an unknown field is a fault."""


# --- what claims and classes ask for ---------------------------------------------------------------------------------


class CelSelector(Strict, frozen=True):
    """A condition on a device, in CEL."""

    expression: str = ""


class DeviceSelector(Strict, frozen=True):
    """A condition on a device. CEL is the only kind."""

    cel: CelSelector | None = None


class DeviceToleration(Strict, frozen=True):
    """A device taint that a request puts up with."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class CapacityRequirements(Strict, frozen=True):
    """How much of each capacity a request wants of every device."""

    requests: dict[str, QuantityText] = msgspec.field(default_factory=dict)


class ExactDeviceRequest(Strict, frozen=True):
    """Devices of one class."""

    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = EXACT_COUNT
    count: int | None = None
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements | None = None


class DeviceSubRequest(Strict, frozen=True):
    """One alternative of a request."""

    name: str = ""
    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = EXACT_COUNT
    count: int | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements | None = None


class DeviceRequest(Strict, frozen=True):
    """What a claim asks for under one name: exactly this, or the first of these that can be had."""

    name: str = ""
    exactly: ExactDeviceRequest | None = None
    first_available: tuple[DeviceSubRequest, ...] = ()


class DeviceConstraint(Strict, frozen=True):
    """What devices of several requests (none named: all) must have in common, or must not."""

    requests: tuple[str, ...] = ()
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class DeviceConfiguration(api.Record, frozen=True):
    """Parameters for a driver. They are handed on and decide nothing, so new kinds of them do no harm."""

    requests: tuple[str, ...] = ()
    opaque: Any = None


class DeviceClaim(Strict, frozen=True):
    """The devices that a claim asks for."""

    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    config: tuple[DeviceConfiguration, ...] = ()


class ResourceClaimSpec(Strict, frozen=True):
    """What a claim asks for."""

    devices: DeviceClaim = DeviceClaim()


class DeviceClassSpec(Strict, frozen=True):
    """Which devices are of a class."""

    selectors: tuple[DeviceSelector, ...] = ()
    config: tuple[DeviceConfiguration, ...] = ()
    extended_resource_name: str | None = None


# --- what slices offer -----------------------------------------------------------------------------------------------


class ResourcePool(Strict, frozen=True):
    """The pool that a slice is a part of."""

    name: str = ""
    generation: int = 0
    resource_slice_count: int = 0


class Counter(Strict, frozen=True):
    """An amount."""

    value: QuantityText = 0


class CounterSet(Strict, frozen=True):
    """Amounts that devices of a pool share."""

    name: str = ""
    counters: dict[str, Counter] = msgspec.field(default_factory=dict)


class DeviceCounterConsumption(Strict, frozen=True):
    """What a device takes of a counter set."""

    counter_set: str = ""
    counters: dict[str, Counter] = msgspec.field(default_factory=dict)


class DeviceTaint(Strict, frozen=True):
    """Why a device must not be used by those that do not tolerate it."""

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None


class DeviceAttribute(Strict, frozen=True):
    """A value that a device states of itself."""

    number: int | None = msgspec.field(default=None, name="int")
    flag: bool | None = msgspec.field(default=None, name="bool")
    string: str | None = None
    version: str | None = None
    numbers: tuple[int, ...] | None = msgspec.field(default=None, name="ints")
    flags: tuple[bool, ...] | None = msgspec.field(default=None, name="bools")
    strings: tuple[str, ...] | None = None
    versions: tuple[str, ...] | None = None


class CapacityRange(Strict, frozen=True):
    """Amounts that may be consumed: from `min` in steps to `max`."""

    min: QuantityText | None = None
    max: QuantityText | None = None
    step: QuantityText | None = None


class CapacityPolicy(Strict, frozen=True):
    """How requests for a capacity are rounded, and what is consumed without one."""

    default: QuantityText | None = None
    valid_values: tuple[QuantityText, ...] = ()
    valid_range: CapacityRange | None = None


class DeviceCapacity(Strict, frozen=True):
    """How much of something a device has."""

    value: QuantityText = 0
    request_policy: CapacityPolicy | None = None


class Device(Strict, frozen=True):
    """One device of a slice."""

    name: str = ""
    attributes: dict[str, DeviceAttribute] = msgspec.field(default_factory=dict)
    capacity: dict[str, DeviceCapacity] = msgspec.field(default_factory=dict)
    consumes_counters: tuple[DeviceCounterConsumption, ...] = ()
    node_name: str | None = None
    node_selector: api.NodeSelector | None = None
    all_nodes: bool = False
    taints: tuple[DeviceTaint, ...] = ()
    binds_to_node: bool = False
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    allow_multiple_allocations: bool = False


class ResourceSliceSpec(Strict, frozen=True):
    """Devices of a pool, or counter sets that they share."""

    driver: str = ""
    pool: ResourcePool = ResourcePool()
    node_name: str | None = None
    node_selector: api.NodeSelector | None = None
    all_nodes: bool = False
    per_device_node_selection: bool = False
    devices: tuple[Device, ...] = ()
    shared_counters: tuple[CounterSet, ...] = ()


# --- which devices are tainted beside what their slices state ---------------------------------------------------------


class DeviceTaintSelector(Strict, frozen=True):
    """Devices of a driver, of a pool, of a name. What is absent may be any."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class DeviceTaintRuleSpec(Strict, frozen=True):
    """A taint, and the devices that have it as if their slice had it."""

    device_selector: DeviceTaintSelector | None = None
    taint: DeviceTaint = DeviceTaint()


# --- what a claim was given ------------------------------------------------------------------------------------------


class DeviceResult(api.Record, frozen=True):
    """One device that a claim has. `request` is `request` or `request/alternative`."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    share_id: str | None = msgspec.field(default=None, name="shareID")
    consumed_capacity: dict[str, QuantityText] = msgspec.field(default_factory=dict)


class AllocatedConfiguration(api.Record, frozen=True):
    """Parameters for a driver, from the class or from the claim."""

    source: str = ""
    requests: tuple[str, ...] = ()
    opaque: Any = None


class DevicesAllocated(api.Record, frozen=True):
    """The devices that a claim has."""

    results: tuple[DeviceResult, ...] = ()
    config: tuple[AllocatedConfiguration, ...] = ()


class Allocation(api.Record, frozen=True):
    """What a claim was given, and from which nodes that can be used (None: from all)."""

    devices: DevicesAllocated = DevicesAllocated()
    node_selector: api.NodeSelector | None = None
    allocation_timestamp: str | None = None


class Consumer(api.Record, frozen=True):
    """Who uses a claim."""

    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


class DeviceStatus(api.Record, frozen=True):
    """What the driver reports of a device that a claim has."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    share_id: str | None = msgspec.field(default=None, name="shareID")
    conditions: tuple[api.Condition, ...] = ()


class ResourceClaimStatus(api.Record, frozen=True):
    """How a claim is doing."""

    allocation: Allocation | None = None
    reserved_for: tuple[Consumer, ...] = ()
    devices: tuple[DeviceStatus, ...] = ()


# --- objects ---------------------------------------------------------------------------------------------------------


class ResourceClaim(api.ApiObject, frozen=True):
    """resource.k8s.io ResourceClaim; its spec is read by `parsed`."""

    spec: Any = None
    status: ResourceClaimStatus = ResourceClaimStatus()


class ResourceClaimTemplate(api.ApiObject, frozen=True):
    """resource.k8s.io ResourceClaimTemplate; the spec of its claims is `spec.spec`."""

    spec: Any = None


class ResourceSlice(api.ApiObject, frozen=True):
    """resource.k8s.io ResourceSlice; its spec is read by `parsed`."""

    spec: Any = None


class DeviceClass(api.ApiObject, frozen=True):
    """resource.k8s.io DeviceClass; its spec is read by `parsed`."""

    spec: Any = None


class DeviceTaintRule(api.ApiObject, frozen=True):
    """resource.k8s.io DeviceTaintRule; its spec is read by `parsed`."""

    spec: Any = None


KINDS: Final[Mapping[str, type[api.ApiObject]]] = {
    "ResourceClaim": ResourceClaim,
    "ResourceClaimTemplate": ResourceClaimTemplate,
    "ResourceSlice": ResourceSlice,
    "DeviceClass": DeviceClass,
    "DeviceTaintRule": DeviceTaintRule,
}
"""What each of these kinds is decoded into."""

VERSIONS: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(KINDS, (GROUP_VERSION, "resource.k8s.io/v1beta2", "resource.k8s.io/v1beta1")),
    "DeviceTaintRule": (RULES_VERSION, "resource.k8s.io/v1alpha3"),
}
"""The versions of each kind that are understood."""


def parsed(spec: Any, kind: type[Spec], path: str = "spec") -> Spec:
    """Return a spec of one of these kinds. FieldError with the path for whatever is not understood."""
    try:
        return api.convert(_of_today(api.as_json({} if spec is None else spec)), kind)
    except FieldError as error:
        raise FieldError(path + error.path.removeprefix("$"), error.message).detached() from None


def _of_today(spec: Any) -> Any:
    """Turn what v1beta1 states in another shape into that of v1: flat requests, and devices under ``basic``."""
    if not isinstance(spec, Mapping):
        return spec
    if isinstance(spec.get("devices"), Mapping):
        requests = spec["devices"].get("requests")
        if isinstance(requests, list):
            return {**spec, "devices": {**spec["devices"], "requests": [_request_of_today(r) for r in requests]}}
    elif isinstance(spec.get("devices"), list):
        return {**spec, "devices": [_device_of_today(d) for d in spec["devices"]]}
    return spec


def _request_of_today(request: Any) -> Any:
    if not isinstance(request, Mapping) or "deviceClassName" not in request:
        return request
    return {"name": request.get("name", ""), "exactly": {k: v for k, v in request.items() if k != "name"}}


def _device_of_today(device: Any) -> Any:
    if not isinstance(device, Mapping) or not isinstance(device.get("basic"), Mapping):
        return device
    return {**{k: v for k, v in device.items() if k != "basic"}, **device["basic"]}
