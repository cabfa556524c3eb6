"""What people read when a plan differs: the scenario, the cycle, what it is about, was and is."""

from __future__ import annotations

from tests.plans.differences import MOST_SCENARIOS, Difference, differences, told

WAITS = ["predicate", "predicates", "FailedScheduling", "0/1 nodes are available: 1 Insufficient cpu."]


def test_equal_plans_do_not_differ() -> None:
    assert differences({"a": [{}]}, {"a": [{}]}) == []


def test_another_node_is_told_with_its_cycle() -> None:
    was = [{}, {"binds": [{"pod": "default/p", "node": "n1"}]}]
    now = [{}, {"binds": [{"pod": "default/p", "node": "n2"}]}]
    lines = differences({"a": was}, {"a": now})[0].lines
    assert lines == (
        "cycle 2, binds default/p:",
        '  was {"node": "n1", "pod": "default/p"}',
        '  is  {"node": "n2", "pod": "default/p"}',
    )


def test_another_order_of_bindings_is_a_difference() -> None:
    first, second = {"pod": "default/p", "node": "n1"}, {"pod": "default/q", "node": "n1"}
    lines = differences({"a": [{"binds": [first, second]}]}, {"a": [{"binds": [second, first]}]})[0].lines
    assert lines == (
        "cycle 1, binds in this order:",
        '  was ["default/p", "default/q"]',
        '  is  ["default/q", "default/p"]',
    )


def test_what_is_there_on_one_side_only_is_told() -> None:
    lines = differences({"a": [{"waiting": {"Pod/default/p": WAITS}}]}, {"a": [{}]})[0].lines
    assert lines[0] == "cycle 1, waiting Pod/default/p:"
    assert lines[2] == "  is  -"


def test_a_scenario_that_comes_or_goes_is_a_difference() -> None:
    found = differences({"gone": []}, {"new": []})
    assert [difference.scenario for difference in found] == ["gone", "new"]


def test_of_many_scenarios_the_first_are_told_in_full() -> None:
    text = told([Difference(f"nodes {number}", ("line",)) for number in range(MOST_SCENARIOS + 5)])
    assert text.count("line") == MOST_SCENARIOS
    assert text.endswith("Others: 5 of nodes")
