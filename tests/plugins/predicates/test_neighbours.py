"""Pod affinity, anti-affinity and topology spreading, case by case."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from plugins.predicates.plugin import ARGUMENTS, build
from tests.plugins.clusters import HOST, ZONE, Lab
from volsched.framework.config.arguments import values_of
from volsched.framework.engine.domains import domains_of
from volsched.model.status import TaskStatus

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
NOT_NEAR = "node(s) didn't match pod affinity rules"
NOT_APART = "node(s) didn't match pod anti-affinity rules"
KEPT_AWAY = "node(s) didn't satisfy existing pods anti-affinity rules"
UNEVEN = "node(s) didn't match pod topology spread constraints"
LACKS_LABEL = f"{UNEVEN} (missing required label)"


def lab() -> Lab:
    return Lab(build(values_of("plugin predicates", ARGUMENTS, {})))


def three_zones(world: Lab) -> None:
    """n1 and n2 in z1, n3 in z2, n4 in no zone."""
    for name, zone in (("n1", "z1"), ("n2", "z1"), ("n3", "z2"), ("n4", "")):
        world.node(name, labels={ZONE: zone} if zone else {})


def term(app: str = "web", key: str = ZONE, **more: Any) -> dict[str, Any]:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}, **more}


def near(*terms: Any) -> dict[str, Any]:
    return {"affinity": {"podAffinity": {REQUIRED: list(terms)}}}


def apart(*terms: Any) -> dict[str, Any]:
    return {"affinity": {"podAntiAffinity": {REQUIRED: list(terms)}}}


WEB = {"app": "web"}


def test_affinity_needs_a_matching_pod_in_the_domain() -> None:
    world = lab()
    three_zones(world)
    world.pod("web", on="n1", labels=WEB)
    task = world.pod("p", spec=near(term()))

    assert world.feasible(task) == {"n1", "n2"}
    assert world.reasons(task) == {"n3": NOT_NEAR, "n4": NOT_NEAR}
    world.check_twins(task)


def test_one_pod_must_satisfy_all_affinity_terms() -> None:
    world = lab()
    three_zones(world)
    world.pod("web", on="n1", labels=WEB)
    world.pod("front", on="n1", labels={"tier": "front"})
    front = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"tier": "front"}}}
    task = world.pod("p", spec=near(term(), front))
    assert world.feasible(task) == set()

    world.pod("both", on="n3", labels={"app": "web", "tier": "front"})

    assert world.feasible(task) == {"n3"}


def test_first_pod_of_its_kind_may_go_wherever_the_labels_are() -> None:
    world = lab()
    three_zones(world)
    task = world.pod("p", labels=WEB, spec=near(term()))
    assert world.feasible(task) == {"n1", "n2", "n3"}
    world.check_twins(task)

    first = world.pod("first", labels=WEB, spec=near(term()))
    world.move(first, TaskStatus.ALLOCATED, "n3")

    assert world.feasible(task) == {"n3"}
    world.check_twins(task)


def test_pod_that_does_not_match_itself_waits_for_others() -> None:
    world = lab()
    three_zones(world)

    assert world.feasible(world.pod("p", labels={"app": "db"}, spec=near(term()))) == set()


def test_anti_affinity_keeps_away_from_the_whole_domain_and_passes_without_the_label() -> None:
    world = lab()
    three_zones(world)
    world.pod("web", on="n1", labels=WEB)
    world.pod("other", on="n4", labels=WEB)
    task = world.pod("p", spec=apart(term()))

    assert world.reasons(task) == {"n1": NOT_APART, "n2": NOT_APART}
    world.check_twins(task)


def test_placed_pods_keep_others_away() -> None:
    world = lab()
    three_zones(world)
    lone = world.pod("lone", on="n3", spec=apart(term()))
    task = world.pod("p", labels=WEB)
    assert world.reasons(task) == {"n3": KEPT_AWAY}
    world.check_twins(task)
    assert world.reasons(world.pod("q", labels={"app": "db"})) == {}
    assert world.reasons(world.pod("r", labels=WEB, ns="elsewhere")) == {}

    world.cluster.remove_task(lone)

    assert world.reasons(task) == {}


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        pytest.param({}, {"n3"}, id="own namespace"),
        pytest.param({"namespaces": ["blue"]}, {"n1"}, id="named"),
        pytest.param({"namespaceSelector": {}}, {"n1", "n2", "n3"}, id="all"),
        pytest.param({"namespaceSelector": {"matchLabels": {"team": "one"}}}, {"n1", "n2"}, id="selected"),
        pytest.param(
            {"namespaces": ["default"], "namespaceSelector": {"matchLabels": {"team": "two"}}}, {"n3"}, id="both"
        ),
    ],
)
def test_namespaces_of_terms(scope: dict[str, Any], expected: set[str]) -> None:
    world = lab()
    for name, namespace in (("n1", "blue"), ("n2", "green"), ("n3", "default")):
        world.node(name)
        world.pod(f"web-{name}", on=name, ns=namespace, labels=WEB)
    world.namespace("blue", team="one")
    world.namespace("green", team="one")

    assert world.feasible(world.pod("p", spec=near(term(key=HOST, **scope)))) == expected


def test_labels_of_namespaces_may_change() -> None:
    world = lab()
    world.node("n1")
    world.pod("web", on="n1", ns="blue", labels=WEB)
    task = world.pod("p", spec=apart(term(key=HOST, namespaceSelector={"matchLabels": {"team": "one"}})))
    assert world.feasible(task) == {"n1"}

    world.namespace("blue", team="one")

    assert world.feasible(task) == set()


def test_pods_that_leave_count_until_they_are_gone() -> None:
    world = lab()
    three_zones(world)
    web = world.pod("web", on="n1", labels=WEB)
    task = world.pod("p", spec=apart(term()))
    world.move(web, TaskStatus.RELEASING, "n1")
    assert world.feasible(task) == {"n3", "n4"}

    world.move(web, TaskStatus.SUCCEEDED, "n1")

    assert world.feasible(task) == {"n1", "n2", "n3", "n4"}


def test_relabelled_pods_and_nodes_are_counted_anew() -> None:
    world = lab()
    three_zones(world)
    web = world.pod("web", on="n1", labels={"app": "db"})
    task = world.pod("p", spec=near(term()))
    assert world.feasible(task) == set()
    before, web.spec = web.spec, msgspec.structs.replace(web.spec, labels=WEB)
    world.cluster.relabel(web, before)
    assert world.feasible(task) == {"n1", "n2"}

    world.node("n1", labels={ZONE: "z2"})

    assert world.feasible(task) == {"n1", "n3"}


def test_a_pod_that_comes_lets_those_try_again_that_wait_for_it() -> None:
    world = lab()
    three_zones(world)
    task = world.pod("p", spec=near(term()))
    web = world.pod("web", labels=WEB)
    assert world.best(task) is None
    generation = world.cluster.generations.requeue

    world.move(web, TaskStatus.ALLOCATED, "n3")

    assert world.cluster.generations.requeue > generation
    assert world.best(task) == "n3"


# --- spreading -------------------------------------------------------------------------------------------------------


def spread(skew: int = 1, key: str = ZONE, **more: Any) -> dict[str, Any]:
    constraint = {
        "maxSkew": skew,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": WEB},
    }
    return {"topologySpreadConstraints": [{**constraint, **more}]}


def zones_with(counts: tuple[int, ...], **last: Any) -> Lab:
    """One node per zone with that many pods."""
    world = lab()
    for number, count in enumerate(counts, 1):
        more = last if number == len(counts) else {}
        world.node(f"n{number}", labels={ZONE: f"z{number}"}, **more)
        for index in range(count):
            world.pod(f"w{number}-{index}", on=f"n{number}", labels=WEB)
    return world


TAINT = {"taints": [("a", "", "NoSchedule")]}


@pytest.mark.parametrize(
    ("counts", "more", "last", "expected"),
    [
        pytest.param((3, 1, 0), {}, {}, {"n3"}, id="39a"),
        pytest.param((3, 1, 1), {"minDomains": 4}, {}, set(), id="39b too few domains"),
        pytest.param((3, 1, 1), {}, {}, {"n2", "n3"}, id="39b"),
        pytest.param((3, 1, 0), {}, TAINT, set(), id="39c taints are ignored"),
        pytest.param((3, 1, 0), {"nodeTaintsPolicy": "Honor"}, TAINT, {"n2"}, id="39d taints are honoured"),
        pytest.param((3, 1, 0), {"skew": 2}, {}, {"n2", "n3"}, id="a wider skew"),
        pytest.param((2, 1, 0), {"labelSelector": {}}, {}, {"n1", "n2", "n3"}, id="an empty selector counts nobody"),
        pytest.param((2, 1, 0), {"labelSelector": None}, {}, {"n1", "n2", "n3"}, id="no selector"),
    ],
)
def test_spreading(counts: tuple[int, ...], more: dict[str, Any], last: dict[str, Any], expected: set[str]) -> None:
    world = zones_with(counts, **last)
    task = world.pod("p", labels=WEB, spec=spread(**more))

    assert world.feasible(task) == expected
    world.check_twins(task)


def test_node_without_the_label_is_refused_and_makes_no_domain() -> None:
    world = zones_with((1, 0))
    world.node("n9")
    world.pod("w9", on="n9", labels=WEB)
    task = world.pod("p", labels=WEB, spec=spread())

    assert world.reasons(task) == {"n1": UNEVEN, "n9": LACKS_LABEL}


@pytest.mark.parametrize(("policy", "expected"), [(None, {"n1"}), ("Honor", {"n1"}), ("Ignore", set())])
def test_node_affinity_limits_the_domains_unless_ignored(policy: str | None, expected: set[str]) -> None:
    world = zones_with((1, 0))
    spec = {"nodeSelector": {ZONE: "z1"}, **spread(**({"nodeAffinityPolicy": policy} if policy else {}))}

    assert world.feasible(world.pod("p", labels=WEB, spec=spec)) == expected


def test_pods_of_other_namespaces_and_leaving_ones_do_not_count() -> None:
    world = zones_with((0, 0))
    world.pod("other", on="n1", ns="blue", labels=WEB)
    leaving = world.pod("leaving", on="n1", status=TaskStatus.RELEASING, labels=WEB)
    task = world.pod("p", labels=WEB, spec=spread())
    assert world.feasible(task) == {"n1", "n2"}

    world.move(leaving, TaskStatus.RUNNING, "n1")

    assert world.feasible(task) == {"n2"}


def test_match_label_keys_tell_revisions_apart() -> None:
    world = zones_with((0, 0))
    world.pod("old", on="n1", labels={**WEB, "hash": "1"})
    new = world.pod("p", labels={**WEB, "hash": "2"}, spec=spread(matchLabelKeys=["hash"]))
    same = world.pod("q", labels={**WEB, "hash": "1"}, spec=spread(matchLabelKeys=["hash"]))

    assert world.feasible(new) == {"n1", "n2"}
    assert world.feasible(same) == {"n2"}


def test_raising_the_fewest_lets_those_try_again_that_wait_for_it() -> None:
    world = zones_with((1, 0))
    task = world.pod(
        "p", labels=WEB, spec={**spread(), "nodeSelector": {ZONE: "z1"}, **spread(nodeAffinityPolicy="Ignore")}
    )
    other = world.pod("other", labels=WEB)
    assert world.best(task) is None
    generation = world.cluster.generations.requeue

    world.move(other, TaskStatus.ALLOCATED, "n2")

    assert world.cluster.generations.requeue > generation
    assert world.best(task) == "n1"


# --- cost ------------------------------------------------------------------------------------------------------------


def test_a_placement_on_one_host_asks_about_that_host_only() -> None:
    world = lab()
    for number in range(300):
        world.node(f"n{number:03}", labels={ZONE: f"z{number % 3}"})
    spec = {**apart(term(key=HOST)), **spread(skew=5, key=HOST)}
    tasks = [world.pod(f"p{number}", labels=WEB, spec=spec) for number in range(50)]
    statement = world.session.statement()
    for task in tasks[:2]:
        node = world.engine.best(task)
        assert node is not None
        assert statement.allocate(task, node) is None
    asked = world.engine.nodes.rows_scored
    for task in tasks[2:]:
        node = world.engine.best(task)
        assert node is not None
        assert statement.allocate(task, node) is None

    assert world.engine.nodes.rows_scored - asked <= 2 * 48
    assert len({task.node for task in tasks}) == 50


def test_clusters_without_such_rules_keep_nothing() -> None:
    world = lab()
    three_zones(world)
    tasks = [world.pod(f"p{number}", labels=WEB) for number in range(10)]
    for task in tasks:
        world.best(task)
        world.move(task, TaskStatus.RUNNING, "n1")
    domains = domains_of(world.session)

    terms, nodes = (domains._apart.known, domains._liked.known), domains._nodes
    assert not any((domains._censuses, *terms, domains._index.by_label, nodes.counts, nodes.eligible))
