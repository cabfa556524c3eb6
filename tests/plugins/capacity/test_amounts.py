"""What queues may have and deserve: tables by hand, and what is wrong with a hierarchy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugins.capacity.amounts import doubts, in_a_tree, lost, side_by_side
from volsched.model.queues.queue import QueueInfo, QueueProperties
from volsched.model.values.resources import UNLIMITED
from volsched.plugin.quota import QuotaAmounts

Amounts = Mapping[str, int]
Specs = dict[str, dict[str, Any]]
TOTAL = {"cpu": 10, "gpu": 4}


def queues(specs: Specs) -> dict[str, QueueInfo]:
    """Queues of these specs: ``parent``, ``capability``, ``deserved``, ``guarantee``."""
    return {name: QueueInfo(QueueProperties(name, **spec)) for name, spec in specs.items()}


FLAT: dict[str, tuple[Specs, Amounts, Amounts]] = {
    # what: (the queues, what q may have of 10 cpu and 4 gpu, what it deserves)
    "all there is": ({"q": {}}, TOTAL, {}),
    "its capability": ({"q": {"capability": {"cpu": 3}}}, {"cpu": 3, "gpu": 4}, {}),
    "a capability of no cpu is none": ({"q": {"capability": {"cpu": 0, "gpu": 0}}}, {"cpu": 10, "gpu": 0}, {}),
    "less what others are guaranteed": (
        {"q": {"guarantee": {"cpu": 1}}, "r": {"guarantee": {"cpu": 6}}},
        {"cpu": 4, "gpu": 4},
        {"cpu": 1},
    ),
    "it deserves what it says": ({"q": {"deserved": {"cpu": 7}}}, TOTAL, {"cpu": 7}),
    "at most what it may have": (
        {"q": {"deserved": {"cpu": 7}, "capability": {"cpu": 5}}},
        {"cpu": 5, "gpu": 4},
        {"cpu": 5},
    ),
    "at least what it is guaranteed": (
        {"q": {"deserved": {"cpu": 1}, "guarantee": {"cpu": 2, "gpu": 1}}},
        TOTAL,
        {"cpu": 2, "gpu": 1},
    ),
    "no devices": (
        {"q": {name: {"deviceclass/x": 1, "a.deviceclass/x": 1} for name in ("deserved", "guarantee", "capability")}},
        TOTAL,
        {},
    ),
    "parents do not matter": ({"q": {"parent": "r"}, "r": {"capability": {"cpu": 1}}}, TOTAL, {}),
}


@pytest.mark.parametrize("what", FLAT)
def test_dues_side_by_side(what: str) -> None:
    specs, limit, deserved = FLAT[what]

    due = side_by_side(queues(specs), TOTAL)["q"]

    assert (due.limit, due.deserved) == (limit, deserved)


FREE = UNLIMITED
TREE: dict[str, tuple[Specs, Amounts, Amounts]] = {
    # what: (the queues, what q may have, what it deserves)
    "without limit what the root does not limit": ({"q": {}}, {"cpu": FREE, "memory": FREE, "gpu": FREE}, {}),
    "its capability": ({"q": {"capability": {"cpu": 30}}}, {"cpu": 30, "memory": FREE, "gpu": FREE}, {}),
    "its parent's where it names none": (
        {"q": {"parent": "p", "capability": {"gpu": 2}}, "p": {"capability": {"cpu": 6, "gpu": 9}}},
        {"cpu": 6, "memory": FREE, "gpu": 2},
        {},
    ),
    "that of the root": ({"root": {"capability": {"cpu": 4}}, "q": {}}, {"cpu": 4, "memory": FREE, "gpu": FREE}, {}),
    "less what those beside it are guaranteed": (
        {"p": {"capability": {"cpu": 6}}, "q": {"parent": "p"}, "r": {"parent": "p", "guarantee": {"cpu": 2}}},
        {"cpu": 4, "memory": FREE, "gpu": FREE},
        {},
    ),
    "not less what others are": (
        {"p": {"capability": {"cpu": 6}}, "q": {"parent": "p"}, "r": {"guarantee": {"cpu": 2}}},
        {"cpu": 6, "memory": FREE, "gpu": FREE},
        {},
    ),
    "but less where its parent is": (
        {
            "root": {"capability": {"cpu": 10}},
            "p": {},
            "q": {"parent": "p"},
            "r": {"guarantee": {"cpu": 3}},
        },
        {"cpu": 7, "memory": FREE, "gpu": FREE},
        {},
    ),
    "it deserves more than it may have": (
        {"q": {"deserved": {"cpu": 7}, "capability": {"cpu": 5}}},
        {"cpu": 5, "memory": FREE, "gpu": FREE},
        {"cpu": 7},
    ),
}


@pytest.mark.parametrize("what", TREE)
def test_dues_in_a_tree(what: str) -> None:
    specs, limit, deserved = TREE[what]

    due = in_a_tree(queues(specs), TOTAL)["q"]

    assert (due.limit, due.deserved) == (limit, deserved)


def test_the_root_deserves_and_is_guaranteed_what_its_children_are() -> None:
    given_queues = queues({"a": {"deserved": {"cpu": 3}}, "b": {"guarantee": {"cpu": 2}}, "c": {"parent": "a"}})

    root = in_a_tree(given_queues, TOTAL)["root"]

    assert (root.deserved, root.guarantee) == ({"cpu": 5}, {"cpu": 2})


@pytest.mark.parametrize(
    ("deserved", "expected"), [({}, False), ({"cpu": 0}, False), ({"pods": 5}, False), ({"gpu": 1, "cpu": 0}, True)]
)
def test_a_queue_deserves_anything_beside_pod_slots(deserved: Amounts, expected: bool) -> None:
    assert QuotaAmounts({}, {}, deserved, {}).deserves_anything is expected


LOST: dict[str, tuple[Specs, dict[str, str]]] = {
    "below the root": ({"a": {}, "b": {"parent": "root"}, "root": {"parent": "a"}}, {}),
    "a parent that is not there": (
        {"a": {"parent": "x"}, "b": {"parent": "a"}},
        {"a": 'its parent "x" does not exist', "b": '"x" above it does not exist'},
    ),
    "below itself": ({"a": {"parent": "a"}}, {"a": 'it is below "a", which is below itself'}),
    "below two that are below each other": (
        {"a": {"parent": "b"}, "b": {"parent": "a"}, "c": {"parent": "a"}, "d": {}},
        {
            "a": 'it is below "a", which is below itself',
            "b": 'it is below "b", which is below itself',
            "c": 'it is below "a", which is below itself',
        },
    ),
}


@pytest.mark.parametrize("what", LOST)
def test_queues_that_hang_nowhere_have_no_dues_and_are_told_why(what: str) -> None:
    specs, expected = LOST[what]

    assert lost(queues(specs)) == expected
    assert set(in_a_tree(queues(specs), TOTAL)) == {"root", *specs} - set(expected)


DOUBTS: dict[str, tuple[Specs, dict[str, tuple[str, ...]]]] = {
    "none": ({"a": {"capability": {"cpu": 4000}}, "b": {"parent": "a", "capability": {"cpu": 4000}}}, {}),
    "more than the parent may have": (
        {"a": {"capability": {"cpu": 4000}}, "b": {"parent": "a"}, "c": {"parent": "b", "capability": {"cpu": 4500}}},
        {"c": ('spec.capability[cpu]: 4500m is more than 4, the capability of "b"; the smaller counts',)},
    ),
    "deserved by children together": (
        {
            "a": {"deserved": {"cpu": 2000}},
            "b": {"parent": "a", "deserved": {"cpu": 1000}},
            "c": {"parent": "a", "deserved": {"cpu": 1001}},
        },
        {"a": ("spec.deserved[cpu]: 2 is less than 2001m, what its children name together",)},
    ),
    "guaranteed to children together": (
        {"a": {"guarantee": {"cpu": 1000}}, "b": {"parent": "a", "guarantee": {"cpu": 2000}}},
        {"a": ("spec.guarantee.resource[cpu]: 1 is less than 2, what its children name together",)},
    ),
    "what the parent does not name": ({"a": {}, "b": {"parent": "a", "deserved": {"cpu": 1}}}, {}),
}


@pytest.mark.parametrize("what", DOUBTS)
def test_amounts_that_contradict_each_other_are_told(what: str) -> None:
    specs, expected = DOUBTS[what]
    made = queues(specs)

    assert doubts(made, in_a_tree(made, TOTAL)) == expected


amounts = st.dictionaries(st.sampled_from(["cpu", "gpu"]), st.integers(0, 12), max_size=2)
spec = st.fixed_dictionaries({"capability": amounts, "guarantee": amounts, "above": st.integers(0, 5)})


@given(st.lists(spec, min_size=1, max_size=7))
def test_nobody_may_have_more_than_its_parent_where_that_can_keep_what_it_guarantees(raw: list[dict[str, Any]]) -> None:
    specs: Specs = {}
    for number, listed in enumerate(raw):
        above = listed.pop("above")
        specs[f"q{number}"] = {**listed, "parent": f"q{above}" if above < number else ""}
    made = queues(specs)

    dues = in_a_tree(made, TOTAL)

    for name, queue in made.items():
        above = dues[queue.spec.parent or "root"]
        beside = [other for other in made.values() if other.spec.parent == queue.spec.parent]
        for resource, amount in dues[name].limit.items():
            most = above.limit.get(resource, 0)
            kept = sum(other.spec.guarantee.get(resource, 0) for other in beside)
            assert amount <= queue.spec.capability.get(resource, amount) or not queue.spec.capability[resource]
            if kept <= most:
                assert amount <= most
                assert amount <= most - kept + queue.spec.guarantee.get(resource, 0) or most == UNLIMITED
