"""All devices, classes and claims of the cluster, and who has which device.

Everything of Dynamic Resource Allocation comes in here (`Devices.put`, `drop`), is read once, and indexed by pool and
by node. Allocated devices are counted up and down claim by claim (`DeviceUsage`), never from scratch: from the status
of a claim, or from what a session has chosen for it and is not written yet (*in flight*).

Versions tell what has to be asked again: a pool that belongs to one node concerns that node only, so a change of it
touches that node; every other change raises `Devices.version`.

``Devices`` is one class: slices, classes and claims refer to one another, and are indexed together.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import msgspec

from volsched.model import api
from volsched.model.dra import api as dra
from volsched.model.dra.binding import readiness_of
from volsched.model.dra.device import Claim, ClaimSpec, ClassSpec, DeviceId, PoolId, Slice, TaintRule
from volsched.model.dra.reading import amount, claim_spec, class_of, slice_of, taint_rule_of
from volsched.model.dra.taints import TaintRules, concerned_by, tainted
from volsched.model.former import renamed_attributes
from volsched.model.generations import KeyLog
from volsched.model.pods.owners import Owner, controller_of


@dataclass(slots=True)
class InFlight:
    """What a session chose for a claim and the API server does not show yet: for which job, used by which pods."""

    key: str
    """The claim's ``namespace/name``."""
    allocation: dra.Allocation
    job: str
    spec: ClaimSpec
    owner: Owner | None
    pods: dict[str, None] = field(default_factory=dict)


class DeviceUsage:
    """Which devices are taken, by how much; kept claim by claim."""

    def __init__(self) -> None:
        self.taken: dict[DeviceId, int] = {}
        """Devices that one claim has alone, with the number of claims. More than one is a mistake of another writer."""
        self.shares: dict[DeviceId, int] = {}
        """Devices that are shared, and in how many parts."""
        self.consumed: dict[DeviceId, dict[str, Fraction]] = {}
        """What all parts of a shared device take together."""
        self.pools: dict[PoolId, dict[DeviceId, int]] = {}
        """All of these devices, by pool."""
        self.versions: dict[PoolId, int] = {}
        """A number for each of these pools, another one whenever something of it is taken or given back."""
        self.held: dict[str, tuple[dra.DeviceResult, ...]] = {}
        """What each claim has, by its uid."""
        self.changes = 0
        """How often anything was taken or given back."""

    def hold(self, uid: str, results: tuple[dra.DeviceResult, ...]) -> Iterable[PoolId]:
        """Let a claim have these devices instead of those that it had; the pools that changed."""
        before = self.held.get(uid, ())
        if results == before:
            return ()
        for result in before:
            self._count(result, -1)
        for result in results:
            self._count(result, 1)
        if results:
            self.held[uid] = results
        else:
            self.held.pop(uid, None)
        changed = {PoolId(r.driver, r.pool): None for r in (*before, *results)}
        self.changes += 1
        for pool in changed:
            if pool in self.pools:
                self.versions[pool] = self.changes
            else:
                self.versions.pop(pool, None)
        return changed

    def _count(self, result: dra.DeviceResult, by: int) -> None:
        if result.admin_access:
            return
        device, pool = DeviceId(result.driver, result.pool, result.device), PoolId(result.driver, result.pool)
        devices = self.pools.get(pool)
        if devices is None:
            devices = self.pools[pool] = {}
        _add(devices, device, by)
        if not devices:
            del self.pools[pool]
        if result.share_id is None:
            _add(self.taken, device, by)
            return
        _add(self.shares, device, by)
        consumed = self.consumed.setdefault(device, {})
        for name, text in result.consumed_capacity.items():
            left = consumed.get(name, Fraction(0)) + by * amount(text)
            if left:
                consumed[name] = left
            else:
                consumed.pop(name, None)
        if device not in self.shares:
            del self.consumed[device]


class Devices:
    """Slices, classes, claims and templates, by name or by ``namespace/name``, and the use of devices.

    `slices` have the taints of DeviceTaintRules beside those that they state themselves.

    `touch` is told the name of a node whose own devices changed. `version` changes with everything else that an
    answer about a node may be made from, `slices_version` with every slice, `claims_version` with every claim, class
    and template, `classes_version` with every class. `template_log` has the keys of templates that changed, `pool_log`
    the pools of which slices changed, or who has their devices.

    A slice of shared counters concerns all nodes while its pool cannot be used (requests for all devices wait for it),
    so a change of such a slice raises `version`, too.
    """

    def __init__(
        self, touch: Callable[[str], None] = lambda _: None, classes_changed: Callable[[], None] = lambda: None
    ) -> None:
        self.slices: dict[str, Slice] = {}
        self.classes: dict[str, ClassSpec] = {}
        self.claims: dict[str, Claim] = {}
        self.templates: dict[str, ClaimSpec] = {}
        self.in_flight: dict[str, InFlight] = {}
        """By the claim's uid."""
        self.usage = DeviceUsage()
        self.vacant: set[str] = set()
        """The uids of claims whose devices count as free while it is tried what would be without their users."""
        self.kept: dict[str, dra.Allocation] = {}
        """Devices that count as taken for claims that had them once, by the claim's uid."""
        self.unclean: dict[str, None] = {}
        """The keys of claims that pods used which are gone, and that may have devices still."""
        self.version = 0
        self.claims_version = 0
        self.classes_version = 0
        self._touch = touch
        self._classes_changed = classes_changed
        self._stand_for: dict[str, str] = {}
        self._extended: dict[Owner, str] = {}
        self._rules = TaintRules()
        self._as_written: dict[str, Slice] = {}
        self._pools: dict[PoolId, dict[str, Slice]] = {}
        self._local: dict[str, dict[PoolId, int]] = {}
        self._wide: dict[PoolId, int] = {}
        self.slices_version = 0
        self.counting: dict[PoolId, int] = {}
        """Pools with slices of shared counters that belong to one node, and how many such slices each has."""
        self._pool_versions: dict[PoolId, int] = {}
        self._nodes_of: dict[PoolId, tuple[str, ...]] = {}
        """By pool: see ``_only_nodes``."""
        self.template_log: KeyLog[str] = KeyLog()
        self.pool_log: KeyLog[PoolId] = KeyLog()
        self._log: KeyLog[str] = KeyLog()
        self._specs: WeakValueDictionary[tuple[str, bytes], ClaimSpec] = WeakValueDictionary()
        """By where they are written, and how."""

    # -- what there is ------------------------------------------------------------------------------------------------

    def slices_of(self, pool: PoolId) -> Iterable[Slice]:
        """Return all slices of a pool, of whatever generation."""
        return self._pools.get(pool, {}).values()

    @property
    def pools(self) -> Iterable[PoolId]:
        """Return all pools."""
        return self._pools

    def pools_near(self, node: str) -> list[PoolId]:
        """Return the pools that a node may use devices of, in order."""
        return sorted({**self._local.get(node, {}), **self._wide})

    def pool_version(self, pool: PoolId) -> int:
        """Return a number that changes with the slices of a pool."""
        return self._pool_versions.get(pool, 0)

    def allocation_of(self, claim: Claim) -> dra.Allocation | None:
        """Return what a claim has, or is about to have."""
        if claim.allocation is not None:
            return claim.allocation
        chosen = self.in_flight.get(claim.uid)
        return chosen.allocation if chosen is not None else None

    def class_for(self, resource: str) -> str | None:
        """Return the DeviceClass whose devices stand for an extended resource (KEP 5004), or None when there is none.

        Of several classes that name it, the newest, then the first by name. A class stands for its implicit name, too.
        """
        if resource.startswith(dra.IMPLICIT):
            name = resource.removeprefix(dra.IMPLICIT)
            return name if name in self.classes else None
        return self._stand_for.get(resource)

    @property
    def has_extended_claims(self) -> bool:
        """True if there is any claim for the extended resources of a pod."""
        return bool(self._extended)

    def extended_claim_of(self, pod: Owner) -> Claim | None:
        """Return the claim that was made for the extended resources of a pod."""
        return self.claims.get(self._extended.get(pod, ""))

    @property
    def log_end(self) -> int:
        """Return the position after the newest change of a claim."""
        return self._log.end

    def changed_since(self, position: int) -> Iterable[str] | None:
        """Return the keys of the claims that changed since a position, each once, or None when that was forgotten."""
        return self._log.since(position)

    def _changed(self, key: str) -> None:
        self.claims_version += 1
        self._log.append(key)

    # -- what a session chooses ---------------------------------------------------------------------------------------

    def assume(self, claim: Claim, allocation: dra.Allocation, job: str, pod: str) -> None:
        """Let a claim have what was chosen for it, for the pod of this uid."""
        chosen = self.in_flight.get(claim.uid)
        if chosen is None:
            chosen = self.in_flight[claim.uid] = InFlight(claim.key, allocation, job, claim.spec, claim.owner)
            self._hold(claim.uid, allocation)
        elif pod in chosen.pods:
            return
        chosen.pods[pod] = None
        self._changed(claim.key)

    def forget(self, uid: str, pod: str) -> None:
        """Take that back for one pod; with the last of them the claim has nothing any more."""
        chosen = self.in_flight.get(uid)
        if chosen is None or pod not in chosen.pods:
            return
        del chosen.pods[pod]
        if not chosen.pods:
            self._settle(uid)
            self._hold(uid, None)
        self._changed(chosen.key)

    def _settle(self, uid: str) -> None:
        self.in_flight.pop(uid, None)

    # -- what would be free -------------------------------------------------------------------------------------------

    def users_of(self, claim: Claim) -> list[str]:
        """Return the uids of pods that use a claim, or are about to."""
        chosen = self.in_flight.get(claim.uid)
        return [*(consumer.uid for consumer in claim.reserved_for), *(chosen.pods if chosen is not None else ())]

    def vacate(self, claim: Claim, *, is_vacant: bool) -> None:
        """Let a claim's devices count as free for now, or as its own again."""
        if is_vacant != (claim.uid in self.vacant):
            (self.vacant.add if is_vacant else self.vacant.discard)(claim.uid)
            self._hold(claim.uid, None if is_vacant else self.allocation_of(claim))

    def keep(self, uid: str, allocation: dra.Allocation | None) -> None:
        """Let devices count as taken for a claim that had them once; None gives them back."""
        if allocation is None:
            self.kept.pop(uid, None)
        else:
            self.kept[uid] = allocation
        self._hold(f"kept/{uid}", allocation)

    @contextmanager
    def restored(self, claims: Iterable[Claim]) -> Iterator[None]:
        """Let claims that were deleted or changed be as they were; no device is taken by that, or free."""
        before = [(claim.key, self.claims.get(claim.key)) for claim in claims]
        self.claims.update({claim.key: claim for claim in claims})
        try:
            yield
        finally:
            for key, claim in before:
                if claim is None:
                    del self.claims[key]
                else:
                    self.claims[key] = claim

    @contextmanager
    def cleaned_up(self, pods: Container[str]) -> Iterator[None]:
        """Let the devices count as free of claims all of whose users are gone. ``pods`` are the uids of those there."""
        left = [claim for claim in self._unclean_of(pods) if claim.uid not in self.vacant]
        for claim in left:
            self.vacate(claim, is_vacant=True)
        yield
        for claim in left:
            self.vacate(claim, is_vacant=False)

    def _unclean_of(self, pods: Container[str]) -> list[Claim]:
        """Return the claims that were used and are unused now, and forget those that are clean."""
        found: list[Claim] = []
        for key in list(self.unclean):
            claim = self.claims.get(key)
            users = self.users_of(claim) if claim is not None else []
            if (
                claim is None
                or claim.allocation is None
                or not users
                or claim.is_of_group
                or any(u in pods for u in users)
            ):
                del self.unclean[key]
            else:
                found.append(claim)
        return found

    # -- changes ------------------------------------------------------------------------------------------------------

    def put(self, found: api.ApiObject) -> bool:
        """Take an object in; False for a kind that is not kept here, and for a claim or rule with nothing new."""
        match found:
            case dra.ResourceClaim():
                return self._put_claim(found)
            case dra.ResourceSlice():
                self._put_slice(slice_of(found))
            case dra.DeviceTaintRule():
                changed = self._rules.put(taint_rule_of(found))
                self._taint(changed)
                return bool(changed)
            case dra.DeviceClass():
                self.classes[found.metadata.name] = class_of(found)
                self._read_classes()
            case dra.ResourceClaimTemplate():
                spec = found.spec.get("spec") if isinstance(found.spec, Mapping) else found.spec
                self.templates[found.key] = self._spec(spec, "spec.spec")
                self._template_changed(found.key)
            case _:
                return False
        return True

    def drop(self, kind: str, namespace: str, name: str) -> bool:
        """Forget an object; False for a kind that is not kept here."""
        key = f"{namespace}/{name}" if namespace else name
        match kind:
            case "ResourceClaim":
                claim = self.claims.pop(key, None)
                self.unclean.pop(key, None)
                if claim is not None:
                    self._forget_extended(claim)
                    self._settle(claim.uid)
                    self._hold(claim.uid, None)
                self._changed(key)
            case "ResourceSlice":
                self._drop_slice(name)
            case "DeviceTaintRule":
                self._taint(self._rules.drop(name))
            case "DeviceClass":
                self.classes.pop(name, None)
                self._read_classes()
            case "ResourceClaimTemplate":
                self.templates.pop(key, None)
                self._template_changed(key)
            case _:
                return False
        return True

    def _template_changed(self, key: str) -> None:
        self.claims_version += 1
        self.template_log.append(key)

    def _read_classes(self) -> None:
        """Find out again which class stands for which extended resource."""
        by_age = sorted(sorted(self.classes.values(), key=lambda c: c.name, reverse=True), key=lambda c: c.created)
        self._stand_for = {found.extended_resource: found.name for found in by_age if found.extended_resource}
        self.version += 1
        self.claims_version += 1
        self.classes_version += 1
        self._classes_changed()

    def _put_claim(self, found: dra.ResourceClaim) -> bool:
        """Take a claim in; true if it states anything new, beside finalizers and labels."""
        known, claim = self.claims.get(found.key), self._read_claim(found)
        if known is not None and known.uid != claim.uid:
            self._settle(known.uid)
            self._hold(known.uid, None)
        elif known is not None:
            if _older(claim.version, known.version):
                return False
            if claim.is_equivalent_to(known):
                known.version = claim.version
                return False
        if known is not None:
            self._forget_extended(known)
        self.claims[found.key] = claim
        if claim.extended and claim.owner is not None:
            self._extended[claim.owner] = claim.key
        if claim.allocation is None:
            self.unclean.pop(claim.key, None)
        else:
            self._settle(claim.uid)
            if claim.extended and claim.owner is not None:
                self._replaced(claim.owner)
        self._hold(claim.uid, self.allocation_of(claim))
        self._changed(claim.key)
        return True

    def _read_claim(self, found: dra.ResourceClaim) -> Claim:
        meta, status = found.metadata, found.status
        owner = controller_of(meta)
        return Claim(
            found.key,
            meta.uid,
            meta.resource_version,
            self._spec(found.spec),
            owner if owner is not None and (owner.is_pod or owner.is_group) else None,
            meta.deletion_timestamp is not None,
            status.allocation,
            status.reserved_for,
            meta.annotations.get(dra.EXTENDED_CLAIM) == "true",
            readiness_of(status),
        )

    def _forget_extended(self, claim: Claim) -> None:
        """Forget that a claim is the one for the extended resources of its owner."""
        if claim.owner is not None and self._extended.get(claim.owner) == claim.key:
            del self._extended[claim.owner]

    def _replaced(self, pod: Owner) -> None:
        """Forget the in-flight choice for a claim to be made, once the claim exists with these devices."""
        uid = pending_claim_uid(pod.uid)
        chosen = self.in_flight.get(uid)
        if chosen is not None and chosen.owner == pod:
            del self.in_flight[uid]
            self._hold(uid, None)
            self._changed(chosen.key)

    def _hold(self, uid: str, allocation: dra.Allocation | None) -> None:
        results = allocation.devices.results if allocation is not None else ()
        for pool in self.usage.hold(uid, results):
            self._pool_changed(pool)

    def _put_slice(self, new: Slice) -> None:
        self._drop_slice(new.name)
        self._as_written[new.name] = new
        self.slices[new.name] = new = tainted(new, self._rules.about(new.pool_id))
        pool = self._pools.setdefault(new.pool_id, {})
        pool[new.name] = new
        _add(self._local.setdefault(new.only_node, {}) if new.only_node else self._wide, new.pool_id, 1)
        self._count_counters(new, 1)
        self._slices_changed(new.pool_id)

    def _drop_slice(self, name: str) -> None:
        old = self.slices.pop(name, None)
        if old is None:
            return
        del self._as_written[name]
        del self._pools[old.pool_id][name]
        _add(self._local[old.only_node] if old.only_node else self._wide, old.pool_id, -1)
        if old.only_node and not self._local[old.only_node]:
            del self._local[old.only_node]
        self._slices_changed(old.pool_id)
        self._count_counters(old, -1)
        if old.only_node:
            self._touch(old.only_node)
        if not self._pools[old.pool_id]:
            del self._pools[old.pool_id]

    def _taint(self, changed: Sequence[TaintRule]) -> None:
        """Work out again which taints the devices of slices have, where rules that changed mean any of them."""
        for pool in sorted({pool for rule in changed for pool in self._pools_of(rule)}):
            slices, rules = self._pools[pool], self._rules.about(pool)
            concerned = [name for name in slices if concerned_by(changed, slices[name])]
            for name in concerned:
                self.slices[name] = slices[name] = tainted(self._as_written[name], rules)
            if concerned:
                self._slices_changed(pool)

    def _pools_of(self, rule: TaintRule) -> Iterable[PoolId]:
        """Return the pools of which a rule may mean devices."""
        if rule.driver is None or rule.pool is None:
            return filter(rule.selects_of, self._pools)
        return {PoolId(rule.driver, rule.pool)} & self._pools.keys()

    def _count_counters(self, part: Slice, by: int) -> None:
        if part.only_node and part.counter_sets:
            _add(self.counting, part.pool_id, by)

    def _slices_changed(self, pool: PoolId) -> None:
        self.slices_version += 1
        self._pool_versions[pool] = self._pool_versions.get(pool, 0) + 1
        self._nodes_of.pop(pool, None)
        self.version += pool in self.counting
        self._pool_changed(pool)

    def _pool_changed(self, pool: PoolId) -> None:
        """Have the node of a pool asked again. All nodes, if the pool belongs to several."""
        self.pool_log.append(pool)
        nodes = self._nodes_of.get(pool)
        if nodes is None:
            nodes = self._only_nodes(pool)
            if nodes:
                self._nodes_of[pool] = nodes
        if not nodes:
            self.version += 1
        for node in nodes:
            if node:
                self._touch(node)
            else:
                self.version += 1

    def _only_nodes(self, pool: PoolId) -> tuple[str, ...]:
        """Return the nodes to which slices of a pool belong, with "" for all others."""
        return tuple(sorted({found.only_node for found in self._pools.get(pool, {}).values()}))

    def _spec(self, written: Any, path: str = "spec") -> ClaimSpec:
        """Return what a spec states, read once for all claims in which the same is written."""
        key = path, msgspec.json.encode(written, enc_hook=str, order="deterministic")
        known = self._specs.get(key)
        return known if known is not None else self._specs.setdefault(key, claim_spec(written, path))

    if not TYPE_CHECKING:  # a type checker finds the former names itself
        __getattr__ = renamed_attributes({"ledger": "usage"})


def pending_claim_uid(pod: str) -> str:
    """Return the uid that stands for a pod's claim for extended resources as long as it is not made."""
    return f"{pod}/extended-resources"


def _add(counts: dict, key: object, by: int) -> None:  # type: ignore[type-arg]  # keys of any one kind
    left = counts.get(key, 0) + by
    if left:
        counts[key] = left
    else:
        counts.pop(key, None)


def _older(version: str, than: str) -> bool:
    """Return whether a resource version is an earlier one. What is no number is never earlier."""
    return version.isdigit() and than.isdigit() and (len(version), version) < (len(than), than)
