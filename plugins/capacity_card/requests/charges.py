"""What a task counts for in quotas, worked out once for each template: cpu, memory, and cards by name.

On a node, a task holds the first card of its list that the node offers; since a node has one model of each resource,
that is at most one, and what is charged is a function of task and node alone, the same after a restart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from plugins.capacity_card.cards.catalogue import CardCatalogue, Kind
from plugins.capacity_card.requests.requests import (
    Amounts,
    CardRequest,
    Names,
    card_names_of,
    card_request_of,
    resources_of,
)
from volsched.model.pods.placement_rules import INIT, MAIN
from volsched.model.pods.requests import aggregate
from volsched.plugin import FieldError, PodTemplate
from volsched.plugin.cards import whole_up

_MOST_KNOWN: Final = 20_000


@dataclass(frozen=True, slots=True)
class Charge:
    """What a template counts for: cpu and memory (``resources``), and one card of ``names`` (empty: no card by name).

    ``devices`` are its extended resources in thousandths, each rounded up to whole ones.
    """

    resources: Amounts
    names: Names
    devices: tuple[tuple[str, int], ...]

    def amount(self, resource: str) -> int:
        """Return how much is asked of one extended resource."""
        return next((amount for name, amount in self.devices if name == resource), 0)


@dataclass(frozen=True, slots=True)
class ChargedCard:
    """The card that a placed task holds: its name and milli-cards of it.

    ``is_offered``: its node offers that card. If not, it is not known what the task holds, and it counts as what it
    asked for (*ours*: closed on failure).
    """

    card: str
    amount: int
    is_offered: bool = True

    @property
    def dimension(self) -> Names:
        """Return what it counts as."""
        return (self.card,)


def amounts_of(charge: Charge, charged: ChargedCard | None) -> Amounts:
    """Return what a task counts for with the card that it holds."""
    return charge.resources if charged is None else {**charge.resources, (charged.card,): charged.amount}


class Charges:
    """Templates as quotas see them.

    ``spares_cpu``: tasks with cards count for no cpu and memory. ``is_strict``: a pod that asks for cards and does not
    name them is refused.
    """

    def __init__(self, catalogue: CardCatalogue, *, spares_cpu: bool, is_strict: bool) -> None:
        self._catalogue = catalogue
        self._spares_cpu = spares_cpu
        self._is_strict = is_strict
        self._charges: dict[int, Charge] = {}
        self._card_requests: dict[int, CardRequest | FieldError | None] = {}
        self._offered: dict[tuple[int, int], ChargedCard | None] = {}
        self._version = -1
        self._era = 0

    def begin(self, era: int) -> None:
        """Forget what is known of templates when most of them are gone (``Cluster.generations.template``)."""
        if era != self._era:
            self._era = era
            for known in (self._charges, self._card_requests, self._offered):
                known.clear()

    def of(self, template: PodTemplate) -> Charge:
        """Return what a template counts for."""
        found = self._charges.get(template.id)
        if found is None:
            if len(self._charges) >= _MOST_KNOWN:
                self._charges.clear()
            found = self._charges[template.id] = self._charge_of(template)
        return found

    def _charge_of(self, template: PodTemplate) -> Charge:
        names = card_names_of(template.annotations)
        devices = tuple(sorted(_devices(template).items()))
        if self._spares_cpu and names and devices:
            return Charge({}, names, devices)
        return Charge(resources_of(template.request), names, devices)

    def card_request(self, template: PodTemplate) -> CardRequest | FieldError | None:
        """Return which cards a template wants as the cluster is now.

        None for no card, an error when that is not known.
        """
        if self._version != self._catalogue.version or len(self._card_requests) >= _MOST_KNOWN:
            self._card_requests.clear()
            self._version = self._catalogue.version
        if template.id not in self._card_requests:
            self._card_requests[template.id] = self._read(template)
        return self._card_requests[template.id]

    def _read(self, template: PodTemplate) -> CardRequest | FieldError | None:
        charge, resources = self.of(template), self._catalogue.resources
        asked: CardRequest | None = None
        if charge.names:
            try:
                asked = card_request_of(charge.names, dict(charge.devices), resources)
            except FieldError as error:
                return error.detached()
        return self._unnamed(charge, asked) or asked

    def _unnamed(self, charge: Charge, asked: CardRequest | None) -> FieldError | None:
        """Return what a strict reading finds: cards that are asked for and not named."""
        if not self._is_strict:
            return None
        cards = set(self._catalogue.resources.values()) - {asked.resource if asked is not None else ""}
        unnamed = [name for name, _ in charge.devices if name in cards]
        if not unnamed:
            return None
        message = (
            f"{', '.join(unnamed)} is asked for and no annotation volcano.sh/card.name says which card (strictCardName)"
        )
        return FieldError("metadata.annotations", message)

    def charged(self, template: PodTemplate, kind: int) -> ChargedCard | None:
        """Return the card that a task of this template holds on a node of a kind, or None."""
        return self.offered(template, kind) or self._lost_card(self.of(template))

    def offered(self, template: PodTemplate, kind: int) -> ChargedCard | None:
        """Return the first card of a template's list that nodes of a kind offer as a resource that it asks for."""
        key = (template.id, kind)
        if key in self._offered:
            return self._offered[key]
        if len(self._offered) >= _MOST_KNOWN:
            self._offered.clear()
        found = self._offered[key] = _first_offered(self.of(template), self._catalogue.kinds()[kind])
        return found

    def _lost_card(self, charge: Charge) -> ChargedCard | None:
        """Return the first known card of the list, and the task's request of it."""
        if not charge.names:
            return None
        resources = self._catalogue.resources
        for name in charge.names:
            amount = charge.amount(resources.get(name, ""))
            if amount:
                return ChargedCard(name, amount, is_offered=False)
        for name in charge.names:
            amount = charge.amount(self._catalogue.mapping.resource_of(name) or "")
            if amount:
                return ChargedCard(name, amount, is_offered=False)
        most = max((amount for _, amount in charge.devices), default=0)
        return ChargedCard(charge.names[0], most, is_offered=False) if most else None


def _devices(template: PodTemplate) -> dict[str, int]:
    """What a template asks for of extended resources. Where requests and limits differ, the limits count (*ours*).

    The API server refuses such pods; manifests may have them.
    """
    asked = {name: amount for name, amount in template.request.items() if "/" in name}
    listed = template.container_amounts
    if any(item.differing for item in listed):
        asked |= aggregate(
            [dict(item.amounts) for item in listed if item.kind == MAIN],
            [(item.sidecar, dict(item.amounts)) for item in listed if item.kind == INIT],
        )
    return {name: whole_up(amount) for name, amount in asked.items()}


def _first_offered(charge: Charge, kind: Kind) -> ChargedCard | None:
    offers = dict(kind)
    for name in charge.names:
        amount = charge.amount(offers.get(name, ""))
        if amount:
            return ChargedCard(name, amount)
    return None
