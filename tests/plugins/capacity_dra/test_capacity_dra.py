"""Quotas of devices: what is charged, what is checked, and that accounts are exact after everything."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugins.capacity_dra.device_quotas import DeviceQuotaRules
from plugins.capacity_dra.report import DeviceReport
from plugins.capacity_dra.usage import ClaimUsage
from tests.framework.dra.worlds import asking, claim, device, device_class, exactly, first_of, part
from tests.plugins.predicates.test_devices import using
from volsched.framework.dra.amounts import Amount
from volsched.model.changes import BindFailed, Deleted, DroppedFields
from volsched.model.job import INQUEUE
from volsched.model.plan import RecordEvent
from volsched.testing.builders import ClusterBuilder, CycleDecision, Rig, a_cluster, a_rig
from volsched.testing.recount import faults

GI = 1 << 30
REASON = "InsufficientDRAQuota"


def configuration(switches: str = "", **arguments: Any) -> str:
    told = "".join(f"\n      {key}: {value}" for key, value in arguments.items())
    return f"""
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: gang
- plugins:
  - name: capacity-dra{switches and f"{chr(10)}    {switches}"}{told and f"{chr(10)}    arguments:{told}"}
  - name: predicates
"""


HIERARCHY = configuration("enableHierarchy: true")


def a_world(classes: tuple[str, ...] = ("gpu",), devices: int = 12, capacity: Any = None) -> ClusterBuilder:
    """One node with so many devices of each class, each of a driver of its own."""
    cluster = a_cluster().node("n1")
    for name in classes:
        driver = f"{name}.example.com"
        cluster.add(device_class(name, driver=driver))
        offers = [device(f"d{number:02}", capacity) for number in range(devices)]
        cluster.add(part(f"s-{name}", offers, driver=driver, pool=name))
    return cluster


def quota(**classes: Any) -> dict[str, Any]:
    """spec.dra of a queue: a number of devices, or a whole entry."""
    entries = {name: {"count": of} if isinstance(of, int) else of for name, of in classes.items()}
    return {"dra": {"capability": entries}}


def wanting(
    cluster: ClusterBuilder, name: str, *requests: Any, queue: str = "q", phase: str = INQUEUE
) -> ClusterBuilder:
    """A job of one pod with a claim of its own."""
    cluster.add(claim(name, *requests)).group(name, queue, 1, phase)
    return cluster.pod(name, name, cpu="1", spec=using(name))


def quotas_of(rig: Rig) -> DeviceQuotaRules:
    quotas: DeviceQuotaRules = rig.scheduler._accounts.get("capacity-dra.quotas", _not_made)
    return quotas


def report_of(rig: Rig) -> DeviceReport:
    report: DeviceReport = rig.scheduler._accounts.get("capacity-dra.report", _not_made)
    return report


def used(rig: Rig, queue: str) -> dict[str, int]:
    return {key.key: int(value) for key, value in quotas_of(rig).usage.account(queue).used.items()}


def _not_made(_: Any) -> Any:
    raise AssertionError("no session has run")


def events(decision: CycleDecision) -> list[tuple[str, str, str]]:
    return [(s.kind, s.type, s.reason) for s in decision.steps if isinstance(s, RecordEvent) and s.reason == REASON]


def test_the_claims_of_a_pod_are_summed_by_class() -> None:
    cluster = a_world(("h100", "hami"), capacity={"cores": "100", "memory": "16Gi"}).queue(
        "q", **quota(h100=8, hami={"count": 80, "capacity": {"cores": "800", "memory": "80Gi"}})
    )
    cluster.add(claim("c1", exactly(cls="h100", count=2)))
    cluster.add(claim("c2", exactly(cls="hami", capacity={"cores": "30", "memory": "4Gi"})))
    cluster.add(claim("c3", exactly(cls="hami", capacity={"cores": "20", "memory": "2Gi"})))
    cluster.group("p", "q").pod("p", "p", cpu="1", spec=using("c1", "c2", "c3", "c1"))
    rig = a_rig(cluster, configuration())

    assert rig.cycle().bindings == {"p": "n1"}
    assert used(rig, "q") == {
        "deviceclass/h100": 2,
        "deviceclass/hami": 2,
        "cores.deviceclass/hami": 50,
        "memory.deviceclass/hami": 6 * GI,
    }


@pytest.mark.parametrize("phase", ["Pending", INQUEUE])
@pytest.mark.parametrize(
    ("limits", "count", "capacity", "fits"),
    [
        ({"gpu": 2}, 1, {}, True),
        ({"gpu": 2}, 2, {}, True),
        ({"gpu": 1}, 2, {}, False),
        ({"gpu": 0}, 1, {}, False),
        ({"other": 0}, 3, {}, True),
        ({"gpu": {"capacity": {"memory": "16Gi"}}}, 2, {"memory": "8Gi"}, True),
        ({"gpu": {"capacity": {"memory": "15Gi"}}}, 2, {"memory": "8Gi"}, False),
        ({"gpu": {"count": 9, "capacity": {"cores": "1"}}}, 2, {"memory": "8Gi"}, True),
        ({"gpu": {"count": 9, "capacity": {"cores": "1"}}}, 2, {}, True),
    ],
)
def test_a_request_against_a_quota(phase: str, limits: Any, count: int, capacity: Any, fits: bool) -> None:
    cluster = a_world(capacity={"memory": "16Gi", "cores": "100"}).queue("q", **quota(**limits))
    rig = a_rig(wanting(cluster, "p", exactly(count=count, capacity=capacity), phase=phase), configuration())

    decision = rig.cycle()

    assert bool(decision.bindings) is fits
    if not fits:
        told = events(decision)
        assert ("PodGroup", "Warning", REASON) in told
        assert 'queue "q" has insufficient DRA quota: DeviceClass gpu' in decision.waiting["p"]
        assert ("Pod", "Warning", REASON) in told


def test_the_refusal_has_all_numbers() -> None:
    cluster = a_world().queue("q", **quota(gpu=3))
    wanting(cluster, "a", exactly(count=2))
    wanting(cluster, "b", exactly(count=2))
    rig = a_rig(cluster, configuration())

    decision = rig.cycle()

    assert decision.bindings == {"a": "n1"}
    assert decision.waiting == {
        "b": 'queue "q" has insufficient DRA quota: DeviceClass gpu: requested 2, used 2, total would be 4, '
        "but capability is 3"
    }


def test_a_shared_claim_counts_once_and_until_its_last_user_is_gone() -> None:
    cluster = a_world().queue("q", **quota(gpu=4)).add(claim("c", exactly(count=3)))
    cluster.group("a", "q", 2).pod("a-0", "a", cpu="1", spec=using("c")).pod("a-1", "a", cpu="1", spec=using("c"))
    rig = a_rig(wanting(cluster, "b", exactly(count=2)), configuration())

    first = rig.cycle()
    assert sorted(first.bindings) == ["a-0", "a-1"]
    assert used(rig, "q") == {"deviceclass/gpu": 3}
    assert "requested 2, used 3" in first.waiting["b"]

    rig.cycle(Deleted("Pod", "default", "a-0", "pod-default-a-0"))
    assert used(rig, "q") == {"deviceclass/gpu": 3}
    last = rig.cycle(Deleted("Pod", "default", "a-1", "pod-default-a-1"))
    assert last.bindings == {"b": "n1"}
    assert used(rig, "q") == {"deviceclass/gpu": 2}


def a_tree(cluster: ClusterBuilder, **children: Any) -> ClusterBuilder:
    cluster.queue("dept", **quota(gpu=4))
    for name, spec in children.items():
        cluster.queue(name, parent="dept", **spec)
    return cluster


def test_every_queue_above_counts_when_hierarchy_is_on() -> None:
    def world() -> ClusterBuilder:
        cluster = a_tree(a_world(), a=quota(gpu=3), b=quota(gpu=3))
        wanting(cluster, "a", exactly(count=3), queue="a")
        return wanting(cluster, "b", exactly(count=2), queue="b")

    on, off = a_rig(world(), HIERARCHY), a_rig(world(), configuration())
    decision = on.cycle()

    assert decision.bindings == {"a": "n1"}
    assert 'queue "dept" has insufficient DRA quota' in decision.waiting["b"]
    assert sorted(off.cycle().bindings) == ["a", "b"]
    assert used(off, "dept") == {"deviceclass/gpu": 5}


def test_a_claim_used_in_two_leaves_counts_once_above() -> None:
    cluster = a_tree(a_world(), a={}, b={}).add(claim("c", exactly(count=3)))
    cluster.group("a", "a").pod("a", "a", cpu="1", on="n1", spec=using("c"))
    cluster.group("b", "b").pod("b", "b", cpu="1", on="n1", spec=using("c"))
    rig = a_rig(cluster, HIERARCHY)
    rig.cycle()

    assert [used(rig, name) for name in ("a", "b", "dept", "root")] == [{"deviceclass/gpu": 3}] * 4


def test_a_queue_with_queues_below_it_takes_no_pods_with_claims() -> None:
    cluster = wanting(a_tree(a_world(), a={}), "p", exactly(), queue="dept", phase="Pending")

    assert "has queues below it" in a_rig(cluster, HIERARCHY).cycle().waiting["p"]


@pytest.mark.parametrize(
    ("request_", "arguments", "charged"),
    [
        (exactly(allocationMode="All"), {}, {"deviceclass/gpu": 3}),
        (first_of("r", asking("a", "false", count=2), asking("b", count=1)), {}, {"deviceclass/gpu": 1}),
        (exactly(adminAccess=True, count=2), {}, {}),
        (exactly(adminAccess=True, count=2), {"chargeAdminAccess": "true"}, {"deviceclass/gpu": 2}),
    ],
)
def test_devices_that_are_chosen_are_what_counts(request_: Any, arguments: Any, charged: dict[str, int]) -> None:
    cluster = a_world(devices=3).queue("q", **quota(gpu=3))
    rig = a_rig(wanting(cluster, "p", request_), configuration(**arguments))

    assert rig.cycle().bindings == {"p": "n1"}
    assert used(rig, "q") == charged


def test_all_devices_of_a_node_may_be_too_many() -> None:
    cluster = a_world(devices=5).queue("q", **quota(gpu=4))
    rig = a_rig(wanting(cluster, "p", exactly(allocationMode="All")), configuration())

    decision = rig.cycle()

    assert "requested 5, used 0, total would be 5, but capability is 4" in decision.waiting["p"]
    assert used(rig, "q") == {}
    assert rig.cluster.devices.ledger.taken == {}
    assert faults(rig.cluster) == []


def test_a_shared_device_counts_with_what_it_consumes() -> None:
    policy = {"value": "40Gi", "requestPolicy": {"default": "1Gi", "validRange": {"min": "1Gi", "step": "1Gi"}}}
    shared = device("v0", {"memory": policy}, more={"allowMultipleAllocations": True})
    cluster = a_cluster().node("n1").add(device_class()).add(part("s", [shared]))
    cluster.queue("q", **quota(gpu={"count": 9, "capacity": {"memory": "5Gi"}}))
    rig = a_rig(wanting(cluster, "p", exactly(capacity={"memory": "2500Mi"})), configuration())

    rig.cycle()

    assert used(rig, "q") == {"deviceclass/gpu": 1, "memory.deviceclass/gpu": 3 * GI}


@pytest.mark.parametrize(
    ("arguments", "capacity", "cls", "fits"),
    [
        ({"draStrictCapacity": "true"}, {"memory": "1Gi"}, "gpu", False),
        ({"draStrictCapacity": "true"}, {}, "gpu", True),
        ({"capacity-dra.unlistedClasses": "deny"}, {}, "nic", False),
        ({"capacity-dra.unlistedClasses": "allow"}, {}, "nic", True),
        ({"dynamicResourceAllocationEnable": "false"}, {}, "none", True),
        ({"capacity.DynamicResourceAllocationEnable": "false"}, {}, "none", True),
        ({}, {}, "none", False),
    ],
)
def test_what_the_plugin_can_be_told(arguments: Any, capacity: Any, cls: str, fits: bool) -> None:
    world = a_world(("gpu", "nic", "none"), capacity={"memory": "16Gi"}).queue("q", **quota(gpu=9, none=0))
    cluster = wanting(world, "p", exactly(cls=cls, capacity=capacity))

    assert bool(a_rig(cluster, configuration(**arguments)).cycle().bindings) is fits


def test_without_dimensions_only_devices_count() -> None:
    cluster = a_world(capacity={"memory": "16Gi"}).queue("q", **quota(gpu={"count": 2, "capacity": {"memory": "1Gi"}}))
    arguments = configuration(draConsumableCapacityEnable="false")
    rig = a_rig(wanting(cluster, "p", exactly(count=2, capacity={"memory": "8Gi"})), arguments)

    assert rig.cycle().bindings == {"p": "n1"}
    shown = report_of(rig).amounts(rig.cluster.queues["q"])
    assert shown.allocated == shown.capability == {"deviceclass/gpu": 2000}


def test_admitted_jobs_reserve_what_they_need_to_start() -> None:
    cluster = a_world().queue("q", **quota(gpu=4))
    cluster.objects[0]["spec"] = {"unschedulable": True}
    wanting(cluster, "a", exactly(count=3), phase="Pending")
    wanting(cluster, "b", exactly(count=2), phase="Pending")
    rig = a_rig(cluster, configuration())

    decision = rig.cycle()

    assert rig.cluster.jobs["default/a"].phase == INQUEUE
    assert rig.cluster.jobs["default/b"].phase != INQUEUE
    assert "dra-resource-exceeded" in decision.waiting["b"]
    assert "requested 2, used 3" in decision.waiting["b"]


@pytest.mark.parametrize("order", ["proportion capacity-dra", "capacity-dra proportion"])
def test_a_job_that_lacks_cores_and_devices_is_told_both(order: str) -> None:
    first, second = order.split()
    text = configuration().replace("  - name: capacity-dra\n", f"  - name: {first}\n  - name: {second}\n")
    cluster = a_world().queue("q", capability={"cpu": "1"}, **quota(gpu=1)).add(claim("p", exactly(count=2)))
    cluster.group("p", "q", 1, "Pending", minResources={"cpu": "2"}).pod("p", "p", cpu="2", spec=using("p"))

    message = a_rig(cluster, text).cycle().waiting["p"]

    assert "insufficient cpu" in message
    assert "dra-resource-exceeded" in message


def test_a_gang_needs_the_smallest_of_its_pods_and_a_shared_claim_once() -> None:
    cluster = a_world().queue("q", **quota(gpu=4)).add(claim("shared", exactly(count=1)))
    cluster.group("g", "q", 2, "Pending")
    for number, count in enumerate((4, 1, 2)):
        cluster.add(claim(f"c{number}", exactly(count=count)))
        cluster.pod(f"g-{number}", "g", cpu="1", spec=using(f"c{number}", "shared"))
    rig = a_rig(cluster, configuration())

    rig.cycle()

    assert rig.cluster.jobs["default/g"].phase in (INQUEUE, "Running")


def test_wrong_quotas_are_told_once_on_the_queue() -> None:
    cluster = a_world().queue("q", **quota(gpu=-1))
    rig = a_rig(wanting(cluster, "p", exactly()), configuration())

    first, second = rig.cycle(), rig.cycle()

    assert [s.name for s in first.steps if isinstance(s, RecordEvent) and s.reason == "InvalidDRAQuota"] == ["q"]
    assert [s for s in second.steps if isinstance(s, RecordEvent) and s.reason == "InvalidDRAQuota"] == []


def test_wrong_quotas_of_a_queue_that_is_made_anew_are_told_again() -> None:
    made = a_cluster().queue("q", **quota(gpu=-1))
    rig = a_rig(a_world(), configuration())

    told = [
        [
            step.name
            for step in rig.cycle(*changes).steps
            if isinstance(step, RecordEvent) and step.reason == "InvalidDRAQuota"
        ]
        for changes in (made.changes(), [Deleted("Queue", "", "q", "queue--q")], made.changes())
    ]

    assert told == [["q"], [], ["q"]]
    assert quotas_of(rig).limits._quotas.keys() <= rig.cluster.queues.keys()


@pytest.mark.parametrize(("dropped", "told"), [({"spec.dra"}, ["default"]), (set(), []), (None, [])])
def test_that_the_cluster_drops_quotas_is_told_once_and_on_one_queue(dropped: set[str] | None, told: list[str]) -> None:
    cluster = a_world().queue("default").queue("q", capability={"deviceclass/gpu": 1})
    rig = a_rig(wanting(cluster, "p", exactly()), configuration())
    rig.mirror.apply([] if dropped is None else [DroppedFields("Queue", frozenset(dropped))])

    first, second = rig.cycle(), rig.cycle()

    said = [[(s.name, s.message) for s in d.steps if isinstance(s, RecordEvent) and s.reason == "InvalidDRAQuota"]
            for d in (first, second)]  # fmt: skip
    assert [name for name, _ in said[0]] == told
    assert all(message.startswith("spec.dra of every Queue is lost: ") for _, message in said[0])
    assert said[1] == []


def test_numbers_are_shown_by_queue_class_and_dimension() -> None:
    cluster = a_world().queue("q", **quota(gpu=4))
    report = a_rig(wanting(cluster, "p", exactly(count=3)), configuration()).cycle().report

    shown = {series.name: dict(numbers) for series, numbers in report.series}
    assert shown["volcano_queue_dra_capacity"] == {("q", "gpu", "count"): 4.0}
    assert shown["volcano_queue_dra_allocated"] == {("q", "gpu", "count"): 3.0, ("root", "gpu", "count"): 3.0}


@given(
    pods=st.lists(
        st.tuples(st.sampled_from("ab"), st.lists(st.integers(0, 3), min_size=1, max_size=3, unique=True)), max_size=6
    ),
    counts=st.lists(st.integers(1, 3), min_size=4, max_size=4),
    limits=st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(0, 8)),
    leaving=st.lists(st.integers(0, 5), max_size=4),
)
def test_accounts_are_those_that_are_counted_anew_and_no_quota_is_passed(
    pods: list[tuple[str, list[int]]], counts: list[int], limits: tuple[int, int, int], leaving: list[int]
) -> None:
    """Claims shared at random over pods and queues; some bindings fail, some pods go."""
    cluster = a_world().queue("dept", **quota(gpu=limits[2]))
    for name, limit in zip("ab", limits, strict=False):
        cluster.queue(name, parent="dept", **quota(gpu=limit))
    for number, count in enumerate(counts):
        cluster.add(claim(f"c{number}", exactly(count=count)))
    for number, (queue, claims) in enumerate(pods):
        cluster.group(f"j{number}", queue).pod(
            f"p{number}", f"j{number}", cpu="1", spec=using(*(f"c{c}" for c in claims))
        )
    rig = a_rig(cluster, HIERARCHY)
    rig.cycle()
    for number in leaving:
        failed = BindFailed(f"pod-default-p{number}", "n1", "no", rig.clock.now() + 1)
        rig.cycle(failed if number % 2 else Deleted("Pod", "default", f"p{number}", f"pod-default-p{number}"))

    again = ClaimUsage(rig.cluster, with_admin=False)
    for name, limit in zip(("a", "b", "dept"), limits, strict=True):
        now = used(rig, name)
        assert now == {key.key: int(value) for key, value in again.account(name).used.items()}
        assert now.get("deviceclass/gpu", 0) <= limit
    for task in list(rig.cluster.tasks.values()):
        rig.cycle(Deleted("Pod", task.namespace, task.name, task.uid))
    assert used(rig, "root") == {}
    assert faults(rig.cluster) == []


def test_an_amount_has_the_name_that_volcano_gives_it() -> None:
    assert Amount("gpu").key == "deviceclass/gpu"
    assert Amount("gpu", "memory").key == "memory.deviceclass/gpu"


def test_an_alternative_within_the_quota_is_taken_before_one_that_is_not() -> None:
    cluster = a_world(("gpu", "nic")).queue("q", **quota(gpu=1))
    wish = first_of("r", asking("a", count=2), asking("b", cls="nic", count=3))
    rig = a_rig(wanting(cluster, "p", wish), configuration())

    assert rig.cycle().bindings == {"p": "n1"}
    assert used(rig, "q") == {"deviceclass/nic": 3}


def test_a_node_within_the_quota_is_taken_before_one_that_is_not() -> None:
    cluster = a_world(devices=5).node("n2").queue("q", **quota(gpu=4))
    driver = "gpu.example.com"
    cluster.add(part("s2", [device("d0"), device("d1")], node="n2", driver=driver, pool="n2"))
    rig = a_rig(wanting(cluster, "p", exactly(allocationMode="All")), configuration())

    assert rig.cycle().bindings == {"p": "n2"}
    assert used(rig, "q") == {"deviceclass/gpu": 2}


EXTENDED = "example.com/gpu"


def with_extended_resource(own: int = 0) -> ClusterBuilder:
    """One node with twelve devices, of which two may be held, and one that offers so many of the resource itself."""
    cluster = a_world().queue("q", **quota(gpu=2)).node("n2", **({EXTENDED: own} if own else {}))
    found = device_class("gpu", driver="gpu.example.com", extendedResourceName=EXTENDED)
    return cluster.add({**found, "metadata": {"name": "gpu"}})


def test_devices_for_extended_resources_count_under_their_class() -> None:
    cluster = with_extended_resource()
    for name in "abc":
        cluster.group(name, "q").pod(name, name, cpu="1", **{EXTENDED: 1})
    rig = a_rig(cluster, configuration())

    decision = rig.cycle()

    assert len(decision.bindings) == 2
    assert used(rig, "q") == {"deviceclass/gpu": 2}
    assert "requested 1, used 2, total would be 3, but capability is 2" in next(iter(decision.waiting.values()))
    failed = next(iter(decision.bindings))
    rig.mirror.apply([BindFailed(f"pod-default-{failed}", "n1", "no", rig.clock.now() + 60)])
    assert used(rig, "q") == {"deviceclass/gpu": 1}


def test_extended_resources_that_nodes_offer_themselves_are_no_devices() -> None:
    cluster = with_extended_resource(own=3).group("a", "q", 3)
    for number in range(3):
        cluster.pod(
            f"a-{number}", "a", cpu="1", spec={"nodeSelector": {"kubernetes.io/hostname": "n2"}}, **{EXTENDED: 1}
        )
    rig = a_rig(cluster, configuration())

    assert len(rig.cycle().bindings) == 3
    assert used(rig, "q") == {}


def test_a_gang_with_extended_resources_beyond_its_quota_is_not_admitted() -> None:
    cluster = with_extended_resource().group("a", "q", 3, "Pending")
    for number in range(3):
        cluster.pod(f"a-{number}", "a", cpu="1", **{EXTENDED: 1})
    rig = a_rig(cluster, configuration())

    assert rig.cycle().bindings == {}
    assert rig.cluster.jobs["default/a"].phase == "Pending"
