"""What the pods of a template take of cards, and on which nodes they insist."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from plugins.fragmentation.average_demand import MOST_CARDS, CardSums, size_below, size_of
from plugins.fragmentation.claims import NOTHING, Claimed, Wanted
from plugins.fragmentation.cluster_cards import MILLI, ClusterCards, Offer
from plugins.fragmentation.selections import Selections
from volsched.model.pods.placement_rules import Toleration
from volsched.plugin import MOST_KEPT, Bounded, NodeSelector, PodTemplate, keep
from volsched.plugin.cards import WHOLE, CardList, CardLists, CardParts, PartRequest


class Group(NamedTuple):
    """What decides which nodes a pod with cards accepts, and is equal for many templates."""

    nodes: NodeSelector | None
    tolerations: tuple[Toleration, ...]
    cards: CardList | None = None
    devices: tuple[Wanted, ...] = ()


@dataclass(frozen=True, slots=True)
class PodCards:
    """What one pod takes: thousandths of ``cards``, of a core, and bytes. ``parts`` of cards that are distinguished.

    ``amounts``: for each resource that is cards, how much is requested of it, zeros included. ``devices``: what claims
    take of cards that are devices, ``served`` with what a node that leaves these resources to its devices takes.
    """

    cards: int
    cpu: int
    memory: int
    parts: tuple[PartRequest, ...]
    amounts: tuple[tuple[Offer, int], ...]
    group: Group
    blocks: dict[int, int] = field(default_factory=dict)
    sizes: dict[int, int] = field(default_factory=dict)
    devices: tuple[PartRequest, ...] = ()
    served: tuple[PartRequest, ...] = ()

    def sums(self, cpu_per_card: int, memory_per_card: int) -> CardSums:
        """Return what it adds to the demand: no more CPU and memory per card than the richest node has."""
        cpu = min(self.cpu, self.cards * cpu_per_card // MILLI)
        memory = min(self.memory, self.cards * memory_per_card // MILLI)
        return CardSums(self.cards, cpu, memory, self.blocks, self.sizes)


class CardRequests:
    """What templates take, read once each for the present offers. Ask ``refresh`` once in a session, before reading."""

    def __init__(self, cluster_cards: ClusterCards, selections: Selections, parts: CardParts, lists: CardLists) -> None:
        self._cluster_cards = cluster_cards
        self._selections = selections
        self._parts = parts
        self._lists = lists
        self._seen: object = None
        self._known: dict[int, PodCards] = {}
        self._with_claims: Bounded[tuple[int, Claimed], PodCards] = Bounded(MOST_KEPT)

    @property
    def sources(self) -> int:
        """Return how many plugins tell of parts and lists of cards: with another one, templates want something else."""
        return len(self._parts.sources) + len(self._lists.sources)

    def refresh(self) -> None:
        """Forget what templates take when cards are other ones, or other plugins tell of them."""
        seen = (self._cluster_cards.version, self._selections.version, self.sources)
        if seen != self._seen:
            self._seen = seen
            self._known.clear()
            self._with_claims.clear()

    def of(self, template: PodTemplate, claimed: Claimed = NOTHING) -> PodCards:
        """Return what a pod of a template takes whose claims ask for this."""
        if claimed:
            return self._of_claims(template, claimed)
        found = self._known.get(template.id)
        return found if found is not None else keep(self._known, template, self._read(template, claimed))

    def _of_claims(self, template: PodTemplate, claimed: Claimed) -> PodCards:
        found = self._with_claims.recall((template.id, claimed))
        if found is None:
            found = self._read(template, claimed)
            if not any(wanted.is_long for wanted, _ in claimed):
                self._with_claims[template.id, claimed] = found
        return found

    def _read(self, template: PodTemplate, claimed: Claimed) -> PodCards:
        names, request = self._cluster_cards.names, template.request
        amounts = tuple((offer, request.get(names[offer.column], 0)) for offer in self._cluster_cards.all)
        parts = self._parts.wanted(template)
        devices = tuple(part for wanted, count in claimed for part in self._selections.of(wanted).taken(count))
        blocks, sizes = _distinguished(parts, size_of)
        for found, more in zip((blocks, sizes), _distinguished(devices, size_below), strict=True):
            for key, amount in more.items():
                _add(found, key, amount)
        whole = [amount for offer, amount in amounts if amount and offer.is_whole]
        for amount in whole:
            _add(blocks, _block_of(amount), amount)
        cards = sum(amount * offer.unit // MILLI for offer, amount in amounts) + sum(map(_cards_of, devices))
        cpu, memory = request.get("cpu", 0), request.get("memory", 0)
        served = (*devices, *(PartRequest(_block_of(amount), WHOLE) for amount in whole))
        selected = tuple(wanted for wanted, _ in claimed if self._selections.of(wanted).one)
        group = Group(template.required_nodes, template.tolerations, self._lists.wanted(template), selected)
        return PodCards(cards, cpu, memory, parts, amounts, group, blocks, sizes, devices, served)


def _distinguished(parts: tuple[PartRequest, ...], size: Callable[[int], int]) -> tuple[dict[int, int], dict[int, int]]:
    """Return the whole cards by their number, and the parts by their size, in thousandths of cards."""
    blocks: dict[int, int] = {}
    sizes: dict[int, int] = {}
    for part in parts:
        whole = part.percent >= WHOLE
        where, key = (blocks, min(MOST_CARDS, part.cards)) if whole else (sizes, size(part.percent))
        _add(where, key, _cards_of(part))
    return blocks, sizes


def _cards_of(part: PartRequest) -> int:
    """Return what a request takes, in thousandths of cards."""
    return part.cards * part.percent * MILLI // WHOLE


def _block_of(amount: int) -> int:
    """Return the number of cards of an amount of whole ones."""
    return min(MOST_CARDS, max(1, amount // MILLI))


def _add(where: dict[int, int], key: int, amount: int) -> None:
    where[key] = where.get(key, 0) + amount
