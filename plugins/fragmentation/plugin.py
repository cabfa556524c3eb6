"""Registration of the fragmentation score."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from plugins.fragmentation.arguments import ARGUMENTS, RESOURCES, WEIGHT, weights_of
from plugins.fragmentation.demand import Demand
from plugins.fragmentation.offers import Offers
from plugins.fragmentation.score import Score
from plugins.fragmentation.stranded import Stranded
from plugins.fragmentation.wishes import Wishes
from volsched.framework.accounts.card_parts import ACCOUNT, CardParts
from volsched.framework.callbacks import ANY_RUN, AppliesFn, NodeOrderFn, NodeOrderVectorFn
from volsched.framework.config.arguments import Argument
from volsched.framework.session import Session
from volsched.model.cluster import Cluster

NAME: Final = "fragmentation"


class FragmentationPlugin:
    """Prefers the node on which a pod leaves the fewest cards that nobody can use."""

    name: ClassVar[str] = NAME
    ARGUMENTS: ClassVar[tuple[Argument, ...]] = ARGUMENTS

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self._arguments = arguments

    def on_session_open(self, session: Session) -> None:
        """Register the score, unless its weight is 0."""
        if not self._arguments[WEIGHT]:
            return
        parts = session.account(ACCOUNT, CardParts.of_cluster)
        books = session.account(f"{NAME}.books", lambda cluster: _Books.of(cluster, self._arguments, parts))
        demand = session.account(NAME, lambda _: books.demand)
        demand.open()
        books.register(session)


@dataclass(frozen=True, slots=True)
class _Books:
    """What is kept from session to session."""

    demand: Demand
    score: Score
    stranded: Stranded

    @classmethod
    def of(cls, cluster: Cluster, arguments: Mapping[str, Any], parts: CardParts) -> _Books:
        offers = Offers(cluster, arguments[RESOURCES])
        wishes = Wishes(offers, parts)
        demand = Demand(cluster, offers, wishes)
        score = Score(cluster, weights_of(arguments), demand, wishes, parts)
        return cls(demand, score, Stranded(cluster, offers, wishes, demand, parts))

    def register(self, session: Session) -> None:
        """Register what is asked of nodes by their amounts, by their cards, and by what they say of themselves."""
        score = self.score
        _add(session, score, score.by_amounts, applies=score.shares_none, vector=score.all_by_amounts)
        _add(session, score, score.by_cards, applies=score.shares_cards)
        _add(session, score, score.by_model, applies=score.takes_cards, vector=score.all_by_model)
        session.add_run_fn(NAME, lambda *_: ANY_RUN)
        self.stranded.register(session, NAME)


def _add(
    session: Session, score: Score, fn: NodeOrderFn, applies: AppliesFn, vector: NodeOrderVectorFn | None = None
) -> None:
    session.add_node_order_fn(NAME, fn, vector=vector, applies=applies, key=score.key, version=score.version)
