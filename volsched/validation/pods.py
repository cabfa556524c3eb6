"""Faults of a pod, or of the pod of a workload: refused by the API server, or unreadable for volsched."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from volsched.framework.validation import DUPLICATE, INVALID, REQUIRED, Fault, Faults
from volsched.model import api
from volsched.model.errors import QuantityError, shortened
from volsched.model.pods.rule_reading import rules_of
from volsched.model.values.quantity import amount_of
from volsched.validation.quantities import pod_spec_faults
from volsched.validation.states import one_of

RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
_PREEMPTION_POLICIES: Final = ("PreemptLowerPriority", "Never")
_OVERCOMMITTABLE: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
_NATIVE: Final = "kubernetes.io/"
"""The part of Kubernetes' own resource names with a domain (its pkg/apis/core/v1/helper)."""


def pod_faults(spec: api.PodSpec, metadata: api.ObjectMeta) -> Faults:
    """Yield what is wrong; paths begin inside the spec."""
    unreadable = list(pod_spec_faults(spec))
    yield from unreadable
    yield from _containers(spec)
    yield from one_of("restartPolicy", spec.restart_policy, RESTART_POLICIES)
    yield from one_of("preemptionPolicy", spec.preemption_policy, _PREEMPTION_POLICIES)
    known = {fault.field for fault in unreadable}
    yield from (fault for fault in _refusals(spec, metadata) if fault.field not in known)
    if not unreadable:
        yield from _limits(spec)


def _containers(spec: api.PodSpec) -> Faults:
    if not spec.containers:
        yield Fault("containers", REQUIRED, "is missing; a pod has at least one container")
    seen: set[str] = set()
    for field, container in _all(spec):
        if not container.name:
            yield Fault(f"{field}.name", REQUIRED, "is missing")
        elif container.name in seen:
            yield Fault(f"{field}.name", DUPLICATE, f"{container.name!r} is the name of another container")
        seen.add(container.name)
        if field.startswith("initContainers"):
            yield from one_of(f"{field}.restartPolicy", container.restart_policy, RESTART_POLICIES)


def _refusals(spec: api.PodSpec, metadata: api.ObjectMeta) -> Faults:
    """Yield what the scheduler could not understand: selectors, affinities, tolerations, spreading."""
    meta = api.ObjectMeta(name="pod", namespace=metadata.namespace or "default", labels=metadata.labels)
    for refusal in rules_of(api.Pod(metadata=meta, spec=spec)).refusals:
        yield Fault(refusal.path.removeprefix("spec."), INVALID, refusal.message)


def _limits(spec: api.PodSpec) -> Faults:
    for field, container in _all(spec):
        requests, limits = container.resources.requests, container.resources.limits
        for name in sorted({*requests, *limits}):
            yield from _amount(f"{field}.resources", name, requests.get(name), limits.get(name))


def _amount(field: str, name: str, request: object, limit: object) -> Faults:
    """Yield the faults of one resource of a container: a request above its limit, parts of a card."""
    asked, most = _parsed(name, request), _parsed(name, limit)
    if asked is not None and most is not None and asked > most:
        yield Fault(f"{field}.requests[{name}]", INVALID, f"{request} is more than the limit {limit}")
        return
    if name in _OVERCOMMITTABLE or _NATIVE in name:
        return
    if asked is not None and most is None:
        yield Fault(f"{field}.limits[{name}]", REQUIRED, f"is missing; {name} cannot be overcommitted")
    elif asked is not None and asked != most:
        message = f"{request} differs from the limit {limit}; {name} cannot be overcommitted"
        yield Fault(f"{field}.requests[{name}]", INVALID, message)
    whole = most if most is not None else asked
    if whole is not None and not name.startswith("hugepages-") and whole % 1000:
        part, value = ("limits", limit) if most is not None else ("requests", request)
        yield Fault(f"{field}.{part}[{name}]", INVALID, f"{value} is not a whole number; {name} comes in wholes only")


def _parsed(name: str, text: object) -> int | None:
    if not isinstance(text, str | int | float):
        return None
    try:
        return amount_of(name, text)
    except QuantityError:
        return None


def _all(spec: api.PodSpec) -> Iterator[tuple[str, api.Container]]:
    for kind, containers in (("containers", spec.containers), ("initContainers", spec.init_containers)):
        for number, container in enumerate(containers):
            yield f"{kind}[{number}]", container


def duplicates(field: str, names: Iterable[str], what: str) -> Faults:
    """Yield a fault for each name that is given again."""
    seen: set[str] = set()
    for number, name in enumerate(names):
        if name in seen:
            yield Fault(f"{field}[{number}].name", DUPLICATE, f"{shortened(name)!r} is the name of another {what}")
        seen.add(name)


def not_below_zero(field: str, number: int | None) -> Faults:
    """Yield a fault when a number is negative."""
    if number is not None and number < 0:
        yield Fault(field, INVALID, f"{number} must not be negative")
