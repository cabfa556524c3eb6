"""DeviceTaintRules: which devices they taint, and what of the cluster is asked anew when one changes."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tests.framework.dra.worlds import DRIVER, claim, device, device_class, devices_of, exactly, given, part, taint_rule
from volsched.framework.dra.search import Impossible, Unfit
from volsched.model import api
from volsched.model.dra import api as dra
from volsched.model.dra.devices import Devices

OTHER = "nic.example.com"
GPUS_1 = part("s1", [device("d1"), device("d2")], node="n1", pool="n1")
GPUS_2 = part("s2", [device("d1"), device("d2")], node="n2", pool="n2")
NICS_1 = part("s3", [device("d1")], node="n1", pool="n1", driver=OTHER)
WIDE = part("s4", [device("d1")], node=None, pool="wide", allNodes=True)
EVERYTHING = (GPUS_1, GPUS_2, NICS_1, WIDE)
ALL = ["s1/d1", "s1/d2", "s2/d1", "s2/d2", "s3/d1", "s4/d1"]


def taints_of(devices: Devices) -> dict[str, list[str]]:
    """The keys of the taints of each device that has any, by slice and name."""
    return {
        f"{name}/{found.id.device}": [taint.key for taint in found.taints]
        for name, slice_ in sorted(devices.slices.items())
        for found in slice_.devices
        if found.taints
    }


def put(devices: Devices, found: dict[str, Any]) -> None:
    assert devices.put(api.decode_as(dra.KINDS[found["kind"]], found))


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ({}, ALL),
        ({"driver": OTHER}, ["s3/d1"]),
        ({"pool": "n1"}, ["s1/d1", "s1/d2", "s3/d1"]),
        ({"device": "d1"}, ["s1/d1", "s2/d1", "s3/d1", "s4/d1"]),
        ({"driver": DRIVER, "pool": "n2"}, ["s2/d1", "s2/d2"]),
        ({"driver": DRIVER, "device": "d2"}, ["s1/d2", "s2/d2"]),
        ({"pool": "n1", "device": "d1"}, ["s1/d1", "s3/d1"]),
        ({"driver": DRIVER, "pool": "n1", "device": "d2"}, ["s1/d2"]),
        ({"driver": DRIVER, "pool": "n3"}, []),
        ({"driver": OTHER, "pool": "n2"}, []),
        ({"device": "d9"}, []),
    ],
)
@pytest.mark.parametrize("rule_comes_first", [False, True])
def test_which_devices_a_rule_taints(selector: dict[str, str], expected: list[str], rule_comes_first: bool) -> None:
    rule = taint_rule("r", **selector)

    world = devices_of(rule, *EVERYTHING) if rule_comes_first else devices_of(*EVERYTHING, rule)

    assert sorted(taints_of(world)) == expected


def test_a_rule_without_a_selector_taints_every_device() -> None:
    rule = taint_rule("r")
    del rule["spec"]["deviceSelector"]

    assert sorted(taints_of(devices_of(*EVERYTHING, rule))) == ALL


def test_a_device_has_its_own_taints_then_those_of_the_rules_by_name() -> None:
    own = {"key": "own", "effect": "None"}
    slice_ = part("s", [device("d1", more={"taints": [own]})])

    world = devices_of(taint_rule("b", key="second"), slice_, taint_rule("a", key="first", device="d1"))

    assert taints_of(world) == {"s/d1": ["own", "first", "second"]}


@pytest.mark.parametrize(
    ("effect", "tolerations", "expected"),
    [
        ("NoSchedule", [], ["d2"]),
        ("NoExecute", [], ["d2"]),
        ("None", [], ["d1"]),
        ("NoSchedule", [{"key": "example.com/broken", "operator": "Exists"}], ["d1"]),
        ("NoSchedule", [{"key": "example.com/broken", "value": "no"}], ["d2"]),
        ("NoExecute", [{"operator": "Exists", "effect": "NoSchedule"}], ["d2"]),
    ],
)
def test_a_device_is_given_out_as_if_its_slice_said_so(
    effect: str, tolerations: list[dict[str, str]], expected: list[str]
) -> None:
    rule = taint_rule("r", effect=effect, pool="p1", device="d1")
    wanted = claim("c", exactly(tolerations=tolerations))

    world = devices_of(device_class(), part("s", [device("d1"), device("d2")]), wanted, rule)

    assert given(world, "c") == {"r0": expected}


def test_the_refusal_names_the_taint_and_ends_with_the_rule() -> None:
    world = devices_of(device_class(), part("s", [device("d1")]), claim("c", exactly()), taint_rule("r"))
    said = "cannot allocate all claims, leaving out devices with untolerated taint {example.com/broken: yes}"
    assert given(world, "c") == Unfit(said)

    assert world.drop("DeviceTaintRule", "", "r")

    assert given(world, "c") == {"r0": ["d1"]}


class Watched:
    """Devices, and what of them was asked anew."""

    def __init__(self, *objects: dict[str, Any]) -> None:
        self.touched: list[str] = []
        self.devices = Devices(self.touched.append)
        for found in objects:
            put(self.devices, found)
        self.forget()

    def forget(self) -> None:
        self.touched.clear()
        self._version = self.devices.version
        self._claims = self.devices.claims_version

    @property
    def everybody(self) -> bool:
        return self.devices.version != self._version

    @property
    def claims(self) -> bool:
        return self.devices.claims_version != self._claims


@pytest.mark.parametrize(
    ("selector", "touched", "everybody"),
    [
        ({"pool": "n1", "driver": DRIVER}, ["n1"], False),
        ({"pool": "n2"}, ["n2"], False),
        ({"driver": DRIVER, "device": "d2"}, ["n1", "n2"], False),
        ({"pool": "wide"}, [], True),
        ({"driver": DRIVER, "pool": "n1", "device": "d9"}, [], False),
    ],
)
def test_a_rule_that_comes_or_goes_concerns_the_nodes_of_its_devices_alone(
    selector: dict[str, str], touched: list[str], everybody: bool
) -> None:
    watched = Watched(*EVERYTHING)

    put(watched.devices, taint_rule("r", **selector))

    assert (watched.touched, watched.everybody, watched.claims) == (touched, everybody, False)
    watched.forget()
    watched.devices.drop("DeviceTaintRule", "", "r")
    assert (watched.touched, watched.everybody, watched.claims) == (touched, everybody, False)
    assert taints_of(watched.devices) == {}


def test_a_rule_that_moves_on_frees_the_devices_that_it_meant_before() -> None:
    watched = Watched(*EVERYTHING, taint_rule("r", pool="n1", driver=DRIVER))

    put(watched.devices, taint_rule("r", pool="n2"))

    assert sorted(watched.touched) == ["n1", "n2"]
    assert sorted(taints_of(watched.devices)) == ["s2/d1", "s2/d2"]


def test_a_rule_of_which_only_the_status_changes_concerns_nobody() -> None:
    watched = Watched(*EVERYTHING, taint_rule("r", pool="n1"))

    told = {**taint_rule("r", pool="n1"), "status": {"conditions": [{"type": "EvictionInProgress"}]}}

    assert not watched.devices.put(api.decode_as(dra.DeviceTaintRule, told))
    assert (watched.touched, watched.everybody) == ([], False)


def test_what_selectors_said_of_a_device_stays_known() -> None:
    world = devices_of(GPUS_1)
    before = world.slices["s1"].devices[0]

    put(world, taint_rule("r"))

    assert world.slices["s1"].devices[0] is not before
    assert world.slices["s1"].devices[0].verdicts is before.verdicts


@pytest.mark.parametrize(
    ("spec", "unusable"),
    [
        ({"deviceSelector": {"pool": "n1", "vendor": "x"}, "taint": {}}, ["s1", "s3"]),
        ({"deviceSelector": {"driver": OTHER}, "taint": {"key": "k", "effect": "NoSchedule", "until": "x"}}, ["s3"]),
        ({"deviceSelector": {"device": "d2", "vendor": "x"}}, ["s1", "s2"]),
        ({"deviceSelector": {"driver": 3}}, ["s1", "s2", "s3", "s4"]),
        ("nonsense", ["s1", "s2", "s3", "s4"]),
    ],
)
def test_a_rule_that_is_not_understood_makes_unusable_what_it_may_mean(spec: Any, unusable: list[str]) -> None:
    world = devices_of(*EVERYTHING, {**taint_rule("odd"), "spec": spec})

    assert [name for name, found in sorted(world.slices.items()) if found.fault] == unusable
    assert all(found.fault.startswith("DeviceTaintRule odd: spec") for found in world.slices.values() if found.fault)
    world.drop("DeviceTaintRule", "", "odd")
    assert not any(found.fault for found in world.slices.values())


def test_a_pod_is_told_which_rule_is_not_understood() -> None:
    odd = {**taint_rule("odd"), "spec": {"deviceSelector": {"vendor": "x"}}}
    everything = claim("all", exactly(allocationMode="All"))
    world = devices_of(device_class(), part("s", [device("d1")]), claim("c", exactly()), everything, odd)

    found, impossible = given(world, "c"), given(world, "all")

    assert isinstance(found, Unfit)
    assert "DeviceTaintRule odd: spec.deviceSelector: " in found.reason
    assert "unknown field `vendor`" in found.reason
    assert isinstance(impossible, Impossible)


@pytest.mark.parametrize("seed", range(60))
def test_whatever_comes_and_goes_taints_are_those_of_the_objects_that_are_there(seed: int) -> None:
    """The same devices have the same taints as if everything had been listed at once; sessions see every change."""
    rng = Random(seed)  # noqa: S311 - not a secret
    watched = Watched()
    there: dict[tuple[str, str], dict[str, Any]] = {}
    for _ in range(60):
        found = rng.choice(EVERYTHING) if rng.random() < 0.4 else _a_rule(rng)
        kind, name = found["kind"], found["metadata"]["name"]
        before = taints_of(watched.devices)
        watched.forget()
        if rng.random() < 0.3:
            there.pop((kind, name), None)
            watched.devices.drop(kind, "", name)
        else:
            there[kind, name] = found
            watched.devices.put(api.decode_as(dra.KINDS[kind], found))
        rules_first = sorted(there.values(), key=lambda item: item["kind"] != "DeviceTaintRule")
        assert taints_of(watched.devices) == taints_of(devices_of(*rules_first))
        if taints_of(watched.devices) != before:
            assert watched.touched or watched.everybody


def _a_rule(rng: Random) -> dict[str, Any]:
    values = {"driver": (DRIVER, OTHER), "pool": ("n1", "n2", "wide"), "device": ("d1", "d2")}
    selector = {key: rng.choice(of) for key, of in values.items() if rng.random() < 0.5}
    return taint_rule(f"r{rng.randint(0, 3)}", key=rng.choice("kl"), **selector)
