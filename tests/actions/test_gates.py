"""Volcano's gate: as many pods are let in as their queue has room for, and these count there until they have a node."""

from __future__ import annotations

from typing import Any

import pytest

from tests.framework.dra.worlds import claim, device, device_class, exactly, part
from tests.plugins.predicates.test_devices import using
from volsched.model.changes import Change, Deleted, Put
from volsched.model.plan import LiftGate
from volsched.model.pods.task import ADMISSION_GATE, UNGATED
from volsched.testing.builders import ClusterBuilder, CycleDecision, Rig, a_cluster, a_node, a_rig, put
from volsched.testing.recount import faults

GATED = {"schedulingGates": [{"name": ADMISSION_GATE}]}
NOWHERE = {"nodeSelector": {"zone": "nowhere"}}
A, H = "NVIDIA-A100", "NVIDIA-H100"


def configuration(plugin: str, hierarchy: bool = False) -> str:
    switches = "\n    enableHierarchy: true" if hierarchy else ""
    return f"""
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: gang
- plugins:
  - name: {plugin}{switches}
  - name: predicates
"""


class World:
    """Pods of one cpu behind the gate, each a job of its own; gates go when the scheduler lifts them."""

    def __init__(self, cluster: ClusterBuilder, plugin: str = "proportion", **more: Any) -> None:
        self.rig: Rig = a_rig(cluster, configuration(plugin, **more))
        self.lifted: list[str] = []

    def cycle(self, *changes: Change) -> CycleDecision:
        """Decide; what was lifted is noted."""
        decision = self.rig.cycle(*changes)
        self.lifted = sorted(step.name for step in decision.steps if isinstance(step, LiftGate))
        assert faults(self.rig.cluster) == []
        return decision


def a_queue(cpu: int, **spec: Any) -> ClusterBuilder:
    return a_cluster().node("n1", cpu="8").queue("q", capability={"cpu": str(cpu)}, **spec)


def gated(cluster: ClusterBuilder, *names: str, queue: str = "q", spec: Any = None, **requests: Any) -> ClusterBuilder:
    for name in names:
        cluster.group(name, queue).pod(name, name, spec={**GATED, **(spec or {})}, **{"cpu": "1", **requests})
    return cluster


def opened(name: str, *, spec: Any = None, annotations: Any = None, is_told: bool = True, **requests: Any) -> Put:
    """The pod as it is once its gate was lifted; by somebody else if nothing tells so."""
    pod = a_cluster().pod(name, name, spec=spec, annotations=annotations, **{"cpu": "1", **requests})
    if is_told:
        pod.objects[0]["status"]["conditions"] = [{"type": UNGATED, "status": "True"}]
    pod.objects[0]["metadata"]["resourceVersion"] = "2"
    return put(pod.objects[0])


def gone(name: str) -> Deleted:
    return Deleted("Pod", "default", name, f"pod-default-{name}")


@pytest.mark.parametrize("plugin", ["proportion", "capacity"])
def test_of_two_pods_one_is_let_in_where_one_fits(plugin: str) -> None:
    world = World(gated(a_queue(1), "a", "b"), plugin)

    world.cycle()
    assert world.lifted == ["a"]
    assert world.cycle().bindings == {}
    assert world.lifted == []

    assert world.cycle(opened("a")).bindings == {"a": "n1"}
    assert world.lifted == []
    world.cycle(gone("a"))
    assert world.lifted == ["b"]


@pytest.mark.parametrize("plugin", ["proportion", "capacity"])
@pytest.mark.parametrize("others", [[], ["a pod without a gate"]])
def test_a_pod_that_was_let_in_and_finds_no_node_keeps_the_room_until_it_goes(others: list[str], plugin: str) -> None:
    cluster = gated(a_queue(1), "a", spec=NOWHERE)
    world = World(cluster, plugin)
    world.cycle()
    assert world.lifted == ["a"]

    late = ClusterBuilder()
    if others:
        late.group("b", "q").pod("b", "b", cpu="1")
    else:
        gated(late, "b")
    decision = world.cycle(opened("a", spec=NOWHERE), *late.changes())
    assert (decision.bindings, world.lifted) == ({}, [])
    assert "nodes are available" in decision.waiting["a"]
    assert "cpu: requested 1, used 1" in decision.waiting["b"]

    decision = world.cycle(gone("a"))
    assert (list(decision.bindings) or world.lifted) == ["b"]


def test_who_follows_counts_those_that_another_let_in() -> None:
    cluster = gated(a_queue(2), "b", "c").group("a", "q")
    world = World(cluster)
    world.rig.mirror.apply([opened("a", spec=NOWHERE)])

    world.cycle()

    assert world.lifted == ["b"]


def test_who_has_followed_for_long_counts_those_that_another_lets_in_meanwhile() -> None:
    world = World(gated(gated(a_queue(2), "a", spec=NOWHERE), "b", "c"))
    world.rig.mirror.apply([opened("a", spec=NOWHERE)])

    world.cycle()

    assert world.lifted == ["b"]


@pytest.mark.parametrize("annotations", [{}, {"volsched.io/ungated": "true", UNGATED: "True"}])
def test_a_pod_whose_gate_others_took_away_counts_for_nothing_until_it_has_a_node(annotations: dict[str, str]) -> None:
    world = World(gated(a_queue(1), "b").group("a", "q"))
    world.rig.mirror.apply([opened("a", spec=NOWHERE, annotations=annotations, is_told=False)])

    world.cycle()

    assert world.lifted == ["b"]


@pytest.mark.parametrize("plugin", ["proportion", "capacity"])
def test_pods_that_were_let_in_do_not_keep_one_another_out_when_the_quota_shrinks(plugin: str) -> None:
    world = World(gated(a_queue(2), "a", "b"), plugin)
    world.cycle()
    assert world.lifted == ["a", "b"]

    decision = world.cycle(put(a_queue(1).objects[1]), opened("a"), opened("b"))

    assert len(decision.bindings) == 1
    assert world.rig.cluster.queue_cache.ungated == {}


def test_a_job_that_moves_takes_what_its_pods_count_for_along() -> None:
    cluster = gated(a_queue(1), "a", spec=NOWHERE).queue("r", capability={"cpu": "1"})
    world = World(cluster)
    world.cycle()
    assert world.rig.cluster.queue_cache.ungated == {"q": {"cpu": 1000, "pods": 1}}

    moved = a_cluster().group("a", "r")
    world.cycle(*moved.changes())

    assert world.rig.cluster.queue_cache.ungated == {"r": {"cpu": 1000, "pods": 1}}
    assert faults(world.rig.cluster) == []


def test_over_a_hierarchy_a_pod_that_was_let_in_counts_above_its_queue_too() -> None:
    cluster = a_queue(8, parent="dept").queue("dept", capability={"cpu": "1"}).queue("r", parent="dept")
    gated(cluster, "a", spec=NOWHERE)
    world = World(gated(cluster, "b", queue="r"), "capacity", hierarchy=True)

    world.cycle()
    assert world.lifted == ["a"]
    world.cycle(opened("a", spec=NOWHERE))
    assert world.lifted == []
    world.cycle(gone("a"))
    assert world.lifted == ["b"]


def test_a_gate_that_is_being_lifted_is_lifted_once() -> None:
    world = World(gated(a_queue(2), "a"))
    world.cycle()
    assert world.lifted == ["a"]

    gated(late := ClusterBuilder(), "b")
    world.cycle(*late.changes())

    assert world.lifted == ["b"]


def cards(node: str, model: str) -> dict[str, Any]:
    labels = {"nvidia.com/gpu.product": model, "nvidia.com/gpu.memory": "1", "nvidia.com/gpu.count": "4"}
    return a_node(node, labels=labels, **{"nvidia.com/gpu": 4})


@pytest.mark.parametrize("hierarchy", [False, True])
def test_cards_are_counted_too_each_of_a_list_as_long_as_its_quota_lasts(hierarchy: bool) -> None:
    quota = f'{{"{A}": 1, "{H}": 1}}'
    cluster = a_cluster().add(cards("n1", A)).add(cards("n2", H)).queue("dept")
    notes = {"volcano.sh/card.quota": quota}
    cluster.queue("q", notes, capability={"cpu": "100", "memory": "1Ti"}, parent="dept")
    for name in "abc":
        cluster.group(name, "q")
        cluster.pod(
            name, name, cpu="1", spec=GATED, annotations={"volcano.sh/card.name": f"{A}|{H}"}, **{"nvidia.com/gpu": 1}
        )
    world = World(cluster, "capacity-card", hierarchy=hierarchy)

    world.cycle()
    assert world.lifted == ["a", "b"]

    card = {"volcano.sh/card.name": f"{A}|{H}"}
    decision = world.cycle(*(opened(name, annotations=card, **{"nvidia.com/gpu": 1}) for name in "ab"))
    assert sorted(decision.bindings) == ["a", "b"]
    assert world.lifted == []
    world.cycle(gone("b"))
    assert world.lifted == ["c"]


def test_devices_of_claims_are_counted_too() -> None:
    driver = "gpu.example.com"
    cluster = a_cluster().node("n1").add(device_class("gpu", driver=driver))
    cluster.add(part("s", [device(f"d{number}") for number in range(4)], driver=driver))
    cluster.queue("q", dra={"capability": {"gpu": {"count": 2}}})
    for name in "abc":
        cluster.add(claim(name, exactly())).group(name, "q").pod(name, name, cpu="1", spec={**GATED, **using(name)})
    world = World(cluster, "capacity-dra")

    world.cycle()
    assert world.lifted == ["a", "b"]

    decision = world.cycle(*(opened(name, spec=using(name)) for name in "ab"))
    assert (sorted(decision.bindings), world.lifted) == (["a", "b"], [])
    world.cycle(gone("b"), Deleted("ResourceClaim", "default", "b", "uid-b"))
    assert world.lifted == ["c"]


EXTENDED = "example.com/gpu"


def with_devices(limit: int) -> ClusterBuilder:
    """A node with four devices that a DeviceClass offers as an extended resource; the queue may have some of them."""
    quota = {"dra": {"capability": {"gpu": {"count": limit}}}}
    found = device_class("gpu", driver="gpu.example.com", extendedResourceName=EXTENDED)
    offers = part("s", [device(f"d{number}") for number in range(4)], driver="gpu.example.com", pool="gpu")
    return a_cluster().node("n1").add(found).add(offers).queue("q", **quota)


def test_extended_resources_that_devices_serve_count_as_soon_as_their_pod_is_let_in() -> None:
    world = World(gated(with_devices(2), "a", "b", "c", **{EXTENDED: "1"}), "capacity-dra")

    world.cycle()
    assert world.lifted == ["a", "b"]
    world.cycle()
    assert world.lifted == []

    decision = world.cycle(*(opened(name, **{EXTENDED: "1"}) for name in "ab"))
    assert (sorted(decision.bindings), world.lifted) == (["a", "b"], [])
    world.cycle(gone("b"))
    assert world.lifted == ["c"]


def test_extended_resources_of_an_open_pod_without_a_node_keep_others_out() -> None:
    given = gated(with_devices(3), "a", spec=NOWHERE, **{EXTENDED: "2"})
    world = World(gated(given, "b", **{EXTENDED: "2"}), "capacity-dra")
    world.cycle()
    world.cycle(opened("a", spec=NOWHERE, **{EXTENDED: "2"}))
    assert world.lifted == []

    offering = a_node("n2", **{EXTENDED: "1"})
    world.cycle(put(offering))
    assert world.lifted == ["b"], "what a node offers itself is no device"
