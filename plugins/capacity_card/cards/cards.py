"""Which accelerator cards a node offers, by model: whole cards of any vendor, MPS shares, MIG slices.

A card's name is what users write in quotas and requests; its resource is what pods ask for and kubelets count::

    whole  <product>                                nvidia.com/gpu, huawei.com/ascend-910, ...
    MPS    <product>/mps-<GB>g*1/<replicas>         nvidia.com/gpu.shared
    MIG    <product>/mig-<profile>-mixed            nvidia.com/mig-<profile>

The product comes from the label ``<prefix>/<type>.product``, which counts when ``.count`` and ``.memory`` (MB of one
card) stand beside it. GB are MB / 1024, rounded half up. Naming and rules are those of Volcano's capacity-card design;
*ours*: iteration is sorted, a whole card's resource begins with ``<prefix>/``, ``<prefix>/<type>`` is preferred among
several, and MPS shares or MIG slices without a product are no cards.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from plugins.capacity_card.cards.amounts import whole_up
from volsched.model.errors import shortened

MPS_RESOURCE: Final = "nvidia.com/gpu.shared"
MPS_REPLICAS: Final = "nvidia.com/gpu.replicas"
MIG_PREFIX: Final = "nvidia.com/mig-"

SUFFIXES: Final = (".product", ".count", ".memory", ".replicas")
"""Ends of the labels that describe cards; nothing else of a node's labels is looked at."""

_PRODUCT: Final = re.compile(r"((.+?)/(\w+))\.product", re.ASCII)
_WHOLE_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)
_MB_PER_GB: Final = 1024


@dataclass(frozen=True, slots=True)
class CardOffer:
    """One model that a node offers: ``amount`` in milli-cards, always of whole cards, of ``resource``."""

    name: str
    resource: str
    amount: int


@dataclass(frozen=True, slots=True)
class CardOffers:
    """All that a node offers, in order of names, and what its labels lack."""

    cards: tuple[CardOffer, ...] = ()
    warnings: tuple[str, ...] = ()

    def find(self, name: str) -> CardOffer | None:
        """The card of that name, None when the node has none."""
        return next((card for card in self.cards if card.name == name), None)


NO_CARDS: Final = CardOffers()


def cards_of(labels: Mapping[str, str], allocatable: Mapping[str, int]) -> CardOffers:
    """Return what a node offers; a resource of which nothing is allocatable is not offered.

    Amounts are in thousandths, those of cpu, memory and pods aside, which are no cards.
    """
    warnings: list[str] = []
    product = _product(labels, warnings)
    offered = {name: amount for name, amount in sorted(allocatable.items()) if amount > 0}
    if product is None:
        if not warnings and (shared := _shared(offered)):
            warnings.append(
                f"offers {', '.join(shared)} and has no label <prefix>/<type>.product with .count and .memory, "
                "so these are no cards"
            )
        return CardOffers((), tuple(warnings)) if warnings else NO_CARDS
    cards = [*_whole(product, offered, warnings), *_mps(product, labels, offered, warnings), *_mig(product, offered)]
    return CardOffers(tuple(sorted(cards, key=lambda card: card.name)), tuple(warnings))


@dataclass(frozen=True, slots=True)
class _Product:
    """A model of physical cards: ``key`` is ``<prefix>/<type>``, ``memory`` the MB of one card (0: not a number)."""

    key: str
    prefix: str
    name: str
    memory: int


def _product(labels: Mapping[str, str], warnings: list[str]) -> _Product | None:
    """The first product label, in order of keys, that has its companions."""
    complete: list[_Product] = []
    lacking: list[str] = []
    for key in sorted(key for key in labels if key.endswith(".product")):
        match = None if MIG_PREFIX in key else _PRODUCT.fullmatch(key)
        if match is None or not labels[key]:
            continue
        kind, prefix = match[1], match[2]
        missing = [f"{kind}.{what}" for what in ("count", "memory") if not labels.get(f"{kind}.{what}")]
        if missing:
            lacking.append(f"label {key} needs {' and '.join(missing)} beside it, so its cards are not counted")
        else:
            complete.append(
                _Product(kind, prefix, labels[key], _memory(labels, kind, warnings if not complete else []))
            )
    if not complete:
        warnings.extend(lacking)
        return None
    if len(complete) > 1:
        ignored = ", ".join(f"{product.key}.product" for product in complete[1:])
        warnings.append(f"names several products; {complete[0].key}.product counts, {ignored} does not")
    return complete[0]


def _memory(labels: Mapping[str, str], kind: str, warnings: list[str]) -> int:
    companions = (f"{kind}.count", f"{kind}.memory")
    warnings.extend(
        f"label {key} is {_quoted(labels[key])}, which is no whole number"
        for key in companions
        if _number(labels[key]) is None
    )
    return _number(labels[f"{kind}.memory"]) or 0


def _whole(product: _Product, offered: Mapping[str, int], warnings: list[str]) -> Iterator[CardOffer]:
    found = [name for name in offered if name.startswith(f"{product.prefix}/") and not _is_shared(name)]
    if not found:
        return
    resource = min(found, key=lambda name: (name != product.key, not name.startswith(product.key), name))
    if resource != product.key and len(found) > 1:
        warnings.append(
            f"offers {', '.join(found)} and no {product.key}; {resource} counts as the card {_quoted(product.name)}"
        )
    yield CardOffer(product.name, resource, whole_up(offered[resource]))


def _mps(
    product: _Product, labels: Mapping[str, str], offered: Mapping[str, int], warnings: list[str]
) -> Iterator[CardOffer]:
    if MPS_RESOURCE not in offered:
        return
    replicas = _number(labels.get(MPS_REPLICAS, "")) or 0
    if replicas <= 0:
        warnings.append(f"offers {MPS_RESOURCE} and label {MPS_REPLICAS} is not a whole number above 0: no MPS cards")
    elif product.memory <= 0:
        warnings.append(f"offers {MPS_RESOURCE} and label {product.key}.memory is not above 0: no MPS cards")
    else:
        name = f"{product.name}/mps-{gigabytes(product.memory)}g*1/{replicas}"
        yield CardOffer(name, MPS_RESOURCE, whole_up(offered[MPS_RESOURCE]))


def _mig(product: _Product, offered: Mapping[str, int]) -> Iterator[CardOffer]:
    for resource, amount in offered.items():
        profile = resource.removeprefix(MIG_PREFIX)
        if profile and profile != resource:
            yield CardOffer(f"{product.name}/mig-{profile}-mixed", resource, whole_up(amount))


def gigabytes(megabytes: int) -> int:
    """Return the GB in the name of an MPS card, rounded half up: 2560 MB are 3, 512 MB are 1."""
    return (2 * megabytes + _MB_PER_GB) // (2 * _MB_PER_GB)


def resource_by_name(card: str) -> str | None:
    """Return the resource that a shared card's name itself tells; None for whole cards, whose vendor it does not."""
    match = re.fullmatch(r".+/(?:(mps)-[0-9]+g\*1/[0-9]+|mig-(.+)-mixed)", card)
    if match is None:
        return None
    return MPS_RESOURCE if match[1] else f"{MIG_PREFIX}{match[2]}"


def _is_shared(resource: str) -> bool:
    return resource == MPS_RESOURCE or resource.startswith(MIG_PREFIX)


def _shared(offered: Mapping[str, int]) -> list[str]:
    return [name for name in offered if _is_shared(name)]


def _number(text: str) -> int | None:
    return int(text) if _WHOLE_NUMBER.fullmatch(text) else None


def _quoted(text: str) -> str:
    return f'"{shortened(text, 63)}"'
