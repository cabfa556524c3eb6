"""What every plugin has to keep: the fast engine decides with its callbacks what the naive one decides.

The naive engine asks every callback about every node for every task, so what it decides is right. The fast engine keeps
answers and shares them, on the strength of what the annotations and keys of callbacks say; the checked one is the fast
one, and says which callback it is that does not keep to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias, TypeVar

from volsched.framework.engine.engine import Engine, FastEngine
from volsched.model.changes import Change
from volsched.model.cluster import Cluster
from volsched.testing.builders import ClusterBuilder, Decision, a_rig
from volsched.testing.checked import CheckedEngine
from volsched.testing.naive import NaiveEngine
from volsched.testing.recount import faults, leftovers

MakeEngine: TypeAlias = Callable[[Cluster], Engine]
T = TypeVar("T")

ENGINES: Final[tuple[type[NaiveEngine | FastEngine], ...]] = (FastEngine, NaiveEngine, CheckedEngine)
"""All engines, for tests that are to hold with each."""


def engine_contract(play: Callable[[MakeEngine], T]) -> T:
    """Let the same be decided with every engine, and return what was: bindings, steps, whatever ``play`` returns.

    ``play`` is given an engine and makes everything else anew. Raises AssertionError when engines decide differently,
    and ``Misdeclared`` when a callback reads more than its annotations say.
    """
    fast, expected, checked = (play(engine) for engine in ENGINES)
    for name, found in (("fast", fast), ("checked", checked)):
        if found != expected:
            raise AssertionError(f"the {name} engine decided\n  {found}\nand the naive one\n  {expected}")
    return fast


def decided_alike(cluster: ClusterBuilder, configuration: str, *later: Sequence[Change]) -> list[Decision]:
    """Run a cycle on a cluster, and one after each of some changes, with every engine; return what all decided.

    Bindings, evictions and the words for those who wait are compared. After each cycle every account of the cluster is
    counted from scratch, and nothing that was only tried is left.
    """
    decisions: list[Decision] = []

    def play(engine: MakeEngine) -> list[tuple[object, ...]]:
        rig = a_rig(cluster, configuration, engine)
        found: list[tuple[object, ...]] = []
        for changes in ((), *later):
            decision = rig.cycle(*changes)
            if wrong := [*faults(rig.cluster), *leftovers(rig.cluster)]:
                raise AssertionError(f"after the cycle the accounts of the cluster are wrong: {wrong}")
            decisions.append(decision)
            found.append((decision.bindings, decision.evictions, decision.waiting))
        return found

    engine_contract(play)
    return decisions[: 1 + len(later)]
