"""Which devices the claims of a pod get on one node: the first solution of a depth-first search.

Claim by claim, request by request, device by device; where a request has alternatives, one alternative after the
other. What fails later comes back and tries the next candidate, also of an earlier request, alternative or claim.
The devices of one request are a combination: each is further along than the one before. Candidates are tried in the
order of pools, slices by name, and devices as they are listed.

Three things can come out: an allocation for each claim; that this node cannot serve them (`Unfit`); or that they
cannot be served on any node, because something of them cannot be understood or evaluated (`Impossible`). Claims that
ask for the same share what is stated of them, so these messages name requests, not claims.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final, NamedTuple

from volsched.framework.dra import capacity
from volsched.framework.dra.constraints import Constraint, is_list
from volsched.framework.dra.pool import Pool
from volsched.framework.dra.selectors import OverBudgetError, Selectors
from volsched.model.dra.api import MOST_RESULTS, DeviceTaint, DeviceToleration
from volsched.model.dra.device import Ask, Claim, ClassSpec, Device, DeviceId, PoolId, Request, Slice
from volsched.model.dra.devices import DeviceUsage

MOST_STEPS: Final = 40_000
"""Candidates that are tried for a node before it is given up."""

MOST_DEVICES: Final = 320
"""Devices that the claims of one pod may have together, and that the search can go deep."""

BLOCKING: Final = ("NoSchedule", "NoExecute")

NO_DEVICES: Final = "cannot allocate all claims"

POSTPONED: Final = "selectors of devices take long to work out; more nodes are judged in the next sessions"

MOST_TAINTS_NAMED: Final = 3
"""Taints that a node names when devices were left out for them."""


@dataclass(frozen=True, slots=True)
class Unfit:
    """A node cannot serve the claims, in kube-scheduler's words. Another may."""

    reason: str = NO_DEVICES
    gave_up: bool = False
    """Whether there were too many combinations to try them all."""
    is_postponed: bool = False
    """Whether selectors were not worked out in this session any more."""


@dataclass(frozen=True, slots=True)
class Impossible:
    """No node can serve the claims as they are. States what is wrong, and with which object."""

    message: str


class Chosen(NamedTuple):
    """One device that was chosen. `consumed` is what it takes of a device that is shared."""

    request: Request
    ask: Ask
    part: Slice
    device: Device
    consumed: Mapping[str, Fraction] | None = None


Limits = Mapping[tuple[str, str], Fraction]
"""How much may be given of each (class, dimension). "" is the number of devices."""

Choice = list[list[Chosen]]
"""For each claim, the devices that were chosen for it, in order of its requests."""


class _StopError(Exception):
    """Ends the search with what came of it."""

    def __init__(self, outcome: Unfit | Impossible) -> None:
        super().__init__(outcome)
        self.outcome = outcome


class _TooManyError(Exception):
    """A claim would have more devices than it may. What asks for fewer may do."""


@dataclass(slots=True)
class _Alternative:
    """An alternative of a request, with its class and, where it takes all devices, these."""

    request: Request
    ask: Ask
    selectors: tuple[tuple[str, str], ...]
    """Whose each is, and its expression: those of the class, then those of the request."""
    everything: list[tuple[Pool, Slice, Device]] = field(default_factory=list)

    @property
    def count(self) -> int:
        """Return how many devices it takes."""
        return len(self.everything) if self.ask.takes_all else self.ask.count


@dataclass(slots=True)
class _Open:
    """A claim that is being served."""

    claim: Claim
    options: list[list[_Alternative]]
    constraints: list[Constraint]
    chosen: list[Chosen] = field(default_factory=list)


def choose(
    claims: Sequence[Claim],
    pools: Sequence[Pool],
    classes: Mapping[str, ClassSpec],
    usage: DeviceUsage,
    selectors: Selectors,
    most_steps: int = MOST_STEPS,
    limits: Limits | None = None,
) -> Choice | Unfit | Impossible:
    """Choose devices for all claims together, from the pools of one node, and no more of any class than ``limits``."""
    search = _AllocationSearch(pools, classes, usage, selectors, most_steps, limits or {})
    try:
        search.begin(claims)
        if search.claim(0):
            return [open_claim.chosen for open_claim in search.open]
    except _StopError as stop:
        return stop.outcome
    except _TooManyError:
        return Unfit()
    invalid = next((pool for pool in pools if pool.invalid), None)
    return Unfit(f"invalid resource pool {invalid.id}: {invalid.invalid}") if invalid is not None else search.unfit()


class _AllocationSearch:
    """The state of one search: what is chosen so far, and what that uses up."""

    def __init__(
        self,
        pools: Sequence[Pool],
        classes: Mapping[str, ClassSpec],
        usage: DeviceUsage,
        selectors: Selectors,
        most_steps: int,
        limits: Limits,
    ) -> None:
        self._pools = pools
        self._offers = [(pool, part, device) for pool in pools if pool.is_usable for part, device in pool.offers]
        self._classes = classes
        self._usage = usage
        self._selectors = selectors
        self._steps = most_steps
        self._most_steps = most_steps
        self._allowance = dict(limits)
        self._mine: dict[DeviceId, list[int]] = {}
        """Devices that are taken whole, and by which claims."""
        self._parts: dict[DeviceId, list[Mapping[str, Fraction]]] = {}
        """Devices that are shared, and what each part takes."""
        self._left: dict[PoolId, dict[tuple[str, str], Fraction]] = {}
        self._taints: set[str] = set()
        """Those for which devices were left out that are meant otherwise."""
        self.open: list[_Open] = []

    def unfit(self) -> Unfit:
        """Report that there are not enough devices, and which taints have a part in that."""
        named = ", ".join(sorted(self._taints)[:MOST_TAINTS_NAMED])
        return Unfit(f"{NO_DEVICES}, leaving out devices with untolerated taint {named}" if named else NO_DEVICES)

    # -- what is asked for --------------------------------------------------------------------------------------------

    def begin(self, claims: Iterable[Claim]) -> None:
        """Find out what all claims ask for. Raises _StopError for what cannot be served anywhere."""
        total = 0
        for claim in claims:
            options = [[self._option(r, ask) for ask in r.alternatives] for r in claim.spec.requests]
            least = sum(min(option.count for option in alternatives) for alternatives in options)
            if least > MOST_RESULTS:
                raise _impossible(f"a claim asks for {least} devices, and it may have {MOST_RESULTS} at most")
            total += least
            self.open.append(_Open(claim, options, [Constraint(c) for c in claim.spec.constraints]))
        if total > MOST_DEVICES:
            message = f"the claims of a pod ask for {total} devices, and it may have {MOST_DEVICES} at most"
            raise _impossible(message)

    def _option(self, request: Request, ask: Ask) -> _Alternative:
        found = self._classes.get(ask.device_class)
        if found is None:
            raise _impossible(f'request "{request.full_name(ask)}": {no_class(ask.device_class)}')
        if found.fault:
            raise _impossible(f'DeviceClass "{found.name}": {found.fault}')
        selectors = [(f'class "{found.name}"', text) for text in found.selectors]
        selectors += [(f'request "{request.full_name(ask)}"', text) for text in ask.selectors]
        option = _Alternative(request, ask, tuple(selectors))
        if ask.takes_all:
            option.everything = list(self._all(option))
        return option

    def _all(self, option: _Alternative) -> Iterator[tuple[Pool, Slice, Device]]:
        """Yield all devices that a request for all of them means on this node."""
        for pool in self._pools:
            if pool.is_usable:
                continue
            state = "is being updated" if pool.incomplete else f"is invalid: {pool.invalid}"
            name = option.request.full_name(option.ask)
            raise _impossible(f'request "{name}" asks for all devices, but resource pool {pool.id} {state}')
        for pool, part, device in self._offers:
            if self._is_meant(option, device) and self._taken_of(option, device) is not None:
                yield pool, part, device

    # -- the search ---------------------------------------------------------------------------------------------------

    def claim(self, index: int) -> bool:
        """Serve the claims from this one on."""
        if index == len(self.open):
            return True
        try:
            return self._request(index, 0)
        except _TooManyError:
            if index == 0:
                raise
            return False

    def _request(self, index: int, number: int) -> bool:
        """Serve a claim from this request on, then the claims behind it."""
        options = self.open[index].options
        if number == len(options):
            return self.claim(index + 1)
        if not options[number][0].request.prioritised:
            return self._devices(index, number, options[number][0], 0, 0)
        too_many = True
        for option in options[number]:
            try:
                if self._devices(index, number, option, 0, 0):
                    return True
                too_many = False
            except _TooManyError:
                continue
        if too_many:
            raise _TooManyError
        return False

    def _devices(self, index: int, number: int, option: _Alternative, have: int, start: int) -> bool:
        """Serve one alternative of a request from its device number ``have`` on, then what is behind it."""
        if option.ask.takes_all and not option.everything:
            return False
        if have >= option.count:
            return self._request(index, number + 1)
        if len(self.open[index].chosen) + option.count - have > MOST_RESULTS:
            raise _TooManyError
        if option.ask.takes_all:
            return self._every_device(index, number, option, have)
        for place in range(start, len(self._offers)):
            pool, part, device = self._offers[place]
            if self._in_use(index, option, device) or not self._is_meant(option, device):
                continue
            self._step()
            if not self._take(index, option, pool, part, device):
                continue
            try:
                if self._devices(index, number, option, have + 1, place + 1):
                    return True
            except _TooManyError:
                self._give_back(index, option, pool, device)
                raise
            self._give_back(index, option, pool, device)
        return False

    def _every_device(self, index: int, number: int, option: _Alternative, have: int) -> bool:
        """Take the next of all devices. There is no other choice."""
        pool, part, device = option.everything[have]
        self._step()
        if self._in_use(index, option, device):
            return False
        if not self._take(index, option, pool, part, device, must=True):
            return False
        try:
            done = self._devices(index, number, option, have + 1, 0)
        except _TooManyError:
            self._give_back(index, option, pool, device)
            raise
        if not done:
            self._give_back(index, option, pool, device)
        return done

    def _step(self) -> None:
        self._steps -= 1
        if self._steps < 0:
            raise _StopError(Unfit(f"no allocation of claims found in {self._most_steps} steps", gave_up=True))

    # -- one device ---------------------------------------------------------------------------------------------------

    def _is_meant(self, option: _Alternative, device: Device) -> bool:
        """Return whether the selectors of class and request mean a device. Raises _StopError when they cannot tell."""
        for whose, expression in option.selectors:
            try:
                answer = self._selectors.select(expression, device)
            except OverBudgetError:
                raise _StopError(Unfit(POSTPONED, is_postponed=True)) from None
            if isinstance(answer, str):
                raise _StopError(Impossible(f"{whose}: {answer}: selector {expression!r}, device {device.id}"))
            if not answer:
                return False
        return True

    def _in_use(self, index: int, option: _Alternative, device: Device) -> bool:
        """Return whether a device is taken. Administrators share it with all claims, but have it once in a claim."""
        mine = self._mine.get(device.id)
        if option.ask.admin:
            return mine is not None and index in mine
        if mine or device.id in self._usage.taken:
            return True
        return not device.shareable and device.id in self._usage.shares

    def _taken_of(self, option: _Alternative, device: Device) -> dict[str, Fraction] | None:
        """Return what a request takes of a device's capacities, None when there is not so much left."""
        taken = capacity.consumed(device, option.ask.capacity)
        if taken is None:
            return None
        used = self._usage.consumed.get(device.id, {})
        return taken if capacity.fits(device, taken, used, *self._parts.get(device.id, ())) else None

    def _take(
        self, index: int, option: _Alternative, pool: Pool, part: Slice, device: Device, *, must: bool = False
    ) -> bool:
        """Choose a device, if its counters, its taints and the claim's constraints allow it."""
        taken = self._taken_of(option, device)
        if taken is None or not self._has_counters(pool, device):
            return False
        taint = _untolerated(device, option.ask.tolerations)
        if taint is not None:
            self._taints.add(f"{{{taint.key}: {taint.value}}}")
            return False
        if not self._is_allowed(option, taken, device):
            return False
        if not self._add_to_constraints(index, option, device):
            if must:
                name = option.request.full_name(option.ask)
                raise _impossible(f'request "{name}" asks for all devices, and a constraint does not allow {device.id}')
            return False
        self._count(pool, device, -1)
        self._spend(option, taken if device.shareable else None, -1)
        if device.shareable:
            self._parts.setdefault(device.id, []).append(taken)
        else:
            self._mine.setdefault(device.id, []).append(index)
        consumed = taken if device.shareable else None
        self.open[index].chosen.append(Chosen(option.request, option.ask, part, device, consumed))
        return True

    def _give_back(self, index: int, option: _Alternative, pool: Pool, device: Device) -> None:
        """Undo the last choice, which was of this device."""
        self._spend(option, self.open[index].chosen.pop().consumed, 1)
        holders: dict[DeviceId, list[object]] = self._parts if device.shareable else self._mine  # type: ignore[assignment]
        holders[device.id].pop()
        if not holders[device.id]:
            del holders[device.id]
        self._count(pool, device, 1)
        name = option.request.full_name(option.ask)
        for constraint in self.open[index].constraints:
            if constraint.concerns(option.request, name):
                constraint.remove()

    def _is_allowed(self, option: _Alternative, taken: Mapping[str, Fraction], device: Device) -> bool:
        """Return whether one device more of its class, and what is taken of it, is within the limits."""
        amounts = self._limited(option, taken if device.shareable else None)
        return all(self._allowance[key] >= amount for key, amount in amounts)

    def _spend(self, option: _Alternative, consumed: Mapping[str, Fraction] | None, by: int) -> None:
        for key, amount in self._limited(option, consumed):
            self._allowance[key] += by * amount

    def _limited(
        self, option: _Alternative, consumed: Mapping[str, Fraction] | None
    ) -> list[tuple[tuple[str, str], Fraction]]:
        """Return what a device takes of each limit: itself, and of its capacity what is consumed or was asked for."""
        if not self._allowance or option.ask.admin:
            return []
        name, found = option.ask.device_class, [((option.ask.device_class, ""), Fraction(1))]
        for dimension, amount in consumed.items() if consumed is not None else option.ask.capacity:
            whole = (name, dimension)
            found.append((whole if whole in self._allowance else (name, dimension.rpartition("/")[2]), amount))
        return [(key, amount) for key, amount in found if key in self._allowance]

    def _add_to_constraints(self, index: int, option: _Alternative, device: Device) -> bool:
        added: list[Constraint] = []
        name = option.request.full_name(option.ask)
        for constraint in self.open[index].constraints:
            if not constraint.concerns(option.request, name):
                continue
            if is_list(device, constraint.attribute):
                what = f'attribute "{constraint.attribute}" of device {device.id}'
                raise _impossible(f"{what} is a list, which constraints cannot compare")
            if not constraint.add(device):
                for earlier in added:
                    earlier.remove()
                return False
            added.append(constraint)
        return True

    def _has_counters(self, pool: Pool, device: Device) -> bool:
        if not device.counters or self._is_shared_already(device):
            return True
        left = self._left_of(pool)
        wanted: dict[tuple[str, str], Fraction] = {}
        for name, counter, amount in device.counters:
            wanted[name, counter] = wanted.get((name, counter), Fraction(0)) + amount
        return all(amount >= wanted.get(key, 0) for key, amount in left.items())

    def _count(self, pool: Pool, device: Device, by: int) -> None:
        """Take a device's counters (-1), or give them back (1); further parts of a shared one cost nothing."""
        if not device.counters or self._is_shared_already(device):
            return
        left = self._left_of(pool)
        for name, counter, amount in device.counters:
            if counter:
                left[name, counter] += by * amount

    def _is_shared_already(self, device: Device) -> bool:
        return device.shareable and (device.id in self._usage.shares or device.id in self._parts)

    def _left_of(self, pool: Pool) -> dict[tuple[str, str], Fraction]:
        if pool.id not in self._left:
            self._left[pool.id] = pool.left(self._usage)
        return self._left[pool.id]


def no_class(name: str) -> str:
    """Report that a class is missing, in kube-scheduler's words."""
    return f"device class {name} does not exist"


def _impossible(message: str) -> _StopError:
    return _StopError(Impossible(message))


def _untolerated(device: Device, tolerations: Iterable[DeviceToleration]) -> DeviceTaint | None:
    """Return the first taint of a device that these tolerations do not tolerate."""
    blocking = (taint for taint in device.taints if taint.effect in BLOCKING)
    return next((taint for taint in blocking if not any(tolerates(x, taint) for x in tolerations)), None)


def tolerates(toleration: DeviceToleration, taint: DeviceTaint) -> bool:
    """Return whether a toleration puts up with a taint: no effect means any, and so does no key with Exists."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    return toleration.operator == "Exists" or toleration.value == taint.value
