"""drf with `enableHierarchy`, as `volsched simulate` shows it: cases F16 to F18 and F20, and what follows from them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugins.drf.hierarchy import TreeShares
from plugins.drf.places import Places
from tests.cli.calls import call, text_of
from tests.simulation.clusters import Manifest, group, node, pod, queue
from volsched.model.changes import Change
from volsched.model.cluster import Cluster
from volsched.testing.builders import ClusterBuilder, Rig, a_cluster, a_queue, a_rig, put

HIERARCHY, WEIGHTS = "volcano.sh/hierarchy", "volcano.sh/hierarchy-weights"
Queues = Mapping[str, str]
"""The parent of each queue."""


def configured(actions: str = "enqueue, allocate", *, tree: bool = True, **arguments: Any) -> Manifest:
    """The ConfigMap of a scheduler with gang, predicates and drf."""
    drf = {"name": "drf", "enableHierarchy": tree, "arguments": arguments}
    text = json.dumps({"actions": actions, "tiers": [{"plugins": [{"name": "gang"}, drf, {"name": "predicates"}]}]})
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"volsched.conf": text}}


def queues(listed: Queues) -> list[Manifest]:
    return [queue(name, parent=parent) for name, parent in listed.items()]


def amounts(cpu: int, memory: int) -> Manifest:
    asked = {name: text for name, text in (("cpu", f"{cpu}"), ("memory", f"{memory}Gi")) if not text.startswith("0")}
    return {"containers": [{"name": "main", "resources": {"requests": asked}}]}


def waiting(name: str, count: int, cpu: int, memory: int) -> list[Manifest]:
    """A job in a queue, of equal pods of cores and GiB, of which the first starts it."""
    pods = [pod(f"{name}-wait-{n:02}", f"{name}-wait", **amounts(cpu, memory)) for n in range(count)]
    return [group(f"{name}-wait", 1, name), *pods]


def running(name: str, count: int, cpu: int, memory: int) -> list[Manifest]:
    pods = [
        pod(f"{name}-run-{n:02}", f"{name}-run", "n1", status={"phase": "Running"}, **amounts(cpu, memory))
        for n in range(count)
    ]
    return [group(f"{name}-run", 0, name, phase="Running"), *pods]


def simulated(*world: Manifest) -> Any:
    done = call("simulate", "-f", "-", "-o", "json", given=text_of(*world))
    assert done.exit_code in (0, 1), done.stderr
    assert done.stdout, done.exception
    return json.loads(done.stdout)


def counted(listed: list[Any]) -> dict[str, int]:
    return dict(Counter(item["pod"].removeprefix("default/").split("-")[0] for item in listed))


def bound(found: Any) -> dict[str, int]:
    """How many waiting pods of each queue got a node."""
    return counted(found["binds"])


PAPER: dict[str, tuple[int, int, Queues, list[list[Manifest]], Mapping[str, int]]] = {
    # what: (cores, GiB, queues, jobs, how many pods of each queue start)
    "F16": (
        10,
        10,
        {"sci": "", "eng": "", "dev": "eng", "prod": "eng"},
        [waiting("sci", 10, 1, 1), waiting("dev", 10, 1, 0), waiting("prod", 10, 0, 1)],
        {"sci": 5, "dev": 5, "prod": 5},
    ),
    "F17": (
        30,
        30,
        {"p1": "", "p2": "", "p3": "", "p31": "p3", "p32": "p3", "p4": ""},
        [
            *(waiting(name, 30, 1, 0) for name in ("p1", "p2", "p31")),
            *(waiting(name, 30, 0, 1) for name in ("p32", "p4")),
        ],
        {"p1": 10, "p2": 10, "p31": 10, "p32": 15, "p4": 15},
    ),
    "F18: who asks no more does not count": (
        10,
        6,
        {"sci": "", "eng": "", "dev": "eng", "prod": "eng", "ops": ""},
        [running("sci", 5, 1, 0), running("dev", 5, 1, 0), waiting("prod", 10, 0, 1), waiting("ops", 10, 0, 1)],
        {"prod": 3, "ops": 3},
    ),
}


@pytest.mark.parametrize("what", PAPER)
def test_queues_have_what_the_paper_gives_them(what: str) -> None:
    cores, memory, listed, jobs, expected = PAPER[what]
    machine = node("n1", cpu=cores, memory=f"{memory}Gi", pods=400)

    found = simulated(configured(), machine, *queues(listed), *(item for job in jobs for item in job))

    assert bound(found) == expected


def test_without_the_switch_queues_are_in_no_tree() -> None:
    cores, memory, listed, jobs, _ = PAPER["F18: who asks no more does not count"]
    world = [node("n1", cpu=cores, memory=f"{memory}Gi"), *queues(listed), *(item for job in jobs for item in job)]

    flat = bound(simulated(configured(tree=False), *world))

    assert sum(flat.values()) == 6


# -- annotations ------------------------------------------------------------------------------------------------------


def annotated(name: str, way: str, weights: str = "", **spec: Any) -> Manifest:
    made = queue(name, **spec)
    made["metadata"]["annotations"] = {HIERARCHY: way, **({WEIGHTS: weights} if weights else {})}
    return made


def told(found: Any) -> dict[str, list[str]]:
    """What is told of queues."""
    said: dict[str, list[str]] = {}
    for event in found["events"]:
        if event["object"].startswith("Queue/"):
            assert (event["type"], event["reason"]) == ("Warning", "InvalidQueueHierarchy")
            said.setdefault(event["object"].removeprefix("Queue/"), []).append(event["message"])
    return said


ASKS = [item for name in ("sci", "dev", "prod") for item in waiting(name, 12, 1, 0)]


@pytest.mark.parametrize(
    ("ways", "weights", "expected"),
    [
        (("root/sci", "root/eng/dev", "root/eng/prod"), "", {"sci": 6, "dev": 3, "prod": 3}),
        (("sci", "eng/dev", "eng/prod"), "", {"sci": 6, "dev": 3, "prod": 3}),
        (("root", "root/eng", "root/eng"), "", {"sci": 6, "dev": 3, "prod": 3}),
        (("root/sci", "root/dev", "root/prod"), "", {"sci": 4, "dev": 4, "prod": 4}),
        (("root/sci", "root/eng/dev", "root/eng/prod"), "1/2/1", {"sci": 4, "dev": 4, "prod": 4}),
        (("root/sci", "root/eng/dev", "root/eng/prod"), "1/0.2/-5", {"sci": 6, "dev": 3, "prod": 3}),
        (("root/sci", "root/eng/dev", "root/eng/prod"), "1/1e400/nan", {"sci": 6, "dev": 3, "prod": 3}),
    ],
)
def test_annotations_put_queues_below_others_that_need_no_object(
    ways: tuple[str, ...], weights: str, expected: dict[str, int]
) -> None:
    sci, dev, prod = ways
    listed = [annotated("sci", sci), annotated("dev", dev, weights), annotated("prod", prod, weights)]

    assert bound(simulated(configured(), node("n1", cpu=12), *listed, *ASKS)) == expected


def test_a_name_in_a_way_that_is_a_queues_is_that_queue() -> None:
    listed = [queue("org"), queue("eng", parent="org", weight=2), annotated("dev", "root/eng/dev"), queue("sci")]
    listed += [annotated("prod", "eng")]

    found = simulated(configured(), node("n1", cpu=12), *listed, *ASKS)

    assert (bound(found), told(found)) == ({"sci": 6, "dev": 3, "prod": 3}, {})


def test_the_parent_in_the_spec_counts_where_the_annotation_differs() -> None:
    """F20"""
    listed = [queue("a"), queue("b"), annotated("dev", "root/a", parent="b"), queue("prod", parent="b"), queue("sci")]

    found = simulated(configured(), node("n1", cpu=12), *listed, *ASKS)

    assert bound(found) == {"sci": 6, "dev": 3, "prod": 3}
    assert told(found) == {
        "dev": [f'metadata.annotations[{HIERARCHY}]: root/a puts the queue below "a"; spec.parent counts, which is "b"']
    }


def test_the_root_in_the_spec_says_nothing_as_controllers_write_it() -> None:
    listed = [annotated(name, f"root/eng/{name}", parent="root") for name in ("dev", "prod")]

    found = simulated(configured(), node("n1", cpu=12), *listed, queue("sci", parent="root"), *ASKS)

    assert (bound(found), told(found)) == ({"sci": 6, "dev": 3, "prod": 3}, {})


WRONG: dict[str, tuple[Manifest, str]] = {
    "an empty name": (annotated("q", "root//q"), f"[{HIERARCHY}]: root//q has an empty name; it counts for nothing"),
    "too many names": (annotated("q", "/".join("x" * 200)), "has more than 100 names; it counts for nothing"),
    "too few weights": (
        annotated("q", "root/a/q", "1/2"),
        f"has 2 weights for the 3 names of {HIERARCHY}; all ",
    ),
    "no weight": (annotated("q", "root/q", "1/heavy"), "'heavy' is no weight of 1 or more; it counts as 1"),
    "a weight below 1": (annotated("q", "root/q", "1/0.5"), "'0.5' is no weight of 1 or more; it counts as 1"),
    "below itself": (annotated("q", "root/q/x"), "it is below itself; it counts as right below the root"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_cannot_be_read_is_told_and_counts_for_nothing(what: str) -> None:
    made, said = WRONG[what]

    found = simulated(configured(), node("n1", cpu=12), made, *waiting("q", 2, 1, 0))

    assert bound(found) == {"q": 2}
    (message,) = told(found)["q"]
    assert said in message


def test_weights_of_a_queue_without_an_object_that_differ_are_told() -> None:
    listed = [annotated("dev", "root/eng/dev", "1/2/1"), annotated("prod", "root/eng/prod", "1/3/1")]

    found = simulated(configured(), node("n1", cpu=12), *listed)

    message = f'metadata.annotations[{WEIGHTS}]: gives "root/eng" the weight 3; another queue gives it 2, which counts'
    assert told(found) == {"prod": [message]}


def test_an_annotation_that_changes_counts_in_the_next_session() -> None:
    def put_below(way: str) -> Any:
        return put({**a_queue("dev"), "metadata": {**a_queue("dev")["metadata"], "annotations": {HIERARCHY: way}}})

    rig = a_rig(a_cluster().node("n1", cpu=12).queue("sci"), configured()["data"]["volsched.conf"])
    rig.cycle(put_below("root/eng/dev"))
    assert rig.scheduler._accounts.get("drf.places", Places).tree.levels("dev") == ("dev", "root/eng", "root")

    rig.cycle(put_below("root/dev"))
    assert rig.scheduler._accounts.get("drf.places", Places).tree.levels("dev") == ("dev", "root")


# -- reclaim ----------------------------------------------------------------------------------------------------------

EVICT = "enqueue, allocate, reclaim"
ENG: Queues = {"sci": "", "eng": "", "dev": "eng", "prod": "eng"}


def evicted(found: Any) -> dict[str, int]:
    return counted(found["evictions"])


def test_a_side_gives_as_long_as_the_other_side_has_less_then() -> None:
    """With a sixth pod sci would have as much as eng, and no less."""
    jobs = [item for n in range(6) for item in _job_of("sci", n)]

    found = simulated(configured(EVICT), node("n1", cpu=12), *queues(ENG), *running("dev", 12, 1, 0), *jobs)

    assert evicted(found) == {"dev": 5}
    assert bound(found) == {"sci": 5}


def test_siblings_are_compared_with_each_other_and_sides_by_their_rescaled_shares() -> None:
    """dev gives prod two pods: 2 and 4. With a third, eng has twice three rescaled, and sci with one pod less five."""
    jobs = [item for n in range(6) for name in ("sci", "prod") for item in _job_of(name, n)]
    runs = [*running("dev", 6, 1, 0), *running("sci", 6, 1, 0)]

    found = simulated(configured(EVICT), node("n1", cpu=12), *queues(ENG), *runs, *jobs)

    assert evicted(found) == {"dev": 2}
    assert bound(found) == {"prod": 2}


def _job_of(name: str, number: int) -> list[Manifest]:
    group_ = f"{name}-{number}"
    return [group(group_, 1, name), pod(f"{group_}-0", group_, **amounts(1, 0))]


# -- the rest ---------------------------------------------------------------------------------------------------------


def test_work_belongs_into_queues_without_any_below() -> None:
    found = simulated(
        configured(), node("n1", cpu=12), *queues(ENG), *waiting("eng", 2, 1, 0), *waiting("sci", 2, 1, 0)
    )

    assert bound(found) == {"sci": 2}
    (message,) = {entry["message"] for entry in found["pending"]}
    assert message == 'queue "eng" has queues below it, and takes no work itself; use one of those'


@pytest.mark.parametrize(("tree", "first"), [(True, "sci"), (False, "prod")])
def test_what_was_held_over_time_counts_at_each_level(tree: bool, first: str) -> None:
    """prod used nothing, and its sibling much: prod goes behind sci where the queues above are compared."""
    listed = [annotated("dev", "eng"), annotated("prod", "eng"), queue("sci")]
    for item, cores in zip(listed, (9, 0, 1), strict=True):
        used = {"cpu": cores * 3600 * 1000}
        item["status"] = {"usage": {"time": "2026-01-01T00:00:00Z", "resourceSeconds": used}}
    given = configured("allocate", tree=tree, **{"usage.halfLife": "10000h"})
    jobs = [*running("dev", 3, 1, 0), *waiting("prod", 3, 1, 0), *waiting("sci", 3, 1, 0)]

    assert bound(simulated(given, node("n1", cpu=4), *listed, *jobs)) == {first: 1}


def validated(*world: Manifest) -> list[tuple[str, str, str]]:
    done = call("validate", "-f", "-", "-o", "json", given=text_of(*world))
    return [(p["object"], p["severity"], p["message"]) for p in json.loads(done.stdout)["problems"]]


@pytest.mark.parametrize("what", [name for name in WRONG if name != "below itself"])
def test_validate_warns_of_it(what: str) -> None:
    made, said = WRONG[what]

    ((subject, severity, message),) = validated(configured(), made)

    assert (subject, severity) == ("Queue/q", "warning")
    assert message in f"metadata.annotations[{HIERARCHY}]: {said}" or said in message


def test_validate_warns_of_annotations_that_differ_from_the_spec_and_that_nothing_reads() -> None:
    listed = [queue("a"), queue("b"), annotated("dev", "root/a", parent="b")]

    (differs,) = validated(configured(), *listed)
    assert differs == ("Queue/dev", "warning", 'root/a puts the queue below "a"; spec.parent counts, which is "b"')
    assert [message for *_, message in validated(*listed)][1:] == [
        "the plugin drf alone reads it, with enableHierarchy, and no configuration names drf; use spec.parent"
    ]


# -- the rescaled form, and what it costs -----------------------------------------------------------------------------


def shares_of(rig: Rig) -> TreeShares:
    found: TreeShares = rig.scheduler._accounts.get("drf.tree", _missing)
    return found


def _missing(_: Cluster) -> TreeShares:
    raise AssertionError


def naive(shares: TreeShares, cluster: Cluster, name: str) -> tuple[dict[str, Fraction], bool]:
    """The parts of a queue in exact fractions, and whether it is saturated, by the words of the rule."""
    below = shares.below(name)
    if not below:
        held = {**cluster.queues[name].allocated, "pods": cluster.queues[name].placed} if name in cluster.queues else {}
        parts = {n: Fraction(held.get(n, 0), total) for n, total in shares.totals.items()}
        return parts, shares.state(name).is_saturated
    found = {child: naive(shares, cluster, child) for child in below}
    weights = {child: Fraction(shares.state(child).weight) for child in below}
    all_are = all(saturated for _, saturated in found.values())
    tops = {child: max(parts.values()) for child, (parts, saturated) in found.items() if all_are or not saturated}
    least = min((top / weights[child] for child, top in tops.items() if top), default=Fraction(0))
    parts = {
        n: sum((found[c][0][n] * least * weights[c] / top for c, top in tops.items() if top), Fraction(0))
        for n in shares.totals
    }
    return parts, all_are


@given(st.integers(0, 1 << 30))
def test_shares_are_those_of_the_rule_whatever_happens(seed: int) -> None:
    dice = Random(seed)  # noqa: S311 - a game
    world = a_cluster().node("n1", cpu=9, memory="9", pods=40)
    names: list[str] = []
    for number in range(dice.randint(2, 8)):
        parent = dice.choice(["", *names])
        world.queue(f"q{number}", parent=parent, weight=dice.randint(1, 3))
        names.append(f"q{number}")
    _add_jobs(world, dice, names)
    rig = a_rig(world, configured()["data"]["volsched.conf"])

    for _ in range(3):
        rig.cycle(*_more(dice, names))
        shares, cluster = shares_of(rig), rig.mirror.cluster
        shares.refresh()
        for name in names:
            parts, is_saturated = naive(shares, cluster, name)
            assert shares.state(name).is_saturated == is_saturated
            assert shares.state(name).share == pytest.approx(float(max(parts.values())), abs=1e-12)


def _add_jobs(world: ClusterBuilder, dice: Random, names: list[str]) -> None:
    for number in range(dice.randint(1, 6)):
        asked = dice.choice([{"cpu": 1}, {"memory": "1"}, {"cpu": 1, "memory": "1"}, {}])
        world.job(f"j{number}-{dice.randint(0, 1 << 30)}", dice.randint(1, 4), queue=dice.choice(names), **asked)


def _more(dice: Random, names: list[str]) -> list[Change]:
    world = ClusterBuilder([])
    _add_jobs(world, dice, names)
    return list(world.changes())


def test_a_placement_costs_its_way_up_and_not_the_tree() -> None:
    world = a_cluster().node("n1", cpu=1000, pods=1000)
    for number in range(20):
        world.queue(f"d{number}")
        for team in range(10):
            world.queue(f"t{number}-{team}", parent=f"d{number}")
            world.job(f"j{number}-{team}", 5, 1, queue=f"t{number}-{team}", cpu=1)
    rig = a_rig(world, configured("allocate")["data"]["volsched.conf"])

    placed = len(rig.cycle().bindings)

    assert placed == 1000
    states = 20 * 11 + 3  # all once, with the queue default
    assert shares_of(rig).computed <= states + 2 * placed + 50


def test_candidates_cost_no_states() -> None:
    world = a_cluster().node("n1", cpu=12).queue("eng").queue("sci").queue("dev", parent="eng")
    world.group("run", "dev", 0, "Running")
    for number in range(12):
        world.pod(f"run-{number}", "run", on="n1", cpu=1)
    world.job("want", 1, queue="sci", cpu=1)
    rig = a_rig(world, configured("reclaim")["data"]["volsched.conf"])

    decision = rig.cycle()

    assert len(decision.evictions) == 1
    assert shares_of(rig).computed <= 5 + 2 * 4


def test_a_chain_of_a_thousand_queues_is_no_hindrance() -> None:
    world = a_cluster().node("n1", cpu=4).queue("side")
    for number in range(1000):
        world.queue(f"q{number}", **({"parent": f"q{number - 1}"} if number else {}))
    world.job("deep", 4, 1, queue="q999", cpu=1).job("other", 4, 1, queue="side", cpu=1)

    decision = a_rig(world, configured("allocate")["data"]["volsched.conf"]).cycle()

    assert Counter(name.split("-")[0] for name in decision.bindings) == {"deep": 2, "other": 2}
