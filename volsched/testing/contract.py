"""The contract of every plugin: the fast engine decides with its callbacks like the naive one.

The naive engine asks every callback about every node for every task, so its decisions are right. The fast engine keeps
answers and shares them, relying on the annotations and keys of callbacks. The checked one is the fast one, and names a
callback that breaks its declaration.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeAlias, TypeVar

from volsched.framework.engine.fast import Engine, FastEngine
from volsched.model.changes import Change
from volsched.model.cluster import Cluster
from volsched.model.plan import PlanStep
from volsched.testing.builders import ClusterBuilder, CycleDecision, Rig, a_rig
from volsched.testing.checked import CheckedEngine
from volsched.testing.naive import NaiveEngine
from volsched.testing.recount import faults, leftovers

MakeEngine: TypeAlias = Callable[[Cluster], Engine]
T = TypeVar("T")

ENGINES: Final[tuple[type[NaiveEngine | FastEngine], ...]] = (FastEngine, NaiveEngine, CheckedEngine)
"""All engines, for tests that are to hold with each."""


def engine_contract(play: Callable[[MakeEngine], T]) -> T:
    """Decide the same with every engine, and return the result: bindings, steps, and the value of ``play``.

    ``play`` gets an engine and makes everything else again. Raises AssertionError if engines decide differently, and
    ``Misdeclared`` if a callback reads more than its annotations declare.
    """
    fast, expected, checked = (play(engine) for engine in ENGINES)
    for name, found in (("fast", fast), ("checked", checked)):
        if found != expected:
            raise AssertionError(f"the {name} engine decides otherwise than the naive one{_where(found, expected)}")
    return fast


def _where(found: object, expected: object) -> str:
    """Return where two outcomes differ first, as deep as they are sequences of equal length."""
    if isinstance(found, (list, tuple)) and isinstance(expected, (list, tuple)) and len(found) == len(expected):
        for place, (mine, theirs) in enumerate(zip(found, expected, strict=True)):
            if mine != theirs:
                return f"[{place}]{_where(mine, theirs)}"
    return f":\n  {found}\ninstead of\n  {expected}"


class CycleOutcome(NamedTuple):
    """The decisions of a cycle: bindings, evictions, the messages of waiting pods, and every step."""

    bindings: dict[str, str]
    evictions: list[str]
    waiting: dict[str, str]
    steps: list[PlanStep]


def outcome(decision: CycleDecision) -> CycleOutcome:
    """Return what a cycle decided, as it is before the next one."""
    return CycleOutcome(decision.bindings, decision.evictions, decision.waiting, decision.steps)


def decided_alike(cluster: ClusterBuilder, configuration: str, *later: Sequence[Change]) -> list[CycleOutcome]:
    """Run a cycle on a cluster, and one after each of some changes, with every engine. Return the decisions.

    After each cycle every account of the cluster is counted from scratch, and no tried change is left.
    """

    def play(engine: MakeEngine) -> list[CycleOutcome]:
        rig = a_rig(cluster, configuration, engine)
        return [_counted(rig, changes) for changes in ((), *later)]

    return engine_contract(play)


def _counted(rig: Rig, changes: Sequence[Change]) -> CycleOutcome:
    found = outcome(rig.cycle(*changes))
    if wrong := [*faults(rig.cluster), *leftovers(rig.cluster)]:
        raise AssertionError(f"after the cycle the accounts of the cluster are wrong: {wrong}")
    return found
