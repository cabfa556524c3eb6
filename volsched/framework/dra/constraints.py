"""What the devices of one claim must have in common, or must not: ``matchAttribute`` and ``distinctAttribute``.

Upstream compares a device with the last one of each other request; here all of them are compared, also those of one
request (*ours*).
"""

from __future__ import annotations

from collections.abc import Hashable

from volsched.model.dra.api import DeviceConstraint
from volsched.model.dra.device import Device, Request, Version


class Constraint:
    """One constraint of a claim, and the values of the devices that are chosen so far."""

    def __init__(self, constraint: DeviceConstraint) -> None:
        self._requests = frozenset(constraint.requests)
        self._distinct = constraint.distinct_attribute is not None
        self.attribute = constraint.distinct_attribute or constraint.match_attribute or ""
        self._values: list[Hashable] = []

    def concerns(self, request: Request, full_name: str) -> bool:
        """Return whether it is about devices of this request, or of this alternative of it."""
        return not self._requests or request.name in self._requests or full_name in self._requests

    def add(self, device: Device) -> bool:
        """Take a device in, if it goes with those that are there."""
        value = _value(device, self.attribute)
        if value is None or (self._values and (value in self._values) is self._distinct):
            return False
        self._values.append(value)
        return True

    def remove(self) -> None:
        """Take the last device out again."""
        self._values.pop()


def is_list(device: Device, attribute: str) -> bool:
    """Return whether an attribute of a device is a list, for which constraints have no meaning here."""
    return isinstance(_raw(device, attribute), tuple)


def _value(device: Device, attribute: str) -> Hashable:
    """Return an attribute's value with its kind: a text is not the version that reads the same."""
    value = _raw(device, attribute)
    if value is None or isinstance(value, tuple):
        return None
    return ("version" if isinstance(value, Version) else type(value).__name__), value


def _raw(device: Device, attribute: str) -> object:
    """Look an attribute up by its whole name, or by the rest of it where its domain is the driver's."""
    if attribute in device.attributes:
        return device.attributes[attribute]
    domain, _, name = attribute.partition("/")
    return device.attributes.get(name) if domain == device.id.driver else None
