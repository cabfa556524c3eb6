"""Clusters under other names: nothing of people's is left, order stays, and the same is decided."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.diagnose.decisions import check_alike, written_text
from tests.diagnose.test_explain import CONFIGURATION
from tests.framework.dra.worlds import claim, device, device_class, exactly, part
from tests.plans import examples
from tests.plans.scenarios import CHUNKS, Scenario, some_scenarios, stored_scenarios
from tests.plans.sessions import read
from tests.simulation.clusters import Manifest, group, node, pod, queue, stock
from volsched.diagnose.anonymous import anonymised
from volsched.diagnose.anonymous.expressions import NO_EXPRESSION
from volsched.diagnose.anonymous.words import Words
from volsched.diagnose.cluster_snapshot import ClusterSnapshot
from volsched.framework.config.loading import DEFAULT_CONFIGURATION
from volsched.framework.dra.selectors import compiled
from volsched.model.dra import api as dra
from volsched.model.dra.reading import slice_of
from volsched.simulation.documents import read_documents
from volsched.simulation.manifests import read_inventory

HERE = Path(__file__).parent


def of_files(*paths: Path) -> ClusterSnapshot:
    inventory = read_inventory(read_documents([str(path) for path in paths]))
    return ClusterSnapshot(tuple(inventory.objects), inventory.chosen_configuration() or DEFAULT_CONFIGURATION)


def of(*manifests: Manifest) -> ClusterSnapshot:
    return ClusterSnapshot(tuple(stock(*manifests).objects), CONFIGURATION)


# --- nothing is left --------------------------------------------------------------------------------------------------


def test_no_secret_of_any_field_is_left() -> None:
    """Each text in the file that somebody chose has a number after zz, and its addresses begin with 10.99."""
    before = of_files(HERE / "leak.yaml")
    found = written_text(check_alike(before))
    assert not re.findall(r"(?i)zz[0-9a-g][0-9]|10\.99|Bob|555", found)


def test_parameters_for_drivers_are_left_out_under_the_same_names_too() -> None:
    opaque = {"driver": "gpu.example.com", "parameters": {"password": "hunter22"}}
    config = [{"requests": ["r0"], "opaque": opaque}]
    a_claim = claim("c", exactly(), config=config)
    allocated = {"devices": {"results": [], "config": [{"source": "FromClaim", "opaque": opaque}]}}
    a_claim["status"] = {"allocation": allocated}
    template = {**a_claim, "kind": "ResourceClaimTemplate", "spec": {"spec": a_claim["spec"]}}
    template = {name: each for name, each in template.items() if name != "status"}
    a_class = device_class("gpu")
    a_class["spec"]["config"] = [{"opaque": opaque}]
    found = written_text(of(a_claim, template, a_class))
    assert "hunter22" not in found
    assert "FromClaim" in found


def test_comments_of_the_configuration_are_gone_and_it_decides_alike() -> None:
    text = """
# owner: alice
actions: "enqueue, allocate"
tiers:
- plugins:
  - name: gang
  - name: predicates
  - name: binpack
    arguments: {binpack.weight: 3, binpack.resources: "corp.example/tang, nvidia.com/gpu", binpack.resources.corp.example/tang: 5}
  - name: crossquota
    arguments:
      gpu-resource-names: "corp\\\\..*/ta.*"
      quota-resources: cpu
      quota.cpu: "4"
      label-selector: {matchLabels: {team.example/owner: alice}}
  - name: sla
    arguments: {sla-waiting-time: 2m}
"""  # noqa: E501
    before = ClusterSnapshot(tuple(stock(node("n1", extended={"corp.example/tang": 4})).objects), text)
    after, names = anonymised(before)
    for secret in ("alice", "corp", "tang", "owner"):
        assert secret not in after.configuration
    other = names.resource("corp.example/tang")
    arguments = {o.name: o.arguments for tier in after.profile().configuration.tiers for o in tier}
    assert arguments["binpack"]["binpack.resources"] == (other, "nvidia.com/gpu")
    assert arguments["binpack"][f"binpack.resources.{other}"] == 5
    assert arguments["sla"]["sla-waiting-time"] == "2m"
    [pattern] = arguments["crossquota"]["gpu-resource-names"]
    assert re.search(pattern, other)
    assert not re.search(pattern, "nvidia.com/gpu")
    assert str(arguments["crossquota"]["label-selector"]) == (
        f"{names.key('team.example/owner')}={names.value('team.example/owner', 'alice')}"
    )


@pytest.mark.parametrize("public", ["NVIDIA-A100-SXM4-80GB", "Tesla-V100-SXM2-32GB", "nvidia-tesla-t4", "Ascend910"])
def test_models_on_the_market_are_public(public: str) -> None:
    labels = {"nvidia.com/gpu.product": public, "nvidia.com/gpu.count": "8", "nvidia.com/gpu.memory": "81920"}
    _, names = anonymised(_one_node(labels))
    assert names.card(public) == public
    assert names.card(f"{public}/mps-80g*1/8") == f"{public}/mps-80g*1/8"


@pytest.mark.parametrize("own", ["Card-1", "N9", "ZZ33-CARD", "NVIDIA-Project-X", "h100-of-alice"])
def test_other_names_of_cards_are_replaced_wherever_they_stand(own: str) -> None:
    labels = {"vendor.example/npu.product": own, "vendor.example/npu.count": "1", "vendor.example/npu.memory": "1"}
    after, names = anonymised(_one_node({**labels, "team.example/card": own}))
    [found] = after.objects
    other = names.card(own)
    assert own not in written_text(after)
    labels = {key: value for key, value in found.metadata.labels.items() if key != "kubernetes.io/hostname"}
    assert sorted(labels.values()) == sorted(["1", "1", other, other])
    keys = [key.rpartition("/")[2] for key in labels]
    assert sum(key in ("npu.product", "npu.count", "npu.memory") for key in keys) == 3
    assert names.cards(f"{own}|NVIDIA-A100") == f"{other}|NVIDIA-A100"


def _one_node(labels: dict[str, str]) -> ClusterSnapshot:
    return of(node("n1", labels=labels))


# --- order ------------------------------------------------------------------------------------------------------------

segments = st.one_of(
    st.text("abz019", min_size=1, max_size=3),
    st.integers(0, 300).map(str),
    st.sampled_from(["gpu", "default", "A100", "x_y", "system", "zone"]),
)
texts = st.lists(st.lists(segments, min_size=1, max_size=3), min_size=2, max_size=12).flatmap(
    lambda found: st.tuples(*(st.sampled_from("-./").map(lambda mark, each=each: mark.join(each)) for each in found))
)


@settings(max_examples=150, deadline=None)
@given(texts, st.sets(st.sampled_from(["gpu", "default", "b", "1", "az", "system", "250"])))
def test_words_keep_their_order_among_themselves_and_beside_those_that_stay(
    found: tuple[str, ...], fixed: set[str]
) -> None:
    assume(not any(re.search(r"[0-9]+\.[0-9]+\.[0-9]", text) for text in found))
    words = Words()
    for text in fixed:
        words.keep(text)
    for text in found:
        words.other(text)
    words.settle()
    listed = sorted({*found, *fixed})
    others = [text if text in fixed else words.other(text) for text in listed]
    # a text that is a word to stay and one to replace sorts twice
    others = [other for text, other in zip(listed, others, strict=True) if text not in fixed or text not in found]
    assert others == sorted(set(others))
    assert not {text for text in found if len(text) > 5} & set(others)


def test_numbers_at_the_end_of_pods_stay_and_addresses_in_names_go() -> None:
    names = ["ip-10-20-30-40.ec2.internal", "10.20.30.41", "worker-7"]
    pods = ["train-a-2", "train-a-10", "web-0"]
    before = of(*map(node, names), *(pod(each, "g") for each in pods))
    after, other = anonymised(before)
    assert [other.name(each).rpartition("-")[2] for each in pods] == ["2", "10", "0"]
    assert other.name("train-a-2").rpartition("-")[0] == other.name("train-a-10").rpartition("-")[0]
    found = written_text(after)
    assert not re.search(r"20|30\.|40|ec2|worker", found)
    assert sorted(names) == sorted(names, key=other.name)


def test_claims_of_volumes_in_pods_are_named_after_pod_and_volume() -> None:
    volume = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": "fast"}}}}
    a_claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "run-1-2-3-0-scratch", "namespace": "default"},
        "spec": {"storageClassName": "fast"},
    }
    a_pod = pod("run-1-2-3-0", "g", volumes=[volume])
    after, other = anonymised(of(node("n1"), a_pod, a_claim))
    assert after.objects[-1].metadata.name == f"{other.name('run-1-2-3-0')}-{other.name('scratch')}"


# --- selectors of devices ---------------------------------------------------------------------------------------------

DEVICES = [
    device("d0", {"memory": "80Gi"}, **{"model": "A-one", "corp.example/owner": "alice"}),
    device("d1", {"memory": "40Gi"}, **{"model": "B-two", "corp.example/owner": "bob"}),
    device("d2", numa=1, driverVersion={"version": "1.2.3-alice"}),
]
COMPARISONS = [
    'device.driver == "gpu.example.com"',
    'device.attributes["gpu.example.com"].model == "A-one"',
    "device.attributes['corp.example'].owner in ['alice', 'carol'] && device.driver != \"other\"",
    'has(device.attributes["gpu.example.com"].numa) && device.attributes["gpu.example.com"].numa >= 1 // secret note',
    'device.capacity["gpu.example.com"].memory.compareTo(quantity("50Gi")) > 0',
    'device.attributes["gpu.example.com"].driverVersion.isGreaterThan(semver("1.2.3-aaa"))',
    'device.attributes["gpu.example.com"].driverVersion == semver("1.2.3-alice")',
]
LOOKS = [
    'device.attributes["gpu.example.com"].model.startsWith("A-")',
    'device.attributes["corp.example"].owner.contains("ice")',
    'device.attributes["gpu.example.com"].model.matches("^B.*$")',
    'device.attributes["corp.example"].owner.endsWith("ob") || device.driver == "x"',
    'device.attributes["gpu.example.com"].model.lowerAscii() == "a-one"',
    'device.attributes["gpu.example.com"].model.split("-")[0] == "A"',
    'device.attributes["gpu.example.com"].model + "!" == "A-one!"',
    'size(device.attributes["gpu.example.com"].model) == 5',
    'device.attributes["gpu.example.com"].exists(name, name == "numa")',
    '"owner" in device.attributes["corp.example"]',
    'device.attributes["gpu.example.com"].model < "B"',
    'device.attributes["gpu.example.com"]["model"] == "A-one"',
    "device.attributes[\"gpu.example.com\"].model == r'A-one'",
    'isQuantity(device.attributes["gpu.example.com"].model)',
    'sign(quantity(device.attributes["gpu.example.com"].model)) > 0',
    '["A-one"].exists(m, device.attributes["gpu.example.com"].model == m)',
]


@pytest.mark.parametrize("expression", [*COMPARISONS, *LOOKS])
def test_selectors_find_the_same_devices(expression: str) -> None:
    before = _with_selector(expression)
    after, _ = anonymised(before)
    other = _selector_of(after)
    assert _found(before, expression) == _found(after, other)
    assert ("volsched.io" in other) == (expression in LOOKS)
    assert not re.search("alice|bob|carol|corp|A-one|B-two|secret", written_text(after))


def test_selectors_that_cannot_be_compiled_cannot_be_compiled_afterwards() -> None:
    after, _ = anonymised(_with_selector('device.secret == "alice"'))
    assert _selector_of(after) == NO_EXPRESSION
    assert compiled(NO_EXPRESSION).fault


def _with_selector(expression: str) -> ClusterSnapshot:
    a_claim = claim("c", exactly("r0", expression))
    return of(a_claim, part("s1", DEVICES), node("n1"))


def _selector_of(known: ClusterSnapshot) -> str:
    [found_claim] = [found for found in known.objects if isinstance(found, dra.ResourceClaim)]
    [request] = dra.parsed(found_claim.spec, dra.ResourceClaimSpec).devices.requests
    assert request.exactly is not None
    [selector] = request.exactly.selectors
    assert selector.cel is not None
    return selector.cel.expression


def _found(known: ClusterSnapshot, expression: str) -> list[bool | str]:
    """Return what a selector finds of each device; errors are alike whatever they state."""
    slices = [slice_of(found) for found in known.objects if isinstance(found, dra.ResourceSlice)]
    answers = [compiled(expression).select(each) for found in slices for each in found.devices]
    return [answer if isinstance(answer, bool) else "error" for answer in answers]


# --- what cannot be read ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["Team_A!", '["vision", "Bad_Name"]', '{"matchLabels": {}}', "vision, team=vision"])
def test_a_queue_that_lets_nobody_in_lets_nobody_in(text: str) -> None:
    closed = queue("team")
    closed["metadata"]["annotations"] = {"volsched.io/allowed-namespaces": text}
    check_alike(of(node("n1"), closed, group("g", q="team"), pod("p", "g")))


def test_objects_of_devices_that_are_not_understood_stay_so() -> None:
    bad_claim, bad_slice = claim("c", exactly()), part("s1", DEVICES)
    bad_claim["spec"]["devices"]["newRule"] = {"secret": "hunter22"}
    bad_slice["spec"]["newField"] = "hunter22"
    uses = [{"name": "cards", "resourceClaimName": "c"}]
    objects = [node("n1"), device_class("gpu"), bad_slice, bad_claim, group("g", 1), pod("p", "g", resourceClaims=uses)]
    after = check_alike(of(*objects))
    assert "hunter22" not in written_text(after)


# --- the same is decided ----------------------------------------------------------------------------------------------


def test_examples_are_decided_alike_under_other_names() -> None:
    for _, paths in examples.runs():
        check_alike(of_files(*dict.fromkeys(paths)))


NAMED = re.compile(r"(?<![A-Za-z0-9])((?:[qjgn]|old)[0-9])(?![A-Za-z0-9.])")
names_of_people = st.one_of(
    st.from_regex(r"[a-c0-2]{1,3}", fullmatch=True),
    st.from_regex(r"[a-c]{1,2}-[0-9]{1,3}", fullmatch=True),
    st.from_regex(r"(team|default|kube|root|gpu|node|system|zone)-[ab]", fullmatch=True),
    st.from_regex(r"ip-10-[0-9]{1,2}-0-[0-9]{1,2}", fullmatch=True),
    st.from_regex(r"2024-0[1-9]-1[0-9]|a-(1x|10|10-b|9z)|[0-9]{1,2}[az]", fullmatch=True),
    st.sampled_from(["gpu", "memory", "pods", "cpu"]),
)


def _renamed(scenario: Scenario, drawn: list[str]) -> ClusterSnapshot:
    """Return the cluster at the start of a scenario, whose queues, nodes and gangs have drawn names."""
    left, chosen = iter(drawn), dict[str, str]()
    text = NAMED.sub(lambda found: chosen.setdefault(found[1], chosen.get(found[1]) or next(left)), _text_of(scenario))
    return ClusterSnapshot(tuple(map(read, json.loads(text))), scenario.configuration)


def _text_of(scenario: Scenario) -> str:
    return json.dumps(scenario.objects)


@cache
def _some_scenarios() -> list[Scenario]:
    return stored_scenarios(3)[::4]


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 53), st.lists(names_of_people, unique=True, min_size=14, max_size=14))
def test_recorded_scenarios_are_decided_alike_under_other_names(number: int, drawn: list[str]) -> None:
    check_alike(_renamed(_some_scenarios()[number], drawn))


@pytest.mark.slow(reason="hundreds of scenarios, each decided twice")
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_each_kind_of_recorded_scenarios_is_decided_alike_under_other_names(chunk: int) -> None:
    for scenario in some_scenarios(chunk, one_in=10):
        check_alike(_renamed(scenario, [f"own-{number}" for number in range(40)]))
