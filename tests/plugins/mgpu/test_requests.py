"""The admission matrix: one function, whoever asks."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugins.mgpu.devices import CORE, MEMORY, POLICY
from plugins.mgpu.requests import MULTIPLE, read
from plugins.mgpu.validation import validate
from tests.examples import at_least
from tests.plugins.mgpu.clusters import configuration, container, node, pod, rig_of, solo
from volsched.framework.validation import Fault, Surroundings
from volsched.model import api
from volsched.model.pods.rule_reading import container_amounts

AS_PRINTED = {
    "MGPU101": "mgpu-core must be > 0 and mgpu-memory, when set, > 0",
    "MGPU102": "mgpu-memory must be >= 256 MiB for a shared card",
    "MGPU103": "mgpu-core above 100 must be a multiple of 100",
    "MGPU104": "mgpu-memory must not be set with whole cards",
    "MGPU203": "whole cards: memory must not be set",
    "MGPU204": "memory per card must be >= 256 MiB",
    "MGPU205": "not divisible by the card count",
    "MGPU206": "core per card must be <= 100",
}


def manifest(*amounts: tuple[object, object], counts: str | None = None, **more: Any) -> dict[str, Any]:
    found = pod("p", annotations={MULTIPLE: counts} if counts is not None else None, **more)
    found["spec"]["containers"] = [container(f"c{n}", *amount) for n, amount in enumerate(amounts, 1)]
    return found


def faults(found: dict[str, Any]) -> list[Fault]:
    return list(validate(api.decode_object(found), Surroundings()))


NORMAL = [
    pytest.param(((-20, "6k"),), None, "MGPU101", id="V01"),
    pytest.param(((120, 128),), None, "MGPU103", id="V02"),
    pytest.param(((20, 128),), None, "MGPU102", id="V03"),
    pytest.param(((120, None),), None, "MGPU103", id="V04"),
    pytest.param(((200, "6k"),), None, "MGPU104", id="V05"),
    pytest.param(((200, None),), None, "", id="V06"),
    pytest.param(((100, None),), None, "", id="V07"),
    pytest.param(((None, 4096),), None, "MGPU101", id="memory alone"),
    pytest.param(((50, 0),), None, "MGPU101", id="memory of none"),
    pytest.param(((50, None),), None, "MGPU102", id="a share without memory"),
    pytest.param(((100, 0),), None, "MGPU101", id="whole, memory of none"),
    pytest.param(((0, 1024),), None, "MGPU101", id="V13"),
    pytest.param(((None, None),), "x", "", id="V15"),
    pytest.param(((30, "6k"),), None, "", id="V19"),
    pytest.param(((300, None),), None, "", id="V21"),
    pytest.param(((30, 1024), (120, None), (20, 1)), None, "MGPU103", id="the first container that fails"),
    pytest.param((("30500m", 1024),), None, "MGPU305", id="half a percent"),
]
MULTI = [
    pytest.param(((200, "6k"),), "3,2", "MGPU201", id="W01"),
    pytest.param(((200, "6k"), (200, "6k")), "-1,2", "MGPU202", id="W02"),
    pytest.param(((200, "6k"),), "2", "MGPU203", id="W03"),
    pytest.param(((130, "6k"),), "3", "MGPU205", id="W04"),
    pytest.param(((100, 8192),), "2", "", id="W05"),
    pytest.param(((200, None),), "2", "", id="W06"),
    pytest.param(((60, 4096), (None, None)), "2,0", "", id="W11"),
    pytest.param(((200, None), (50, 100)), "2,1", "MGPU204", id="W15 after whole cards"),
    pytest.param(((100, None),), "1", "", id="W16"),
    pytest.param(((100, 6000),), "3", "MGPU205", id="W19"),
    pytest.param(((99, 6000),), "3", "", id="W19 with 99"),
    pytest.param(((100, None),), "2", "MGPU204", id="W20"),
    pytest.param(((50, 4096),), "1", "", id="W21"),
    pytest.param(((8, 2048),), "8", "", id="W23"),
    pytest.param(((90, 600),), "3", "MGPU204", id="4.1"),
    pytest.param(((300, 8192),), "2", "MGPU206", id="4.3"),
    pytest.param(((None, None), (50, 4096)), "2,0", "MGPU207", id="the counts of others"),
    pytest.param(((50, 4096),), "0", "MGPU207", id="no card and a request"),
    pytest.param(((0, None),), "2", "MGPU101", id="no core"),
    pytest.param(((100, 0),), "2", "MGPU204", id="memory of zero in parts"),
    pytest.param(((200, 0),), "2", "MGPU203", id="memory of zero with whole cards"),
    pytest.param(((100, 8192),), "-1,2", "MGPU202", id="202 is judged before 201"),
    *[
        pytest.param(((100, 8192),), text, "MGPU202", id=f"{text!r} is no count")
        for text in ("", "a", "2,", "1.5", " 2", "+2", "\uff12", "1_0", "2 ", "\u0662", "1" * 10)
    ],
]  # fmt: skip


@pytest.mark.parametrize(("amounts", "counts", "code"), NORMAL + MULTI)
def test_a_rule_that_a_pod_breaks(amounts: tuple[tuple[object, object], ...], counts: str | None, code: str) -> None:
    found = faults(manifest(*amounts, counts=counts, policy="native-burst-share"))

    assert next((fault.code for fault in found), "") == code
    if code in AS_PRINTED:
        assert found[0].message.endswith(f": {AS_PRINTED[code]}")


@pytest.mark.parametrize(("amounts", "counts", "code"), [c for c in NORMAL + MULTI if c.id not in ("V01", "V15")])
def test_the_scheduler_judges_as_admission_does(
    amounts: tuple[tuple[object, object], ...], counts: str | None, code: str
) -> None:
    found = manifest(*amounts, counts=counts, policy="native-burst-share")

    decision = rig_of(node(cards=8, policy="native-burst-share"), *solo(found)).cycle()

    if code:
        assert decision.bindings == {}
        first = faults(found)[0]
        assert decision.waiting["p"] == f"mgpu: invalid request {code}: {first.message}"
        assert decision.task("p").refusal is not None
    else:
        assert decision.bindings == {"p": "n1"}


def test_what_a_fault_says() -> None:
    (fault,) = faults(manifest((30, 1024), (20, 128)))

    assert fault.field == "spec.containers[1].resources"
    assert fault.message == "container c2: mgpu-memory must be >= 256 MiB for a shared card"


def test_every_container_is_told_once() -> None:
    told = faults(manifest((20, 128), (120, 5), (100, 5)))

    assert [fault.code for fault in told] == ["MGPU102", "MGPU103", "MGPU104"]


def test_init_and_ephemeral_containers_get_no_cards() -> None:
    found = manifest((30, 1024), spec={"initContainers": [container("i", 10, 256)]})
    found["spec"]["ephemeralContainers"] = [container("e", 10, 256)]
    del found["spec"]["containers"][0]["resources"]

    told = faults(found)

    assert [(fault.code, fault.field) for fault in told] == [
        ("MGPU301", "spec.initContainers[0].resources"),
        ("MGPU301", "spec.ephemeralContainers[0].resources"),
    ]
    assert "MGPU301" in rig_of(node(), *solo(found)).cycle().waiting["p"]


def test_the_name_of_a_container_has_to_fit_into_an_annotation() -> None:
    for letters, code in ((43, []), (44, ["MGPU302"])):
        found = manifest((30, 1024), (None, None))
        found["spec"]["containers"][0]["name"] = "a" * letters
        found["spec"]["containers"][1]["name"] = "b" * 60

        assert [fault.code for fault in faults(found)] == code
        assert bool(rig_of(node(), *solo(found)).cycle().bindings) == (not code)


def test_a_policy_that_is_none() -> None:
    found = manifest((30, 1024), policy="burst")

    assert [fault.code for fault in faults(found)] == ["MGPU303"]
    assert "MGPU303" in rig_of(node(), *solo(found)).cycle().waiting["p"]


SEED = "2,1,3"
"""The counts that the seed prints for a pod of three containers, and its shares: half, a whole card, a third."""


@pytest.mark.parametrize(
    ("policy", "said"),
    [("", "is fixed-share"), ("fixed-share", "is fixed-share"), ("guaranteed-burst-share", "is guaranteed"),
     ("native-burst-share", "")],
)  # fmt: skip
def test_the_seeds_list_of_cards_can_never_be_placed_without_its_policy(policy: str, said: str) -> None:
    found = manifest((100, 2048), (100, None), (99, 3072), counts=SEED, **({"policy": policy} if policy else {}))

    warned = faults(found)

    assert [fault.severity for fault in warned] == (["warning"] if said else [])
    for fault in warned:
        assert (fault.code, fault.field) == ("MGPU306", f"metadata.annotations[{POLICY}]")
        assert fault.message.startswith(said)
        assert "can never be placed without native-burst-share" in fault.message
    for nodes in ("fixed-share", "guaranteed-burst-share", "native-burst-share"):
        decision = rig_of(node(cards=8, policy=nodes), *solo(found)).cycle()
        assert bool(decision.bindings) == (not said and nodes == "native-burst-share")


def test_a_pod_without_a_list_or_with_no_policy_at_all_is_not_warned() -> None:
    assert faults(manifest((30, 1024))) == []
    assert faults(manifest((None, None), counts="x")) == []
    assert [fault.code for fault in faults(manifest((100, 2048), counts="2", policy="burst"))] == ["MGPU303"]


def test_requests_and_limits_have_to_agree() -> None:
    found = manifest((30, 1024))
    found["spec"]["containers"][0]["resources"]["limits"] = {CORE: "40", MEMORY: "1024"}

    assert [fault.code for fault in faults(found)] == ["MGPU304"]


@pytest.mark.parametrize("part", ["requests", "limits"])
def test_either_is_enough(part: str) -> None:
    found = manifest((120, None))
    found["spec"]["containers"][0]["resources"] = {part: {CORE: "120"}}

    assert [fault.code for fault in faults(found)] == ["MGPU103"]


def test_the_least_memory_can_be_told() -> None:
    rig = rig_of(node(), *solo(manifest((30, 512))), text=configuration(MinMemory=1024))

    assert "mgpu-memory must be >= 1024 MiB" in rig.cycle().waiting["p"]


def test_pods_inside_workloads_are_judged() -> None:
    template = {"metadata": {"annotations": {POLICY: "x"}}, "spec": manifest((20, 1))["spec"]}
    found = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "j", "namespace": "default"},
        "spec": {"tasks": [{"name": "a", "replicas": 1, "template": template}]},
    }

    assert [(fault.code, fault.field) for fault in faults(found)] == [
        ("MGPU102", "spec.tasks[0].template.spec.containers[0].resources"),
        ("MGPU303", f"spec.tasks[0].template.metadata.annotations[{POLICY}]"),
    ]


amounts = st.one_of(st.none(), st.integers(-(2**70), 2**70), st.text(max_size=8), st.floats())


@at_least(100)
@given(
    st.lists(st.tuples(amounts, amounts), min_size=1, max_size=4),
    st.one_of(st.none(), st.text(max_size=12), st.from_regex(r"[0-9,]{0,12}", fullmatch=True)),
    st.one_of(st.none(), st.text(max_size=12)),
)
def test_whatever_users_write_is_judged(
    given_amounts: list[tuple[object, object]], counts: str | None, policy: str | None
) -> None:
    resources = [
        api.ResourceRequirements(limits={k: str(v) for k, v in ((CORE, c), (MEMORY, m)) if v is not None})
        for c, m in given_amounts
    ]
    spec = api.PodSpec(containers=tuple(api.Container(name=f"c{n}", resources=r) for n, r in enumerate(resources)))
    annotations = {key: text for key, text in ((MULTIPLE, counts), (POLICY, policy)) if text is not None}

    request = read(container_amounts(spec), annotations)

    for _, ask in request.asks:
        assert ask.cards >= 1
        assert 0 < ask.core <= 100
        assert ask.memory >= 0
    assert request.faults or all(ask.is_whole or ask.memory >= 256 for _, ask in request.asks)
