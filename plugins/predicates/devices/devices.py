"""DynamicResources: nodes whose devices can serve the ResourceClaims of a pod, and what placed pods are given.

What is chosen for a placed pod is *in flight* until the API server shows it: pods of the same job share it, others
wait. It is taken back with the pod.

``DeviceRules`` is one class: a choice of devices is made, kept in flight and taken back in one place.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial

from plugins.predicates.arguments import PredicatesArguments
from plugins.predicates.devices.consumers import as_owner, consumer_of, group_of, is_idle, user_of
from plugins.predicates.devices.holders import DeviceHolders
from plugins.predicates.devices.needs import KnownNeeds
from plugins.predicates.devices.resource_claims import ClaimNeeds, can_be_released, left_over
from plugins.predicates.devices.vacancies import Vacancies
from plugins.predicates.verdicts import node_refusal, pod_refusal
from volsched.framework.columns.node_terms import selects
from volsched.framework.dra.extended import Pairs, from_devices
from volsched.framework.dra.pools import Pools
from volsched.framework.dra.results import allocation_of
from volsched.framework.dra.search import Choice, Impossible, Limits, Unfit, choose
from volsched.framework.dra.selectors import MOST_SECONDS, Selectors
from volsched.framework.leaving import terminating_on
from volsched.framework.registration import Registrar
from volsched.framework.rules import EventHandler, Holders, NodeOrder, Predicate, PrePredicate, Rule, SessionClose, Wake
from volsched.framework.session import Session
from volsched.model.clocks import ClusterEvent
from volsched.model.cluster import Cluster
from volsched.model.dra.device import Claim
from volsched.model.job import JobInfo
from volsched.model.nodes.node import NodeInfo
from volsched.model.observers import Observer
from volsched.model.plan import ClaimWrite, ReleaseClaim
from volsched.model.pods.task import TaskInfo
from volsched.model.pods.template import PodTemplate
from volsched.model.status import ON_NODE, TaskStatus
from volsched.model.verdict import Scope, Verdict

UNREACHED = node_refusal("resourceclaim not available on the node", resolvable=False)
TOO_HARD = node_refusal("too many combinations of devices to try", resolvable=False)
POSTPONED_SECONDS = 2.0
"""Between sessions that work out selectors for as long as they may: others have most of the time."""
MOST_KEPT = 1 << 16
MOST_TRIES = 3
"""Nodes on which the search for devices may come to its limit before it is given up for all."""
BEYOND_LIMITS = -1e6
"""The score of a node that would give more devices than quotas allow: any other is tried before."""
TOO_SMALL = -1e5
"""The score of a node without room for all pods that wait for the same claim, whose devices will bind them to it."""
PLACED_NOW = (TaskStatus.ALLOCATED, TaskStatus.PIPELINED)

MOST_ALTERNATIVES = 8
WEIGHT = 2.0
"""kube-scheduler's weight of the score of DynamicResources."""


class DeviceRules(Observer):
    """The rule, the score, and what placed pods are about to have."""

    def __init__(self, cluster: Cluster, within: float = 600.0, selector_seconds: float = MOST_SECONDS) -> None:
        self._cluster = cluster
        self._within = within
        self._devices = cluster.devices
        self._pools = Pools(cluster.devices)
        self._selectors = Selectors(selector_seconds)
        self._vacancies = Vacancies(cluster)
        self._needs = KnownNeeds(cluster.devices)
        self._from_devices: dict[int, Pairs] = {}
        self._classes_version = -1
        self._session: Session | None = None
        self._given_up: dict[Hashable, int] = {}
        self._given_up_version = -1
        self._faults: dict[Hashable, dict[str, str]] = {}
        self._faults_version = -1
        self._postponed: set[Hashable] = set()
        self._rounds = 0

    def open(self, session: Session) -> None:
        """Begin a session: its plugins state how many devices a pod may be given.

        Nodes that were not judged in the one before, as that would have taken long, are asked again.
        """
        self._session = session
        self._selectors.begin(session.clock)
        if self._postponed:
            self._postponed.clear()
            self._rounds += 1
            self._cluster.wake(ClusterEvent.DEVICES_CHANGED)

    def wake_at(self) -> float | None:
        """When nodes that were not judged yet are asked again (seconds since the epoch); None: there are none."""
        return self._session.now + POSTPONED_SECONDS if self._postponed and self._session is not None else None

    # -- the rule -----------------------------------------------------------------------------------------------------

    @staticmethod
    def applies(template: PodTemplate) -> bool:
        """Whether pods of a template have claims, or ask for extended resources, which devices might serve."""
        return bool(template.has_resource_claims or template.container_amounts)

    def _concerns(self, task: TaskInfo) -> bool:
        """Whether a pod wants devices, or has a claim left over from a time when it did."""
        return self._wants_devices(task.template) or left_over(task, self._devices) is not None

    def _wants_devices(self, template: PodTemplate) -> bool:
        """Whether pods want devices: by claims of their own, or by extended resources that a class stands for."""
        if template.has_resource_claims:
            return True
        if not template.container_amounts:
            return False
        if self._classes_version != self._devices.classes_version or len(self._from_devices) > MOST_KEPT:
            self._classes_version = self._devices.classes_version
            self._from_devices.clear()
        found = self._from_devices.get(template.id)
        if found is None:
            found = self._from_devices[template.id] = from_devices(template, self._devices)
        return bool(found)

    def concern(self, template: PodTemplate) -> bool:
        """Whether devices may decide about any pod of a template."""
        if template.container_amounts and self._devices.has_extended_claims:
            return True
        return self._wants_devices(template)

    def refuse_pod(self, task: TaskInfo) -> Verdict | None:
        """Refuse a pod whose claims are not ready for it."""
        needs = self._needs_of(task) if self._concerns(task) else None
        return pod_refusal(needs.fault, needs.shown_as) if needs is not None and needs.fault else None

    def key(self, task: TaskInfo) -> Hashable | None:
        """Tell what the pod wants of devices, None when it wants nothing."""
        return self._needs_of(task).key if self._concerns(task) else None

    def version(self, _: TaskInfo) -> int:
        """Tell when answers may have changed for nodes that did not change themselves."""
        return self._devices.version + self._rounds

    def refuse(self, task: TaskInfo, node: NodeInfo) -> Verdict | None:
        """Ask about one node."""
        if not self._concerns(task):
            return None
        needs = self._needs_of(task)
        found = self._choose(needs, _wanted(needs, task, node), node)
        return found if isinstance(found, Verdict) else None

    def _choose(self, needs: ClaimNeeds, claims: Sequence[Claim], node: NodeInfo) -> Choice | Verdict:
        """Return the devices that these claims of a pod would get on a node, or why they get none."""
        if needs.given_up or any(selector is not None and not selects(selector, node) for _, selector in needs.given):
            return UNREACHED
        if not claims:
            return []
        if self._hopeless(needs.key):
            return TOO_HARD
        found = self._search(claims, node, needs.limits)
        if isinstance(found, Unfit) and needs.limits and not found.is_postponed:
            found = self._search(claims, node, {})
        if isinstance(found, Unfit) and found.is_postponed:
            self._postponed.add(needs.key)
        if isinstance(found, Unfit) and found.gave_up:
            self._given_up[needs.key] = self._given_up.get(needs.key, 0) + 1
        faults = self._faults_of(needs.key)
        faults.pop(node.name, None)
        if isinstance(found, Impossible):
            faults[node.name] = found.message
            return node_refusal(found.message, resolvable=False)
        return node_refusal(found.reason, resolvable=not found.gave_up) if isinstance(found, Unfit) else found

    def _search(self, claims: Sequence[Claim], node: NodeInfo, limits: Limits) -> Choice | Unfit | Impossible:
        devices, pools = self._devices, self._pools.of(node)
        self._selectors.ask_for(claims[0].key.partition("/")[0] if claims else "")
        return choose(claims, pools, devices.classes, devices.ledger, self._selectors, limits=limits)

    def _hopeless(self, key: Hashable) -> bool:
        """Return whether claims like these were too hard on so many nodes that others are not tried for now."""
        if self._given_up_version != self._devices.claims_version:
            self._given_up_version = self._devices.claims_version
            self._given_up.clear()
        return self._given_up.get(key, 0) >= MOST_TRIES

    def _faults_of(self, key: Hashable) -> dict[str, str]:
        """Return the nodes on which claims like these could not be judged: one is enough to keep a pod waiting."""
        if self._faults_version != self._devices.version:
            self._faults_version = self._devices.version
            self._faults.clear()
        return self._faults.setdefault(key, {})

    def _needs_of(self, task: TaskInfo) -> ClaimNeeds:
        needs = self._needs.of(task)
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
        needs = self._needs_of(task)
        needs.company = self._needs.company(task, needs)
        if not needs.limits and not needs.company and not any(_is_prioritised(claim) for claim in needs.open):
            return None
        return needs.key, needs.company

    def score(self, task: TaskInfo, node: NodeInfo) -> float:
        """Score how early the alternatives are that a node would serve, of all requests that have some."""
        if self.preference_key(task) is None:
            return 0.0
        needs = self._needs_of(task)
        claims = _wanted(needs, task, node)
        found = self._choose(needs, claims, node)
        if isinstance(found, Verdict):
            return 0.0
        if needs.limits and isinstance(self._search(claims, node, needs.limits), Unfit):
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
        """Give a pod that was just placed its devices; one that comes back from an eviction has them still."""
        if not self._concerns(task) or task.node is None or task.status not in PLACED_NOW:
            return None
        needs = self._needs_of(task)
        if needs.fault:
            return pod_refusal(needs.fault, needs.shown_as)
        claims, unmade = _wanted(needs, task, task.node), needs.unmade_on(task, task.node)
        with self._as_it_will_be(task, task.node):
            found = self._choose(needs, claims, task.node)
        if isinstance(found, Verdict):
            return pod_refusal(f'claims of pod "{task.key}" on node "{task.node.name}": {found.message}')
        fault = next(iter(self._faults_of(needs.key).values()), "")
        if fault:
            return pod_refusal(fault)
        job = task.job.key if task.job is not None else task.uid
        writes = [self._share(task, claim) for claim, _ in needs.given if not _is_ready_for(task, claim)]
        for claim, chosen in zip(claims, found, strict=True):
            allocation = allocation_of(claim, chosen, self._devices.classes, task.node.name)
            self._devices.assume(claim, allocation, job, task.uid)
            made = unmade.made if unmade is not None and claim is unmade.claim else None
            key = f"{task.namespace}/{made.name}" if made is not None else claim.key
            writes.append(ClaimWrite(key, claim.uid, allocation, made, self._within, consumer_of(task, claim)))
        task.bind_claims = tuple(writes)
        return None

    def _as_it_will_be(self, task: TaskInfo, node: NodeInfo) -> AbstractContextManager[None]:
        """For a pod that is promised room, have devices free that those have who are leaving."""
        return self._vacancies.all_left(terminating_on(node)) if task.status is TaskStatus.PIPELINED else nullcontext()

    def _share(self, task: TaskInfo, claim: Claim) -> ClaimWrite:
        """Let a pod use a claim that has its devices; what is in flight goes along, should it have to write that."""
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
        for write in task.bind_claims:
            self._devices.forget(write.uid, task.uid)
        task.bind_claims = ()

    def follows(self, template: PodTemplate) -> bool:
        """Return whether pods of this template may have claims."""
        return bool(template.has_resource_claims or template.container_amounts)

    def task_moved(self, task: TaskInfo, before: TaskStatus, node_before: NodeInfo | None) -> None:
        """Take back what a pod would have had that has no node any more (its binding failed, or it is gone)."""
        self._vacancies.follow(task, before)
        if not ON_NODE[task.status]:
            self._take_back(task)

    def run_allocated(self, tasks: Sequence[TaskInfo]) -> None:
        """Take nothing back: they have nodes."""

    def job_changed(self, job: JobInfo, *, gone: bool) -> None:
        """Look again who shares a claim with whom."""
        self._needs.members_changed(job)

    # -- claims that are in the way -----------------------------------------------------------------------------------

    def release_useless(self, session: Session) -> None:
        """Have one claim released for each pod that no node takes, if nobody else uses it and it rules nodes out."""
        for task in sorted(session.refusals.refused.values(), key=lambda waiting: waiting.key):
            self._release_left_over(session, task)
            refusal = task.refusal
            if refusal is None or refusal.scope is not Scope.NODE or task.status is not TaskStatus.PENDING:
                continue
            if not task.template.has_resource_claims:
                continue
            needs = self._needs_of(task)
            for claim, selector in needs.given:
                given_back = self._is_of_idle_group(task, claim)
                rules_out = selector is not None and any(not selects(selector, n) for n in session.cluster.rows)
                if (rules_out or given_back or claim.uid in needs.given_up) and can_be_released(
                    task, claim, self._devices
                ):
                    group = group_of(task, claim)
                    user = as_owner(group) if group is not None else task.as_owner
                    session.submit([ReleaseClaim(claim.uid, task.namespace, claim.name, user)])
                    break

    @staticmethod
    def _is_of_idle_group(task: TaskInfo, claim: Claim) -> bool:
        """Whether a claim is held for a group that could not start, and has no pod anywhere."""
        user = user_of(task, claim)
        return user != task.uid and any(consumer.uid == user for consumer in claim.reserved_for) and is_idle(task)

    def _release_left_over(self, session: Session, task: TaskInfo) -> None:
        """Have the claim deleted that an attempt made which came to nothing: the next one makes its own."""
        claim = left_over(task, self._devices)
        if claim is not None and not claim.deleting and task.status is TaskStatus.PENDING:
            session.submit([ReleaseClaim(claim.uid, task.namespace, claim.name, task.as_owner, delete=True)])


def _wanted(needs: ClaimNeeds, task: TaskInfo, node: NodeInfo) -> list[Claim]:
    """Return the claims that have to be served on a node, that for extended resources last."""
    unmade = needs.unmade_on(task, node)
    return needs.open if unmade is None else [*needs.open, unmade.claim]


def _is_ready_for(task: TaskInfo, claim: Claim) -> bool:
    """Return whether a claim needs nothing any more before a pod is bound that uses it."""
    return claim.readiness.is_reached and any(consumer.uid == user_of(task, claim) for consumer in claim.reserved_for)


def _is_prioritised(claim: Claim) -> bool:
    return any(request.prioritised for request in claim.spec.requests)


def rules(registrar: Registrar, wanted: PredicatesArguments) -> Iterator[Rule]:
    """Refuse pods and nodes by ResourceClaims, and choose devices for them."""
    if not wanted.dynamic_resource_allocation:
        return
    within, seconds = wanted.devices_within, wanted.selector_seconds
    found = registrar.account("predicates.devices", lambda cluster: DeviceRules(cluster, within, seconds))
    found.open(registrar.session)
    yield Wake(found.wake_at)
    yield PrePredicate(found.refuse_pod, applies_to=found.concern)
    yield Predicate(found.refuse, applies_to=found.applies, key=found.key, version=found.version)
    yield NodeOrder(found.score, applies_to=found.applies, key=found.preference_key, version=found.version)
    yield EventHandler(found, first=True, applies_to=found.concern)
    yield SessionClose(partial(found.release_useless, registrar.session))
    yield Holders(DeviceHolders(registrar.cluster).of)
