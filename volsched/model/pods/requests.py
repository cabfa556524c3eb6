"""The amounts that a pod takes of a node.

After component-helpers `resource.PodRequests`, KEP-753 (sidecars), KEP-2837 (pod-level resources) and KEP-1287 (resize
in place). For one resource::

    main    = sum over containers + sum over all sidecars
    before  = sum over the sidecars that started earlier, for each init container
    init    = the largest of (an init container + before), sidecars included
    request = max(main, init), replaced by the pod-level request where there is one, plus the pod's overhead

Limits without requests count as requests, as the API server's defaulting makes them.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from volsched.model import api
from volsched.model.errors import FieldError, QuantityError
from volsched.model.values.quantity import QuantityText, amount_of
from volsched.model.values.resources import CPU, MEMORY, Resources, saturating_add

DEFAULT_CPU: Final = 100
"""Milli-cores that scores assume for a container without a request."""

DEFAULT_MEMORY: Final = 200 * 1024 * 1024
"""Bytes that scores assume for a container without a request."""

RESIZE_PENDING: Final = "PodResizePending"

_ASSUMED: Final = {CPU: DEFAULT_CPU, MEMORY: DEFAULT_MEMORY}
_HUGE: Final = "hugepages-"

Amounts = dict[str, int]


class PodRequests(msgspec.Struct, frozen=True, gc=False):
    """The request of a pod without its slot. The `nonzero` amounts are for scores only."""

    request: Resources
    nonzero_cpu: int
    nonzero_memory: int


def of_pod(pod: api.Pod) -> PodRequests:
    """Return the request of a pending pod, from its spec."""
    return _computed(pod.spec, None)


def of_placed_pod(pod: api.Pod) -> PodRequests:
    """Return the amounts of a pod on its node: while it is resized, the largest of requested, granted and used."""
    return _computed(pod.spec, pod.status if is_resizing(pod) else None)


def is_resizing(pod: api.Pod) -> bool:
    """True if a pod is being resized: the kubelet reports other resources than the spec asks for.

    Without it a placed pod takes just what its template states. (Kubelets since 1.33 always report resources.)
    """
    spec, status = pod.spec, pod.status
    if _differs(spec.resources, status.resources, status.allocated_resources):
        return True
    reports = [*status.container_statuses, *status.init_container_statuses]
    if all(item.resources is None and item.allocated_resources is None for item in reports):
        return False
    containers = {item.name: item.resources for item in (*spec.containers, *spec.init_containers)}
    return any(_differs(containers.get(item.name), item.resources, item.allocated_resources) for item in reports)


def pod_level_resource(name: str) -> bool:
    """Return whether a request for the pod as a whole may name this resource."""
    return name in (CPU, MEMORY) or name.startswith(_HUGE)


def _computed(spec: api.PodSpec, status: api.PodStatus | None) -> PodRequests:
    containers, inits = _effective(spec, _ContainerStatuses(status))
    total = aggregate(containers, inits)
    pod_level: Amounts = {}
    if spec.resources is not None:
        from_spec = total if status is None else aggregate(*_effective(spec, _ContainerStatuses(None)))
        pod_level = _ContainerStatuses(status).effective_of_pod(_pod_level(spec.resources, from_spec))
    overhead = amounts(spec.overhead, "spec.overhead")
    defaults = _ASSUMED
    if _is_pod_level(spec):
        known = total.keys() | pod_level.keys() | overhead.keys()
        defaults = {name: amount for name, amount in _ASSUMED.items() if name not in known}
    assumed = aggregate(
        [{**defaults, **item} for item in containers], [(sidecar, {**defaults, **item}) for sidecar, item in inits]
    )
    nonzero = _plus({**assumed, **pod_level}, overhead)
    request = Resources(_plus({**total, **pod_level}, overhead))
    return PodRequests(request, nonzero.get(CPU, 0), nonzero.get(MEMORY, 0))


def _effective(spec: api.PodSpec, statuses: "_ContainerStatuses") -> tuple[list[Amounts], list[tuple[bool, Amounts]]]:
    """Return the amounts of each container, and of each init container together with whether it is a sidecar."""
    containers = [statuses.effective(item, f"spec.containers[{n}]") for n, item in enumerate(spec.containers)]
    inits = [
        (item.is_sidecar, statuses.effective(item, f"spec.initContainers[{n}]", only_spec=not item.is_sidecar))
        for n, item in enumerate(spec.init_containers)
    ]
    return containers, inits


def aggregate(containers: Iterable[Amounts], inits: Iterable[tuple[bool, Amounts]]) -> Amounts:
    """Return the sum of containers. Init containers come with whether they are sidecars."""
    main: Amounts = {}
    for item in containers:
        main = _plus(main, item)
    sidecars: Amounts = {}
    largest: Amounts = {}
    for is_sidecar, item in inits:
        phase = _plus(sidecars, item)
        if is_sidecar:
            sidecars = phase
            main = _plus(main, item)
        largest = _maximum(largest, phase)
    return _maximum(main, largest)


def _pod_level(resources: api.ResourceRequirements, containers: Amounts) -> Amounts:
    """Return the pod-level requests after the API server's defaulting.

    As soon as there is a limit (huge pages of a container count as one), the sum of the containers' requests becomes
    the request, or the limit if they request nothing. Huge pages cannot be overcommitted: there the limit comes first.
    """
    asked = _only_pod_level(amounts(resources.requests, "spec.resources.requests"))
    limits = _only_pod_level(amounts(resources.limits, "spec.resources.limits"))
    in_containers = _only_pod_level(containers)
    huge = {name: amount for name, amount in in_containers.items() if name.startswith(_HUGE)}
    if not resources.limits and not (huge and resources.requests):
        return asked
    huge_limits = {name: amount for name, amount in limits.items() if name.startswith(_HUGE)}
    return {**limits, **in_containers, **huge_limits, **asked}


def _only_pod_level(given: Amounts) -> Amounts:
    return {name: amount for name, amount in given.items() if pod_level_resource(name)}


def _is_pod_level(spec: api.PodSpec) -> bool:
    resources = spec.resources
    return resources is not None and any(map(pod_level_resource, (*resources.requests, *resources.limits)))


class _ContainerStatuses:
    """The resources that the kubelet reports: none for a pod without a node."""

    __slots__ = ("_by_name", "_infeasible", "_status")

    def __init__(self, status: api.PodStatus | None) -> None:
        self._status = status
        self._by_name: dict[str, api.ContainerStatus] = {}
        self._infeasible = False
        if status is not None:
            self._by_name = {item.name: item for item in (*status.container_statuses, *status.init_container_statuses)}
            self._infeasible = _is_infeasible(status)

    def effective(self, container: api.Container, path: str, only_spec: bool = False) -> Amounts:
        """Return the amounts of a container: its request, or while resized the largest of the known amounts."""
        wanted = container_requests(container.resources, f"{path}.resources")
        known = None if only_spec or not self._by_name else self._by_name.get(container.name)
        if known is None or (known.resources is None and known.allocated_resources is None):
            return wanted
        where = f"status of container {container.name}"
        return self._largest(wanted, known.resources, known.allocated_resources, where)

    def effective_of_pod(self, wanted: Amounts) -> Amounts:
        """Return the same for the pod-level requests."""
        status = self._status
        if status is None or (status.resources is None and status.allocated_resources is None):
            return wanted
        largest = self._largest(wanted, status.resources, status.allocated_resources, "status")
        return {name: largest.get(name, 0) for name in wanted}

    def _largest(
        self, wanted: Amounts, actual: api.ResourceRequirements | None, allocated: api.ResourceList | None, where: str
    ) -> Amounts:
        known = _maximum(
            amounts(actual.requests if actual else {}, f"{where}.resources.requests"),
            amounts(allocated or {}, f"{where}.allocatedResources"),
        )
        return known if self._infeasible else _maximum(wanted, known)


def container_requests(resources: api.ResourceRequirements, path: str = "resources") -> Amounts:
    """Return what a container asks for; what it only limits it asks for as well. Explicit zeros stay."""
    if not resources.limits:
        return amounts(resources.requests, f"{path}.requests")
    return {**amounts(resources.limits, f"{path}.limits"), **amounts(resources.requests, f"{path}.requests")}


def amounts(quantities: Mapping[str, QuantityText], path: str) -> Amounts:
    """Parse a resource list, zeros included. A bad or negative quantity is a FieldError with its path."""
    parsed = {}
    for name, text in quantities.items():
        try:
            amount = amount_of(name, text)
        except QuantityError as error:
            raise FieldError(f"{path}[{name}]", str(error)) from error
        if amount < 0:
            raise FieldError(f"{path}[{name}]", f"{text!r} must not be negative")
        parsed[name] = amount
    return parsed


def _differs(
    spec: api.ResourceRequirements | None,
    actual: api.ResourceRequirements | None,
    allocated: api.ResourceList | None,
) -> bool:
    if spec is None or (actual is None and allocated is None):
        return False
    wanted = {**spec.limits, **spec.requests} if spec.limits else spec.requests
    return (actual is not None and actual.requests != wanted) or (allocated is not None and allocated != wanted)


def _is_infeasible(status: api.PodStatus) -> bool:
    for condition in status.conditions:
        if condition.type == RESIZE_PENDING:
            return condition.reason == "Infeasible"
    return status.resize == "Infeasible"


def _plus(left: Amounts, right: Mapping[str, int]) -> Amounts:
    total = dict(left)
    for name, amount in right.items():
        total[name] = saturating_add(total.get(name, 0), amount)
    return total


def _maximum(left: Amounts, right: Mapping[str, int]) -> Amounts:
    largest = dict(left)
    for name, amount in right.items():
        if amount > largest.get(name, -1):
            largest[name] = amount
    return largest
