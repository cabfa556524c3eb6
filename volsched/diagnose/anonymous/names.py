"""Other names for names: of objects, keys, resources, cards, attributes, values of labels, images."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Final

from volsched.controllers import jobs
from volsched.diagnose.anonymous import public
from volsched.diagnose.anonymous.words import Words
from volsched.framework.dra.amounts import FLAT
from volsched.mirror.reading import GENERATED_GROUP, PREEMPTABLE
from volsched.model.cards.amounts import joined, names_in
from volsched.model.cards.names import MGPU_NODE_TYPE, MGPU_POLICY
from volsched.model.cards.node_cards import SHARING
from volsched.model.cards.vendors import VENDORS
from volsched.model.dra.api import IMPLICIT
from volsched.model.pods.workload import LABEL
from volsched.model.selectors import int64
from volsched.model.volumes import BETWEEN_ZONES, ZONE_LABELS

_INDEX: Final = re.compile(r"(.+?)((?:-volume)?-[0-9]+)", re.DOTALL)
"""A name with a number at its end. Claims that a Volcano Job's pods share end like ``-volume-0``."""

_OF_QUOTAS: Final = ("requests.", "limits.", "count/")
_OF_WORDS: Final = frozenset(
    {*("kubernetes.io/arch", "kubernetes.io/os", "beta.kubernetes.io/arch", "beta.kubernetes.io/os")}
    | {SHARING, MGPU_POLICY, MGPU_NODE_TYPE, LABEL, PREEMPTABLE, "nvidia.com/mig.strategy"}
)
"""Labels whose values are words of the API."""

_PARTS_OF_CARDS: Final = frozenset(key for _, labels in VENDORS for label in labels for _, key in label.parts if key)
"""Labels whose values follow the model in the name of a card."""

_INDEXES: Final = frozenset(
    {jobs.TASK_INDEX, jobs.PARTITION, "apps.kubernetes.io/pod-index", "batch.kubernetes.io/job-completion-index"}
)
_NUMBERS_OF_CARDS: Final = (".count", ".memory", ".replicas")
_VERSION: Final = re.compile(r"v[0-9]{1,2}((alpha|beta)[0-9]{1,2})?", re.ASCII)
_SEMVER: Final = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+(?=[-+]|$)", re.ASCII)


class Names:
    """Gives names others.

    ``indexed`` are names whose number at the end may be read, as pods' are. ``composed`` are names made of two others
    with a dash between them. ``numeric`` are the keys of labels and taints whose values are compared as numbers.
    """

    def __init__(
        self,
        words: Words,
        indexed: Collection[str],
        composed: Mapping[str, tuple[str, str]],
        numeric: Collection[str],
    ) -> None:
        self._words = words
        self._indexed = indexed
        self._composed = composed
        self._numeric = numeric
        self.resources: set[str] = set()
        """Resources that were met."""

    def name(self, text: str) -> str:
        """Return the other name of an object."""
        if not text or public.is_name(text):
            return self._words.keep(text)
        if text.startswith(GENERATED_GROUP):
            return self._words.keep(GENERATED_GROUP) + self.name(text.removeprefix(GENERATED_GROUP))
        if text in self._composed:
            return "-".join(map(self.name, self._composed[text]))
        end = _INDEX.fullmatch(text) if text in self._indexed else None
        if end is not None:
            return self.name(end[1]) + self._words.keep(end[2])
        return self._words.other(text, public.is_word_of_names)

    def domain(self, text: str) -> str:
        """Return the other domain, driver or group of the API."""
        return self._words.keep(text) if public.is_domain(text) else self.name(text)

    def version(self, text: str) -> str:
        """Return the other version of the API (``group/v1``)."""
        group, slash, version = text.rpartition("/")
        return self.domain(group) + slash + (version if _VERSION.fullmatch(version) else self.name(version))

    def key(self, text: str) -> str:
        """Return the other key of a label or taint."""
        if public.is_key(text):
            return self._words.keep(text)
        domain, slash, rest = text.partition("/")
        if slash:
            return self.domain(domain) + slash + self._words.other(rest, public.is_word_of_keys)
        stem, dot, end = text.rpartition(".")
        return f"{self.name(stem)}{dot}{end}" if dot and public.is_word_of_keys(end) else self.name(text)

    def resource(self, text: str) -> str:
        """Return the other name of a resource."""
        self.resources.add(text)
        start = next((start for start in (*_OF_QUOTAS, IMPLICIT) if text.startswith(start)), "")
        if start:
            rest = text.removeprefix(start)
            return self._words.keep(start) + (self.name(rest) if start == IMPLICIT else self.resource(rest))
        dimension, mark, device_class = text.partition(f".{FLAT}")
        if mark:
            return self.attribute(dimension) + mark + self.name(device_class)
        if text.startswith(FLAT):
            return FLAT + self.name(text.removeprefix(FLAT))
        return self.key(text)

    def attribute(self, text: str) -> str:
        """Return the other name of an attribute or a capacity of devices, with or without its domain."""
        if text in public.ATTRIBUTES:
            return self._words.keep(text)
        domain, slash, own = text.rpartition("/")
        if not slash:
            return self._words.other(text)
        return self.domain(domain) + slash + (own if own in public.ATTRIBUTES else self._words.other(own))

    def card(self, text: str) -> str:
        """Return the other name of a card: of its model, and of its form of sharing."""
        if public.is_card(text) or public.is_profile(text):
            return self._words.keep(text)
        model, slash, share = text.partition("/")
        return (self.card(model) if slash else self.name(model)) + slash + self._share(share)

    def _share(self, text: str) -> str:
        return self._words.other(text, public.is_word_of_keys)

    def cards(self, text: str) -> str:
        """Return the other list ``A|B`` of cards."""
        return joined(tuple(map(self.card, names_in(text))))

    def image(self, text: str) -> str:
        """Return the other name of an image; one without a tag has none."""
        tag = text.rfind(":")
        if tag <= text.rfind("/"):
            return self.name(text)
        return f"{self.name(text[:tag])}:{_of(text[tag + 1 :], 'latest'.__eq__, self.name)}"

    def value(self, key: str, text: str) -> str:
        """Return the other value of a label or a taint."""
        if key in _OF_WORDS:
            return self.word(text)
        if text and self._is_number(key) and int64(text) is not None:
            return text
        if key in ZONE_LABELS:
            return BETWEEN_ZONES.join(map(self.name, text.split(BETWEEN_ZONES)))
        return self._share(text) if key in _PARTS_OF_CARDS else self.card(text)

    def _is_number(self, key: str) -> bool:
        return key in self._numeric or key in _INDEXES or key.endswith(_NUMBERS_OF_CARDS)

    def word(self, text: str) -> str:
        """Return a word of the API, the other name for any other text."""
        return _of(text, public.is_value, self.name)

    def semver(self, text: str) -> str:
        """Return the other semantic version: its numbers stay."""
        numbers = _SEMVER.match(text)
        if numbers is None:
            return self._words.other(text)
        return numbers[0] + self._words.other(text[numbers.end() :], str.isdecimal)


def _of(text: str, stays: Callable[[str], bool], other: Callable[[str], str]) -> str:
    return text if stays(text) else other(text)
