"""Devices, classes and claims as the allocation of claims reads them: values, once read, that never change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final, NamedTuple

import msgspec

from volsched.model import api
from volsched.model.dra import api as dra
from volsched.model.dra.binding import READY, Readiness
from volsched.model.pods.owners import Owner
from volsched.model.selectors import NodeSelector


class PoolId(NamedTuple):
    """A pool of a driver."""

    driver: str
    pool: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}"


class DeviceId(NamedTuple):
    """A device of a pool."""

    driver: str
    pool: str
    device: str

    @property
    def pool_id(self) -> PoolId:
        """Its pool."""
        return PoolId(self.driver, self.pool)

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.device}"


class Version(str):
    """An attribute that is a semantic version, and no string."""

    __slots__ = ()


Value = bool | int | str | Version | tuple[bool | int | str, ...]
"""The value of an attribute. A tuple is a list of values."""


@dataclass(frozen=True, slots=True)
class Place:
    """The nodes from which a device can be used: one, those that a selector names, or all."""

    node: str = ""
    selector: NodeSelector | None = None
    term: api.NodeSelectorTerm | None = None
    """The selector as it was written."""
    everywhere: bool = False

    def reaches(self, name: str, labels: Mapping[str, str]) -> bool:
        """Return whether the node of this name and with these labels is one of them."""
        if self.node:
            return self.node == name
        return self.everywhere or (self.selector is not None and self.selector.matches(name, labels))


@dataclass(frozen=True, slots=True)
class CapacityRequestPolicy:
    """How a request for a capacity is rounded."""

    default: Fraction | None = None
    values: tuple[Fraction, ...] = ()
    least: Fraction | None = None
    most: Fraction | None = None
    step: Fraction | None = None
    has_range: bool = False


@dataclass(frozen=True, slots=True)
class Capacity:
    """How much of something a device has."""

    value: Fraction
    policy: CapacityRequestPolicy | None = None


@dataclass(slots=True, eq=False)
class Device:
    """One device. `verdicts` remembers what selectors found of it: it never changes, it is replaced."""

    id: DeviceId
    attributes: Mapping[str, Value] = field(default_factory=dict)
    capacity: Mapping[str, Capacity] = field(default_factory=dict)
    counters: tuple[tuple[str, str, Fraction], ...] = ()
    """What it takes: (counter set, counter, amount)."""
    taints: tuple[dra.DeviceTaint, ...] = ()
    place: Place | None = None
    """Its own, where devices of the slice have one each."""
    binds_to_node: bool = False
    shareable: bool = False
    conditions: tuple[str, ...] = ()
    """Conditions that must come true before a pod is bound."""
    failure_conditions: tuple[str, ...] = ()
    """Conditions that state that these will not."""
    verdicts: dict[object, object] = field(default_factory=dict, repr=False)
    build: int = 0
    """The number of all that the search reads of it but its name and its attributes; 0 until it is asked for."""


@dataclass(slots=True, eq=False)
class Slice:
    """A part of a pool. `fault` states what of it cannot be understood; then its pool cannot be used."""

    name: str
    pool_id: PoolId
    generation: int
    size: int
    """How many slices the pool states that it has."""
    place: Place | None = None
    """None: each device has its own."""
    devices: tuple[Device, ...] = ()
    counter_sets: Mapping[str, Mapping[str, Fraction]] = field(default_factory=dict)
    repeated_sets: tuple[str, ...] = ()
    fault: str = ""

    def reaches(self, name: str, labels: Mapping[str, str]) -> bool:
        """Return whether a node needs this slice: it may use devices of it, or they share its counters."""
        if self.counter_sets:
            return True
        if self.place is not None:
            return self.place.reaches(name, labels)
        return any(device.place is not None and device.place.reaches(name, labels) for device in self.devices)

    @property
    def only_node(self) -> str:
        """The one node that may use devices of it; empty when there may be others."""
        return self.place.node if self.place is not None else ""


@dataclass(frozen=True, slots=True)
class TaintRule:
    """A taint for the devices of this driver, pool and name, None for any. `fault`: what of it cannot be understood."""

    name: str
    driver: str | None = None
    pool: str | None = None
    device: str | None = None
    taint: dra.DeviceTaint | None = None
    fault: str = ""

    def selects_of(self, pool: PoolId) -> bool:
        """Return whether devices of this pool may be meant."""
        return self.driver in (None, pool.driver) and self.pool in (None, pool.pool)

    def selects(self, device: DeviceId) -> bool:
        """Return whether a device is meant."""
        return self.selects_of(device.pool_id) and self.device in (None, device.device)


class Ask(msgspec.Struct, frozen=True):
    """Devices of one class: a request, or one alternative of it."""

    name: str
    device_class: str
    selectors: tuple[str, ...] = ()
    takes_all: bool = False
    count: int = 1
    admin: bool = False
    tolerations: tuple[dra.DeviceToleration, ...] = ()
    capacity: tuple[tuple[str, Fraction], ...] = ()


class Request(msgspec.Struct, frozen=True):
    """What a claim asks for under one name; with several alternatives the first that can be had."""

    name: str
    alternatives: tuple[Ask, ...]
    prioritised: bool = False

    def full_name(self, ask: Ask) -> str:
        """Return the name that a result of this alternative has."""
        return f"{self.name}/{ask.name}" if self.prioritised else self.name


LONGEST_SHAPE: Final = 4096
"""Characters of a shape that is kept as it is. Tables keep shapes when their claims are gone."""

LONG: Final = b"\0"
"""With which the digest of a longer shape begins."""


class ClaimSpec(msgspec.Struct, frozen=True, eq=False, weakref=True):
    """What a claim asks for. `fault` states what of it cannot be understood; such a claim is not allocated.

    `shape` is all of it that decides which devices will do, as one value: claims of the same shape get the same devices
    in the same place. Of a long one it is a digest. Parameters for drivers (`config`) are handed on to these and decide
    nothing.
    """

    requests: tuple[Request, ...] = ()
    constraints: tuple[dra.DeviceConstraint, ...] = ()
    config: tuple[dra.DeviceConfiguration, ...] = ()
    fault: str = ""
    shape: bytes = b""
    prioritised: bool = False
    """Whether any request has alternatives."""
    leaves_choice: bool = False
    """Whether the number of devices that it is given, or their class, depends on the node."""

    @property
    def is_long(self) -> bool:
        """True if what it asks for is long: nothing is remembered of it when the claim is gone."""
        return self.shape.startswith(LONG)

    def classes(self) -> Iterator[str]:
        """Yield the classes that it names."""
        for request in self.requests:
            for ask in request.alternatives:
                yield ask.device_class


@dataclass(frozen=True, slots=True)
class ClassSpec:
    """Which devices are of a class. `fault` states what of it cannot be understood."""

    name: str
    selectors: tuple[str, ...] = ()
    config: tuple[dra.DeviceConfiguration, ...] = ()
    extended_resource: str = ""
    created: str = ""
    """When, as the API server wrote it: of several classes for one extended resource the newest counts."""
    fault: str = ""


@dataclass(slots=True, eq=False)
class Claim:
    """A ResourceClaim. `spec` is one object for all claims that state the same, and its `shape` is what decides."""

    key: str
    uid: str
    version: str
    spec: ClaimSpec
    owner: Owner | None
    """The pod, or the PodGroup of scheduling.k8s.io, that it was made for, if any."""
    deleting: bool
    allocation: dra.Allocation | None
    reserved_for: tuple[dra.Consumer, ...]
    extended: bool = False
    """Whether a scheduler made it for the extended resources of its owner."""
    readiness: Readiness = READY
    """How far its devices are, where they want something to be true before a pod is bound."""

    def is_equivalent_to(self, other: Claim) -> bool:
        """Return whether another version of the claim differs in nothing that counts."""
        return self._content == other._content

    @property
    def _content(self) -> tuple[object, ...]:
        asked = self.spec.shape, self.spec.config
        has = self.allocation, self.reserved_for, self.readiness
        return asked, self.owner, self.deleting, has, self.extended

    @property
    def name(self) -> str:
        """Its name, without the namespace."""
        return self.key.partition("/")[2]

    @property
    def is_of_group(self) -> bool:
        """True if it is reserved for a PodGroup, which keeps it whatever becomes of single pods."""
        return any(consumer.resource == "podgroups" for consumer in self.reserved_for)
