"""Random trees of queues over several sessions: what must hold whatever happens."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from plugins.proportion.shares import in_a_tree
from tests.actions.rigs import conf
from tests.plugins.capacity.properties import made, specs
from tests.properties.eviction import Play, crowded, raws, victims
from tests.properties.lives import Property
from volsched.model.plan import PlanStep
from volsched.model.queues.queue import ROOT
from volsched.quota.amounts import capability_of
from volsched.quota.demand import QueueDemands
from volsched.quota.tree import QueueTree

ALL = "enqueue, allocate, preempt, reclaim, backfill"


def tree_conf(plugin: str, actions: str) -> str:
    """A configuration in which a plugin minds the tree of queues."""
    tiers = (f"priority conformance gang {plugin}", "predicates nodeorder")
    return conf(actions, *tiers).replace(f"  - name: {plugin}", f"  - name: {plugin}\n    enableHierarchy: true")


def plays(actions: str = ALL, sessions: int = 4, plugin: str = "proportion") -> st.SearchStrategy[Play]:
    """Worlds with weights, capabilities and guarantees at three levels, in which most victims go."""

    def play(raw: Any, listed: Any) -> Play:
        raw = raw if "preempt" in actions else crowded(raw)
        told = (raw, listed)
        return Play(made(raw, listed), tree_conf(plugin, actions), sessions, goes=0.6, refused=0.1, told=told)

    return st.builds(play, raws, st.integers(0, 1 << 30).map(specs))


class _OfTree(Property):
    """Where queues stood before a session, with those below them."""

    def before(self) -> None:
        self.places = QueueTree(self.cluster)
        self.had = self.held()
        demands = QueueDemands.with_above(self.cluster).queues()
        divided = in_a_tree(self.places.tree, self.cluster, demands)
        self.due = {name: dict(divided[name].deserved) if name in divided else {} for name in self.cluster.queues}

    def held(self) -> dict[str, dict[str, int]]:
        """What queues hold with those below them, counted from scratch."""
        found: dict[str, dict[str, int]] = {}
        for queue in self.cluster.queues.values():
            for level in self.places.tree.levels(queue.name):
                account = found.setdefault(level, {})
                for name, amount in {**queue.allocated, "pods": queue.placed}.items():
                    account[name] = account.get(name, 0) + amount
        return found


class WithinCapabilities(_OfTree):
    """No queue, at any level, comes to hold more than its capability, nor more than it deserves."""

    def after(self, steps: list[PlanStep]) -> None:
        now = self.held()
        for name, queue in self.cluster.queues.items():
            for resource, most in capability_of(queue).items():
                was = self.had.get(name, {}).get(resource, 0)
                assert now.get(name, {}).get(resource, 0) <= max(most, was)
            for resource, amount in now.get(name, {}).items():
                was = self.had.get(name, {}).get(resource, 0)
                if name != ROOT and resource != "pods":
                    assert amount <= max(self.due[name].get(resource, 0), was)


class TakesFromTheRicherSide(_OfTree):
    """Reclaim takes where all queues of the victim, below the one where the ways up meet, hold more than their due."""

    def after(self, steps: list[PlanStep]) -> None:
        now = self.held()
        for step, victim, preemptor in victims(self.reader, steps):
            if step.action != "reclaim":
                continue
            assert victim.job is not None
            assert preemptor.job is not None
            for level in self.places.tree.apart(victim.job.queue, preemptor.job.queue):
                had, has = self.had[level], now[level]  # others may have been placed there before
                most = {name: max(had.get(name, 0), has.get(name, 0)) for name in {**had, **has}}
                assert any(amount > self.due[level].get(name, 0) for name, amount in most.items())
