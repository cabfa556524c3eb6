"""Scores from what pods prefer: images, nodes, taints, neighbours, spreading."""

from __future__ import annotations

from typing import Any

import pytest

from plugins.nodeorder.plugin import ARGUMENTS, build
from tests.plugins.clusters import HOST, ZONE, Lab
from volsched.framework.config.arguments import values_of
from volsched.model.status import TaskStatus

PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
MIB = 1024 * 1024


def lab(**weights: int) -> Lab:
    off: dict[str, Any] = {argument.key: 0 for argument in ARGUMENTS}
    return Lab(build(values_of("plugin nodeorder", ARGUMENTS, off | {f"{k}.weight": v for k, v in weights.items()})))


def image_pod(world: Lab, *images: str) -> Any:
    containers = [{"name": f"c{n}", "image": image} for n, image in enumerate(images)]
    return world.pod("p", spec={"containers": containers})


def test_images_that_a_node_has_count_by_size_and_spread() -> None:
    world = lab(imagelocality=2)
    world.node("n1", images={"web:1": 1000 * MIB, "db:latest": 500 * MIB})
    world.node("n2", images={"web:1": 1000 * MIB})
    world.node("n3")
    one, two = image_pod(world, "web:1"), image_pod(world, "web:1", "db")

    assert world.scores(one) == {"n1": 2.0 * 65, "n2": 2.0 * 65, "n3": 0.0}
    assert world.scores(two) == {"n1": 2.0 * 40, "n2": 2.0 * 32, "n3": 0.0}
    world.check_twins(two)
    world.node("n3", images={"web:1": 1000 * MIB})
    assert world.scores(one) == dict.fromkeys(("n1", "n2", "n3"), 200.0)
    world.check_twins(one)


def test_preferred_nodes_add_up_their_weights() -> None:
    world = lab(nodeaffinity=2)
    world.node("n1", labels={"disk": "ssd", "cores": "8"})
    world.node("n2", labels={"disk": "ssd"})
    world.node("n3")

    def term(weight: int, key: str, *values: str) -> dict[str, Any]:
        expression = {"key": key, "operator": "In", "values": list(values)}
        return {"weight": weight, "preference": {"matchExpressions": [expression]}}

    spec = {"affinity": {"nodeAffinity": {PREFERRED: [term(10, "disk", "ssd"), term(5, "cores", "8")]}}}
    task = world.pod("p", spec=spec)

    assert world.scores(task) == {"n1": 30.0, "n2": 20.0, "n3": 0.0}
    world.check_twins(task)


SOFT = [("a", "", "PreferNoSchedule"), ("b", "", "PreferNoSchedule"), ("c", "", "NoSchedule")]


def test_fewer_untolerated_soft_taints_are_better() -> None:
    world = lab(tainttoleration=3)
    world.node("n1", taints=SOFT)
    world.node("n2", taints=SOFT[:1])
    world.node("n3")
    task = world.pod("p")
    tolerant = world.pod("q", spec={"tolerations": [{"operator": "Exists"}]})

    assert world.scores(task) == {"n1": 0.0, "n2": 150.0, "n3": 300.0}
    assert world.scores(tolerant) == dict.fromkeys(("n1", "n2", "n3"), 300.0)
    world.check_twins(task)
    world.check_twins(tolerant)


def test_clusters_without_soft_taints_are_answered_without_looking() -> None:
    world = lab(tainttoleration=3)
    world.node("n1", taints=SOFT[2:])
    (batch,) = world.session.rules.nodes.batch_orders

    assert batch.uniform is not None
    assert batch.uniform(world.pod("p")) == 300.0
    world.node("n1", taints=SOFT)
    assert batch.uniform(world.pod("q")) == 0.0
    world.node("n2")
    assert batch.uniform(world.pod("r")) is None


def near(kind: str, weight: int, app: str, key: str = ZONE) -> dict[str, Any]:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
    return {"affinity": {kind: {PREFERRED: [{"weight": weight, "podAffinityTerm": term}]}}}


def zoned(world: Lab) -> None:
    for name, zone in (("n1", "z1"), ("n2", "z1"), ("n3", "z2"), ("n4", "z3")):
        world.node(name, labels={ZONE: zone})


def test_liked_and_disliked_neighbours() -> None:
    world = lab(podaffinity=2)
    zoned(world)
    world.pod("w1", on="n1", labels={"app": "web"})
    world.pod("w2", on="n2", labels={"app": "web"})
    world.pod("w3", on="n3", labels={"app": "web"})
    liking = world.pod("p", spec=near("podAffinity", 10, "web"))
    disliking = world.pod("q", spec=near("podAntiAffinity", 10, "web"))

    assert world.scores(liking) == {"n1": 200.0, "n2": 200.0, "n3": 100.0, "n4": 0.0}
    assert world.scores(disliking) == {"n1": 0.0, "n2": 0.0, "n3": 100.0, "n4": 200.0}
    world.check_twins(liking)
    world.check_twins(disliking)


def test_placed_pods_like_newcomers_too() -> None:
    world = lab(podaffinity=1)
    zoned(world)
    fan = world.pod("fan", on="n3", spec=near("podAffinity", 40, "web"))
    world.pod("foe", on="n4", spec=near("podAntiAffinity", 40, "web"))
    task = world.pod("p", labels={"app": "web"})

    assert world.scores(task) == {"n1": 50.0, "n2": 50.0, "n3": 100.0, "n4": 0.0}
    world.check_twins(task)
    world.move(fan, TaskStatus.SUCCEEDED, "n3")
    assert world.scores(task) == {"n1": 100.0, "n2": 100.0, "n3": 100.0, "n4": 0.0}
    assert world.session.rules.nodes.batch_orders[0].uniform is not None
    assert world.session.rules.nodes.batch_orders[0].uniform(world.pod("q", labels={"app": "db"})) == 0.0


def spread(key: str, skew: int = 1) -> dict[str, Any]:
    selector = {"matchLabels": {"app": "web"}}
    return {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": selector}


@pytest.mark.parametrize(
    ("constraints", "expected"),
    [
        ([spread(ZONE)], {"n1": 60.0, "n2": 60.0, "n3": 100.0, "n4": 80.0, "n9": 0.0}),
        ([spread(HOST)], {"n1": 42.0, "n2": 71.0, "n3": 100.0, "n4": 71.0, "n9": 14.0}),
    ],
)
def test_soft_spreading_prefers_domains_with_fewer_pods(constraints: Any, expected: dict[str, float]) -> None:
    world = lab(podtopologyspread=1)
    zoned(world)
    world.node("n9")
    for number, node in enumerate(("n1", "n1", "n2", "n4", "n9", "n9", "n9")):
        world.pod(f"w{number}", on=node, labels={"app": "web"})
    task = world.pod("p", labels={"app": "web"}, spec={"topologySpreadConstraints": constraints})

    found = world.scores(task)

    assert found.keys() == expected.keys()
    assert sorted(found, key=lambda name: (-found[name], name)) == sorted(expected, key=lambda n: (-expected[n], n))
    world.check_twins(task)
