"""Lists of cards have a length: each pod that waits keeps its own."""

from __future__ import annotations

import pytest

from plugins.capacity_card.requests.requests import LONGEST_SHOWN, MOST_NAMES
from tests.actions.rigs import cycle, order_of
from tests.plugins.capacity_card.clusters import A, cards, rig
from volsched.model.annotations import LONGEST
from volsched.model.plan import WritePodCondition
from volsched.testing.builders import CycleDecision


def decided(names: str) -> CycleDecision:
    """A pod with a list, and one with a single card, in the same cluster."""
    found = cards().cards("n1", A).quota("q", {A: 8}).gang("long", card=names).gang("short", card=A)
    return cycle(rig(found))


def told(decision: CycleDecision) -> tuple[str, str]:
    [condition] = [step for step in decision.steps if isinstance(step, WritePodCondition) and step.name == "long-0"]
    return condition.reason, condition.message


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (f"{A}|{'x' * LONGEST}", "metadata.annotations[volcano.sh/card.name]: has more than 4096 characters"),
        ("|".join([A, *map(str, range(MOST_NAMES))]), "volcano.sh/card.name names more than 64 cards"),
    ],
)
def test_a_pod_that_names_too_many_cards_is_refused_and_another_placed(names: str, said: str) -> None:
    decision = decided(names)

    assert order_of(decision) == ["short-0"]
    reason, message = told(decision)
    assert reason == "InvalidField"
    assert said in message


def test_a_list_may_be_as_long_as_its_limits() -> None:
    names = "|".join([*(f"{n:061}" for n in range(MOST_NAMES - 1)), A])

    assert len(names) <= LONGEST
    assert set(order_of(decided(names))) == {"long-0", "short-0"}


def test_a_refusal_keeps_the_beginning_of_a_long_list() -> None:
    found = decided("x" * LONGEST)

    [refusal] = [task.refusal for task in found.cluster.tasks.values() if task.refusal is not None]
    assert f"no resource name found for card <{'x' * (LONGEST_SHOWN - 1)}…>" in refusal.message
