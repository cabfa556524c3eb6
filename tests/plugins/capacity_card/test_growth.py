"""What a placement costs, by counting: it does not grow with the cluster, and accounts make nobody else ask again."""

from __future__ import annotations

import pytest

from bench import cards as world
from bench import worlds
from plugins.capacity_card.card_quotas import CardRules
from tests.plugins.capacity_card.clusters import A, H, cards, rig
from volsched.framework.engine.fast import FastEngine
from volsched.model.changes import Deleted
from volsched.model.plan import Bind
from volsched.registry import load_profile
from volsched.testing.builders import puts


def cost(nodes: int, configuration: str) -> tuple[float, float]:
    """Callbacks asked and rows scored for each placed pod: four of 20 queues run dry, half of the pods have lists."""
    objects = world.with_quotas([*worlds.nodes(nodes), *worlds.gangs(40, 16, 20)])
    scheduler, recorder = worlds.a_scheduler(objects, load_profile(configuration)[0])
    scheduler.cycle()
    placed = sum(isinstance(step, Bind) for step in recorder.steps)
    assert placed > 400
    assert isinstance(scheduler.engine, FastEngine)
    return scheduler.engine.nodes.callbacks_asked / placed, scheduler.engine.nodes.rows_scored / placed


def test_a_placement_asks_few_callbacks_whatever_the_size_of_the_cluster() -> None:
    small, large = cost(400, world.CONFIGURATION), cost(1600, world.CONFIGURATION)
    without, _ = cost(1600, worlds.BASE)

    assert large[0] < 1.5 * small[0]
    assert large[0] < without + 4


def test_a_queue_that_runs_dry_makes_no_other_queue_ask_again() -> None:
    cluster = cards()
    for index in range(100):
        cluster.cards(f"a{index:03}", A).cards(f"h{index:03}", H)
    cluster.quota("dry", {A: 2, H: 100}).quota("rich", {A: 100, H: 100})
    scheduling = rig(cluster)
    engine = scheduling.scheduler.engine
    assert isinstance(engine, FastEngine)

    def asked_for(name: str, queue: str) -> tuple[int, int]:
        sweeps, rows = engine.nodes.sweeps, engine.nodes.rows_scored
        pod = cards().gang(name, card=f"{A}|{H}", queue=queue).objects
        assert scheduling.cycle(*puts(*pod)).bindings
        return engine.nodes.sweeps - sweeps, engine.nodes.rows_scored - rows

    first = asked_for("one", "rich")
    second = asked_for("two", "dry")
    third = asked_for("three", "dry")  # the last A100 of its quota
    fourth = asked_for("four", "rich")
    fifth = asked_for("five", "dry")  # only H100 is left to this queue
    sixth = asked_for("six", "rich")
    seventh = asked_for("seven", "dry")

    assert first[0] == fifth[0] == 1, "all nodes, then those of the card that is left"
    for sweeps, rows in (second, third, fourth, sixth, seventh):
        assert sweeps == 0
        assert rows <= 4


@pytest.mark.parametrize(
    ("quota", "size", "words"),
    [
        ({A: 0, H: 0}, 1, "total would be <1000>"),
        ({A: 2, H: 1}, 4, "gang of PodGroup"),
        ({A: 0, H: 0}, 3, "total would be <1000>"),
    ],
)
def test_a_thousand_gangs_that_wait_for_quota_are_not_asked_about_when_it_is_no_more(
    quota: dict[str, int], size: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = cards().quota("dry", quota).quota("rich", {A: 8, H: 8}, cpu=9)
    for name in ("a1", "a2"):
        cluster.cards(name, A)
    cluster.cards("h1", H).gang("other", 2, queue="rich", on="a1", cpu=1)
    for index in range(1000):
        cluster.gang(f"waits-{index}", size, card=f"{A}|{H}", queue="dry", minimum=size)
    scheduling = rig(cluster)
    assert words in scheduling.cycle().waiting["waits-7-0"]
    asked: list[str] = []
    monkeypatch.setattr(CardRules, "count_refusal", lambda self, task, verdict: asked.append(task.name))

    scheduling.cycle(Deleted("Pod", "default", "other-0", "pod-default-other-0"))
    assert asked == []

    more = cards().quota("dry", {A: sum(quota.values()) + size, H: 0}).objects
    bindings = scheduling.cycle(*puts(*more)).bindings
    assert len(bindings) == (sum(quota.values()) + size) // size * size
