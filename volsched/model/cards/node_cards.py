"""The accelerator cards of a node by model: whole cards, MPS shares, MIG slices, and cards that plugins name.

A card's name is the one in quotas and requests; its resource is the one that pods request and kubelets count::

    whole        <product>                                nvidia.com/gpu, huawei.com/ascend-910, ...
    MPS          <product>/mps-<GB>g*1/<replicas>         nvidia.com/gpu.shared
    time slices  <product>/time-slicing*1/<replicas>      nvidia.com/gpu.shared, where labels say that it is these
    MIG          <product>/mig-<profile>-mixed            nvidia.com/mig-<profile>
    named        the name that an active plugin gives     any other resource

The product comes from the label ``<prefix>/<type>.product``, which counts if ``.count`` and ``.memory`` (MB of one
card) are there as well. GB are MB / 1024, rounded half up. Names and rules are those of Volcano's capacity-card design;
*ours*: iteration is sorted, a whole card's resource begins with ``<prefix>/``, ``<prefix>/<type>`` is preferred among
several, MPS shares or MIG slices without a product are no cards, time slices are not called MPS, and other resources
have the names of active plugins (``naming``). A resource that looks like cards and has no name is a warning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from volsched.model.cards.amounts import whole_up
from volsched.model.cards.names import MIG_PREFIX, SHARED_RESOURCE, CardNameFn
from volsched.model.cards.naming import BY_VENDOR_LABELS, no_names
from volsched.model.cards.vendors import accelerators, is_amount, label_on, product_label
from volsched.model.errors import shortened
from volsched.model.nodes.node import NodeInfo

REPLICAS: Final = "nvidia.com/gpu.replicas"
SHARING: Final = "nvidia.com/gpu.sharing-strategy"
MPS, TIME_SLICING = "mps", "time-slicing"

SUFFIXES: Final = (".product", ".count", ".memory", ".replicas", ".sharing-strategy")
"""The ends of labels that describe cards by the design. A mapping may read others."""

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
class NodeCardResources:
    """All that a node offers, in order of names, and what its labels lack.

    ``unnamed`` are resources that look like cards and have no name.
    """

    cards: tuple[CardOffer, ...] = ()
    warnings: tuple[str, ...] = ()
    unnamed: tuple[str, ...] = ()

    def find(self, name: str) -> CardOffer | None:
        """Return the card of that name, None when the node has none."""
        return next((card for card in self.cards if card.name == name), None)


NO_CARDS: Final = NodeCardResources()


def cards_of(
    labels: Mapping[str, str], allocatable: Mapping[str, int], name_of: CardNameFn = no_names
) -> NodeCardResources:
    """Return the cards of a node. A resource with nothing allocatable is left out.

    Amounts are in thousandths, except those of cpu, memory and pods, which are no cards.
    """
    warnings = _CardWarnings()
    offered = {name: amount for name, amount in sorted(allocatable.items()) if amount > 0}
    product = _product(labels, warnings)
    cards = [] if product is None else list(_of_product(product, labels, offered, warnings))
    mapped = list(_mapped(name_of, labels, offered, cards, warnings))
    warnings.drop([card.resource for card in mapped])
    named = [card.resource for card in (*cards, *mapped)]
    unnamed = _unnamed(product, accelerators(offered, named), warnings)
    for resource in unnamed:
        warnings.add(_without_name(resource, labels))
    if not (named or warnings.texts):
        return NO_CARDS
    ordered = sorted((*cards, *mapped), key=lambda card: card.name)
    return NodeCardResources(tuple(ordered), tuple(warnings.texts), tuple(unnamed))


def idle_of(node: NodeInfo, card: CardOffer) -> int:
    """Return the free milli-cards of one model on a node."""
    return max(0, min(card.amount, node.idle_of(card.resource)))


class _CardWarnings:
    """Problems of labels. ``about``: the prefix of the resources that a warning is about."""

    def __init__(self) -> None:
        self._found: list[tuple[tuple[str, ...], str]] = []

    @property
    def texts(self) -> list[str]:
        return [text for _, text in self._found]

    def add(self, text: str, *about: str) -> None:
        self._found.append((about, text))

    def covers(self, resource: str) -> bool:
        """True if there is a warning about this resource."""
        return any(resource.startswith(about) for about, _ in self._found)

    def drop(self, resources: Sequence[str]) -> None:
        """Leave out those about resources that have a name after all."""
        self._found = [found for found in self._found if not any(name.startswith(found[0]) for name in resources)]


def _of_product(
    product: _Product, labels: Mapping[str, str], offered: Mapping[str, int], warnings: _CardWarnings
) -> Iterator[CardOffer]:
    yield from _whole(product, offered, warnings)
    yield from _shares(product, labels, offered, warnings)
    yield from _mig(product, offered)


def is_product_label(key: str, labels: Mapping[str, str]) -> bool:
    """True if a label of a node names a card by the design, with all labels that must be beside it."""
    match = None if MIG_PREFIX in key else _PRODUCT.fullmatch(key)
    return match is not None and all(labels.get(f"{match[1]}.{what}") for what in ("count", "memory"))


@dataclass(frozen=True, slots=True)
class _Product:
    """A model of physical cards: ``key`` is ``<prefix>/<type>``, ``memory`` the MB of one card (0: not a number)."""

    key: str
    prefix: str
    name: str
    memory: int


def _product(labels: Mapping[str, str], warnings: _CardWarnings) -> _Product | None:
    """Return the first product label, in order of keys, whose count and memory labels exist."""
    complete: list[_Product] = []
    lacking: list[tuple[str, str]] = []
    for key in sorted(key for key in labels if key.endswith(".product")):
        match = None if MIG_PREFIX in key else _PRODUCT.fullmatch(key)
        if match is None or not labels[key]:
            continue
        kind, prefix = match[1], match[2]
        missing = [f"{kind}.{what}" for what in ("count", "memory") if not labels.get(f"{kind}.{what}")]
        if missing:
            lack = f"label {key} needs {' and '.join(missing)} beside it, so its cards are not counted"
            lacking.append((lack, f"{prefix}/"))
        else:
            named = warnings if not complete else _CardWarnings()
            complete.append(_Product(kind, prefix, labels[key], _memory(labels, kind, named)))
    if not complete:
        for lack, about in lacking:
            warnings.add(lack, about)
        return None
    if len(complete) > 1:
        ignored = ", ".join(f"{product.key}.product" for product in complete[1:])
        text = f"names several products; {complete[0].key}.product counts, {ignored} does not"
        warnings.add(text, *(f"{product.prefix}/" for product in complete[1:]))
    return complete[0]


def _memory(labels: Mapping[str, str], kind: str, warnings: _CardWarnings) -> int:
    others = (f"{kind}.count", f"{kind}.memory")
    for key in others:
        if _number(labels[key]) is None:
            warnings.add(f"label {key} is {_quoted(labels[key])}, which is no whole number")
    return _number(labels[f"{kind}.memory"]) or 0


def _whole(product: _Product, offered: Mapping[str, int], warnings: _CardWarnings) -> Iterator[CardOffer]:
    found = [name for name in offered if name.startswith(f"{product.prefix}/") and not _is_shared(name)]
    if not found:
        return
    resource = min(found, key=lambda name: (name != product.key, not name.startswith(product.key), name))
    if resource != product.key and len(found) > 1:
        warnings.add(
            f"offers {', '.join(found)} and no {product.key}; {resource} counts as the card {_quoted(product.name)}"
        )
    yield CardOffer(product.name, resource, whole_up(offered[resource]))


def _shares(
    product: _Product, labels: Mapping[str, str], offered: Mapping[str, int], warnings: _CardWarnings
) -> Iterator[CardOffer]:
    """Yield what ``nvidia.com/gpu.shared`` is: MPS shares, unless a label says that cards are shared in another way."""
    if SHARED_RESOURCE not in offered:
        return
    strategy, replicas = labels.get(SHARING, ""), _number(labels.get(REPLICAS, "")) or 0
    if strategy not in ("", MPS, TIME_SLICING):
        text = f"offers {SHARED_RESOURCE} and label {SHARING} is {_quoted(strategy)}, neither {MPS} nor {TIME_SLICING}"
        warnings.add(f"{text}: no MPS cards", SHARED_RESOURCE)
    elif replicas <= 0:
        text = f"offers {SHARED_RESOURCE} and label {REPLICAS} is not a whole number above 0: no MPS cards"
        warnings.add(text, SHARED_RESOURCE)
    elif strategy == TIME_SLICING:
        name = f"{product.name}/{TIME_SLICING}*1/{replicas}"
        text = f"offers {SHARED_RESOURCE} as time slices, as label {SHARING} says: the card is {_quoted(name)}, not MPS"
        warnings.add(text)
        yield CardOffer(name, SHARED_RESOURCE, whole_up(offered[SHARED_RESOURCE]))
    elif product.memory <= 0:
        text = f"offers {SHARED_RESOURCE} and label {product.key}.memory is not above 0: no MPS cards"
        warnings.add(text, SHARED_RESOURCE)
    else:
        name = f"{product.name}/{MPS}-{gigabytes(product.memory)}g*1/{replicas}"
        yield CardOffer(name, SHARED_RESOURCE, whole_up(offered[SHARED_RESOURCE]))


def _mig(product: _Product, offered: Mapping[str, int]) -> Iterator[CardOffer]:
    for resource, amount in offered.items():
        profile = resource.removeprefix(MIG_PREFIX)
        if profile and profile != resource:
            yield CardOffer(f"{product.name}/mig-{profile}-mixed", resource, whole_up(amount))


def gigabytes(megabytes: int) -> int:
    """Return the GB in the name of an MPS card, rounded half up: 2560 MB are 3, 512 MB are 1."""
    return (2 * megabytes + _MB_PER_GB) // (2 * _MB_PER_GB)


# --- resources without a product ------------------------------------------------------------------------------------


def _mapped(
    name_of: CardNameFn,
    labels: Mapping[str, str],
    offered: Mapping[str, int],
    cards: Sequence[CardOffer],
    warnings: _CardWarnings,
) -> Iterator[CardOffer]:
    """Yield the cards that ``name_of`` names, of resources that the design's labels do not."""
    taken = {card.name: card.resource for card in cards}
    named = set(taken.values())
    for resource, amount in offered.items():
        name = name_of(resource, labels) if resource not in named else ""
        if name in taken:
            text = f"offers {taken[name]} and {resource} as the card {_quoted(name)}; {resource} is not counted"
            warnings.add(f"{text}: give it another name in argument cards of capacity-card")
        elif name:
            taken[name] = resource
            yield CardOffer(name, resource, whole_up(amount))


def _unnamed(product: _Product | None, resources: Sequence[str], warnings: _CardWarnings) -> list[str]:
    """Return the resources that look like cards and have no name, without those of warnings."""
    vendor = f"{product.prefix}/" if product is not None else None
    return [name for name in resources if not (vendor and name.startswith(vendor)) and not warnings.covers(name)]


def _without_name(resource: str, labels: Mapping[str, str]) -> str:
    """Return that a resource has no name, and each way to give it one."""
    key, label = product_label(resource), label_on(resource, labels)
    lack = f"offers {resource} and has no label {key}.product with .count and .memory beside it"
    entry = f"{{resource: {resource}, " + (f"model: {label}}}" if label else "name: ...}")
    ways = [f"set these labels, or name the card in argument cards of capacity-card, as {entry}"]
    by_vendor = BY_VENDOR_LABELS.card_of(resource, labels)
    if by_vendor:
        ways.append(f"vendorLabels: true calls it {_quoted(by_vendor)}")
    if is_amount(resource):
        ways.append("one unit of it is then a card")
    return f"{lack}, so its cards are not counted: {'; '.join(ways)}"


def _is_shared(resource: str) -> bool:
    return resource == SHARED_RESOURCE or resource.startswith(MIG_PREFIX)


def _number(text: str) -> int | None:
    return int(text) if _WHOLE_NUMBER.fullmatch(text) else None


def _quoted(text: str) -> str:
    return f'"{shortened(text, 63)}"'
