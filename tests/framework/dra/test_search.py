"""Which devices claims get: rules and open cases of the allocation, as tables."""

from __future__ import annotations

from typing import Any

import pytest

from tests.framework.dra.worlds import (
    DRIVER,
    allocate,
    asking,
    claim,
    device,
    device_class,
    devices_of,
    exactly,
    first_of,
    given,
    held,
    part,
    search,
)
from volsched.framework.dra.search import Impossible, Unfit
from volsched.model import api

MEMORY = f'device.capacity["{DRIVER}"].memory.compareTo(quantity("%s")) >= 0'
BIG, SMALL = MEMORY % "80Gi", MEMORY % "40Gi"
CARDS = part("s", [device("d1", {"memory": "80Gi"}), device("d2", {"memory": "40Gi"})])
THREE = part("s", [device("d1", numa=0), device("d2", numa=0), device("d3", numa=1)])
NUMA = {"requests": ["a", "b"], "matchAttribute": f"{DRIVER}/numa"}
NOT_NUMA = {"requests": ["a", "b"], "distinctAttribute": f"{DRIVER}/numa"}


def on_node(name: str) -> api.NodeSelector:
    only = api.LabelSelectorRequirement("metadata.name", "In", (name,))
    return api.NodeSelector((api.NodeSelectorTerm(match_fields=(only,)),))


def test_a_later_request_may_need_what_an_earlier_one_took_first() -> None:
    world = devices_of(device_class(), CARDS, claim("c", exactly("small", SMALL), exactly("big", BIG)))

    (allocation,) = allocate(world, "c")

    assert [(r.request, r.device) for r in allocation.devices.results] == [("small", "d2"), ("big", "d1")]
    assert allocation.node_selector == on_node("n1")


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (exactly(allocationMode="All"), None),
        (exactly(allocationMode="All", adminAccess=True), ["d1", "d2", "d3"]),
        (exactly(count=2), ["d1", "d3"]),
        (exactly(count=3), None),
        (exactly(), ["d1"]),
    ],
)
def test_devices_that_others_have(request_: dict[str, Any], expected: list[str] | None) -> None:
    world = devices_of(device_class(), THREE, held("other", "d2"), claim("c", request_))

    assert given(world, "c") == ({"r0": expected} if expected else Unfit())


def test_an_administrator_is_told_so_and_uses_nothing_up() -> None:
    world = devices_of(
        device_class(), THREE, held("admin", "d1", adminAccess=True), claim("c", exactly(adminAccess=True))
    )

    (allocation,) = allocate(world, "c")

    assert allocation.devices.results[0].admin_access is True
    assert world.usage.taken == {}


def test_the_second_alternative_when_the_first_leaves_nothing_to_a_later_request() -> None:
    wish = first_of("r0", asking("a", BIG), asking("b", SMALL))
    world = devices_of(device_class(), CARDS, claim("c", wish, exactly("r1", BIG)))

    assert given(world, "c") == {"r0/b": ["d2"], "r1": ["d1"]}


@pytest.mark.parametrize(
    ("constraint", "expected"),
    [(NUMA, {"a": ["d1"], "b": ["d2"]}), (NOT_NUMA, {"a": ["d1"], "b": ["d3"]})],
)
def test_what_devices_have_in_common(constraint: dict[str, Any], expected: dict[str, list[str]]) -> None:
    world = devices_of(device_class(), THREE, claim("c", exactly("a"), exactly("b"), constraints=[constraint]))

    assert given(world, "c") == expected


def test_all_devices_of_a_request_are_distinct() -> None:
    everywhere = {"distinctAttribute": f"{DRIVER}/numa"}
    world = devices_of(device_class(), THREE, claim("c", exactly(count=2), constraints=[everywhere]))
    too_many = devices_of(device_class(), THREE, claim("c", exactly(count=3), constraints=[everywhere]))

    assert given(world, "c") == {"r0": ["d1", "d3"]}
    assert given(too_many, "c") == Unfit()


def test_a_constraint_may_be_about_one_alternative() -> None:
    nic = part("n", [device("e1", **{f"{DRIVER}/numa": 1})], pool="q", driver="nic.example.com")
    gpus = part("s", [device("d1", numa=0), device("d2", numa=1)])
    constraint = {"requests": ["g/a", "n"], "matchAttribute": f"{DRIVER}/numa"}
    wanted = claim("c", first_of("g", asking("a")), exactly("n", cls="nic"), constraints=[constraint])
    world = devices_of(device_class(), device_class("nic", driver="nic.example.com"), gpus, nic, wanted)

    assert given(world, "c") == {"g/a": ["d2"], "n": ["q/e1"]}


MEMORY_POLICY = {
    "value": "40Gi",
    "requestPolicy": {"default": "1Gi", "validRange": {"min": "1Gi", "step": "1Gi", "max": "16Gi"}},
}
CORES_POLICY = {"value": "100", "requestPolicy": {"default": "10", "validValues": ["10", "25", "50", "100"]}}
SHARED = device("v0", {"memory": MEMORY_POLICY, "cores": CORES_POLICY}, more={"allowMultipleAllocations": True})


@pytest.mark.parametrize(
    ("wanted", "taken"),
    [
        ({"memory": "2500Mi", "cores": "20"}, {"memory": "3Gi", "cores": "25"}),
        ({}, {"memory": "1Gi", "cores": "10"}),
        ({"memory": "16Gi", "cores": "100"}, {"memory": "16Gi", "cores": "100"}),
        ({"memory": "1"}, {"memory": "1Gi", "cores": "10"}),
        ({"memory": "17Gi"}, None),
        ({"cores": "101"}, None),
        ({"threads": "1"}, None),
    ],
)
def test_what_a_request_takes_of_a_shared_device(wanted: dict[str, str], taken: dict[str, str] | None) -> None:
    world = devices_of(device_class(), part("s", [SHARED]), claim("c", exactly(capacity=wanted)))

    if taken is None:
        assert given(world, "c") == Unfit()
        return
    (allocation,) = allocate(world, "c")
    (result,) = allocation.devices.results
    assert result.share_id
    assert result.consumed_capacity == taken


def test_one_request_has_a_shared_device_once_and_two_requests_twice() -> None:
    once = devices_of(device_class(), part("s", [SHARED]), claim("c", exactly(count=2, capacity={"memory": "1Gi"})))
    twice = devices_of(
        device_class(),
        part("s", [SHARED]),
        claim("c", exactly("a", capacity={"memory": "1Gi"}), exactly("b", capacity={"memory": "1Gi"})),
    )

    (allocation,) = allocate(twice, "c")

    assert given(once, "c") == Unfit()
    assert [r.device for r in allocation.devices.results] == ["v0", "v0"]
    assert len({r.share_id for r in allocation.devices.results}) == 2


def test_a_shared_device_is_full_some_day() -> None:
    taken = {"memory": "30Gi", "cores": "10"}
    other = held("other", "v0", shareID="s1", consumedCapacity=taken)
    world = devices_of(device_class(), part("s", [SHARED]), other, claim("c", exactly(capacity={"memory": "10Gi"})))
    more = devices_of(device_class(), part("s", [SHARED]), other, claim("c", exactly(capacity={"memory": "11Gi"})))

    assert given(world, "c") == {"r0": ["v0"]}
    assert given(more, "c") == Unfit()


ZONE = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z1"]}]}]}
EVERYWHERE = part("b", [device("d1")], node=None, pool="pb", allNodes=True)


@pytest.mark.parametrize(
    ("slices", "count", "selector"),
    [
        (
            [part("a", [device("d1")], node=None, pool="pa", nodeSelector=ZONE), EVERYWHERE],
            2,
            api.NodeSelector((api.NodeSelectorTerm((api.LabelSelectorRequirement("zone", "In", ("z1",)),)),)),
        ),
        (
            [
                part("a", [device("d1")], node=None, pool="pa", nodeSelector=ZONE),
                part("b", [device("d1")], pool="pb"),
            ],
            2,
            on_node("n1"),
        ),
        ([EVERYWHERE], 1, None),
        ([part("b", [device("d1", more={"bindsToNode": True})], node=None, allNodes=True)], 1, on_node("n1")),
    ],
)
def test_from_which_nodes_the_devices_can_be_used(slices: list[Any], count: int, selector: Any) -> None:
    world = devices_of(device_class(), *slices, claim("c", exactly(count=count)))

    (allocation,) = allocate(world, "c", labels={"zone": "z1"})

    assert allocation.node_selector == selector


def test_each_device_may_have_its_own_nodes() -> None:
    devices = [
        device("d1", more={"nodeName": "n2"}),
        device("d2", more={"nodeSelector": ZONE}),
        device("d3", more={"allNodes": True}),
    ]
    world = devices_of(
        device_class(), part("s", devices, node=None, perDeviceNodeSelection=True), claim("c", exactly())
    )

    assert given(world, "c", node="n1", labels={"zone": "z1"}) == {"r0": ["d2"]}
    assert given(world, "c", node="n2") == {"r0": ["d1"]}
    assert given(world, "c", node="n3") == {"r0": ["d3"]}


def test_a_selector_that_fails_is_no_no() -> None:
    reads = f'device.attributes["{DRIVER}"].model == "x"'
    careful = f'has(device.attributes["{DRIVER}"].model) && {reads}'
    world = devices_of(device_class(), CARDS, claim("c", exactly("r0", reads)), claim("d", exactly("r0", careful)))

    found = search(world, "c")

    assert isinstance(found, Impossible)
    assert "CEL runtime error" in found.message
    assert found.message.startswith('request "r0": CEL runtime error: Key not found')
    assert f"device {DRIVER}/p1/d1" in found.message
    assert given(world, "d") == Unfit()


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [(False, False, False), (False, True, True), (True, False, False), (True, True, True)],
)
def test_administrators_of_the_same_pod(first: bool, second: bool, expected: bool) -> None:
    one = part("s", [device("d1")])
    claims = [claim(name, exactly(adminAccess=admin)) for name, admin in (("c", first), ("d", second))]
    world = devices_of(device_class(), one, *claims)

    assert (given(world, "c", "d") == {"r0": ["d1", "d1"]}) is expected


TAINT = {"key": "example.com/hot", "value": "yes", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("effect", "toleration", "is_served"),
    [
        ("NoSchedule", None, False),
        ("NoExecute", None, False),
        ("None", None, True),
        ("SomethingNew", None, True),
        ("NoSchedule", {"operator": "Exists"}, True),
        ("NoSchedule", {"key": "example.com/hot", "operator": "Exists"}, True),
        ("NoSchedule", {"key": "example.com/hot", "value": "yes"}, True),
        ("NoSchedule", {"key": "example.com/hot", "value": "no"}, False),
        ("NoSchedule", {"key": "example.com/cold", "operator": "Exists"}, False),
        ("NoExecute", {"operator": "Exists", "effect": "NoSchedule"}, False),
    ],
)
def test_taints_of_devices(effect: str, toleration: Any, is_served: bool) -> None:
    tainted = part("s", [device("d1", more={"taints": [{**TAINT, "effect": effect}]})])
    tolerations = {"tolerations": [toleration]} if toleration else {}
    world = devices_of(device_class(), tainted, claim("c", exactly(**tolerations)))

    if not is_served:
        said = "cannot allocate all claims, leaving out devices with untolerated taint {example.com/hot: yes}"
        assert given(world, "c") == Unfit(said)
        return
    (allocation,) = allocate(world, "c")
    assert len(allocation.devices.results[0].tolerations) == len(tolerations)


def test_only_taints_of_devices_that_would_have_done_are_named_and_no_more_than_three() -> None:
    def tainted(name: str, key: str, **more: Any) -> dict[str, Any]:
        return device(name, more={"taints": [{**TAINT, "key": key}]}, **more)

    devices = [tainted(f"d{n}", f"k{n % 4}", numa=0) for n in range(8)]
    cold = part("s", [*devices, tainted("d9", "a", numa=1), device("d10", numa=1)])
    zero = f'device.attributes["{DRIVER}"].numa == 0'
    world = devices_of(device_class(), cold, claim("c", exactly("r0", zero)))

    said = "cannot allocate all claims, leaving out devices with untolerated taint {k0: yes}, {k1: yes}, {k2: yes}"
    assert given(world, "c") == Unfit(said)


def partition(name: str, size: int) -> dict[str, Any]:
    takes = [{"counterSet": "card", "counters": {"memory": {"value": f"{size}Gi"}}}]
    return device(name, more={"consumesCounters": takes})


COUNTERS = {"sharedCounters": [{"name": "card", "counters": {"memory": {"value": "80Gi"}}}]}
PARTS = [partition("whole", 80), partition("m1", 40), partition("m2", 40), partition("m3", 40)]
IN_TWO_SLICES = [part("s0", count=2, **COUNTERS), part("s1", PARTS, count=2)]
IN_ONE_SLICE = [part("s0", PARTS, **COUNTERS)]


@pytest.mark.parametrize("slices", [IN_TWO_SLICES, IN_ONE_SLICE])
@pytest.mark.parametrize(
    ("taken", "count", "expected"),
    [
        ((), 1, ["whole"]),
        ((), 2, ["m1", "m2"]),
        ((), 3, None),
        (("m1",), 1, ["m2"]),
        (("m1",), 2, None),
        (("whole",), 1, None),
    ],
)
def test_partitions_share_counters(
    slices: list[Any], taken: tuple[str, ...], count: int, expected: list[str] | None
) -> None:
    others = [held("other", *taken)] if taken else []
    world = devices_of(device_class(), *slices, *others, claim("c", exactly(count=count)))

    assert given(world, "c") == ({"r0": expected} if expected else Unfit())


def test_a_partition_on_another_node_counts_too() -> None:
    slices = [
        part("s0", count=3, **COUNTERS),
        part("s1", [partition("here", 80)], count=3),
        part("s2", [partition("there", 40)], node="n2", count=3),
    ]
    world = devices_of(device_class(), *slices, held("other", "there"), claim("c", exactly()))

    assert given(world, "c") == Unfit()
    assert given(devices_of(device_class(), *slices, claim("c", exactly())), "c") == {"r0": ["here"]}


def test_further_parts_of_a_shared_device_consume_no_counters() -> None:
    shared = {**partition("v", 80), "allowMultipleAllocations": True, "capacity": {"memory": MEMORY_POLICY}}
    world = devices_of(
        device_class(),
        part("s0", count=2, **COUNTERS),
        part("s1", [shared], count=2),
        claim("c", exactly("a", capacity={"memory": "1Gi"}), exactly("b", capacity={"memory": "1Gi"})),
    )

    assert given(world, "c") == {"a": ["v"], "b": ["v"]}


OLD = part("old", [device("d1"), device("d2")])


@pytest.mark.parametrize(
    ("slices", "expected"),
    [
        ([OLD, part("new", [device("d9")], generation=2)], {"r0": ["d9"]}),
        ([OLD, part("new", [device("d9")], generation=2, node="n2")], Unfit()),
        ([OLD, part("new", [device("d9")], generation=2, count=2)], Unfit()),
        ([part("a", [device("d1")], count=2), part("b", [device("d2")], count=2, node="n2")], {"r0": ["d1"]}),
        ([part("a", [device("d1")], count=2)], Unfit()),
        ([part("b", [device("d1")], count=2), part("a", [device("d2")], count=2)], {"r0": ["d2"]}),
        ([part("x", [device("d1")], pool="px"), part("y", [device("d1")], pool="pb")], {"r0": ["pb/d1"]}),
    ],
)
def test_which_slices_of_a_pool_count(slices: list[Any], expected: Any) -> None:
    world = devices_of(device_class(), *slices, claim("c", exactly()))

    assert given(world, "c") == expected


@pytest.mark.parametrize(
    ("slices", "said"),
    [
        ([part("s", [device("d1"), device("d1")])], 'duplicate device name "d1"'),
        ([part("s", [partition("d1", 1)])], 'counter set "card", which the pool lacks'),
        ([part("s0", count=2, **COUNTERS), part("s1", [], count=2, **COUNTERS)], 'duplicate counter set name "card"'),
        ([part("s", [device("d1", more={"speed": 3})])], "unknown field `speed`"),
        (
            [part("s", [device("d1", {"memory": "much"})])],
            "spec.devices[0].capacity[memory].value: 'much' is not a quantity",
        ),
    ],
)
def test_a_pool_that_contradicts_itself_is_not_used(slices: list[Any], said: str) -> None:
    world = devices_of(device_class(), *slices, claim("c", exactly()), claim("all", exactly(allocationMode="All")))

    found, everything = search(world, "c"), search(world, "all")

    assert isinstance(found, Unfit)
    assert said in found.reason
    assert isinstance(everything, Impossible)
    assert said in everything.message


def test_another_pool_serves_while_one_is_not_whole() -> None:
    slices = [part("a", [device("d1")], count=2, pool="pa"), part("b", [device("d1")], pool="pb")]
    world = devices_of(device_class(), *slices, claim("c", exactly()), claim("all", exactly(allocationMode="All")))

    everything = search(world, "all")

    assert given(world, "c") == {"r0": ["pb/d1"]}
    assert isinstance(everything, Impossible)
    message = f"asks for all devices, but resource pool {DRIVER}/pa is being updated"
    assert everything.message == f'request "r0" {message}'


MANY = part("s", [device(f"d{number:02}") for number in range(40)])


def test_a_claim_has_at_most_thirty_two_devices() -> None:
    too_many = devices_of(device_class(), MANY, claim("c", exactly("a", count=20), exactly("b", count=13)))
    second = first_of("b", asking("more", count=20), asking("less", count=2))
    fewer = devices_of(device_class(), MANY, claim("c", exactly("a", count=20), second))

    found = search(too_many, "c")

    assert isinstance(found, Impossible)
    assert "a claim asks for 33 devices, and it may have 32 at most" in found.message
    assert list(given(fewer, "c")) == ["a", "b/less"]  # type: ignore[arg-type]


def test_the_search_gives_up_in_the_end() -> None:
    numbers = part("s", [device(f"d{number:02}", odd=number % 2) for number in range(30)])
    wanted = claim("c", exactly(count=15, name="a"), exactly("b", "false"))
    world = devices_of(device_class(), numbers, wanted)

    assert search(world, "c", steps=500) == Unfit("no allocation of claims found in 500 steps", gave_up=True)


def test_all_devices_may_be_none() -> None:
    wanted = claim("c", exactly("r0", "false", allocationMode="All"))

    assert given(devices_of(device_class(), THREE, wanted), "c") == Unfit()


@pytest.mark.parametrize("where", ["n1", "n2"])
def test_pools_with_devices_that_have_conditions_are_searched_last(where: str) -> None:
    """Also where the node may not use these: kube-scheduler looks at whole slices."""
    devices = [
        device("d1", more={"nodeName": "n1"}),
        device("d2", more={"nodeName": where, "bindingConditions": ["Attached"]}),
    ]
    fabric = part("a", devices, node=None, pool="pa", perDeviceNodeSelection=True)
    world = devices_of(device_class(), fabric, part("b", [device("d1")], pool="pb"), claim("c", exactly(count=2)))

    assert given(world, "c") == {"r0": ["pb/d1", "pa/d1"]}


def test_an_allocation_carries_the_conditions_of_its_devices() -> None:
    conditions = {"bindingConditions": ["Attached", "Powered"], "bindingFailureConditions": ["Broken"]}
    fabric = part("s", [device("d1", more=conditions), device("d2")])

    (allocation,) = allocate(devices_of(device_class(), fabric, claim("c", exactly(count=2))), "c")

    said = [(r.device, r.binding_conditions, r.binding_failure_conditions) for r in allocation.devices.results]
    assert said == [("d1", ("Attached", "Powered"), ("Broken",)), ("d2", (), ())]


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        ({"name": "r"}, "spec.devices.requests[0]: must have exactly one of exactly and firstAvailable"),
        ({**exactly(), "newMode": {}}, "unknown field `newMode`"),
        (exactly(allocationMode="Half"), '.exactly.allocationMode: "Half" is not understood'),
        (exactly(tolerations=[{"operator": "Like"}]), '.exactly.tolerations[0].operator: "Like" is not understood'),
        (exactly(selectors=[{"sql": {}}]), "unknown field `sql`"),
        (exactly(selectors=[{}]), ".exactly.selectors[0]: is of a kind that is not understood"),
        (exactly(capacity={"memory": "x"}), ".exactly.capacity.requests[memory]: 'x' is not a quantity"),
        (exactly(count=-1), ".exactly.count: -1 must be at least 1"),
        (exactly(capacity={"memory": "-1Gi"}), ".exactly.capacity.requests[memory]: -1Gi must not be negative"),
        (exactly(cls=""), ".exactly.deviceClassName: is missing"),
    ],
)
def test_what_is_not_understood_of_a_claim_is_its_fault(request_: dict[str, Any], said: str) -> None:
    world = devices_of(claim("c", request_))

    assert said in world.claims["default/c"].spec.fault


@pytest.mark.parametrize("constraint", [{"requests": ["a"]}, {"newAttribute": "x/y"}])
def test_a_constraint_that_is_not_understood_is_a_fault(constraint: dict[str, Any]) -> None:
    world = devices_of(claim("c", exactly("a"), constraints=[constraint]))

    assert "spec.devices.constraints[0]" in world.claims["default/c"].spec.fault


def test_a_list_cannot_be_compared() -> None:
    lists = part("s", [device("d1", numa={"ints": [1, 2]})])
    world = devices_of(device_class(), lists, claim("c", exactly("a"), constraints=[NUMA]))

    found = search(world, "c")

    assert isinstance(found, Impossible)
    assert "is a list, which constraints cannot compare" in found.message


def test_a_class_that_is_missing_or_not_understood() -> None:
    world = devices_of(claim("c", exactly(cls="nothing")))
    strange = devices_of(device_class(newField=1), claim("c", exactly()))

    missing, unknown = search(world, "c"), search(strange, "c")

    assert isinstance(missing, Impossible)
    assert missing.message == 'request "r0": device class nothing does not exist'
    assert isinstance(unknown, Impossible)
    assert 'DeviceClass "gpu": spec' in unknown.message


def test_configuration_comes_from_classes_once_and_from_the_claim_where_it_is_meant() -> None:
    def opaque(text: str, *requests: str) -> dict[str, Any]:
        found: dict[str, Any] = {"opaque": {"driver": DRIVER, "parameters": {"is": text}}}
        return {**found, "requests": list(requests)} if requests else found

    wishes = [exactly("a"), first_of("b", asking("x", "false"), asking("y"))]
    own = [opaque("all"), opaque("a", "a"), opaque("x", "b/x"), opaque("y", "b/y"), opaque("b", "b")]
    world = devices_of(device_class(config=[opaque("class")]), THREE, claim("c", *wishes, config=own))

    (allocation,) = allocate(world, "c")

    assert [(c.source, c.requests, c.opaque["parameters"]["is"]) for c in allocation.devices.config] == [
        ("FromClass", ("a", "b/y"), "class"),
        ("FromClaim", (), "all"),
        ("FromClaim", ("a",), "a"),
        ("FromClaim", ("b/y",), "y"),
        ("FromClaim", ("b",), "b"),
    ]


@pytest.mark.parametrize("request_", [exactly(count=0), exactly(allocationMode=""), exactly(count=None)])
def test_a_request_has_the_api_server_s_defaults(request_: dict[str, Any]) -> None:
    assert given(devices_of(device_class(), THREE, claim("c", request_)), "c") == {"r0": ["d1"]}


def test_the_shapes_of_v1beta1_are_read() -> None:
    old_claim = claim("c", {"name": "r0", "deviceClassName": "gpu", "count": 1})
    old_slice = part("s", [{"name": "d1", "basic": {"attributes": {"numa": {"int": 1}}}}])

    assert given(devices_of(device_class(), old_slice, old_claim), "c") == {"r0": ["d1"]}
