"""Binding conditions: what must be true of a claim's devices before a pod that uses it is bound.

A device that has to be attached to its node first has that in its slice; the allocation carries the names of the
conditions along, and the driver sets them in the claim's status. Until all are true the pod waits, with its devices;
one that reports failure, or a wait that is too long, ends it, and the claim may be given other devices.

Rules: dynamicresources (isClaimReadyForBinding, isClaimTimeout) of Kubernetes 1.36. There a failure is only seen once
all devices before it are ready, here at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final

import msgspec

from volsched.model import api
from volsched.model.dra import api as dra


class Readiness(msgspec.Struct, frozen=True):
    """How far a claim's devices are."""

    pending: tuple[str, ...] = ()
    """Conditions that are not true yet, with their devices, in words."""
    failure: str = ""
    """Why they will not become so, in words."""
    since: float | None = None
    """When the devices were allocated, in seconds since the epoch, as far as the claim states."""

    @property
    def is_reached(self) -> bool:
        """True if pods that use the claim may be bound."""
        return not self.pending and not self.failure

    def is_given_up(self, now: float, within: float) -> bool:
        """Return whether the claim cannot be waited for: a device failed, or its time (in seconds) is over."""
        return bool(self.failure) or (bool(self.pending) and self.since is not None and now > self.since + within)


READY: Final = Readiness()


def readiness_of(status: dra.ResourceClaimStatus) -> Readiness:
    """Tell how far the devices are that a claim has. One without any has nothing to wait for."""
    allocation = status.allocation
    if allocation is None or not any(result.binding_conditions for result in allocation.devices.results):
        return READY
    pending: list[str] = []
    failures: list[str] = []
    for result in allocation.devices.results:
        if result.binding_conditions:
            conditions = _conditions_of(status, result)
            pending.extend(_pending(result, conditions))
            failures.extend(_failures(result, conditions))
    return Readiness(tuple(pending), failures[0] if failures else "", _seconds(allocation.allocation_timestamp))


def _conditions_of(status: dra.ResourceClaimStatus, result: dra.DeviceResult) -> dict[str, api.Condition]:
    """Return what the driver reports of a device, by the type of the condition."""
    wanted = (result.driver, result.pool, result.device)
    for device in status.devices:
        if (device.driver, device.pool, device.device) == wanted and device.share_id in (None, result.share_id):
            return {condition.type: condition for condition in device.conditions}
    return {}


def _pending(result: dra.DeviceResult, conditions: dict[str, api.Condition]) -> Iterator[str]:
    for name in result.binding_conditions:
        if name not in conditions or conditions[name].status != "True":
            yield f"{name} of device {_name(result)}"


def _failures(result: dra.DeviceResult, conditions: dict[str, api.Condition]) -> Iterator[str]:
    for name in result.binding_failure_conditions:
        found = conditions.get(name)
        if found is not None and found.status == "True":
            why = ": ".join(part for part in (found.reason, found.message) if part)
            yield f"device {_name(result)} has failed ({name}{': ' if why else ''}{why})"


def _name(result: dra.DeviceResult) -> str:
    return f"{result.driver}/{result.pool}/{result.device}"


def _seconds(stamp: str | None) -> float | None:
    try:
        return datetime.fromisoformat(stamp).timestamp() if stamp else None
    except ValueError:
        return None
