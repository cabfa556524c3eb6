"""proportion with `enableHierarchy`, as `volsched simulate` and `volsched queue` show it: cases F1 to F15 and F19."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from plugins.proportion.plugin import FAIR_SHARE
from tests.cli.calls import call, text_of
from tests.diagnose.worlds import asked, by_sort, configuration
from tests.simulation.clusters import Manifest, group, node, pod, queue
from volsched.model.plan import WriteQueueStatus
from volsched.testing.builders import a_cluster, a_rig

Queues = Mapping[str, Mapping[str, Any]]

TREE = "enqueue, allocate"
RECLAIM = "enqueue, allocate, reclaim"


def configured(actions: str = TREE, *, tree: bool = True, **arguments: Any) -> Manifest:
    """The ConfigMap of a scheduler with gang, predicates and proportion."""
    proportion = {"name": "proportion", "enableHierarchy": tree, "arguments": arguments}
    tiers = [{"plugins": [{"name": "gang"}, {"name": "predicates"}, proportion]}]
    text = json.dumps({"actions": actions, "tiers": tiers})
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"volsched.conf": text}}


def queues(listed: Queues) -> list[Manifest]:
    return [queue(name, **spec) for name, spec in listed.items()]


def waiting(name: str, count: int) -> list[Manifest]:
    """A job in a queue, of pods of a core each, of which the first starts it."""
    return [group(f"{name}-wait", 1, name), *(pod(f"{name}-wait-{n:02}", f"{name}-wait") for n in range(count))]


def running(name: str, count: int) -> list[Manifest]:
    run = [pod(f"{name}-run-{n:02}", f"{name}-run", on="n1", status={"phase": "Running"}) for n in range(count)]
    return [group(f"{name}-run", 0, name, phase="Running"), *run]


def simulated(*world: Manifest) -> Any:
    done = call("simulate", "-f", "-", "-o", "json", given=text_of(*world))
    assert done.exit_code in (0, 1), done.stderr
    assert done.stdout, done.exception
    return json.loads(done.stdout)


def bound(found: Any) -> dict[str, int]:
    """How many waiting pods of each queue got a node."""
    return dict(Counter(bind["pod"].removeprefix("default/").split("-")[0] for bind in found["binds"]))


def evicted(found: Any) -> dict[str, int]:
    """How many pods of each queue were evicted."""
    return dict(Counter(e["pod"].removeprefix("default/").split("-")[0] for e in found["evictions"]))


def deserved(*world: Manifest) -> dict[str, float]:
    """How many cores each queue deserves, those that deserve none left out."""
    done = call("queue", "list", "-f", "-", "-o", "json", given=text_of(*world))
    assert done.exit_code == 0, done.stderr
    listed = {name: found["cpu"].get("deserved") for name, found in json.loads(done.stdout)["queues"].items()}
    return {name: float(amount) for name, amount in listed.items() if amount not in (None, "0")}


AB: Queues = {"a": {}, "a1": {"parent": "a"}, "a2": {"parent": "a"}, "b": {}}
"""root{a{a1, a2}, b}"""
B12: Queues = {"a": {}, "b": {}, "b1": {"parent": "b"}, "b2": {"parent": "b", "guarantee": {"resource": {"cpu": "4"}}}}
XY: Queues = {
    "a": {"weight": 2},
    "x": {"parent": "a"},
    "p": {"parent": "x"},
    "q": {"parent": "x"},
    "y": {"parent": "a"},
    "b": {},
}
"""root{a{x{p, q}, y}, b}"""


def but(listed: Queues, **more: Mapping[str, Any]) -> Queues:
    return {name: {**spec, **more.get(name, {})} for name, spec in listed.items()}


ALL = {"a1": 12, "a2": 12, "b": 12}

CASES: dict[str, tuple[int, Queues, Mapping[str, int], Mapping[str, float]]] = {
    # what: (cores, queues, what the leaves ask for, what each queue deserves)
    "F1": (12, AB, ALL, {"a": 6, "a1": 3, "a2": 3, "b": 6}),
    "F2": (12, AB, {**ALL, "b": 2}, {"a": 10, "a1": 5, "a2": 5, "b": 2}),
    "F3": (12, but(AB, a={"weight": 2}, a1={"weight": 3}), ALL, {"a": 8, "a1": 6, "a2": 2, "b": 4}),
    "F4: what one leaves goes to its sibling first": (12, AB, {**ALL, "a1": 1}, {"a": 6, "a1": 1, "a2": 5, "b": 6}),
    "F5: a guarantee of a queue that asks for nothing": (
        12,
        B12,
        {"a": 12, "b1": 12, "b2": 0},
        {"a": 6, "b": 6, "b1": 2, "b2": 4},
    ),
    "F6": (12, but(AB, a={"capability": {"cpu": "4"}}), ALL, {"a": 4, "a1": 2, "a2": 2, "b": 8}),
    "F7": (12, but(AB, a1={"capability": {"cpu": "1"}}), ALL, {"a": 6, "a1": 1, "a2": 5, "b": 6}),
    "F8": (12, AB, {"b": 12}, {"b": 12}),
    "F9": (24, XY, dict.fromkeys("pqyb", 24), {"a": 16, "x": 8, "p": 4, "q": 4, "y": 8, "b": 8}),
    "F10": (
        24,
        XY,
        {"p": 1, "q": 3, "y": 24, "b": 24},
        {"a": 16, "x": 4, "p": 1, "q": 3, "y": 12, "b": 8},
    ),
}


@pytest.mark.parametrize("what", CASES)
def test_the_cluster_is_divided_from_the_root_down(what: str) -> None:
    cores, listed, asks, expected = CASES[what]
    jobs = [item for name, count in asks.items() if count for item in waiting(name, count)]
    world = [configured(), node("n1", cpu=cores), *queues(listed), *jobs]

    assert deserved(*world) == expected
    leaves = {name: int(expected[name]) for name, count in asks.items() if count}
    assert bound(simulated(*world)) == leaves


def test_without_the_switch_all_queues_are_side_by_side() -> None:
    """F15, and the remark at F1."""
    world = [node("n1", cpu=12), *queues(AB), *(item for name in ALL for item in waiting(name, 12))]

    assert deserved(configured(tree=False), *world) == {"a1": 4, "a2": 4, "b": 4}
    assert bound(simulated(configured(tree=False), *world)) == {"a1": 4, "a2": 4, "b": 4}


# -- reclaim ----------------------------------------------------------------------------------------------------------


def test_a_queue_takes_back_what_its_side_deserves() -> None:
    """F11"""
    found = simulated(configured(RECLAIM), node("n1", cpu=12), *queues(AB), *running("a1", 12), *waiting("b", 12))

    assert (evicted(found), bound(found)) == ({"a1": 6}, {"b": 6})


def test_a_sibling_takes_back_from_its_sibling_and_not_from_another_side() -> None:
    """F12"""
    world = [node("n1", cpu=12), *queues(AB), *running("a1", 6), *running("b", 6), *waiting("a1", 6)]

    found = simulated(configured(RECLAIM), *world, *waiting("a2", 12))

    assert (evicted(found), bound(found)) == ({"a1": 3}, {"a2": 3})


def test_nobody_takes_from_a_queue_above_its_due_whose_side_is_within_its_own() -> None:
    """F13: a1 is above its own 3, and a holds no more than 6."""
    world = [node("n1", cpu=12), *queues(AB), *running("a1", 6), *running("b", 6)]

    found = simulated(configured(RECLAIM), *world, *waiting("a2", 12), *waiting("b", 6))

    assert (evicted(found), bound(found)) == ({"a1": 3}, {"a2": 3})


def test_a_queue_below_its_due_is_left_alone_where_its_side_holds_too_much() -> None:
    world = [node("n1", cpu=12), *queues(AB), *running("a1", 2), *running("a2", 10)]

    found = simulated(configured(RECLAIM), *world, *waiting("b", 12), *waiting("a1", 12))

    assert evicted(found) == {"a2": 7}
    assert bound(found) == {"a1": 1, "b": 6}


THREE: Queues = {**AB, "c": {}}
"""root{a{a1, a2}, b, c}"""


def test_a_queue_below_its_due_takes_nothing_from_a_side_that_is_not_above_its_own() -> None:
    """a1 holds 4, which is above its own 2; but it is all that a deserves. c, which holds too much, is not asked."""
    listed = but(THREE, c={"reclaimable": False})
    world = [node("n1", cpu=12), *queues(listed), *running("a1", 4), *running("b", 1), *running("c", 7)]

    found = simulated(configured(RECLAIM), *world, *waiting("a2", 4), *waiting("b", 4))

    assert (evicted(found), bound(found)) == ({"a1": 2}, {"a2": 2})


@pytest.mark.parametrize("above", [True, False])
def test_a_queue_takes_from_another_side_only_while_its_own_side_has_its_due(above: bool) -> None:
    """a2 is below its own 2. Whether a, with it, is within its 4 follows from what a1 holds, which may not go."""
    listed = but(THREE, a1={"reclaimable": False})
    text = configured(RECLAIM)["data"]["volsched.conf"].replace(
        '"proportion",', '"proportion", "enabledAllocatable": false,'
    )
    world = a_cluster().node("n1", cpu=12)
    for name, spec in listed.items():
        world.queue(name, **spec)
    for name, count in {"a1": 4 if above else 3, "b": 8 if above else 9}.items():
        world.group(f"run-{name}", name, 0, "Running")
        for number in range(count):
            world.pod(f"{name}-{number}", f"run-{name}", on="n1", cpu=1)
    world.job("more", 8, 1, queue="a1", cpu=1).job("first", 1, 1, queue="a2", cpu=1).job("c", 4, 4, queue="c", cpu=5)
    text = text.replace("enqueue, allocate, reclaim", "reclaim")

    assert len(a_rig(world, text).cycle().evictions) == (0 if above else 1)


# -- order ------------------------------------------------------------------------------------------------------------


def test_the_side_that_holds_the_smaller_part_of_its_due_goes_first() -> None:
    """F14"""
    listed: Queues = {"a": {}, "a1": {"parent": "a"}, "a2": {"parent": "a"}, "b": {}, "b1": {"parent": "b"}}
    world = [node("n1", cpu=6), *queues(listed), *running("a1", 4), *running("b1", 1)]

    found = simulated(configured(), *world, *waiting("a2", 1), *waiting("b1", 1))

    assert bound(found) == {"b1": 1}
    assert bound(simulated(configured(tree=False), *world, *waiting("a2", 1), *waiting("b1", 1))) == {"a2": 1}


# -- what is wrong with a tree ----------------------------------------------------------------------------------------


def told(found: Any) -> dict[str, list[str]]:
    """What is told of queues."""
    said: dict[str, list[str]] = {}
    for event in found["events"]:
        if event["object"].startswith("Queue/"):
            assert (event["type"], event["reason"]) == ("Warning", "InvalidQueueHierarchy")
            said.setdefault(event["object"].removeprefix("Queue/"), []).append(event["message"])
    return said


def test_queues_of_a_circle_are_right_below_the_root_and_said_to_be() -> None:
    """F19"""
    circle: Queues = {"x": {"parent": "y"}, "y": {"parent": "x"}, "z": {"parent": "y", "capability": {"cpu": "2"}}}
    world = [configured(), node("n1", cpu=12), *queues(circle), *waiting("x", 12), *waiting("z", 12)]

    assert deserved(*world) == {"x": 10, "y": 2, "z": 2}
    found = simulated(*world)
    assert bound(found) == {"x": 10, "z": 2}
    why = "it is below itself; it counts as right below the root"
    assert told(found) == {"x": [why], "y": [why]}


def test_a_queue_whose_parent_does_not_exist_is_right_below_the_root_and_said_to_be() -> None:
    listed: Queues = {"a": {"parent": "nowhere"}, "b": {}}
    found = simulated(configured(), node("n1", cpu=12), *queues(listed), *waiting("a", 12), *waiting("b", 12))

    assert bound(found) == {"a": 6, "b": 6}
    assert told(found) == {"a": ['its parent "nowhere" does not exist; it counts as right below the root']}


# -- words ------------------------------------------------------------------------------------------------------------


def why(found: Any, name: str) -> str:
    return str(next(e["message"] for e in found["pending"] if (e["pod"] or e["podGroup"]).endswith(name)))


def test_a_refusal_names_the_queue_above_whose_share_is_used_up() -> None:
    listed = but(AB, a={"capability": {"cpu": "4"}})
    big = [group("big", 1, "a2"), pod("big-0", "big", cpu=2)]

    found = simulated(configured("allocate"), node("n1", cpu=12), *queues(listed), *running("a1", 3), *big)

    assert 'queue "a", above "a2", deserves no more: cpu: requested 2, used 3, limit 4' in why(found, "big-0")


def test_a_queue_above_that_holds_all_that_it_deserves_is_named() -> None:
    listed = but(AB, a={"capability": {"cpu": "4"}})

    found = simulated(configured("allocate"), node("n1", cpu=12), *queues(listed), *running("a1", 4), *waiting("a2", 1))

    assert 'queue "a", above "a2", holds all that it deserves (cpu: 4 of 4)' in why(found, "a2-wait-00")


def test_work_belongs_into_queues_without_any_below() -> None:
    world = [configured(), node("n1", cpu=12), *queues(AB), *waiting("a", 2), *waiting("b", 2)]

    found = simulated(*world)

    assert bound(found) == {"b": 2}
    assert 'queue "a" has queues below it, and takes no work itself' in why(found, "a-wait-00")


def test_a_job_is_not_admitted_beyond_what_a_queue_above_may_have() -> None:
    listed = but(AB, a={"capability": {"cpu": "4"}})
    first = [group("one", 1, "a1", minResources={"cpu": "3"}), group("two", 1, "a2", minResources={"cpu": "2"})]

    found = simulated(configured(), node("n1", cpu=12), *queues(listed), *first)

    assert why(found, "two") == (
        'queue resource quota insufficient: insufficient cpu (queue "a": cpu: requested 2, used 3, limit 4)'
    )


# -- what people are shown --------------------------------------------------------------------------------------------


def shown(*args: str, world: list[Manifest]) -> str:
    done = call(*args, "-f", "-", given=text_of(*world))
    assert done.exit_code == 0, done.stderr
    return done.stdout


def test_queues_are_shown_with_what_the_queues_above_leave_them() -> None:
    listed = but(AB, a={"capability": {"cpu": "4"}})
    world = [configured("allocate"), node("n1", cpu=12), *queues(listed), *running("a1", 3), *waiting("a2", 12)]

    found = json.loads(shown("queue", "list", "-o", "json", world=world))["queues"]

    assert {name: (found[name]["cpu"]["deserved"], found[name]["cpu"]["used"]) for name in ("a", "a1", "a2")} == {
        "a": ("4", "3"),
        "a1": ("2", "3"),
        "a2": ("2", "0"),
    }
    assert found["a"]["cpu"]["quota"] == found["a2"]["cpu"]["quota"] == "4"


@pytest.mark.process  # a trial is a copy of the process
def test_explain_names_who_holds_the_share_of_the_queue_above_and_what_would_help() -> None:
    listed = but(AB, a={"capability": {"cpu": "4"}})
    runs = [group("runs", 1, "a1", "Running"), pod("runs-0", "runs", "n1", cpu=3, status={"phase": "Running"})]
    waits = [group("waits", 1, "a2", "Inqueue"), pod("waits-0", "waits", cpu=2)]
    text = configuration("proportion, enableHierarchy: true")

    said = asked(text, node("n1", cpu=12), *queues(listed), *runs, *waits)

    assert [(short.of, short.name, short.limit) for short in said.short] == [("queue", "a", "4")]
    assert [(holder.name, holder.queue, holder.amount) for holder in said.holders] == [("default/runs", "a1", "3")]
    assert said.advice is not None
    assert by_sort(said.advice)["quota"] == "Raise cpu of queue a by 1 (spec.capability)."


def test_metrics_have_what_inner_queues_deserve() -> None:
    world = a_cluster().node("n1", cpu=12)
    for name, spec in AB.items():
        world.queue(name, **spec)
    for name in ALL:
        world.job(f"w-{name}", 12, queue=name, cpu=1)
    text = configured()["data"]["volsched.conf"]

    (series,) = [found for found in a_rig(world, text).cycle().report.series if found[0] == FAIR_SHARE]

    assert {queue_: amount for (queue_, resource), amount in series[1].items() if resource == "cpu"} == {
        "a": 6.0,
        "a1": 3.0,
        "a2": 3.0,
        "b": 6.0,
    }


# -- over time --------------------------------------------------------------------------------------------------------


def with_past(listed: Queues, **cores: float) -> list[Manifest]:
    """These queues, of which some used so many cores for an hour."""
    found = queues(listed)
    for item in found:
        used = cores.get(item["metadata"]["name"], 0) * 3600 * 1000
        item["status"] = {"usage": {"time": "2026-01-01T00:00:00Z", "resourceSeconds": {"cpu": used}}}
    return found


@pytest.mark.parametrize(("tree", "first"), [(True, "b"), (False, "a2")])
def test_what_was_held_over_time_counts_at_each_level(tree: bool, first: str) -> None:
    """a2 used nothing, and its sibling much: a2 goes behind b where the queues above are compared."""
    world = [node("n1", cpu=4), *with_past(AB, a=9, a1=9, b=1), *running("a1", 3), *waiting("a2", 3), *waiting("b", 3)]
    given = configured("allocate", tree=tree, **{"usage.halfLife": "10000h"})

    assert bound(simulated(given, *world)) == {first: 1}


def test_what_queues_below_hold_over_time_is_written_on_the_queue_above() -> None:
    world = a_cluster().node("n1", cpu=4).queue("a").queue("a1", parent="a").queue("a2", parent="a")
    for name in ("a1", "a2"):
        world.job(f"w-{name}", 1, queue=name, cpu=1)
    text = configured("allocate", **{"usage.halfLife": "1h"})["data"]["volsched.conf"]
    rig, written = a_rig(world, text), []
    for _ in range(4):
        written += [step for step in rig.cycle().steps if isinstance(step, WriteQueueStatus)]
        for name in ("a1", "a2"):
            rig.cycle(*a_cluster().job(f"more-{name}-{rig.clock.time:g}", 1, queue=name, cpu="1m").changes())
        rig.clock.time += 90

    past = {step.name: step.past.used for step in written if step.past is not None}
    assert past["a"]["cpu"] == pytest.approx(past["a1"]["cpu"] + past["a2"]["cpu"], rel=1e-4)
    assert past["a"]["cpu"] > 0


# -- the switch, and the warning --------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrapped", [False, True])
def test_validate_warns_that_the_switch_had_no_effect_until_now(wrapped: bool, tmp_path: Path) -> None:
    def warnings(config_map: Manifest, *world: Manifest) -> list[Any]:
        (tmp_path / "world.yaml").write_text(text_of(*world))
        text = config_map["data"]["volsched.conf"]
        (tmp_path / "given.yaml").write_text(text_of(config_map) if wrapped else text)
        done = call("validate", "-f", tmp_path, "-o", "json")
        return [problem for problem in json.loads(done.stdout)["problems"] if problem["code"] == "ChangedEffect"]

    (warning,) = warnings(configured(), *queues(AB))
    assert warning["severity"] == "warning"
    assert warning["field"].endswith("plugin proportion: enableHierarchy")
    assert "this switch had no effect on it until now" in warning["message"]
    assert "(queue 'a1' is below 'a')" in warning["message"]
    assert warnings(configured(tree=False), *queues(AB)) == []
    assert warnings(configured(), queue("a"), queue("b", parent="root")) == []


# -- hostile queues ---------------------------------------------------------------------------------------------------


def test_a_chain_of_a_thousand_queues_is_no_hindrance() -> None:
    world = a_cluster().node("n1", cpu=4).queue("side")
    for number in range(1000):
        world.queue(f"q{number}", **({"parent": f"q{number - 1}"} if number else {}))
    world.job("deep", 4, 1, queue="q999", cpu=1).job("other", 4, 1, queue="side", cpu=1)

    decision = a_rig(world, configured("allocate")["data"]["volsched.conf"]).cycle()

    assert Counter(name.split("-")[0] for name in decision.bindings) == {"deep": 2, "other": 2}


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ({"a": 0, "b": 1}, {"b": 12}),
        ({"a": -5, "b": 1}, {"b": 12}),
        ({"a": 2**31 - 1, "b": 1}, {"a1": 5, "a2": 5}),
        ({"a1": 0, "a2": 0}, {"b": 6}),
    ],
)
def test_weights_that_cannot_be_meant_stop_nobody_else(weights: dict[str, int], expected: dict[str, int]) -> None:
    listed = but(AB, **{name: {"weight": weight} for name, weight in weights.items()})
    jobs = [item for name in ALL for item in waiting(name, 12)]

    found = bound(simulated(configured("allocate"), node("n1", cpu=12), *queues(listed), *jobs))

    assert found == expected
