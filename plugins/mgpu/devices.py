"""The cards of a node: how many, how large, and what of each is free.

A node states what it has in two amounts for all its cards together::

    vke.volcengine.com/mgpu-core     percent of a card's compute, 100 for each card
    vke.volcengine.com/mgpu-memory   MiB

so its cards are alike: as many as whole hundreds of core, each with an equal part of the memory (the rest is lost).
Cards are numbered from 0. Nodes with cards of different sizes cannot be described this way and are not supported.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from volsched.plugin.cards import MGPU_CORE, MGPU_MEMORY, MGPU_NODE_TYPE, MGPU_POLICY

CORE: Final = MGPU_CORE
MEMORY: Final = MGPU_MEMORY
POLICY: Final = MGPU_POLICY
NODE_TYPE: Final = MGPU_NODE_TYPE
CARD_IDS: Final = "volsched.io/mgpu-card-ids"
"""Annotation of a node: the ids of its cards, separated by commas, in the order of their indexes (*ours*)."""

MGPU: Final = "mgpu"
CORE_OF_CARD: Final = 100
MOST_CARDS: Final = 1024
"""The most cards of one node (*ours*). Nodes have about sixteen; more would be a mistake, and cost memory."""
FIXED_SHARE: Final = "fixed-share"
NATIVE_BURST_SHARE: Final = "native-burst-share"
POLICIES: Final = (FIXED_SHARE, "guaranteed-burst-share", NATIVE_BURST_SHARE)

MILLI: Final = 1000
"""Amounts of extended resources are in thousandths."""

_ID: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.:]*[A-Za-z0-9])?", re.ASCII)


class FreeCard(NamedTuple):
    """What is free of a card: percent of its core, MiB of its memory; and how many containers use it."""

    core: int
    memory: int
    instances: int = 0


class NodeCardState(NamedTuple):
    """All cards of a node in the order of their indexes. ``memory`` is the MiB that each has."""

    memory: int
    cards: tuple[FreeCard, ...]


@dataclass(frozen=True, slots=True)
class Cards:
    """What a node offers: ``count`` cards of ``memory`` MiB, shared in the way that ``policy`` names.

    ``ids`` are the names that the node gives its cards, none when it gives none; ``is_silent`` states that it does not
    even try; ``warnings`` is what is odd about it.
    """

    count: int = 0
    memory: int = 0
    policy: str = FIXED_SHARE
    ids: tuple[str, ...] = ()
    is_silent: bool = False
    warnings: tuple[str, ...] = ()

    @property
    def idle(self) -> NodeCardState:
        """Return all cards with nothing on them."""
        return NodeCardState(self.memory, (FreeCard(CORE_OF_CARD, self.memory),) * self.count)


def policy_of(labels: Mapping[str, str]) -> str:
    """Return the policy by which a node (labels) or pod (annotations) shares compute."""
    return labels.get(POLICY, FIXED_SHARE)


def count_of(labels: Mapping[str, str], core: int) -> int:
    """Return how many cards a node has, of its labels and allocatable core in thousandths of a percent.

    A node whose type is given as anything but ``mgpu`` gives its cards away whole, in another way; they do not count.
    Nor do more than ``MOST_CARDS``.
    """
    told = max(0, core // (CORE_OF_CARD * MILLI))
    return told if labels.get(NODE_TYPE, MGPU) == MGPU and told <= MOST_CARDS else 0


def cards_of(labels: Mapping[str, str], annotations: Mapping[str, str], core: int, memory: int) -> Cards:
    """Return what a node offers, of its allocatable amounts in thousandths."""
    if labels.get(NODE_TYPE, MGPU) != MGPU:
        return Cards()
    count = count_of(labels, core)
    warnings = _odd_core(core, count)
    if not count:
        return Cards(warnings=tuple(warnings))
    if policy_of(labels) not in POLICIES:
        warnings.append(f"label {POLICY} is none of {', '.join(POLICIES)}: only whole cards can be given out")
    ids, fault = _ids(annotations, count)
    return Cards(
        count,
        memory // MILLI // count,
        policy_of(labels),
        ids,
        is_silent=CARD_IDS not in annotations,
        warnings=(*warnings, fault) if fault else tuple(warnings),
    )


def _odd_core(core: int, count: int) -> list[str]:
    if core >= CORE_OF_CARD * MILLI and not count:
        return [f"{CORE} is more than {MOST_CARDS} cards have: none is given out"]
    if core % (CORE_OF_CARD * MILLI):
        return [f"{CORE} is {core / MILLI:g}, no multiple of {CORE_OF_CARD}: it counts as {count} cards"]
    return []


def _ids(annotations: Mapping[str, str], count: int) -> tuple[tuple[str, ...], str]:
    """Return the ids of a node's cards, or what is wrong with them."""
    text = annotations.get(CARD_IDS)
    if text is None:
        return (), ""
    ids = tuple(item.strip() for item in text.split(","))
    if len(ids) != count or len(set(ids)) != count:
        return (), f"annotation {CARD_IDS} must name {count} different cards: indexes are used"
    if not all(_ID.fullmatch(item) for item in ids) or any(item.isdecimal() for item in ids):
        return (), f"annotation {CARD_IDS} has an id that is empty, a number or has odd characters: indexes are used"
    return ids, ""
