"""Accelerators of many vendors: which labels tell their model, and which resources look like them.

The labels are those that vendors and clouds document; `docs/plugins/capacity-card.md` has a source for each.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
"""The label that every cloud sets: the last resort to tell kinds of accelerators apart."""


@dataclass(frozen=True, slots=True)
class CardLabel:
    """A card is called by the value of the label ``key``, followed by its ``parts``.

    Each part is a text and the value of a label, and left out where a node lacks the label; a part whose label is empty
    is the text alone. So a slice of a card is not called like the card.
    """

    key: str
    parts: tuple[tuple[str, str], ...] = ()

    @property
    def keys(self) -> Iterable[str]:
        """Return the labels that are read."""
        return filter(None, (self.key, *(key for _, key in self.parts)))

    def read(self, labels: Mapping[str, str]) -> str:
        """Return the card on a node with these labels; empty if it lacks the first of them."""
        model = labels.get(self.key, "") if self.key else ""
        return model + "".join(self._parts(labels)) if model else ""

    def _parts(self, labels: Mapping[str, str]) -> Iterator[str]:
        for text, key in self.parts:
            if not key or labels.get(key):
                yield text + labels.get(key, "")


_GKE: Final = CardLabel(
    "cloud.google.com/gke-accelerator",
    (
        ("/", "cloud.google.com/gke-gpu-partition-size"),
        ("/", "cloud.google.com/gke-gpu-sharing-strategy"),
        ("*1/", "cloud.google.com/gke-max-shared-clients-per-gpu"),
    ),
)
_AUTO_MODE: Final = CardLabel("eks.amazonaws.com/instance-gpu-name")
_KARPENTER: Final = CardLabel("karpenter.k8s.aws/instance-gpu-name")
_VOLCENGINE: Final = "machine.cluster.vke.volcengine.com/gpu-name"

VENDORS: Final[tuple[tuple[tuple[str, ...], tuple[CardLabel, ...]], ...]] = (
    (
        ("nvidia.com/gpu",),
        (
            _GKE,
            _AUTO_MODE,
            _KARPENTER,
            CardLabel("karpenter.azure.com/sku-gpu-name"),
            CardLabel(_VOLCENGINE),
            CardLabel("aliyun.accelerator/nvidia_name"),
            CardLabel("k8s.amazonaws.com/accelerator"),
        ),
    ),
    (
        ("amd.com/gpu",),
        (CardLabel("amd.com/gpu.product-name"), CardLabel("beta.amd.com/gpu.product-name"), _AUTO_MODE, _KARPENTER),
    ),
    (("gpu.intel.com/i915", "gpu.intel.com/xe"), (CardLabel("gpu.intel.com/product"),)),
    (("google.com/tpu",), (CardLabel("cloud.google.com/gke-tpu-accelerator"),)),
    (("aws.amazon.com/neuron",), (CardLabel("karpenter.k8s.aws/instance-accelerator-name"),)),
    (("habana.ai/gaudi",), (_AUTO_MODE, _KARPENTER)),
    (
        ("huawei.com/Ascend310", "huawei.com/Ascend310P", "huawei.com/Ascend910", "huawei.com/npu"),
        (CardLabel("node.kubernetes.io/npu.chip.name"), CardLabel("accelerator")),
    ),
    (("vke.volcengine.com/mgpu-core",), (CardLabel(_VOLCENGINE, (("/mgpu*1/100", ""),)),)),
)
"""Resources, and the labels that name their cards, the likelier first."""

_WORDS: Final = re.compile(
    r"[a-z]?(gpu|npu|tpu|xpu|hpu|ipu|ppu|mlu|gcu|dcu|cuda|fpga)(s|num|mem|share|[0-9][0-9a-z]*|memory|cores?)?"
    r"|(ascend|gaudi|accelerator)(s|[0-9][0-9a-z]*)?|neuron(core|device)?|qaic",
    re.ASCII,
)
_OTHERS: Final = re.compile(
    r"nvidia\.com/mig-.+|gpu\.intel\.com/(i915|xe)|amd\.com/[cdqst]px_nps[0-9]+|(furiosa|hailo|rebellions)\.ai/.+"
    r"|(tenstorrent|cloud-tpus\.google)\.com/.+",
    re.ASCII,
)
_AMOUNT: Final = re.compile(r"(mem|memory|cores?|percentage|count|device)$", re.ASCII)
_MONITORING: Final = "monitoring"


def accelerators(resources: Iterable[str], known: Iterable[str] = ()) -> list[str]:
    """Return the resources of a node that look like accelerators, in order, without ``known`` ones.

    Amounts of them (memory, cores) count only if the vendor offers nothing else, and none is known: they are parts of
    those.
    """
    found = sorted(name for name in resources if _looks_like_one(name))
    known = set(known)
    whole = {_domain(name) for name in found if not is_amount(name) or name in known}
    return [name for name in found if name not in known and not (is_amount(name) and _domain(name) in whole)]


def _looks_like_one(resource: str) -> bool:
    if _OTHERS.fullmatch(resource):
        return True
    _, slash, name = resource.partition("/")
    words = re.split(r"[^0-9a-z]+", name.casefold())
    return bool(slash) and _MONITORING not in words and any(map(_WORDS.fullmatch, words))


def _domain(resource: str) -> str:
    return resource.partition("/")[0]


def product_label(resource: str) -> str:
    """Return the key to which ``.product``, ``.count`` and ``.memory`` belong that describe a resource's cards."""
    if resource.startswith("nvidia.com/"):
        return "nvidia.com/gpu"
    found = re.match(r"[^/]+/\w+", resource, re.ASCII)
    return found[0] if found else resource


def label_on(resource: str, labels: Mapping[str, str]) -> str:
    """Return a label of a node whose value alone could be the name of a resource's cards; empty without one."""
    known = [label for resources, found in VENDORS if resource in resources for label in found]
    named = next((label for label in known if label.read(labels)), CardLabel(INSTANCE_TYPE))
    return named.key if named.read(labels) == labels.get(named.key) else ""


def is_amount(resource: str) -> bool:
    """Return whether a resource counts memory or cores of cards, and not cards."""
    return bool(_AMOUNT.search(resource))
