"""What the containers of a pod want of GPU cards, and what is wrong with that.

A container asks in one of four ways:

* shared: part of one card, ``mgpu-core`` below 100 and ``mgpu-memory``;
* full: k whole cards, ``mgpu-core`` of k hundreds and no memory;
* multi: an equal part of each of g cards; g stands in the pod's annotation ``container-multiple-gpu``, which has one
  count for each container, and ``mgpu-core`` and ``mgpu-memory`` are what all g parts come to;
* multi-full: the same with 100 percent of each card and no memory.

The rules and their order are those of the design's table for admission (proposed for Volcano); codes and texts are
ours, and so are MGPU301 to MGPU305. The same function judges for webhooks, for ``volsched validate`` and for
the scheduler: a webhook may be absent or be passed over.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from plugins.mgpu.devices import CORE, CORE_OF_CARD, MEMORY, MILLI, POLICIES, POLICY, policy_of
from plugins.mgpu.placement import ContainerRequest
from volsched.model.pods.placement_rules import MAIN, ContainerAmounts
from volsched.plugin import shortened

MULTIPLE: Final = "vke.volcengine.com/container-multiple-gpu"

MIN_MEMORY: Final = 256
"""MiB that a part of a card has at least: with less no container starts (seed)."""

LONGEST_NAME: Final = 43
"""Letters of the name of a container that gets cards. With ``gpu-index-container-`` before it, it has to fit into the
63 letters of the name of an annotation."""

_COUNT: Final = re.compile(r"[0-9]{1,9}", re.ASCII)
_OF_A_CARD: Final = frozenset({CORE, MEMORY})


class Violation(NamedTuple):
    """A rule that a pod breaks.

    ``field`` is a path in the pod, ``container`` the place among ``spec.containers`` of the one it is about, None when
    it is about none of them; ``vague``: because of it, the request of the pod is not known.
    """

    code: str
    field: str
    message: str
    container: int | None = None
    vague: bool = False

    def text(self, names: Sequence[str]) -> str:
        """Return the message with the name of the container."""
        return self.message if self.container is None else f"container {names[self.container]}: {self.message}"


class ContainerAsk(NamedTuple):
    """A container that wants cards: its place among ``spec.containers``, and what it wants."""

    place: int
    ask: ContainerRequest


@dataclass(frozen=True, slots=True)
class PodRequest:
    """What a pod wants of cards, container by container, and every rule that it breaks, in order."""

    policy: str
    is_multi: bool
    asks: tuple[ContainerAsk, ...]
    faults: tuple[Violation, ...] = ()

    @property
    def is_clear(self) -> bool:
        """True if it is known what the pod wants, however wrong that may be."""
        return not any(fault.vague for fault in self.faults)

    @property
    def is_whole(self) -> bool:
        """True if every container that wants cards wants whole ones."""
        return all(found.ask.is_whole for found in self.asks)

    @property
    def most_cards(self) -> int:
        """Return the cards of the container that wants most of them."""
        return max((found.ask.cards for found in self.asks), default=0)

    @property
    def shapes(self) -> tuple[ContainerRequest, ...]:
        """Return what the containers want, in their order."""
        return tuple(found.ask for found in self.asks)


def wants_cards(containers: Sequence[ContainerAmounts]) -> bool:
    """True if any container names core or memory of cards."""
    return any(_is_named(container) for container in containers)


def read(
    containers: Sequence[ContainerAmounts], annotations: Mapping[str, str], min_memory: int = MIN_MEMORY
) -> PodRequest:
    """Return what a pod wants. ``annotations`` are the pod's, ``min_memory`` is in MiB.

    A pod that names neither core nor memory wants nothing and breaks no rule.
    """
    policy = policy_of(annotations)
    if not wants_cards(containers):
        return PodRequest(policy, False, ())
    faults: list[Violation] = []
    main = [container for container in containers if container.kind == MAIN]
    counts = _counts(annotations.get(MULTIPLE), len(main), faults.append)
    asks: list[ContainerAsk] = []
    if counts is not None:
        for container, count in zip(main, counts, strict=True):
            ask = _Judge(container, min_memory, faults.append).ask(count)
            if ask is not None:
                asks.append(ContainerAsk(container.place, ask))
    faults.extend(_elsewhere(containers))
    if policy not in POLICIES:
        message = f"{shortened(policy, 40)!r} is none of {', '.join(POLICIES)}"
        faults.append(Violation("MGPU303", f"metadata.annotations[{POLICY}]", message))
    return PodRequest(policy, any(counts or ()), tuple(asks), tuple(faults))


def long_names(containers: Sequence[ContainerAmounts], names: Sequence[str]) -> list[Violation]:
    """Return a fault for each container that wants cards and whose name is too long to tell them."""
    message = f"a name of more than {LONGEST_NAME} letters does not fit into the annotation that tells its cards"
    return [
        Violation("MGPU302", f"spec.containers[{container.place}].name", message, container.place)
        for container in containers
        if container.kind == MAIN and _is_named(container) and len(names[container.place]) > LONGEST_NAME
    ]


def _is_named(container: ContainerAmounts) -> bool:
    return any(name in _OF_A_CARD for name, _ in container.amounts)


def _elsewhere(containers: Sequence[ContainerAmounts]) -> list[Violation]:
    message = f"{CORE} and {MEMORY} are for spec.containers only"
    return [
        Violation("MGPU301", f"spec.{container.kind}[{container.place}].resources", message)
        for container in containers
        if container.kind != MAIN and _is_named(container)
    ]


# -- counts of cards -------------------------------------------------------------------------------------------------

_Note: TypeAlias = Callable[[Violation], None]


def _counts(text: str | None, containers: int, note: _Note) -> Sequence[int | None] | None:
    """Return the number of cards of each container (None without a list), or None for an unusable list."""
    if text is None:
        return [None] * containers
    field, entries = f"metadata.annotations[{MULTIPLE}]", text.split(",")
    for number, entry in enumerate(entries, 1):
        if not _COUNT.fullmatch(entry):
            message = f"entry {number} is not a card count: {shortened(entry, 20)!r}"
            note(Violation("MGPU202", field, message, vague=True))
            return None
    if len(entries) != containers:
        note(Violation("MGPU201", field, f"{len(entries)} counts for {containers} containers", vague=True))
        return None
    return [int(entry) for entry in entries]


# -- one container ---------------------------------------------------------------------------------------------------


class _Broken(Exception):  # noqa: N818 - a rule is broken, the program is not
    """A rule is broken, so that the request of the container is not known."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(code, message)
        self.code, self.message = code, message


@dataclass(frozen=True, slots=True)
class _Judge:
    """Reads what one container wants and notes the first rule that it breaks."""

    container: ContainerAmounts
    min_memory: int
    note: _Note

    def ask(self, count: int | None) -> ContainerRequest | None:
        """Return what the container wants. ``count`` is that of the annotation, None when the pod has none."""
        try:
            return self._ask(count)
        except _Broken as broken:
            self._fault(broken.code, broken.message, vague=True)
            return None

    def _ask(self, count: int | None) -> ContainerRequest | None:
        if not _is_named(self.container):
            if count:
                raise _Broken("MGPU207", f"count and request disagree: {count} cards and no {CORE}")
            return None
        amounts = dict(self.container.amounts)
        for name in sorted(_OF_A_CARD & amounts.keys()):
            if name in self.container.differing:
                raise _Broken("MGPU304", f"request and limit of {name} differ")
            if amounts[name] % MILLI:
                raise _Broken("MGPU305", f"{name} must be a whole number")
        core, memory = (amounts[name] // MILLI if name in amounts else None for name in (CORE, MEMORY))
        return self._normal(core, memory) if count is None else self._multi(count, core, memory)

    def _normal(self, core: int | None, memory: int | None) -> ContainerRequest:
        if core is None or core <= 0 or (memory is not None and memory <= 0):
            raise _Broken("MGPU101", _POSITIVE)
        if core < CORE_OF_CARD:
            if (memory or 0) < self.min_memory:
                self._fault("MGPU102", f"mgpu-memory must be >= {self.min_memory} MiB for a shared card")
            return ContainerRequest(1, core, memory or 0)
        if core % CORE_OF_CARD:
            raise _Broken("MGPU103", "mgpu-core above 100 must be a multiple of 100")
        if memory is not None:
            self._fault("MGPU104", "mgpu-memory must not be set with whole cards")
        return ContainerRequest(core // CORE_OF_CARD, CORE_OF_CARD)

    def _multi(self, count: int, core: int | None, memory: int | None) -> ContainerRequest:
        if not count and (core or memory):
            raise _Broken("MGPU207", "count and request disagree: no cards, and it asks for some")
        if count and core is None:
            raise _Broken("MGPU207", f"count and request disagree: {count} cards and no {CORE}")
        if core is None or core <= 0 or (memory is not None and memory < 0):
            raise _Broken("MGPU101", _POSITIVE)
        if core == CORE_OF_CARD * count:
            if memory is not None:
                self._fault("MGPU203", "whole cards: memory must not be set")
            return ContainerRequest(count, CORE_OF_CARD)
        return self._parts(count, core, memory or 0)

    def _parts(self, count: int, core: int, memory: int) -> ContainerRequest:
        is_clear = core % count == memory % count == 0 and core <= CORE_OF_CARD * count
        if memory < self.min_memory * count:
            too_little = f"memory per card must be >= {self.min_memory} MiB"
            if not is_clear:
                raise _Broken("MGPU204", too_little)
            self._fault("MGPU204", too_little)
        elif core % count or memory % count:
            raise _Broken("MGPU205", "not divisible by the card count")
        elif not is_clear:
            raise _Broken("MGPU206", "core per card must be <= 100")
        return ContainerRequest(count, core // count, memory // count)

    def _fault(self, code: str, message: str, *, vague: bool = False) -> None:
        place = self.container.place
        self.note(Violation(code, f"spec.containers[{place}].resources", message, place, vague))


_POSITIVE: Final = "mgpu-core must be > 0 and mgpu-memory, when set, > 0"
