"""What queues say to deserve and to be guaranteed of cards: how it is read, and what is wrong with it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugins.capacity_card.plugin import ANCESTORS, CapacityCardPlugin
from plugins.capacity_card.quotas.quota import CARD_DESERVED, CARD_GUARANTEE, quota_of
from tests.cli.calls import call, text_of
from tests.plugins.capacity_card.clusters import A, H, configuration, events
from tests.plugins.capacity_card.elastic import decided, elastic, world
from tests.plugins.capacity_card.nodes import card_node
from tests.plugins.capacity_card.test_validation import problems
from tests.simulation.clusters import Manifest, queue
from volsched.model.cards.names import CARD_QUOTA
from volsched.registry import load_profile
from volsched.testing.builders import a_rig

PATHS = {key: f"metadata.annotations[{key}]" for key in (CARD_QUOTA, CARD_DESERVED, CARD_GUARANTEE)}


def notes(quota: Any = None, deserved: Any = None, guarantee: Any = None) -> dict[str, str]:
    said = ((CARD_QUOTA, quota), (CARD_DESERVED, deserved), (CARD_GUARANTEE, guarantee))
    return {key: value if isinstance(value, str) else json.dumps(value) for key, value in said if value is not None}


def team(name: str, parent: str = "", **said: Any) -> Manifest:
    found = queue(name, **({"parent": parent} if parent else {}))
    return {**found, "metadata": {**found["metadata"], "annotations": notes(**said)}}


@pytest.mark.parametrize(
    ("said", "deserved", "guarantee"),
    [
        ({"quota": {"A": 4}}, None, {}),
        ({"quota": {"A": 4}, "deserved": {"A": 2}}, {"A": 2000}, {}),
        ({"quota": {"A": 4}, "deserved": {}}, {}, {}),
        ({"quota": {"A": 4}, "deserved": " "}, None, {}),
        ({"quota": {"A": 4}, "guarantee": {"A": 2}}, {"A": 2000}, {"A": 2000}),
        ({"quota": {"A": 4}, "deserved": {"A": 1}, "guarantee": {"A": 2}}, {"A": 2000}, {"A": 2000}),
        ({"quota": {"A": 4}, "deserved": {"A": 9, "B": 1}, "guarantee": {"A": 8}}, {"A": 4000, "B": 0}, {"A": 4000}),
        ({"deserved": {"A": 9}}, {"A": 9000}, {}),
        ({"quota": {"A": 4}, "deserved": '{"A": -1, "B": 1.5}'}, {"A": 0, "B": 0}, {}),
        ({"quota": {"A": 4}, "deserved": "{"}, {}, {}),
    ],
)
def test_what_counts_of_what_is_said(said: Any, deserved: Any, guarantee: Any) -> None:
    found = quota_of(notes(**said))

    assert (found.deserved, found.guarantee) == (deserved, guarantee)


@given(st.text(), st.text(), st.text())
def test_nothing_that_is_written_there_fails(quota: str, deserved: str, guarantee: str) -> None:
    found = quota_of(notes(quota, deserved, guarantee))

    assert all(amount >= 0 for amount in (found.deserved or {}).values())


@pytest.mark.parametrize("key", [CARD_DESERVED, CARD_GUARANTEE])
@pytest.mark.parametrize(
    ("text", "entry", "words"),
    [
        ("{", "", "is not JSON"),
        ('{"A": 1.5}', '["A"]', "must be a whole number of cards, not 1.5"),
        ('{"A|B": 1}', '["A|B"]', "is a list of cards"),
        ('{"A": 5}', '["A"]', f"5 is more than the 4 of {CARD_QUOTA}"),
        ('{"B": 1}', '["B"]', f"1 is more than the 0 of {CARD_QUOTA}"),
    ],
)
def test_what_cannot_be_is_an_error_that_names_the_field(key: str, text: str, entry: str, words: str) -> None:
    raw = queue("q")
    raw = {**raw, "metadata": {**raw["metadata"], "annotations": {CARD_QUOTA: '{"A": 4}', key: text}}}

    (found,) = problems(raw)

    assert (found.object, found.field, found.severity) == ("Queue/q", f"{PATHS[key]}{entry}", "error")
    assert words in found.message


def test_a_guarantee_is_at_most_what_is_deserved() -> None:
    (found,) = problems(team("q", quota={"A": 4}, deserved={"A": 1}, guarantee={"A": 2}))

    assert (found.field, found.severity) == (f'{PATHS[CARD_GUARANTEE]}["A"]', "error")
    assert found.message == f"2 is more than the 1 of {CARD_DESERVED}"


def test_what_children_say_together_is_held_against_the_queue_above() -> None:
    above = team("org", quota={"A": 8}, deserved={"A": 4}, guarantee={"A": 3})
    below = [team(name, "org", quota={"A": 4}, deserved={"A": 3}, guarantee={"A": 2}) for name in ("a", "b")]

    found = {(problem.object, problem.field): problem for problem in problems(above, *below)}

    guarantee, deserved = (found["Queue/org", f'{PATHS[key]}["A"]'] for key in (CARD_GUARANTEE, CARD_DESERVED))
    assert (guarantee.severity, deserved.severity) == ("error", "warning")
    assert guarantee.message == "3 is less than the 4 of the queues right below together"
    assert deserved.message == "4 is less than the 6 of the queues right below together"


def test_names_that_no_node_offers_and_misspelt_annotations_are_warned_of() -> None:
    raw = team("q", quota={A: 4}, deserved={A: 1, "X": 0})
    raw["metadata"]["annotations"]["volsched.io/card.guarante"] = "{}"

    said = {(problem.field, problem.severity) for problem in problems(raw, card_node("n", A))}

    assert (f'{PATHS[CARD_DESERVED]}["X"]', "warning") in said
    assert ("metadata.annotations[volsched.io/card.guarante]", "warning") in said


def test_a_running_scheduler_tells_it_on_the_queue() -> None:
    decision = decided(world().due("q", {A: 4}).cards("a1", A, 1))
    assert events(decision, "Queue") == []
    cluster = world().due("q", {A: 4}).cards("a1", A, 1)
    cluster.objects[0]["metadata"]["annotations"][CARD_DESERVED] = '{"NVIDIA-A100": -1}'

    [(name, kind, reason, message)] = events(decided(cluster), "Queue")

    assert (name, kind, reason) == ("q", "Warning", "InvalidCardQuota")
    assert f'{PATHS[CARD_DESERVED]}["NVIDIA-A100"]: must not be negative' in message


# -- the other name of the switch -------------------------------------------------------------------------------------


def test_the_other_name_of_the_switch_is_warned_of() -> None:
    _, warnings = load_profile(configuration(checkAncestors=True))

    (found,) = [warning for warning in warnings if ANCESTORS in warning.key]
    assert found.severity == "warning"
    assert "another name for the switch enableHierarchy" in found.message
    assert not [w for w in load_profile(elastic(tree=True))[1] if CapacityCardPlugin.name in w.message]


# -- what is shown ----------------------------------------------------------------------------------------------------


def shown_world() -> Any:
    cluster = world().due("vision", {A: 8}, {A: 4}, {A: 2}).due("speech", {A: 8}, {A: 3}).due("none", {H: 2})
    cluster.cards("a1", A, 8)
    return cluster.runs("v", 2, A, "vision", "a1").runs("s", 5, A, "speech", "a1")


def test_metrics_say_what_is_deserved_guaranteed_and_could_be_reclaimed() -> None:
    report = a_rig(shown_world(), elastic()).cycle().report
    numbers = {series.name: dict(values) for series, values in report.series}

    assert numbers["volcano_queue_card_deserved"] == {("vision", A): 4, ("speech", A): 3}
    assert numbers["volsched_queue_card_guarantee"] == {("vision", A): 2}
    assert numbers["volsched_queue_card_reclaimable"] == {("speech", A): 2}


def test_volsched_queue_shows_them() -> None:
    given = text_of(*shown_world().objects)
    listed = call("queue", "list", "-f", "-", given=given).stdout
    rows = [line.split() for line in listed.splitlines()]
    asked = call("queue", "describe", "vision", "-o", "json", "-f", "-", given=given)

    head = next(row for row in rows if row[:1] == ["QUEUE"])
    shown = {(row[0], row[2]): dict(zip(head, row, strict=False)) for row in rows if len(row) > 3}
    columns = ("DESERVED", "GUARANTEE", "USED", "RECLAIMABLE")
    assert [shown["speech", A][name] for name in columns] == ["3", "-", "5", "2"]
    assert [shown["vision", A][name] for name in columns] == ["4", "2", "2", "0"]
    found = json.loads(asked.stdout)["queues"]["vision"]["cards"][A]
    assert (found["deserved"], found["guarantee"], found["reclaimable"]) == (4, 2, 0)
