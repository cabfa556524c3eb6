"""One session decides what one session of Volcano decided."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import pytest

from tests.properties.lives import profile_of
from tests.volcano.worlds import World, worlds
from volsched.framework.config.configuration import PluginOption
from volsched.framework.engine.fast import FastEngine
from volsched.framework.registration import Registrar
from volsched.framework.rules import SessionClose
from volsched.framework.session import Session
from volsched.mirror.apply import Mirror
from volsched.model.plan import Bind, Evict, StepRecorder
from volsched.model.status import TaskStatus
from volsched.scheduler import Scheduler
from volsched.testing.builders import SteadyClock, puts
from volsched.testing.naive import NaiveEngine
from volsched.testing.recount import faults, leftovers

FEW = "as few victims as needed"
FAIR = "shares of queues above follow placements, and among equal ones the older goes first"
ABOVE = "nobody is evicted for a pod that a queue above could not have even then"
KEPT = "a queue above keeps its guarantee"
SLOT = "a pod that asks for nothing takes a slot from pods that ask for something, or is promised one that they leave"
BOUND = "allocate binds members that ask for nothing with their gang, where Volcano leaves them to backfill"
PROMISED = "a gang that is promised room is promised the slots of members that ask for nothing, too"
COUNTS = "a member that asks for nothing counts for its gang once it has a node, not while it waits"
FIRST = (
    "members that ask for something are placed before those that ask for nothing, so a gang starts with more of them"
)
EVICTS = "somebody is evicted for the slot of a member without which its gang cannot start, though it asks for nothing"
ROLES = "a gang starts with the members whose roles it needs, where Volcano takes members in their order"
LOST = "what a pod holds that a running gang is losing is kept for the gang, on its node and of the quota"

OURS: Mapping[str, str] = {
    "vc-base-open-0000": LOST,
    "vc-base-open-0003": ROLES,
    "vc-base-open-0018": BOUND,
    "vc-base-open-0019": BOUND,
    "vc-base-open-0027": BOUND,
    "vc-base-open-0031": BOUND,
    "vc-base-open-0061": BOUND,
    "vc-base-open-0101": BOUND,
    "vc-base-open-0126": LOST,
    "vc-base-open-0165": LOST,
    "vc-base-open-0234": COUNTS,
    "vc-base-open-0324": LOST,
    "vc-base-open-0357": LOST,
    "vc-base-open-0362": LOST,
    "vc-base-open-0391": LOST,
    "vc-capacity-0002": PROMISED,
    "vc-capacity-0003": FEW,
    "vc-capacity-0004": PROMISED,
    "vc-capacity-0006": PROMISED,
    "vc-capacity-0008": PROMISED,
    "vc-capacity-0009": BOUND,
    "vc-capacity-0013": PROMISED,
    "vc-capacity-0016": FEW,
    "vc-capacity-0030": BOUND,
    "vc-capacity-0033": BOUND,
    "vc-capacity-0037": BOUND,
    "vc-capacity-0053": BOUND,
    "vc-evict-open-0008": BOUND,
    "vc-evict-open-0012": BOUND,
    "vc-evict-open-0013": BOUND,
    "vc-evict-open-0015": BOUND,
    "vc-evict-open-0016": BOUND,
    "vc-evict-open-0017": BOUND,
    "vc-evict-open-0020": PROMISED,
    "vc-evict-open-0028": PROMISED,
    "vc-evict-open-0031": BOUND,
    "vc-evict-open-0039": BOUND,
    "vc-evict-open-0047": BOUND,
    "vc-evict-open-0049": BOUND,
    "vc-evict-open-0062": BOUND,
    "vc-evict-open-0088": BOUND,
    "vc-evict-open-0126": BOUND,
    "vc-evict-open-0132": BOUND,
    "vc-evict-open-0150": BOUND,
    "vc-evict-open-0163": BOUND,
    "vc-evict-open-0168": BOUND,
    "vc-evict-open-0196": BOUND,
    "vc-evict-open-0219": BOUND,
    "vc-evict-open-0225": BOUND,
    "vc-evict-open-0258": BOUND,
    "vc-evict-open-0262": BOUND,
    "vc-evict-open-0281": BOUND,
    "vc-evict-open-0296": BOUND,
    "vc-evict-open-0306": BOUND,
    "vc-evict-open-0308": BOUND,
    "vc-evict-open-0314": PROMISED,
    "vc-evict-open-0320": BOUND,
    "vc-evict-open-0338": SLOT,
    "vc-evict-open-0339": BOUND,
    "vc-evict-open-0341": BOUND,
    "vc-evict-open-0348": PROMISED,
    "vc-evict-open-0351": BOUND,
    "vc-evict-open-0363": BOUND,
    "vc-evict-open-0364": PROMISED,
    "vc-evict-open-0374": PROMISED,
    "vc-evict-open-0375": BOUND,
    "vc-fair-open-0030": LOST,
    "vc-fair-open-0039": FIRST,
    "vc-fair-open-0042": BOUND,
    "vc-fair-open-0044": LOST,
    "vc-fair-open-0046": LOST,
    "vc-fair-open-0173": LOST,
    "vc-fair-open-0230": LOST,
    "vc-made-0002": EVICTS,
    "vc-made-0003": SLOT,
    "vc-tree-0000": PROMISED,
    "vc-tree-0002": PROMISED,
    "vc-tree-0003": PROMISED,
    "vc-tree-0005": ABOVE,
    "vc-tree-0006": FAIR,
    "vc-tree-0008": FEW,
    "vc-tree-0009": LOST,
    "vc-tree-0010": ABOVE,
    "vc-tree-0014": ABOVE,
    "vc-tree-0021": FAIR,
    "vc-tree-0028": ABOVE,
    "vc-tree-0031": KEPT,
    "vc-tree-0032": FEW,
    "vc-tree-0033": BOUND,
    "vc-tree-0038": LOST,
    "vc-tree-0039": BOUND,
    "vc-tree-0041": BOUND,
    "vc-tree-0052": BOUND,
}
"""Worlds in which volsched differs on purpose: the world's id, and the *ours* decision that explains it."""

WORLDS = worlds()


class Witness:
    """Notes who was promised room when the session closes."""

    name: ClassVar[str] = "witness"

    def __init__(self) -> None:
        self.pipelined: set[str] = set()

    def on_session_open(self, registrar: Registrar) -> None:
        registrar.register(SessionClose(lambda: self._look(registrar.session)))

    def _look(self, session: Session) -> None:
        tasks = session.cluster.tasks.values()
        self.pipelined.update(task.name for task in tasks if task.status is TaskStatus.PIPELINED)


def decide(world: World, engine: Any) -> dict[str, frozenset[str]]:
    """Run one session on a world."""
    mirror, recorder, witness = Mirror(), StepRecorder(), Witness()
    mirror.apply(puts(*world.objects))
    profile = profile_of(world.configuration)
    profile = replace(profile, plugins=(*profile.plugins, ((PluginOption(witness.name), witness),)))

    Scheduler(mirror, profile, recorder, SteadyClock(), engine).cycle()

    assert faults(mirror.cluster) == []
    assert leftovers(mirror.cluster) == []
    return {
        "bound": frozenset(step.name for step in recorder.steps if isinstance(step, Bind)),
        "pipelined": frozenset(witness.pipelined),
        "evicted": frozenset(step.name for step in recorder.steps if isinstance(step, Evict)),
        "pending": frozenset(job.name for job in mirror.cluster.jobs.values() if job.phase == "Pending"),
    }


def recorded(world: World) -> dict[str, frozenset[str]]:
    """What Volcano decided."""
    return {
        "bound": world.bound,
        "pipelined": world.pipelined,
        "evicted": world.evicted,
        "pending": world.pending,
    }


@pytest.mark.parametrize(
    "engine", [FastEngine, pytest.param(NaiveEngine, marks=pytest.mark.slow(reason="the engines agree elsewhere, too"))]
)
@pytest.mark.parametrize("world", [pytest.param(world, id=world.id) for world in WORLDS if world.id not in OURS])
def test_the_same_pods_are_bound_promised_room_and_evicted_and_the_same_groups_stay_pending(
    world: World, engine: Any
) -> None:
    assert decide(world, engine) == recorded(world)


def test_a_world_that_is_listed_as_different_is_different() -> None:
    listed = [world for world in WORLDS if world.id in OURS]
    same = [world.id for world in listed if decide(world, FastEngine) == recorded(world)]

    assert same == []


def test_there_are_enough_worlds_of_every_kind() -> None:
    assert Counter(world.kind for world in WORLDS) == {
        "base": 120,
        "fair": 80,
        "evict": 80,
        "capacity": 58,
        "tree": 59,
        "made": 6,
    }
    assert set(OURS) <= {world.id for world in WORLDS}
    assert sum(bool(world.bound) for world in WORLDS) > 200
    assert sum(bool(world.pipelined) for world in WORLDS) > 100
    assert sum(bool(world.evicted) for world in WORLDS) > 20
    assert sum(bool(world.pending) for world in WORLDS) > 100
