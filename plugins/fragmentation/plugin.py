"""Registration of the fragmentation score."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from plugins.fragmentation.arguments import ARGUMENTS, DRIVERS, RESOURCES, WEIGHT, check_arguments, weights_of
from plugins.fragmentation.card_requests import CardRequests
from plugins.fragmentation.claims import Claims
from plugins.fragmentation.cluster_cards import ClusterCards
from plugins.fragmentation.demand import Demand, KnownDevices
from plugins.fragmentation.device_cards import DeviceCards
from plugins.fragmentation.score import Score
from plugins.fragmentation.selections import Selections
from plugins.fragmentation.stranded import Stranded
from volsched.plugin import Argument, Cluster, Registrar
from volsched.plugin.cards import CARD_LISTS, CARD_PARTS, CardLists, CardParts

__all__ = ["ARGUMENTS", "FragmentationPlugin", "check_arguments"]

NAME: Final = "fragmentation"


class FragmentationPlugin:
    """Prefers the node on which a pod leaves the fewest cards that no pod can use."""

    name: ClassVar[str] = NAME
    ARGUMENTS: ClassVar[tuple[Argument, ...]] = ARGUMENTS
    UNDONE_BY: ClassVar[tuple[str, ...]] = ("nodeorder", "binpack")

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self._arguments = arguments

    def on_session_open(self, registrar: Registrar) -> None:
        """Register the score, unless its weight is 0."""
        if not self._arguments[WEIGHT]:
            return
        parts = registrar.account(CARD_PARTS, CardParts.of_cluster)
        lists = registrar.account(CARD_LISTS, CardLists.of_cluster)
        accounts = registrar.account(
            f"{NAME}.accounts", lambda cluster: _Kept.of(cluster, self._arguments, parts, lists)
        )
        accounts.selections.begin(registrar.session.clock)
        registrar.account(NAME, lambda _: accounts.demand).open()
        registrar.register(*accounts.score.registered(), accounts.stranded.report())


@dataclass(frozen=True, slots=True)
class _Kept:
    """What is kept from session to session."""

    selections: Selections
    demand: Demand
    score: Score
    stranded: Stranded

    @classmethod
    def of(cls, cluster: Cluster, arguments: Mapping[str, Any], parts: CardParts, lists: CardLists) -> _Kept:
        cluster_cards = ClusterCards(cluster, arguments[RESOURCES], lists)
        cards = DeviceCards(cluster, arguments[DRIVERS])
        devices = KnownDevices(cards, Selections(cluster, cards), Claims(cluster.devices))
        card_requests = CardRequests(cluster_cards, devices.selections, parts, lists)
        demand = Demand(cluster, cluster_cards, card_requests, lists, devices)
        score = Score(cluster, weights_of(arguments), demand, card_requests, parts, devices)
        stranded = Stranded(cluster, cluster_cards, card_requests, demand, parts, devices, lists)
        return cls(devices.selections, demand, score, stranded)
