"""Claims and their templates as they are read from a cluster: without fields that decide nothing.

Parameters for drivers are 10 KiB each, 32 to a claim, and cost twenty times that as Python objects. Tenants
write them, and they decide nothing. So they are not decoded: a claim states which requests they are for, and
they are fetched when the claim is allocated (`with_parameters`), for the allocation to hand them on. Of a claim's
status they are left out, too: it is not written again. Those of classes, which administrators write, are kept.

The structs have the names of those in `dra.api`, since objects are distinguished by the names of their kinds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeVar

import msgspec

from volsched.model import api
from volsched.model.dra import api as dra
from volsched.model.errors import FieldError
from volsched.model.values import json_text

_ABSENT: Final = msgspec.Raw(b"null")
_DEEP: Final = 2 * json_text.MOST_LEVELS
_TOO_DEEP: Final = msgspec.json.decode('{"devices":' * _DEEP + "null" + "}" * _DEEP)

S = TypeVar("S")


class _Config(api.Record, frozen=True):
    """Parameters of a claim, without them."""

    requests: tuple[str, ...] = ()


class _Devices(dra.Strict, frozen=True):
    requests: Any = None
    constraints: Any = None
    config: tuple[_Config, ...] = ()


class _ClaimSpec(dra.Strict, frozen=True):
    devices: _Devices = _Devices()


class _Template(api.Record, frozen=True):
    spec: msgspec.Raw = _ABSENT


class _Given(api.Record, frozen=True):
    """Parameters of a claim, as they are written."""

    requests: tuple[str, ...] = ()
    opaque: msgspec.Raw = _ABSENT


class _GivenRequest(api.Record, frozen=True):
    name: str = ""


class _GivenDevices(api.Record, frozen=True):
    requests: tuple[_GivenRequest, ...] = ()
    config: tuple[_Given, ...] = ()


class _GivenSpec(api.Record, frozen=True):
    devices: _GivenDevices = _GivenDevices()


class _GivenClaim(api.Record, frozen=True):
    metadata: api.ObjectMeta = api.ObjectMeta()
    spec: _GivenSpec = _GivenSpec()


class _Skipped(api.Record, frozen=True):
    """Something of which nothing is read."""


class _AllocatedDevices(dra.DevicesAllocated, frozen=True):
    """The devices that a claim has, without the parameters that drivers are given for them."""

    config: tuple[_Skipped, ...] = ()  # type: ignore[assignment]  # there are none, once it is made

    def __post_init__(self) -> None:
        if self.config:
            msgspec.structs.force_setattr(self, "config", ())


class _Allocation(dra.Allocation, frozen=True):
    devices: _AllocatedDevices = _AllocatedDevices()


class _ClaimStatus(dra.ResourceClaimStatus, frozen=True):
    allocation: _Allocation | None = None


class ResourceClaim(dra.ResourceClaim, frozen=True):
    """resource.k8s.io ResourceClaim without parameters."""

    spec: msgspec.Raw = _ABSENT
    status: _ClaimStatus = _ClaimStatus()

    def __post_init__(self) -> None:
        if isinstance(self.spec, msgspec.Raw):
            msgspec.structs.force_setattr(self, "spec", _without_parameters(self.spec))


class ResourceClaimTemplate(dra.ResourceClaimTemplate, frozen=True):
    """resource.k8s.io ResourceClaimTemplate without parameters, and without the metadata of its claims."""

    spec: msgspec.Raw = _ABSENT

    def __post_init__(self) -> None:
        if isinstance(self.spec, msgspec.Raw):
            spec = _as(_Template, self.spec)
            found = {"spec": _without_parameters(spec.spec)} if spec is not None else _plain(self.spec)
            msgspec.structs.force_setattr(self, "spec", found)


KINDS: Final[Mapping[str, type[api.ApiObject]]] = {
    **dra.KINDS,
    "ResourceClaim": ResourceClaim,
    "ResourceClaimTemplate": ResourceClaimTemplate,
}
"""What each kind of a cluster is decoded into."""


def _without_parameters(written: msgspec.Raw) -> Any:
    """Return the spec of a claim as plain values, its parameters left out.

    Parameters that are nested too deep cannot be handed on: such a spec stays one that is, and is refused for it.
    """
    if json_text.is_deeper(bytes(written), json_text.MOST_LEVELS):
        return _TOO_DEEP
    spec = _as(_ClaimSpec, written)
    if spec is not None:
        return msgspec.to_builtins(spec)
    found = _plain(written)  # something in it is not understood, and will be a fault
    devices = found.get("devices") if isinstance(found, dict) else None
    if isinstance(devices, dict):
        devices.pop("config", None)
    return found


def _as(kind: type[S], written: msgspec.Raw) -> S | None:
    """Return a text as such a struct, or None when it is none."""
    try:
        return json_text.decode(bytes(written), kind)
    except msgspec.MsgspecError:
        return None


def _plain(written: msgspec.Raw) -> Any:
    return json_text.decode(bytes(written))


def needs_parameters(allocation: dra.Allocation) -> bool:
    """True if an allocation lacks parameters that its claim states: they were not kept."""
    return any(one.opaque is None for one in allocation.devices.config)


def with_parameters(allocation: dra.Allocation, claim: bytes) -> dra.Allocation:
    """Return an allocation with the parameters of its claim, which is given as JSON.

    Raises FieldError when they are not.

    The spec of a claim never changes, so those that an allocation states are all there, in their order.
    """
    try:
        given = msgspec.json.decode(claim, type=_GivenClaim).spec.devices
    except RecursionError:
        raise FieldError("spec.devices.config", f"is nested deeper than {json_text.MOST_LEVELS} levels") from None
    except msgspec.MsgspecError as error:
        raise FieldError("spec.devices.config", f"is not understood: {error}") from error
    names = {one.request for one in allocation.devices.results} | {request.name for request in given.requests}
    stated = (one for one in given.config if not one.requests or not names.isdisjoint(one.requests))
    devices = msgspec.structs.replace(allocation.devices, config=tuple(_filled(allocation, stated)))
    return msgspec.structs.replace(allocation, devices=devices)


def _filled(allocation: dra.Allocation, stated: Iterator[_Given]) -> Iterator[dra.AllocatedConfiguration]:
    for one in allocation.devices.config:
        if one.opaque is not None:
            yield one
            continue
        found = next((each for each in stated if each.requests == one.requests), None)
        if found is None:
            raise FieldError("spec.devices.config", "has other parameters than it had")
        yield dra.AllocatedConfiguration(one.source, one.requests, found.opaque)
