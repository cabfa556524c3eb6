"""The numbers of states: they follow nodes that come, change and go, and may be forgotten at any time."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from plugins.mgpu import states
from plugins.mgpu.placement import CardPlacementSearch
from plugins.mgpu.scoring import Strategy
from plugins.mgpu.states import NO_PLACEMENT, NodeStates, score_of
from plugins.mgpu.usage import NodeCardUsage, Requests
from tests.plugins.mgpu.cards import asks
from tests.plugins.mgpu.clusters import configuration, gone, node, pod
from volsched.model.changes import Deleted
from volsched.testing.builders import Rig, a_cluster, a_node, a_rig, puts

WANTED = [tuple(sorted(asks(text))) for text in ("30/1024", "50/8192 10/256", "2x50/4096", "full2")]


def rig() -> Rig:
    """Three nodes with cards, of which one is used, one unclear, and a node without cards."""
    found = a_rig(a_cluster(), configuration())
    found.scheduler.mirror.apply(
        puts(
            *(node(name, cards=3) for name in ("n1", "n2", "n3")),
            a_node("bare"),
            pod("half", "50/4096", on="n2", cards="1"),
            pod("odd", "50/4096", on="n3", cards="7"),
        )
    )
    return found


def of_each_node(usage: NodeCardUsage, search: CardPlacementSearch) -> list[list[float]]:
    """The score of each node by itself, for each request."""
    found = []
    for wanted in WANTED:
        accounts = [usage.nodes.get(each.name) for each in usage.cluster.rows]
        found.append(
            [
                score_of(search.best(account.alike, wanted), search.strategy, account.cards.count, account.cards.memory)
                if account is not None and not account.unclear
                else NO_PLACEMENT
                for account in accounts
            ]
        )
    return found


def of_all_nodes(known: NodeStates, usage: NodeCardUsage) -> list[list[float]]:
    every = np.arange(len(usage.cluster.rows))
    return [known.scores(wanted, every).tolist() for wanted in WANTED]


@pytest.mark.parametrize("forgets", [False, True], ids=["remembered", "forgotten"])
def test_scores_by_number_are_those_of_each_node(*, forgets: bool) -> None:
    on, search = rig(), CardPlacementSearch(Strategy())
    usage = NodeCardUsage(on.cluster, Requests())
    on.cluster.observe(usage)
    known = NodeStates(usage, search)
    stories = [
        [],
        puts(pod("more", "50/8192", on="n1", cards="0")),
        puts(pod("again", "30/1024", on="n1", cards="0"), pod("third", "60/1024", on="n1", cards="2")),
        [gone("odd")],
        [Deleted("Node", "", "n1", "uid-n1")],
        puts(node("n0", cards=2), node("n2", cards=1)),
        [gone("half")],
    ]
    seen = []
    for changes in stories:
        on.scheduler.mirror.apply(changes)
        if forgets:
            search.forget()
        assert of_all_nodes(known, usage) == of_each_node(usage, search)
        seen.append(of_each_node(usage, search))
    assert all(one != other for one, other in pairwise(seen))


def test_states_that_no_node_has_any_more_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(states, "LEAST_STATES", 8)
    on, search = rig(), CardPlacementSearch(Strategy())
    usage = NodeCardUsage(on.cluster, Requests())
    on.cluster.observe(usage)
    known = NodeStates(usage, search)
    account = usage.nodes["n1"]
    for memory in range(300, 400):
        on.scheduler.mirror.apply(puts(pod("one", f"30/{memory}", on="n1", cards="0")))
        assert known.best(account, WANTED[0]).points is not None
        on.scheduler.mirror.apply([gone("one")])
        assert len(search.states) <= 9
