"""Registration of the fragmentation score."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from plugins.fragmentation.arguments import ARGUMENTS, RESOURCES, WEIGHT, weights_of
from plugins.fragmentation.demand import Demand
from plugins.fragmentation.offers import Offers
from plugins.fragmentation.score import KEY, Score
from plugins.fragmentation.wishes import Wishes
from volsched.framework.accounts.card_parts import ACCOUNT, CardParts
from volsched.framework.callbacks import ANY_RUN
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

    @classmethod
    def of(cls, cluster: Cluster, arguments: Mapping[str, Any], parts: CardParts) -> _Books:
        offers = Offers(cluster, arguments[RESOURCES])
        wishes = Wishes(offers, parts)
        demand = Demand(cluster, offers, wishes)
        return cls(demand, Score(cluster, weights_of(arguments), demand, wishes, parts))

    def register(self, session: Session) -> None:
        """Register what is asked of nodes by their amounts, by their cards, and by what they say of themselves."""
        score, key, version = self.score, lambda task: KEY, self.score.version  # noqa: ARG005 - a key takes a task
        session.add_node_order_fn(
            NAME,
            score.by_amounts,
            vector=score.all_by_amounts,
            applies=score.shares_none,
            key=key,
            version=version,
        )
        session.add_node_order_fn(NAME, score.by_cards, applies=score.shares_cards, key=key, version=version)
        session.add_node_order_fn(
            NAME, score.by_model, vector=score.all_by_model, applies=score.takes_cards, key=key, version=version
        )
        session.add_run_fn(NAME, lambda _, task: ANY_RUN)  # noqa: ARG005 - answers change with amounts and means only
