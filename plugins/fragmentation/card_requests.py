"""What the pods of a template take of cards, and on which nodes they insist."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from plugins.fragmentation.means import MOST_CARDS, CardSums, size_of
from plugins.fragmentation.offers import MILLI, Offer, Offers
from volsched.framework.accounts.card_lists import CardList, CardLists
from volsched.framework.accounts.card_parts import WHOLE, CardParts, PartRequest
from volsched.framework.accounts.templates import keep
from volsched.model.pods.rules import Toleration
from volsched.model.pods.template import PodTemplate
from volsched.model.selectors import NodeSelector


class Group(NamedTuple):
    """What decides which nodes a pod with cards accepts, and is equal for many templates."""

    nodes: NodeSelector | None
    tolerations: tuple[Toleration, ...]
    cards: CardList | None = None


@dataclass(frozen=True, slots=True)
class PodCards:
    """What one pod takes: thousandths of ``cards``, of a core, and bytes; ``parts`` of cards that are told apart.

    ``amounts``: for each resource that is cards, how much is requested of it, zeros included.
    """

    cards: int
    cpu: int
    memory: int
    parts: tuple[PartRequest, ...]
    amounts: tuple[tuple[Offer, int], ...]
    group: Group
    blocks: dict[int, int] = field(default_factory=dict)
    sizes: dict[int, int] = field(default_factory=dict)

    def sums(self, cpu_per_card: int, memory_per_card: int) -> CardSums:
        """Return what it adds to the demand: no more CPU and memory per card than the richest node has."""
        cpu = min(self.cpu, self.cards * cpu_per_card // MILLI)
        memory = min(self.memory, self.cards * memory_per_card // MILLI)
        return CardSums(self.cards, cpu, memory, self.blocks, self.sizes)


class CardRequests:
    """What templates take, read once each for the present offers."""

    def __init__(self, offers: Offers, parts: CardParts, lists: CardLists) -> None:
        self._offers = offers
        self._parts = parts
        self._lists = lists
        self._seen: object = None
        self._known: dict[int, tuple[PodTemplate, PodCards]] = {}

    @property
    def sources(self) -> int:
        """How many plugins tell of parts and lists of cards: with another one, templates want something else."""
        return len(self._parts.sources) + len(self._lists.sources)

    def of(self, template: PodTemplate) -> PodCards:
        """Return what a pod of a template takes."""
        seen = (self._offers.version, self.sources)
        if seen != self._seen:
            self._seen = seen
            self._known.clear()
        found = self._known.get(template.id)
        if found is None or found[0].id != template.id:
            found = keep(self._known, template, (template, self._read(template)))
        return found[1]

    def _read(self, template: PodTemplate) -> PodCards:
        names, request = self._offers.names, template.request
        amounts = tuple((offer, request.get(names[offer.column], 0)) for offer in self._offers.all)
        parts = self._parts.wanted(template)
        blocks, sizes = _told_apart(parts)
        for offer, amount in amounts:
            if amount and offer.is_whole:
                _add(blocks, min(MOST_CARDS, max(1, amount // MILLI)), amount)
        cards = sum(amount * offer.unit // MILLI for offer, amount in amounts)
        cpu, memory = request.get("cpu", 0), request.get("memory", 0)
        group = Group(template.required_nodes, template.tolerations, self._lists.wanted(template))
        return PodCards(cards, cpu, memory, parts, amounts, group, blocks, sizes)


def _told_apart(parts: tuple[PartRequest, ...]) -> tuple[dict[int, int], dict[int, int]]:
    """Return the whole cards by their number, and the parts by their size, in thousandths of cards."""
    blocks: dict[int, int] = {}
    sizes: dict[int, int] = {}
    for cards, percent in parts:
        where, key = (blocks, cards) if percent >= WHOLE else (sizes, size_of(percent))
        _add(where, key, cards * percent * MILLI // WHOLE)
    return blocks, sizes


def _add(where: dict[int, int], key: int, amount: int) -> None:
    where[key] = where.get(key, 0) + amount
