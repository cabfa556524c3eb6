"""Reads the objects of Dynamic Resource Allocation into the records that are kept.

What cannot be understood becomes a fault of the slice, class or claim that states it: one bad object must not stop the
scheduler, and must not be used either.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from hashlib import blake2b

import msgspec

from volsched.model import api
from volsched.model.dra import api as dra
from volsched.model.dra.device import (
    LONG,
    LONGEST_SHAPE,
    Ask,
    Capacity,
    CapacityRequestPolicy,
    ClaimSpec,
    ClassSpec,
    Device,
    DeviceId,
    Place,
    PoolId,
    Request,
    Slice,
    TaintRule,
    Value,
    Version,
)
from volsched.model.errors import FieldError, QuantityError
from volsched.model.selectors import NodeSelector
from volsched.model.values.quantity import QuantityText, parse


def amount(text: QuantityText) -> Fraction:
    """Return a quantity. What cannot be read counts as nothing."""
    try:
        return parse(text)
    except QuantityError:
        return Fraction(0)


def claim_spec(spec: object, path: str = "spec") -> ClaimSpec:
    """Read what a claim asks for; what cannot be understood becomes its fault."""
    try:
        devices = dra.parsed(spec, dra.ResourceClaimSpec, path).devices
        requests = tuple(_request(r, f"{path}.devices.requests[{n}]") for n, r in enumerate(devices.requests))
        for number, constraint in enumerate(devices.constraints):
            if (constraint.match_attribute is None) == (constraint.distinct_attribute is None):
                where = f"{path}.devices.constraints[{number}]"
                raise FieldError(where, "must have exactly one of matchAttribute and distinctAttribute")
    except FieldError as error:
        return ClaimSpec(fault=str(error), shape=str(error).encode())
    shape = msgspec.json.encode((requests, devices.constraints), enc_hook=str)
    if len(shape) > LONGEST_SHAPE:
        shape = LONG + blake2b(shape, digest_size=32).digest()
    prioritised = any(request.prioritised for request in requests)
    leaves_choice = prioritised or any(request.alternatives[0].takes_all for request in requests)
    return ClaimSpec(requests, devices.constraints, devices.config, "", shape, prioritised, leaves_choice)


def _request(request: dra.DeviceRequest, path: str) -> Request:
    if (request.exactly is None) == (not request.first_available):
        raise FieldError(path, "must have exactly one of exactly and firstAvailable")
    if request.exactly is not None:
        found = request.exactly
        ask = _ask(found, request.name, bool(found.admin_access), f"{path}.exactly")
        return Request(request.name, (ask,))
    alternatives = tuple(
        _ask(found, found.name, False, f"{path}.firstAvailable[{n}]") for n, found in enumerate(request.first_available)
    )
    return Request(request.name, alternatives, True)


def _ask(found: dra.ExactDeviceRequest | dra.DeviceSubRequest, name: str, admin: bool, path: str) -> Ask:
    if not found.device_class_name:
        raise FieldError(f"{path}.deviceClassName", "is missing")
    if found.allocation_mode not in ("", dra.EXACT_COUNT, dra.ALL):
        raise FieldError(f"{path}.allocationMode", f'"{found.allocation_mode}" is not understood')
    takes_all, count = found.allocation_mode == dra.ALL, found.count or 1  # the API server's default, for 0 too
    if count < 1 and not takes_all:
        raise FieldError(f"{path}.count", f"{count} must be at least 1")
    for number, toleration in enumerate(found.tolerations):
        if toleration.operator not in ("", "Equal", "Exists"):
            message = f'"{toleration.operator}" is not understood'
            raise FieldError(f"{path}.tolerations[{number}].operator", message)
    wanted = found.capacity.requests if found.capacity is not None else {}
    capacity = tuple((key, _asked(text, f"{path}.capacity.requests[{key}]")) for key, text in sorted(wanted.items()))
    return Ask(
        name,
        found.device_class_name,
        _expressions(found.selectors, path),
        takes_all,
        count,
        admin,
        found.tolerations,
        capacity,
    )


def _expressions(selectors: Iterable[dra.DeviceSelector], path: str) -> tuple[str, ...]:
    found = []
    for number, selector in enumerate(selectors):
        if selector.cel is None:
            raise FieldError(f"{path}.selectors[{number}]", "is of a kind that is not understood; use cel")
        found.append(selector.cel.expression)
    return tuple(found)


def _asked(text: QuantityText, path: str) -> Fraction:
    """Read what is asked for of a capacity. Less than nothing would give the queue and the device something back."""
    value = _quantity(text, path)
    if value < 0:
        raise FieldError(path, f"{text} must not be negative")
    return value


def _quantity(text: QuantityText, path: str) -> Fraction:
    try:
        return parse(text)
    except QuantityError as error:
        raise FieldError(path, str(error)) from None


def class_of(found: dra.DeviceClass) -> ClassSpec:
    """Read a class; what cannot be understood becomes its fault."""
    name, created = found.metadata.name, found.metadata.creation_timestamp or ""
    try:
        spec = dra.parsed(found.spec, dra.DeviceClassSpec)
        resource = spec.extended_resource_name or ""
        return ClassSpec(name, _expressions(spec.selectors, "spec"), spec.config, resource, created)
    except FieldError as error:
        return ClassSpec(name, created=created, fault=str(error))


def taint_rule_of(found: dra.DeviceTaintRule) -> TaintRule:
    """Read a rule. What cannot be understood becomes its fault, as far as it can be told which devices it means.

    A rule without a selector taints every device, as in kube-scheduler (resourceslice/tracker of Kubernetes 1.36). The
    API's own text states none; devices are rather held back than given out against somebody's will.
    """
    name = found.metadata.name
    try:
        spec = dra.parsed(found.spec, dra.DeviceTaintRuleSpec)
    except FieldError as error:
        raw = found.spec.get("deviceSelector") if isinstance(found.spec, Mapping) else None
        mapping = raw if isinstance(raw, Mapping) else {}
        parts = {key: mapping[key] for key in ("driver", "pool", "device") if isinstance(mapping.get(key), str)}
        return TaintRule(name, **parts, fault=str(error))
    selector = spec.device_selector or dra.DeviceTaintSelector()
    return TaintRule(name, selector.driver, selector.pool, selector.device, spec.taint)


def slice_of(found: dra.ResourceSlice) -> Slice:
    """Read a slice. What cannot be understood becomes its fault, as far as it can be told of which pool it is."""
    name = found.metadata.name
    try:
        return _slice(name, dra.parsed(found.spec, dra.ResourceSliceSpec))
    except FieldError as error:
        return _unreadable(name, found.spec, str(error))


def _unreadable(name: str, spec: object, fault: str) -> Slice:
    """Keep the place of a slice, so that its pool counts as one that cannot be used."""
    raw = spec if isinstance(spec, Mapping) else {}
    mapping = raw.get("pool")
    pool = mapping if isinstance(mapping, Mapping) else {}
    generation, size = pool.get("generation"), pool.get("resourceSliceCount")
    return Slice(
        name,
        PoolId(str(raw.get("driver", "")), str(pool.get("name", ""))),
        generation if isinstance(generation, int) else 0,
        size if isinstance(size, int) else 0,
        Place(node=raw["nodeName"]) if isinstance(raw.get("nodeName"), str) else Place(everywhere=True),
        fault=f"ResourceSlice {name}: {fault}",
    )


def _slice(name: str, spec: dra.ResourceSliceSpec) -> Slice:
    pool = PoolId(spec.driver, spec.pool.name)
    place = None
    if not spec.per_device_node_selection:
        place = _place(spec.node_name, spec.node_selector, spec.all_nodes, "spec.nodeSelector")
    sets: dict[str, Mapping[str, Fraction]] = {}
    repeated = []
    for number, found in enumerate(spec.shared_counters):
        if found.name in sets:
            repeated.append(found.name)
        path = f"spec.sharedCounters[{number}].counters"
        sets[found.name] = {key: _quantity(c.value, f"{path}[{key}]") for key, c in found.counters.items()}
    devices = tuple(
        _device(pool, device, f"spec.devices[{number}]", spec.per_device_node_selection)
        for number, device in enumerate(spec.devices)
    )
    return Slice(
        name,
        pool,
        spec.pool.generation,
        spec.pool.resource_slice_count,
        place,
        devices,
        sets,
        tuple(repeated),
    )


def _place(node: str | None, selector: api.NodeSelector | None, everywhere: bool, path: str) -> Place:
    if node:
        return Place(node=node)
    if selector is None or everywhere:
        return Place(everywhere=everywhere)
    if len(selector.node_selector_terms) != 1:
        raise FieldError(path, "must have exactly one term")
    return Place(selector=NodeSelector.parse(selector, path=path), term=selector.node_selector_terms[0])


def _device(pool: PoolId, device: dra.Device, path: str, has_place: bool) -> Device:
    place = None
    if has_place:
        place = _place(device.node_name, device.node_selector, device.all_nodes, f"{path}.nodeSelector")
    counters = [
        (taken.counter_set, name, _quantity(counter.value, f"{path}.consumesCounters[{taken.counter_set}][{name}]"))
        for taken in device.consumes_counters
        for name, counter in taken.counters.items()
    ]
    counters += [(taken.counter_set, "", Fraction(0)) for taken in device.consumes_counters if not taken.counters]
    return Device(
        DeviceId(*pool, device.name),
        {key: _attribute(value, f"{path}.attributes[{key}]") for key, value in device.attributes.items()},
        {key: _capacity(value, f"{path}.capacity[{key}]") for key, value in device.capacity.items()},
        tuple(counters),
        device.taints,
        place,
        device.binds_to_node,
        device.allow_multiple_allocations,
        device.binding_conditions,
        device.binding_failure_conditions,
    )


def _attribute(found: dra.DeviceAttribute, path: str) -> Value:
    version = Version(found.version) if found.version is not None else None
    versions = tuple(map(Version, found.versions)) if found.versions is not None else None
    values: tuple[Value | None, ...] = (
        found.number,
        found.flag,
        found.string,
        version,
        found.numbers,
        found.flags,
        found.strings,
        versions,
    )
    given = [value for value in values if value is not None]
    if len(given) != 1:
        raise FieldError(path, "must have exactly one value of a kind that is understood")
    return given[0]


def _capacity(found: dra.DeviceCapacity, path: str) -> Capacity:
    value, policy = _quantity(found.value, f"{path}.value"), found.request_policy
    if policy is None:
        return Capacity(value)
    path = f"{path}.requestPolicy"

    def read(text: QuantityText | None, name: str) -> Fraction | None:
        return None if text is None else _quantity(text, f"{path}.{name}")

    bounds = policy.valid_range or dra.CapacityRange()
    step = read(bounds.step, "validRange.step")
    if step is not None and step <= 0:
        raise FieldError(f"{path}.validRange.step", "must be more than 0")
    values = tuple(sorted(_quantity(text, f"{path}.validValues") for text in policy.valid_values))
    least, most = read(bounds.min, "validRange.min"), read(bounds.max, "validRange.max")
    return Capacity(
        value,
        CapacityRequestPolicy(
            read(policy.default, "default"), values, least, most, step, policy.valid_range is not None
        ),
    )
