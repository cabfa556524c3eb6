"""Random clusters in which evicted pods come back: evictions end."""

from __future__ import annotations

import random

import pytest

from tests.actions.evictions import World
from tests.properties.eviction import CONFIGURATIONS, QUEUES, Play
from tests.properties.lives import Reader
from volsched.model.plan import Evict


@pytest.mark.slow(reason="two hundred sessions each")
@pytest.mark.parametrize("name", sorted(CONFIGURATIONS))
@pytest.mark.parametrize("seed", range(3))
def test_no_two_jobs_evict_each_other_in_turns(name: str, seed: int) -> None:
    """Jobs arrive at random and evicted pods come back; once no job arrives any more, evictions end."""
    dice = random.Random(seed)  # noqa: S311 - a game
    world = World()
    for index in range(4):
        world.node(f"n{index}", cpu=4, memory=8, pods=10)
    for queue, weight in zip(QUEUES, (1, 2, 3), strict=True):
        world.queue(queue, weight=weight)
    play = Play(world, CONFIGURATIONS[name], goes=0.7)
    reader = Reader(play)
    again: list[tuple[str, str, str, int]] = []
    made: dict[str, tuple[str, str, str, int]] = {}
    evictions: list[int] = []
    reader.hear(play.changes())
    for number in range(200):
        arriving = World()
        if number < 60 and dice.random() < 0.4:
            level, queue = dice.choice(["low", "mid", "high"]), dice.choice(QUEUES)
            size, cpu = dice.choice([1, 2, 3]), dice.choice([1, 2])
            group = f"g{number}"
            arriving.group(group, queue, dice.choice([0, 1, size]), priorityClassName=level)
            again += [(f"{group}-{place}", group, level, cpu) for place in range(size)]
        for pod, group, level, cpu in again:
            fresh = f"{pod.split('.')[0]}.{number}"
            arriving.member(fresh, group, level, cpu=cpu)
            arriving.objects[-1]["metadata"]["uid"] = fresh
            made[fresh] = (fresh, group, level, cpu)
        before = {step.name for step in play.leaving}
        reader.cycle([*play.changes(), *play.arrive(arriving)])
        left = before - {step.name for step in play.leaving}
        again = [made[pod] for pod in sorted(left)]
        play.carry_out(reader)
        evictions.append(sum(isinstance(step, Evict) for step in reader.steps[-1]))

    assert any(evictions[:80]) or seed == 2
    assert not any(evictions[120:])
    assert reader.cluster.nominated == {}  # each promise of room was taken up
