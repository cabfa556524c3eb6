"""Cards whose nodes have no product label: what an argument and the labels of vendors call them, and what they cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from plugins.capacity_card.cards import catalogue
from plugins.capacity_card.cards.mapping import CARDS, VENDOR_LABELS, mapping_of
from plugins.capacity_card.plugin import CapacityCardPlugin
from tests.plugins.capacity_card.clusters import GPU, Cards, cards, configuration, refusal, rig, some
from volsched.framework.config.arguments import values_of
from volsched.framework.config.loading import ConfigurationError
from volsched.model.cards.node_cards import NodeCardResources, cards_of
from volsched.model.cards.vendors import accelerators
from volsched.model.plan import RecordEvent
from volsched.registry import load_configuration
from volsched.simulation.manifests import completed, decode, subject_of
from volsched.testing.builders import Rig, puts
from volsched.validation.objects import problems_of

AMD, ASCEND, GKE = "amd.com/gpu", "huawei.com/Ascend910", "cloud.google.com/gke-accelerator"
PRODUCT_NAME = f"{AMD}.product-name"
MI300X = "AMD_Instinct_MI300X_OAM"
MAPPED = (
    {"resource": AMD, "model": PRODUCT_NAME},
    {"resource": ASCEND, "name": "Ascend910"},
    {"resource": GPU, "model": GKE},
)


def offers(
    labels: dict[str, str], *entries: Mapping[str, str], vendors: bool = False, **amounts: int
) -> NodeCardResources:
    """What a node with these labels offers."""
    mapping = mapping_of({CARDS: entries, VENDOR_LABELS: vendors})
    return cards_of(labels, {name: 1000 * amount for name, amount in amounts.items()}, mapping.card_of)


def names(found: NodeCardResources) -> dict[str, int]:
    return {card.name: card.amount // 1000 for card in found.cards}


# --- names ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "amounts", "expected"),
    [
        ({PRODUCT_NAME: MI300X}, {AMD: 8}, {MI300X: 8}),
        ({}, {ASCEND: 8}, {"Ascend910": 8}),
        ({GKE: "nvidia-l4"}, {GPU: 2}, {"nvidia-l4": 2}),
        ({GKE: ""}, {GPU: 2}, {}),
        ({}, {GPU: 2}, {}),
        ({GKE: "nvidia-l4"}, {GPU: 0}, {}),
        ({GKE: "l4", PRODUCT_NAME: MI300X}, {GPU: 1, AMD: 2, ASCEND: 3}, {"l4": 1, MI300X: 2, "Ascend910": 3}),
    ],
)
def test_a_mapping_names_the_cards_of_a_resource(
    labels: dict[str, str], amounts: dict[str, int], expected: dict[str, int]
) -> None:
    assert names(offers(labels, *MAPPED, **amounts)) == expected


def test_the_product_label_of_the_design_has_precedence() -> None:
    labels = {f"{GPU}.product": "NVIDIA-L4", f"{GPU}.count": "1", f"{GPU}.memory": "23034", GKE: "nvidia-l4"}

    assert names(offers(labels, *MAPPED, **{GPU: 1})) == {"NVIDIA-L4": 1}
    assert names(offers(labels | {PRODUCT_NAME: "MI"}, *MAPPED, **{GPU: 1, AMD: 1})) == {"NVIDIA-L4": 1, "MI": 1}


def test_a_label_that_lacks_others_is_no_fault_where_a_mapping_names_the_card() -> None:
    labels = {f"{GPU}.product": "NVIDIA-L4", GKE: "nvidia-l4"}

    found = offers(labels, *MAPPED, **{GPU: 1})

    assert (names(found), found.warnings) == ({"nvidia-l4": 1}, ())
    assert "needs nvidia.com/gpu.count" in offers(labels, **{GPU: 1}).warnings[0]


def test_of_several_entries_the_first_counts_whose_label_is_there() -> None:
    entries = ({"resource": GPU, "model": "a"}, {"resource": GPU, "model": "b"}, {"resource": GPU, "name": "any"})

    found = [names(offers(labels, *entries, **{GPU: 1})) for labels in ({"a": "A", "b": "B"}, {"b": "B"}, {})]

    assert found == [{"A": 1}, {"B": 1}, {"any": 1}]


def test_a_card_is_of_one_resource_on_a_node() -> None:
    entries = ({"resource": GPU, "model": "kind"}, {"resource": AMD, "model": "kind"})

    found = offers({"kind": "X"}, *entries, **{GPU: 1, AMD: 2})

    assert names(found) == {"X": 2}
    assert 'offers amd.com/gpu and nvidia.com/gpu as the card "X"; nvidia.com/gpu is not counted' in found.warnings[0]


# --- vendors --------------------------------------------------------------------------------------------------------

VENDORS: list[tuple[dict[str, str], str, str]] = [
    ({GKE: "nvidia-l4"}, GPU, "nvidia-l4"),
    ({GKE: "nvidia-tesla-a100", "cloud.google.com/gke-gpu-partition-size": "1g.5gb"}, GPU, "nvidia-tesla-a100/1g.5gb"),
    (
        {
            GKE: "nvidia-l4",
            "cloud.google.com/gke-gpu-sharing-strategy": "time-sharing",
            "cloud.google.com/gke-max-shared-clients-per-gpu": "3",
        },
        GPU,
        "nvidia-l4/time-sharing*1/3",
    ),
    ({"eks.amazonaws.com/instance-gpu-name": "h100"}, GPU, "h100"),
    ({"karpenter.k8s.aws/instance-gpu-name": "a10g"}, GPU, "a10g"),
    ({"karpenter.azure.com/sku-gpu-name": "A100"}, GPU, "A100"),
    ({"aliyun.accelerator/nvidia_name": "Tesla-V100"}, GPU, "Tesla-V100"),
    ({"k8s.amazonaws.com/accelerator": "nvidia-tesla-t4"}, GPU, "nvidia-tesla-t4"),
    ({PRODUCT_NAME: MI300X}, AMD, MI300X),
    ({"beta.amd.com/gpu.product-name": MI300X}, AMD, MI300X),
    ({"gpu.intel.com/product": "Flex_170"}, "gpu.intel.com/i915", "Flex_170"),
    ({"gpu.intel.com/product": "Arc_B580"}, "gpu.intel.com/xe", "Arc_B580"),
    ({"cloud.google.com/gke-tpu-accelerator": "tpu-v5-lite-podslice"}, "google.com/tpu", "tpu-v5-lite-podslice"),
    ({"karpenter.k8s.aws/instance-accelerator-name": "trainium"}, "aws.amazon.com/neuron", "trainium"),
    ({"node.kubernetes.io/npu.chip.name": "910B3", "accelerator": "huawei-Ascend910"}, ASCEND, "910B3"),
    ({"accelerator": "huawei-Ascend310P"}, "huawei.com/Ascend310P", "huawei-Ascend310P"),
    (
        {"machine.cluster.vke.volcengine.com/gpu-name": "Tesla-V100"},
        "vke.volcengine.com/mgpu-core",
        "Tesla-V100/mgpu*1/100",
    ),
]


@pytest.mark.parametrize(("labels", "resource", "card"), VENDORS)
def test_labels_of_vendors_count_where_that_is_switched_on(labels: dict[str, str], resource: str, card: str) -> None:
    assert names(offers(labels, vendors=True, **{resource: 4})) == {card: 4}
    assert names(offers(labels, **{resource: 4})) == {}
    own = {"resource": resource, "name": "mine"}
    assert names(offers(labels, own, vendors=True, **{resource: 4})) == {"mine": 4}


@pytest.mark.parametrize(("labels", "resource", "card"), VENDORS)
def test_what_looks_like_a_card_and_has_no_name_is_said_with_the_ways_out(
    labels: dict[str, str], resource: str, card: str
) -> None:
    [warning] = offers(labels, **{resource: 4}).warnings

    assert f"offers {resource} and has no label {resource.partition('/')[0]}/" in warning
    assert ".product with .count and .memory beside it" in warning
    assert f"argument cards of capacity-card, as {{resource: {resource}, " in warning
    assert f'vendorLabels: true calls it "{card}"' in warning


@pytest.mark.parametrize(
    ("resources", "found"),
    [
        (["cpu", "pods", "hugepages-2Mi", "rdma/hca", "example.com/input", "smarter-devices/gpio", "x.com/tpux"], []),
        (["cambricon.com/mlu370", "hygon.com/dcunum", "habana.ai/gaudi", "qualcomm.com/qaic"], None),
        (["tencent.com/vcuda-core", "iluvatar.ai/vgpu", "enflame.com/gcu", "huawei.com/Ascend910-2c"], None),
        (["gpu.intel.com/i915_monitoring", "gpu.intel.com/millicores", "gpu.intel.com/memory.max"], []),
        (
            ["aws.amazon.com/neuron", "aws.amazon.com/neuroncore", "aws.amazon.com/neurondevice"],
            ["aws.amazon.com/neuron"],
        ),
        (["nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpucores"], ["nvidia.com/gpu"]),
        (
            ["aliyun.com/gpu-mem", "volcano.sh/vgpu-memory", "volcano.sh/vgpu-number"],
            ["aliyun.com/gpu-mem", "volcano.sh/vgpu-number"],
        ),
        (["nvidia.com/mig-1g.5gb", "amd.com/cpx_nps4", "rebellions.ai/ATOM"], None),
        (["tenstorrent.com/n150", "hailo.ai/h8", "cloud-tpus.google.com/v2"], None),
    ],
)
def test_resources_look_like_accelerators_by_their_names(resources: list[str], found: list[str] | None) -> None:
    assert accelerators(resources) == sorted(resources if found is None else found)


def test_parts_of_what_has_a_name_are_not_asked_for() -> None:
    found = offers(
        {"machine.cluster.vke.volcengine.com/gpu-name": "V100"},
        vendors=True,
        **{"vke.volcengine.com/mgpu-core": 400, "vke.volcengine.com/mgpu-memory": 130_040},
    )

    assert (names(found), found.warnings) == ({"V100/mgpu*1/100": 400}, ())


# --- what is wrong --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entries", "place", "words"),
    [
        ([{"resource": AMD}], "cards[0]", "has neither a model nor a name; say model, the label"),
        ([{"resource": AMD, "model": "a", "name": "b"}], "cards[0]", "has both a model and a name"),
        ([{"name": "b"}], "cards[0].resource", "is missing; it says which resource"),
        (
            [{"resource": "cpu", "name": "b"}],
            "cards[0].resource",
            "must be an extended resource, as amd.com/gpu, not 'cpu'",
        ),
        ([{"resource": "requests.nvidia.com/gpu", "name": "b"}], "cards[0].resource", "must be an extended resource"),
        ([{"resource": "node.kubernetes.io/x", "name": "b"}], "cards[0].resource", "must be an extended resource"),
        ([{"resource": AMD, "model": "no label"}], "cards[0].model", "must be the key of a label of nodes"),
        ([{"resource": AMD, "name": "a|b"}], "cards[0].name", "must be the name of a card, without |"),
        ([{"resource": AMD, "name": ""}], "cards[0].name", "must be the name of a card"),
        ([{"resource": AMD, "name": "A/mig-1g.5gb-mixed"}], "cards[0].name", "which is nvidia.com/mig-1g.5gb and not"),
        ([{"resource": AMD, "modle": "x"}], "cards[0].modle", "is no field of an entry; did you mean model?"),
        ([{"resource": AMD, "name": 910}], "cards[0].name", "must be a text, not 910; put it into quotes"),
        ([{"resource": AMD, "name": True}], "cards[0].name", "must be a text, not true"),
        (["amd.com/gpu"], "cards[0]", 'must be a mapping, not the text "amd.com/gpu"'),
        ({"resource": AMD}, "cards", "must be a list of mappings with resource, model, name, not a mapping"),
        ([*MAPPED, MAPPED[0]], "cards[3]", "says the same as cards[0]; leave one of them out"),
        (
            [*MAPPED, {"resource": ASCEND, "name": "B"}],
            "cards[3]",
            "as cards[1] names every huawei.com/Ascend910 'Ascend910'",
        ),
        ([*MAPPED, {"resource": ASCEND, "model": "x"}], "cards[3]", "never counts, as cards[1] names every"),
        (
            [*MAPPED, {"resource": AMD, "name": "Ascend910"}],
            "cards[3].name",
            "contradicts cards[1]: it calls amd.com/gpu",
        ),
    ],
)
def test_an_entry_that_is_wrong_is_refused_with_its_place(entries: Any, place: str, words: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load_configuration(configuration(cards=entries))

    [problem] = caught.value.problems
    assert problem.key == f"tiers[0].plugins[3].arguments.{place}"
    assert words in problem.message
    assert problem.message.startswith(place)


def test_everything_that_is_wrong_is_told_with_its_line() -> None:
    text = configuration().replace(
        '"arguments": {}', '"arguments": {cards: [\n{resource: cpu, name: "|"},\n{resource: a.b/c}]}'
    )

    with pytest.raises(ConfigurationError) as caught:
        load_configuration(text)

    assert [(problem.line, problem.key.rpartition("cards")[2]) for problem in caught.value.problems] == [
        (8, "[0].resource"),
        (8, "[0].name"),
        (9, "[1]"),
    ]


def test_a_field_that_is_said_twice_is_refused() -> None:
    text = configuration().replace('"arguments": {}', '"arguments": {cards: [{resource: a.b/c, name: a, name: b}]}')

    with pytest.raises(ConfigurationError, match="name: is said twice, first in line 7"):
        load_configuration(text)


# --- quotas ---------------------------------------------------------------------------------------------------------


def world() -> Cards:
    """A node of AMD, one of Huawei, one of GKE, none with a product label."""
    cluster = cards()
    more = {"cpu": "1000", "memory": "4Ti"}
    cluster.node("amd", labels={PRODUCT_NAME: MI300X}, **more, **some({AMD: 8}))
    cluster.node("ascend", **more, **some({ASCEND: 8}))
    cluster.node("gke", labels={GKE: "nvidia-l4"}, **more, **some({GPU: 8}))
    return cluster


def a_mapped_rig(cluster: Cards, **arguments: Any) -> Rig:
    return rig(cluster, cards=list(MAPPED), **arguments)


@pytest.mark.parametrize(
    ("card", "resource", "node"), [(MI300X, AMD, "amd"), ("Ascend910", ASCEND, "ascend"), ("nvidia-l4", GPU, "gke")]
)
def test_a_quota_of_a_mapped_card_is_kept(card: str, resource: str, node: str) -> None:
    cluster = world().quota("q", {card: 3}).gang("g", 4, card=card, resource=resource)

    decision = a_mapped_rig(cluster).cycle()

    assert list(decision.bindings.values()) == [node] * 3
    reason, message = refusal(decision, "g-3")
    assert reason == "InsufficientScalarQuota"
    assert f"{card}: requested 1, held 3, quota 3" in message


def test_without_the_mapping_nobody_knows_the_card() -> None:
    decision = rig(world().quota("q", {MI300X: 3}).gang("g", card=MI300X, resource=AMD)).cycle()

    assert refusal(decision, "g-0")[0] == "GetTaskRequestResourceFailed"


def test_a_list_takes_mapped_cards_and_those_of_labels_alike() -> None:
    cluster = world().cards("a", "NVIDIA-A100").quota("q", {"NVIDIA-A100": 1, "nvidia-l4": 2})
    cluster.gang("g", 4, card="NVIDIA-A100|nvidia-l4")

    decision = a_mapped_rig(cluster, nodeOrderWeight=10).cycle()

    assert sorted(decision.bindings.values()) == ["a", "gke", "gke"]


def test_cards_are_charged_again_when_the_label_of_a_mapping_changes() -> None:
    cluster = world().quota("q", {MI300X: 2, "MI250": 8}).gang("old", 2, card=f"{MI300X}|MI250", resource=AMD, on="amd")
    scheduling = a_mapped_rig(cluster)
    more = cards().gang("new", card=MI300X, resource=AMD)
    assert refusal(scheduling.cycle(*puts(*more.objects)), "new-0")[0] == "InsufficientScalarQuota"

    other = cards().node("amd", cpu="1000", memory="4Ti", labels={PRODUCT_NAME: "MI250"}, **some({AMD: 8}))
    another = cards().node("amd2", cpu="1000", memory="4Ti", labels={PRODUCT_NAME: MI300X}, **some({AMD: 8}))

    assert scheduling.cycle(*puts(*other.objects, *another.objects)).bindings == {"new-0": "amd2"}


def test_a_pod_on_a_node_that_is_gone_counts_for_the_card_of_its_resource() -> None:
    cluster = world().quota("q", {"Ascend910": 2}).gang("g", 2, card="Ascend910", resource=ASCEND, on="ascend")
    cluster.objects[:] = [o for o in cluster.objects if o["metadata"]["name"] != "ascend"]
    cluster.node("other", cpu="1000", memory="4Ti", **some({ASCEND: 8})).gang("more", card="Ascend910", resource=ASCEND)

    decision = a_mapped_rig(cluster).cycle()

    assert refusal(decision, "more-0")[0] == "InsufficientScalarQuota"


def test_a_strict_reading_asks_for_names_of_mapped_cards() -> None:
    cluster = world().quota("q", {MI300X: 8}).gang("g", **some({AMD: 1}))

    assert a_mapped_rig(cluster).cycle().bindings == {"g-0": "amd"}
    reason, message = refusal(a_mapped_rig(cluster, strictCardName=True).cycle(), "g-0")
    assert reason == "GetTaskRequestResourceFailed"
    assert "amd.com/gpu is asked for and no annotation volcano.sh/card.name says which card" in message


def test_nodes_with_cards_that_nobody_names_get_an_event() -> None:
    def told(**arguments: Any) -> list[str]:
        steps = rig(world(), **arguments).cycle().steps
        return [s.message for s in steps if isinstance(s, RecordEvent) and s.reason == "IncompleteCardLabels"]

    assert [message.split(" and ")[0] for message in told()] == [
        f"node offers {AMD}",
        f"node offers {ASCEND}",
        f"node offers {GPU}",
    ]
    assert told(cards=list(MAPPED)) == []


NAMED = ({"resource": GPU, "name": "MAPPED"}, {"resource": AMD, "name": "MI300"})


@pytest.mark.parametrize(
    ("names", "codes"),
    [
        ("MAPPED|NVIDIA-A100", []),
        ("MAPPED|NVIDIA-H100", ["NotFound"]),
        ("MI300|NVIDIA-A100", ["NotFound", "Invalid"]),
        ("NVIDIA-A100|NVIDIA-A100/mps-80g*1/8", ["NotFound", "Invalid"]),
    ],
)
def test_mapped_cards_and_those_of_labels_may_be_in_one_list(names: str, codes: list[str]) -> None:
    cluster = cards().cards("a", "NVIDIA-A100").node("b", cpu="8", memory="8Gi", **some({GPU: 8})).gang("g", card=names)
    told = values_of("plugin capacity-card", CapacityCardPlugin.ARGUMENTS, {"cards": list(NAMED)})

    found = problems_of(
        [completed(decode(raw)) for raw in cluster.objects if raw["kind"] in ("Node", "Pod")],
        subject_of,
        {"capacity-card": told}.get,
    )

    assert [problem.code for problem in found if "volcano.sh/card.name" in problem.field] == codes


# --- what it costs --------------------------------------------------------------------------------------------------


def test_nodes_are_read_once_for_all_that_say_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Mapping[str, str]] = []

    def reading(labels: Mapping[str, str], *rest: Any) -> NodeCardResources:
        read.append(labels)
        return cards_of(labels, *rest)

    monkeypatch.setattr(catalogue, "cards_of", reading)
    cluster = cards().quota("q", {"nvidia-l4": 100})
    for index in range(50):
        labels = {GKE: "nvidia-l4" if index % 2 else "nvidia-t4", "kubernetes.io/hostname": f"n{index}"}
        cluster.node(f"n{index}", cpu="8", memory="32Gi", labels=labels, **some({GPU: 2}))
    scheduling = a_mapped_rig(cluster.gang("g", 20, card="nvidia-l4"))

    assert len(scheduling.cycle().bindings) == 20
    assert read == [{GKE: "nvidia-t4"}, {GKE: "nvidia-l4"}]
