"""Extended resources that a DeviceClass stands for: the ResourceClaim that is made for a pod to have them from devices.

A pod asks for ``example.com/gpu: 2``, and a DeviceClass states that its devices are that
(``spec.extendedResourceName``, or the implicit name of every class). A node that offers some of the resource itself
serves it as ever; one that offers none serves it from its devices, by a claim that the scheduler makes for the pod
alone. Containers that go on running have a request each; an init container that is over before others start uses the
devices of those first, and of all such containers only the largest rest is asked for.

Source: KEP 5004 and kube-scheduler's dynamicresources of Kubernetes 1.36. The number at the end of a request's name
counts the container's extended resources (upstream: all that it requests), as nothing reads it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

import msgspec

from volsched.model.dra.api import DeviceRequest, ExactDeviceRequest
from volsched.model.dra.device import Claim
from volsched.model.dra.devices import Devices, pending_claim_uid
from volsched.model.dra.reading import claim_spec
from volsched.model.plan import ExtendedClaim
from volsched.model.pods.placement_rules import INIT, MAIN, ContainerAmounts
from volsched.model.pods.task import TaskInfo
from volsched.model.pods.template import PodTemplate

MOST_REQUESTS: Final = 32
"""Requests that one claim may have."""

Pairs = tuple[tuple[str, str], ...]
"""Extended resources with the DeviceClass that stands for each, in order of resources."""

_ONE: Final = 1000
"""An amount of one device, in thousandths."""
_LONGEST_START: Final = 50
"""Letters of a claim's name that tell the pod. API servers make names of 63 letters at most."""


def from_devices(template: PodTemplate, devices: Devices) -> Pairs:
    """Return what a pod asks for that devices may serve."""
    if not template.container_amounts or not devices.classes:
        return ()
    asked = sorted(name for name, amount in template.request.items() if amount > 0)
    return tuple((name, found) for name in asked if (found := devices.class_for(name)) is not None)


@dataclass(frozen=True, slots=True)
class PendingClaim:
    """A claim that is still to be made: as the search for devices sees it, and as it is written."""

    claim: Claim
    made: ExtendedClaim


def pending_claim_of(task: TaskInfo, pairs: Pairs) -> PendingClaim:
    """Return the claim by which a pod has these resources from devices."""
    containers = _in_order(task)
    requests: list[DeviceRequest] = []
    mappings: list[tuple[str, str, str]] = []
    for resource, device_class in pairs:
        wanted = _ExtendedResource(resource, device_class, containers)
        requests += wanted.requests()
        mappings += wanted.mappings
    requests.sort(key=lambda request: request.name)
    spec = claim_spec({"devices": {"requests": msgspec.to_builtins(requests)}})
    uid = pending_claim_uid(task.uid)
    claim = Claim(uid, uid, "", spec, task.as_owner, False, None, (), extended=True)
    return PendingClaim(claim, ExtendedClaim(claim_name(task.name, task.uid), tuple(requests), tuple(mappings)))


def made_for(claim: Claim, tasks: Mapping[str, TaskInfo]) -> TaskInfo | None:
    """Return the pod that a claim was made for, if it is that one by name and namespace, too."""
    task = tasks.get(claim.owner.uid) if claim.owner is not None else None
    return task if task is not None and task.as_owner == claim.owner else None


def claim_name(pod: str, uid: str) -> str:
    """Return the name of a pod's claim: always the same, so that what is created twice is there once."""
    start = f"{pod}-extended-resources-"[:_LONGEST_START].rstrip("-.")
    return f"{start}-{sha256(uid.encode()).hexdigest()[:10]}"


def _in_order(task: TaskInfo) -> list[tuple[str, ContainerAmounts]]:
    """Return containers with their names: init containers first, as they start."""
    amounts = task.template.container_amounts
    main = [found for found in amounts if found.kind == MAIN]
    init = [found for found in amounts if found.kind == INIT]
    names = task.spec.containers
    return [
        *((names[len(main) + found.place], found) for found in init),
        *((names[found.place], found) for found in main),
    ]


class _ExtendedResource:
    """What containers want of one resource. `mappings` fill as `requests` are made."""

    def __init__(self, resource: str, device_class: str, containers: Sequence[tuple[str, ContainerAmounts]]) -> None:
        self._resource = resource
        self._class = device_class
        self._containers = containers
        self.mappings: list[tuple[str, str, str]] = []

    def requests(self) -> list[DeviceRequest]:
        """Return a request for each container that goes on running, and the largest rest of the others."""
        kept: dict[int, tuple[str, int]] = {}
        for place, name, count in self._asking(brief=False):
            kept[place] = self._name(place), count
            self._map(name, self._name(place))
        rest, users = ("", 0), []
        for place, name, count in self._asking(brief=True):
            lacking = self._borrow(name, count, [kept[later] for later in kept if later > place])
            if lacking > 0:
                users.append(name)
                rest = max(rest, (self._name(place), lacking), key=lambda found: found[1])
        for name in users:
            self._map(name, rest[0])
        return [self._request(*found) for found in (*kept.values(), *([rest] if users else ()))]

    def _asking(self, *, brief: bool) -> Iterator[tuple[int, str, int]]:
        """Yield place, name and devices of each container that is over before others start, or of each that is not."""
        for place, (name, container) in enumerate(self._containers):
            count = dict(container.amounts).get(self._resource, 0) // _ONE
            if count > 0 and (container.kind == INIT and not container.sidecar) is brief:
                yield place, name, count

    def _borrow(self, container: str, count: int, requests: Collection[tuple[str, int]]) -> int:
        """Let a container use the devices of those that start later; the number that it still lacks."""
        for request, there in requests:
            if count <= 0:
                break
            self._map(container, request)
            count -= there
        return count

    def _map(self, container: str, request: str) -> None:
        self.mappings.append((container, self._resource, request))

    def _name(self, place: int) -> str:
        resources = [name for name, _ in self._containers[place][1].amounts]
        return f"container-{place}-request-{resources.index(self._resource)}"

    def _request(self, name: str, count: int) -> DeviceRequest:
        return DeviceRequest(name, ExactDeviceRequest(device_class_name=self._class, count=count))
