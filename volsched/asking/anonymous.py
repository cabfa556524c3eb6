"""People's names out of a snapshot: the same name becomes the same other one everywhere, and sorts as before.

What order decides (nodes by name, pods by name and number, uids) must stay, so names are numbered in their order, and
the number at the end of a pod's name is kept. Not renamed are keys of labels and annotations, names of resources,
cards, drivers and schedulers, values of labels that Kubernetes and vendors define and of those that name cards,
numbers, and CEL expressions. Messages are left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec

from plugins.capacity_card.cards.cards import is_product_label
from plugins.capacity_card.cards.mapping import mapping_in
from volsched.asking.known import KnownCluster
from volsched.model import api

Json = Any
TakeText = Callable[[str], str]

NAME_FIELDS: Final = frozenset(
    {
        *("name", "namespace", "queue", "parent", "generateName", "nodeName", "nominatedNodeName", "claimName"),
        *("volumeName", "storageClassName", "priorityClassName", "serviceAccountName", "resourceClaimName"),
        *("resourceClaimTemplateName", "deviceClassName", "pool", "device", "request", "secretName", "value"),
    }
)
"""Fields whose texts are names; ``value`` is of annotations of Volcano that name something."""

_LISTS: Final = frozenset({"requests", "names"})
_ANNOTATIONS_OF_NAMES: Final = frozenset(
    {"scheduling.k8s.io/group-name", "scheduling.volcano.sh/queue-name", "volcano.sh/task-spec", "volcano.sh/job-name"}
)
_KEPT: Final = frozenset({"", "default", "root", "kube-system"})
_KEPT_START: Final = ("system-",)
_DEFINED: Final = re.compile(r"(^|\.)(kubernetes\.io|k8s\.io|nvidia\.com|amd\.com|intel\.com)$")
_OF_NAMES: Final = frozenset({"kubernetes.io/hostname", "kubernetes.io/metadata.name"})
_INDEX: Final = re.compile(r"-[0-9]+$")
_NUMBER: Final = re.compile(r"-?[0-9]+")


@dataclass(slots=True)
class Renames:
    """New names by old ones. ``values`` are those of labels, of which those of ``cards`` name cards and stay."""

    cards: frozenset[str] = frozenset()
    names: dict[str, str] = field(default_factory=dict)
    values: dict[str, str] = field(default_factory=dict)
    uids: dict[str, str] = field(default_factory=dict)

    def name(self, text: str) -> str:
        """Return the other name; parts of a path (`request/subrequest`) by themselves."""
        return self.names.get(text) or "/".join(self.names.get(part, part) for part in text.split("/"))

    def value(self, key: str, text: str) -> str:
        """Return the other value of a label."""
        if _is_defined(key, self.cards) or _NUMBER.fullmatch(text):
            return text
        return self.names.get(text) or self.values.get(text, text)


def anonymised(known: KnownCluster) -> tuple[KnownCluster, Renames]:
    """Return the cluster with other names, and which they are."""
    plain = [
        (type(found), msgspec.to_builtins(found)) for found in known.objects if not isinstance(found, api.ConfigMap)
    ]
    renames = _renames([body for _, body in plain], known)
    objects = tuple(msgspec.convert(_walked(body, renames), kind) for kind, body in plain)
    queue = renames.name(known.default_queue)
    return replace(known, objects=objects, origin="anonymised", default_queue=queue), renames


def _renames(bodies: Iterable[Json], known: KnownCluster) -> Renames:
    cards = _card_labels(known)
    names: set[str] = {known.default_queue}
    values: set[str] = set()
    uids: set[str] = set()
    kept = {*known.scheduler_names, *_KEPT}
    for body in bodies:
        for what, text in _found(body, cards):
            {"name": names, "value": values, "uid": uids}[what].add(text)
    names = {part for name in names for part in (name, *name.split("/")) if not _stays(part, kept)}
    return Renames(
        cards,
        {old: _numbered(old, number) for number, old in enumerate(sorted(names), 1)},
        {old: f"v{number:06d}" for number, old in enumerate(sorted(values - names - kept), 1)},
        {old: f"00000000-0000-0000-0000-{number:012d}" for number, old in enumerate(sorted(uids), 1)},
    )


def _card_labels(known: KnownCluster) -> frozenset[str]:
    """Return the labels of nodes whose values are names of cards: by a mapping, or as capacity-card reads them."""
    labels = (found.metadata.labels for found in known.objects if isinstance(found, api.Node))
    products = {key for each in labels for key in each if is_product_label(key, each)}
    return mapping_in(known.profile().configuration).keys | products


def _stays(name: str, kept: set[str]) -> bool:
    return name in kept or name.startswith(_KEPT_START)


def _numbered(old: str, number: int) -> str:
    """Return a name that sorts by number, with as many parts as before and the same index at its end."""
    index = _INDEX.search(old)
    middle = "-x" * max(0, old.count("-") - 1) if index else ""
    return f"n{number:06d}{middle}{index.group() if index else ''}"


# --- where names stand ----------------------------------------------------------------------------------------------


def _found(body: Json, cards: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Yield each text that is a name, a value of a label or a uid, by walking without changing anything."""
    seen: list[tuple[str, str]] = []

    def note(what: str) -> Callable[[str], str]:
        def take(text: str) -> str:
            seen.append((what, text))
            return text

        return take

    _each(body, note("name"), lambda key, text: text if _is_defined(key, cards) else note("value")(text), note("uid"))
    return iter(seen)


def _walked(body: Json, renames: Renames) -> Json:
    return _each(body, renames.name, renames.value, lambda uid: renames.uids.get(uid, uid))


def _each(body: Json, name: TakeText, value: Callable[[str, str], str], uid: TakeText) -> Json:
    """Return a copy in which every name, value of a label and uid went through its function."""
    return _Walk(name, value, uid).part(body, "")


@dataclass(frozen=True, slots=True)
class _Walk:
    """One walk through an object; ``at`` is the field in which a part stands."""

    name: TakeText
    value: Callable[[str, str], str]
    uid: TakeText

    def part(self, part: Json, at: str) -> Json:
        if isinstance(part, Mapping):
            return self._mapping(part, at)
        if isinstance(part, list | tuple):
            return [self.part(each, at) for each in part]
        return self._text(part, at) if isinstance(part, str) else part

    def _mapping(self, part: Mapping[str, Any], at: str) -> Json:
        if at in ("labels", "matchLabels", "nodeSelector"):
            return {key: self._label(key, text) for key, text in part.items()}
        if at == "annotations":
            return {key: self.name(text) if key in _ANNOTATIONS_OF_NAMES else text for key, text in part.items()}
        if at in ("matchExpressions", "matchFields", "taints", "tolerations") and "key" in part:
            return self._requirement(part)
        return {key: self.part(each, key) for key, each in part.items()}

    def _label(self, key: str, text: str) -> str:
        return self.name(text) if key in _OF_NAMES or key in _ANNOTATIONS_OF_NAMES else self.value(key, text)

    def _requirement(self, part: Mapping[str, Any]) -> Json:
        key, found = part["key"], dict(part)
        if "values" in part:
            found["values"] = [self.name(t) if key == "metadata.name" else self._label(key, t) for t in part["values"]]
        if part.get("value"):
            found["value"] = self._label(key, part["value"])
        return found

    def _text(self, text: str, at: str) -> str:
        if at == "message":
            return ""
        if at == "uid":
            return self.uid(text)
        return self.name(text) if at in NAME_FIELDS or at in _LISTS or at == "image" else text


def _is_defined(key: str, cards: frozenset[str]) -> bool:
    if key in cards:
        return True
    domain, slash, _ = key.partition("/")
    return bool(slash) and bool(_DEFINED.search(domain)) and key not in _OF_NAMES
