"""DynamicResources: nodes whose devices can serve the ResourceClaims of a pod, and the devices of placed pods.

A choice for a placed pod is *in flight* until the API server shows it: pods of the same job share it, others wait. It
is taken back with the pod.

``DeviceRules`` is one class: a choice of devices is kept in flight and taken back in one place; the search for it is
``DeviceAllocator``.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Final

from plugins.predicates.arguments import PredicatesArguments
from plugins.predicates.devices.allocator import DeviceAllocator
from plugins.predicates.devices.consumers import consumer_of, user_of
from plugins.predicates.devices.holders import DeviceHolders
from plugins.predicates.devices.needs import KnownNeeds
from plugins.predicates.devices.releases import release_useless
from plugins.predicates.devices.resource_claims import ClaimNeeds, left_over
from plugins.predicates.devices.vacancies import Vacancies
from plugins.predicates.verdicts import pod_refusal
from volsched.framework.answers import ask_predicate
from volsched.plugin import (
    ON_NODE,
    ClaimWrite,
    Cluster,
    ClusterEvent,
    EventHandler,
    JobInfo,
    NodeInfo,
    NodeOrder,
    Numbers,
    Observer,
    PodTemplate,
    Predicate,
    PrePredicate,
    Registrar,
    Report,
    Rule,
    Seen,
    Series,
    Session,
    SessionClose,
    TaskInfo,
    TaskStatus,
    Verdict,
    Wake,
    never,
    terminating_on,
)
from volsched.plugin.devices import MOST_SECONDS, RESULTS, Claim, Pairs, Unfit, allocation_of, from_devices

POSTPONED_SECONDS = 2.0
"""The pause between sessions that evaluate selectors up to their limit: others have most of the time."""
MOST_KEPT = 1 << 16
BEYOND_LIMITS = -1e6
"""The score of a node that would give more devices than quotas allow: any other is tried before."""
TOO_SMALL = -1e5
"""The score of a node without room for all pods that wait for the same claim: its devices would bind them to it."""
PLACED_NOW = (TaskStatus.ALLOCATED, TaskStatus.PIPELINED)

SEARCHES: Final = Series(
    "volsched_device_searches", "Searches for devices on a node, by how they ended", ("result",), counts=True
)

MOST_ALTERNATIVES = 8
WEIGHT = 2.0
"""kube-scheduler's weight of the score of DynamicResources."""


class DeviceRules(Observer):
    """The rule, the score, and what placed pods are about to have."""

    def __init__(self, cluster: Cluster, within: float = 600.0, selector_seconds: float = MOST_SECONDS) -> None:
        self._cluster = cluster
        self._within = within
        self._devices = cluster.devices
        self._allocator = DeviceAllocator(cluster.devices, selector_seconds)
        self._vacancies = Vacancies(cluster)
        self._needs = KnownNeeds(cluster.devices)
        self._from_devices: dict[int, Pairs] = {}
        self._classes_seen = Seen()
        self._session: Session | None = None
        self._searches: Numbers = dict.fromkeys(((result,) for result in RESULTS), 0.0)

    def searches(self) -> Numbers:
        """Return how many searches for devices there were, by how they ended. The same mapping until one is added."""
        found = self._allocator.searches
        if sum(self._searches.values()) != sum(found.values()):
            self._searches = {(result,): float(found.get(result, 0)) for result in RESULTS}
        return self._searches

    def open(self, session: Session) -> None:
        """Begin a session: its plugins state how many devices a pod may be given.

        Nodes that were not judged in the one before, as that would have taken long, are asked again.
        """
        self._session = session
        if self._allocator.begin(session.clock):
            self._cluster.wake(ClusterEvent.DEVICES_CHANGED)

    def wake_at(self) -> float | None:
        """Return when nodes are asked again that were not judged (seconds since the epoch), or None without any."""
        if self._session is None or not self._allocator.is_behind:
            return None
        return self._session.now + POSTPONED_SECONDS

    # -- the rule -----------------------------------------------------------------------------------------------------

    @staticmethod
    def applies(template: PodTemplate) -> bool:
        """True if pods of a template have claims, or ask for extended resources, which devices might serve."""
        return bool(template.has_resource_claims or template.container_amounts)

    def _concerns(self, task: TaskInfo) -> bool:
        """True if a pod wants devices, or has a claim left over from a time when it did."""
        return self._wants_devices(task.template) or left_over(task, self._devices) is not None

    def _wants_devices(self, template: PodTemplate) -> bool:
        """True if pods want devices: by claims of their own, or by extended resources that a class stands for."""
        if template.has_resource_claims:
            return True
        if not (template.container_amounts and self._devices.classes):
            return False
        if self._classes_seen.differs(self._devices.classes_version) or len(self._from_devices) > MOST_KEPT:
            self._from_devices.clear()
        found = self._from_devices.get(template.id)
        if found is None:
            found = self._from_devices[template.id] = from_devices(template, self._devices)
        return bool(found)

    def concern(self, template: PodTemplate) -> bool:
        """True if devices may decide about any pod of a template."""
        if template.container_amounts and self._devices.has_extended_claims:
            return True
        return self._wants_devices(template)

    def refuse_pod(self, task: TaskInfo) -> Verdict | None:
        """Refuse a pod whose claims are not ready for it."""
        needs = self.needs_of(task) if self._concerns(task) else None
        return pod_refusal(needs.fault, needs.shown_as) if needs is not None and needs.fault else None

    def key(self, task: TaskInfo) -> Hashable | None:
        """Tell what the pod wants of devices, None when it wants nothing."""
        return self.needs_of(task).key if self._concerns(task) else None

    def version(self, _: TaskInfo) -> int:
        """Tell when answers may have changed for nodes that did not change themselves."""
        return self._devices.version + self._allocator.rounds

    def refuse(self, task: TaskInfo, node: NodeInfo) -> Verdict | None:
        """Ask about one node."""
        if not self._concerns(task):
            return None
        needs = self.needs_of(task)
        return self._allocator.refusal(needs, _wanted(needs, task, node) if needs.extended else needs.open, node)

    def needs_of(self, task: TaskInfo) -> ClaimNeeds:
        """Return what the claims of a pod need, with what depends on the session."""
        needs = self._needs.of(task)
        if not (needs.unready or needs.leaves_choice):
            return needs
        if needs.unready and self._session is not None:
            now = self._session.now
            needs.given_up = frozenset(c.uid for c in needs.unready if c.readiness.is_given_up(now, self._within))
        if needs.leaves_choice and self._session is not None and task.status is TaskStatus.PENDING:
            needs.limits = self._session.rules.device_limits(task)
        return needs

    # -- the score ----------------------------------------------------------------------------------------------------

    def preference_key(self, task: TaskInfo) -> Hashable | None:
        """Tell what the pod's claims ask for, None when they leave nothing to prefer."""
        if not task.template.has_resource_claims:
            return None
        needs = self.needs_of(task)
        needs.company = self._needs.company(task, needs)
        if not (needs.limits or needs.company or needs.prioritised):
            return None
        return needs.key, needs.company

    def score(self, task: TaskInfo, node: NodeInfo) -> float:
        """Score how early the served alternatives are, of all requests that have some."""
        if self.preference_key(task) is None:
            return 0.0
        needs = self.needs_of(task)
        claims = _wanted(needs, task, node)
        found = self._allocator.choose(needs, claims, node)
        if isinstance(found, Verdict):
            return 0.0
        if needs.limits and isinstance(self._allocator.search(claims, node, needs.limits), Unfit):
            return BEYOND_LIMITS
        room = 0.0 if all(self._has_room(node, name, amount) for name, amount in needs.company) else TOO_SMALL
        picked = {
            (number, one.request.name): MOST_ALTERNATIVES - one.request.alternatives.index(one.ask)
            for number, chosen in enumerate(found)
            for one in chosen
            if one.request.prioritised
        }
        return room + WEIGHT * 100.0 * sum(picked.values()) / (MOST_ALTERNATIVES * max(1, len(picked)))

    def _has_room(self, node: NodeInfo, resource: str, amount: int) -> bool:
        by_devices = self._cluster.is_left_to_devices(resource) and not node.allocatable_of(resource)
        return by_devices or node.idle_of(resource) >= amount

    # -- what placed pods have ----------------------------------------------------------------------------------------

    def allocate(self, task: TaskInfo) -> Verdict | None:
        """Give a newly placed pod its devices. One that comes back from an eviction still has them."""
        if not self._concerns(task) or task.node is None or task.status not in PLACED_NOW:
            return None
        needs = self.needs_of(task)
        if needs.fault:
            return pod_refusal(needs.fault, needs.shown_as)
        node = task.node
        pending_claims = needs.pending_claim_on(task, node)
        claims = needs.open if pending_claims is None else [*needs.open, pending_claims.claim]
        if task.status is TaskStatus.PIPELINED:
            with self._as_it_will_be(node):
                found = self._allocator.choose(needs, claims, node)
        else:
            found = self._allocator.choose(needs, claims, node)
        if isinstance(found, Verdict):
            return pod_refusal(f'claims of pod "{task.key}" on node "{node.name}": {found.message}')
        faults = self._allocator.faults_of(needs.key)
        if faults and (fault := self._fault_elsewhere(task, faults)):
            return pod_refusal(fault)
        job = task.job.key if task.job is not None else task.uid
        writes = [self._reserve_for(task, claim) for claim, _ in needs.given if not _is_ready_for(task, claim)]
        for claim, chosen in zip(claims, found, strict=True):
            allocation = allocation_of(claim, chosen, self._devices.classes, node.name)
            self._devices.assume(claim, allocation, job, task.uid)
            made = pending_claims.made if pending_claims is not None and claim is pending_claims.claim else None
            key = f"{task.namespace}/{made.name}" if made is not None else claim.key
            writes.append(ClaimWrite(key, claim.uid, allocation, made, self._within, consumer_of(task, claim)))
        task.bind_claims = tuple(writes)
        return None

    def _fault_elsewhere(self, task: TaskInfo, faults: Mapping[str, str]) -> str:
        """Return why claims cannot be judged on another node where the pod could go otherwise, the first by name.

        As in kube-scheduler: such an error on one node ends the attempt, and nodes that another filter refuses are not
        asked. The engine decides which nodes were asked here, so the other rules are asked again.
        """
        nodes = ((name, self._cluster.nodes.get(name)) for name in sorted(faults))
        return next((faults[name] for name, node in nodes if node is not None and self._would_do(task, node)), "")

    def _would_do(self, task: TaskInfo, node: NodeInfo) -> bool:
        """True if a node has room for a newly placed pod, and no other rule refuses it there."""
        request = self._cluster.columns.request(task.template)
        is_promise = task.status is TaskStatus.PIPELINED
        if self._session is None or not (node.fits_future(request) if is_promise else node.fits_idle(request)):
            return False
        others = (rule for rule in self._session.rules.nodes.predicates if rule.fn != self.refuse)
        return all(ask_predicate(rule, task, node) is None for rule in others if rule.applies(task))

    def _as_it_will_be(self, node: NodeInfo) -> AbstractContextManager[None]:
        """For a pod that is promised room, have devices free that those have who are leaving."""
        return self._vacancies.all_left(terminating_on(node))

    def _reserve_for(self, task: TaskInfo, claim: Claim) -> ClaimWrite:
        """Return the write that reserves an allocated claim for a pod.

        If the allocation is not written yet, the write includes it.
        """
        chosen = self._devices.in_flight.get(claim.uid)
        if chosen is None:
            return ClaimWrite(claim.key, claim.uid, within=self._within, reserved_for=consumer_of(task, claim))
        self._devices.assume(claim, chosen.allocation, chosen.job, task.uid)
        reserved_for = consumer_of(task, claim)
        return ClaimWrite(claim.key, claim.uid, chosen.allocation, within=self._within, reserved_for=reserved_for)

    def deallocate(self, task: TaskInfo) -> None:
        """Take that back."""
        if task.status in PLACED_NOW:
            self._take_back(task)

    def _take_back(self, task: TaskInfo) -> None:
        """Forget the devices that were chosen for a task."""
        for write in task.bind_claims:
            self._devices.forget(write.uid, task.uid)
        task.bind_claims = ()

    def follows(self, template: PodTemplate) -> bool:
        """Return whether pods of this template may have claims."""
        return bool(template.has_resource_claims or template.container_amounts)

    def task_moved(self, task: TaskInfo, before: TaskStatus, node_before: NodeInfo | None) -> None:
        """Take back the choice of a pod that has no node any more (its binding failed, or it is gone)."""
        self._vacancies.follow(task, before)
        if not ON_NODE[task.status]:
            self._take_back(task)

    def run_allocated(self, tasks: Sequence[TaskInfo]) -> None:
        """Take nothing back: they have nodes."""

    def job_changed(self, job: JobInfo, *, gone: bool) -> None:
        """Find the pods that share claims again."""
        self._needs.members_changed(job)


def _wanted(needs: ClaimNeeds, task: TaskInfo, node: NodeInfo) -> list[Claim]:
    """Return the claims that have to be served on a node, that for extended resources last."""
    pending_claims = needs.pending_claim_on(task, node)
    return needs.open if pending_claims is None else [*needs.open, pending_claims.claim]


def _is_ready_for(task: TaskInfo, claim: Claim) -> bool:
    """Return whether a claim needs nothing any more before a pod is bound that uses it."""
    return claim.readiness.is_reached and any(consumer.uid == user_of(task, claim) for consumer in claim.reserved_for)


def rules(registrar: Registrar, wanted: PredicatesArguments) -> Iterator[Rule]:
    """Refuse pods and nodes by ResourceClaims, and choose devices for them."""
    if not wanted.dynamic_resource_allocation:
        return
    within, seconds = wanted.devices_within, wanted.selector_seconds
    found = registrar.account("predicates.devices", lambda cluster: DeviceRules(cluster, within, seconds))
    found.open(registrar.session)
    yield Wake(found.wake_at)
    yield PrePredicate(found.refuse_pod, applies_to=found.concern, for_each_pod=never)
    yield Predicate(found.refuse, applies_to=found.applies, key=found.key, version=found.version, for_each_pod=never)
    preference, version = found.preference_key, found.version
    yield NodeOrder(found.score, applies_to=found.applies, key=preference, version=version, for_each_pod=never)
    yield EventHandler(found, first=True, for_each_pod=found.concern, in_steps=True)
    yield SessionClose(partial(release_useless, registrar.session, found))
    yield Report(consumers=DeviceHolders(registrar.cluster).of, metrics={SEARCHES: found.searches})
