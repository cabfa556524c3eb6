"""The ResourceClaims of a pod: which they are, whether they are ready, and which need an allocation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from plugins.predicates.devices.consumers import is_idle, owner_for, user_of
from volsched.model.dra import api as dra
from volsched.model.pods.placement_rules import ContainerAmounts
from volsched.plugin import ConditionReason, FieldError, NodeInfo, NodeSelector, TaskInfo
from volsched.plugin.devices import (
    MOST_REQUESTS,
    Claim,
    ClaimSpec,
    Devices,
    Pairs,
    PendingClaim,
    from_devices,
    no_class,
    pending_claim_of,
)

NOWHERE = NodeSelector(terms=())


@dataclass(slots=True)
class ClaimNeeds:
    """The needs of one pod's claims.

    ``fault`` refuses the pod on every node, and ``shown_as`` is its condition reason then. ``given`` are allocated
    claims, with the nodes from which these can be used (None: all); ``open`` are those that need an allocation, in the
    pod's order.
    """

    fault: str = ""
    shown_as: ConditionReason = ConditionReason.CLAIM_NOT_READY
    given: list[tuple[Claim, NodeSelector | None]] = field(default_factory=list)
    open: list[Claim] = field(default_factory=list)

    unready: tuple[Claim, ...] = ()
    """Those given whose devices are not ready for a pod to be bound."""
    given_up: frozenset[str] = frozenset()
    """The uids of those of them that are waited for no longer: with these devices the pod cannot go anywhere."""

    limits: Mapping[tuple[str, str], Fraction] = field(default_factory=dict)
    """The most devices that the pod should get, if its claims leave a choice."""

    extended: Pairs = ()
    """The resources of the pod that devices may serve, on nodes that do not offer them themselves."""
    amounts: tuple[ContainerAmounts, ...] = ()
    """The amounts by container."""
    pending_claims: dict[Pairs, PendingClaim] = field(default_factory=dict)
    """The claims that were thought of for that, by what they serve."""

    company: tuple[tuple[str, int], ...] = ()
    """The joint request of the pod and all that wait with it for one of the same open claims; empty for one alone."""

    _key: tuple[object, ...] | None = None
    """The key without limits, while nothing was given up."""
    leaves_choice: bool = False
    """Whether the number of devices that it is given, or their class, depends on the node."""
    prioritised: bool = False
    """Whether any request of an open claim has alternatives."""

    @property
    def key(self) -> tuple[object, ...]:
        """What answers about nodes depend on: pods whose claims agree in it share them."""
        if self._key is None:
            given, shapes = tuple(s for _, s in self.given), tuple(claim.spec.shape for claim in self.open)
            self._key = (given, shapes), False, (), self.extended, self.amounts, bool(self.fault)
        if not (self.limits or self.given_up):
            return self._key
        limits = tuple(sorted(self.limits.items()))
        return self._key[0], bool(self.given_up), limits, *self._key[3:]

    def pending_claim_on(self, task: TaskInfo, node: NodeInfo) -> PendingClaim | None:
        """Return the claim that would be made for the pod's extended resources on a node; None when it needs none."""
        if not self.extended:
            return None
        pairs = tuple(pair for pair in self.extended if not node.allocatable_of(pair[0]))
        if not pairs:
            return None
        found = self.pending_claims.get(pairs)
        if found is None:
            found = self.pending_claims[pairs] = pending_claim_of(task, pairs)
        return found


def needs_of(task: TaskInfo, devices: Devices) -> ClaimNeeds:
    """Find out what a pod's claims need."""
    needs = ClaimNeeds()
    if task.template.container_amounts:
        needs.extended = from_devices(task.template, devices)
        fault = _extended_fault(task, needs, devices)
        if fault:
            return ClaimNeeds(fault)
    job = task.job.key if task.job is not None else task.uid
    for claim in _claims_of(task, devices):
        fault = claim if isinstance(claim, str) else _fault(task, claim, devices, job)
        if isinstance(claim, str) or fault:
            return ClaimNeeds(str(fault), _shown_as(claim, devices))
        allocation = devices.allocation_of(claim)
        if allocation is None:
            needs.open.append(claim)
            needs.leaves_choice = needs.leaves_choice or claim.spec.leaves_choice
            needs.prioritised = needs.prioritised or claim.spec.prioritised
        else:
            needs.given.append((claim, _reach(allocation)))
    if needs.given:
        needs.unready = tuple(claim for claim, _ in needs.given if not claim.readiness.is_reached)
    return needs


def _shown_as(claim: Claim | str, devices: Devices) -> ConditionReason:
    """Return the reason of a claim that keeps its pod waiting.

    A DeviceClass comes with the driver, and that with the nodes that have its devices: if it does not exist, such nodes
    are missing. Kubernetes' own specs, which make a class while a pod waits for it, want Unschedulable, too.
    """
    if isinstance(claim, str) or all(name in devices.classes for name in claim.spec.classes()):
        return ConditionReason.CLAIM_NOT_READY
    return ConditionReason.UNSCHEDULABLE


def left_over(task: TaskInfo, devices: Devices) -> Claim | None:
    """Return the claim that a failed attempt made for a waiting pod's extended resources."""
    if not task.template.container_amounts or not devices.has_extended_claims:
        return None
    return devices.extended_claim_of(task.as_owner)


def _extended_fault(task: TaskInfo, needs: ClaimNeeds, devices: Devices) -> str:
    """Return why a pod's extended resources keep it waiting, and note them; empty if they do not."""
    known = left_over(task, devices)
    if known is not None:
        return f'waiting for resourceclaim "{known.name}" of an earlier attempt to be deleted'
    if not needs.extended:
        return ""
    needs.amounts = task.template.container_amounts
    needs.pending_claims[needs.extended] = pending_claim_of(task, needs.extended)
    requests = needs.pending_claims[needs.extended].made.requests
    if len(requests) > MOST_REQUESTS:
        resources = ", ".join(f'"{name}"' for name, _ in needs.extended)
        return f"containers ask for {resources} in {len(requests)} requests, one ResourceClaim may have {MOST_REQUESTS}"
    for resource, name in needs.extended:
        if devices.classes[name].fault:
            return f'extended resource "{resource}": DeviceClass "{name}": {devices.classes[name].fault}'
    return ""


def named_by(task: TaskInfo) -> list[str]:
    """Return the keys of the claims that a pod names itself, and may share."""
    return [f"{task.namespace}/{use.claim}" for use in task.spec.resource_claims if use.claim]


def _claims_of(task: TaskInfo, devices: Devices) -> Iterator[Claim | str]:
    """Yield each claim of a pod once. A text states why one is not there."""
    names, seen = dict(task.spec.claim_names), set()
    for use in task.spec.resource_claims:
        name: str | None = use.claim
        if not use.claim:
            if use.name not in names:
                yield f'waiting for the claim of entry "{use.name}" to be made from template "{use.template}"'
                return
            name = names[use.name]
        if name is None or name in seen:
            continue
        seen.add(name)
        claim = devices.claims.get(f"{task.namespace}/{name}")
        if claim is None:
            yield f'waiting for resourceclaim "{name}": it does not exist'
            return
        if use.template and not use.claim and claim.owner != owner_for(task, use):
            yield f'resourceclaim "{name}" was not created for pod "{task.key}" (pod is not owner)'
            return
        yield claim


def _fault(task: TaskInfo, claim: Claim, devices: Devices, job: str) -> str:
    """Return why a claim keeps its pod waiting; empty when it does not."""
    if claim.deleting:
        return f'resourceclaim "{claim.name}" is being deleted'
    chosen = devices.in_flight.get(claim.uid)
    if chosen is not None and chosen.job != job:
        return f'resourceclaim "{claim.name}" is being allocated for another pod'
    if len(claim.reserved_for) + (len(chosen.pods) if chosen is not None else 0) >= dra.MOST_CONSUMERS:
        user = user_of(task, claim)
        users = {consumer.uid for consumer in claim.reserved_for}
        if chosen is not None and user == task.uid:
            users.update(chosen.pods)
        if user not in users and len(users) >= dra.MOST_CONSUMERS:
            return f'resourceclaim "{claim.name}" is reserved for {len(users)} pods already, and more are not allowed'
    if claim.allocation is not None or chosen is not None:
        return ""
    fault = claim.spec.fault or _class_fault(claim.spec, devices)
    return f'resourceclaim "{claim.name}": {fault}' if fault else ""


def _class_fault(spec: ClaimSpec, devices: Devices) -> str:
    for name in spec.classes():
        found = devices.classes.get(name)
        if found is None:
            return no_class(name)
        if found.fault:
            return f'DeviceClass "{name}": {found.fault}'
    return ""


def _reach(allocation: dra.Allocation) -> NodeSelector | None:
    """Return from which nodes an allocation can be used; one that cannot be understood from none."""
    if allocation.node_selector is None:
        return None
    try:
        return NodeSelector.parse(allocation.node_selector)
    except FieldError:
        return NOWHERE


def can_be_released(task: TaskInfo, claim: Claim, devices: Devices) -> bool:
    """True if a claim may lose its devices: only this pod, or its idle group, uses it."""
    user = user_of(task, claim)
    if claim.uid in devices.in_flight or (user != task.uid and not is_idle(task)):
        return False
    return all(consumer.uid == user for consumer in claim.reserved_for)
