"""What two runs decide, one of them under other names, and which texts of a cluster are left in a file."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from volsched.diagnose import snapshot
from volsched.diagnose.anonymous import Names, anonymised, public
from volsched.diagnose.anonymous.notes import NOTES
from volsched.diagnose.cluster_snapshot import ClusterSnapshot
from volsched.model import api
from volsched.registry import annotation_types
from volsched.simulation.result import result_of

_ANNOTATIONS = {*NOTES, *annotation_types()}
_LONG = 6
_NUMBERED = re.compile(r"(.+)-([0-9]+)")
_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
_OF_A_POD = re.compile(r"([^/]+-[0-9]+)-([a-z][a-z0-9]*)")
_MADE = re.compile(r"(.+)-extended-resources-[0-9a-f]+")
_PLAIN = re.compile(r"[0-9.,eE+-]+[numkKMGTPE]?i?|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\S*|([0-9.]+(ms|h|m|s))+")


def check_alike(before: ClusterSnapshot) -> ClusterSnapshot:
    """Have a cluster decide as it does under other names, in which no text of it is left; return that one."""
    after, names = anonymised(before)
    other = _Others(before, names)
    was, now = result_of(before.stage().run()), result_of(after.stage().run())
    assert _decided(was, other.name, other.amount) == _decided(now, other.left_out, str)
    left = sorted({text for text in _texts_of(before) if _is_left(text, after)})
    assert not left, left
    return after


class _Others:
    """Other names of what there is, and of what is made in a run: from other names, with numbers behind them."""

    def __init__(self, known: ClusterSnapshot, names: Names) -> None:
        self._names = names
        self._there = {text for found in known.objects for text in (found.metadata.name, found.metadata.namespace)}
        self._resources = frozenset(names.resources)

    def name(self, text: str) -> str:
        made = _MADE.fullmatch(text)
        if made is not None:
            return f"{self.name(made[1])}-extended"
        if text == "group":
            return text
        if text in self._there or _UID.search(text):
            return self._names.name(text)
        if (numbered := _NUMBERED.fullmatch(text)) is not None:
            return f"{self.name(numbered[1])}-{numbered[2]}"
        if (of_a_pod := _OF_A_POD.fullmatch(text)) is not None:
            return f"{self.name(of_a_pod[1])}-{self.name(of_a_pod[2])}"
        return self._names.name(text)

    def left_out(self, text: str) -> str:
        made = _MADE.fullmatch(text)
        return f"{made[1]}-extended" if made is not None else text

    def amount(self, text: str) -> str:
        is_resource = text in self._resources or "deviceclass/" in text
        return self._names.resource(text) if is_resource else self._names.card(text)


def _decided(result: dict[str, Any], name: Callable[[str], str], amount: Callable[[str], str]) -> dict[str, Any]:
    """Return what was decided, and why not, without words for people."""

    def key(text: str | None) -> str | None:
        return "/".join(map(name, text.split("/"))) if text else text

    claims = {claim: found["reservedFor"] for claim, found in result["resourceClaims"].items()}
    return {
        "binds": [(each["cycle"], key(each["pod"]), key(each["node"])) for each in result["binds"]],
        "pipelined": [(each["cycle"], key(each["pod"]), key(each["node"])) for each in result["pipelined"]],
        "evictions": [(e["cycle"], key(e["pod"]), e["action"], key(e["for"])) for e in result["evictions"]],
        "pods": {
            key(pod): [found["phase"], *map(key, (found["node"], found["podGroup"], found["queue"]))]
            for pod, found in result["pods"].items()
        },
        "groups": {
            key(group): [found["phase"], key(found["queue"]), *((c["type"], c["reason"]) for c in found["conditions"])]
            for group, found in result["podGroups"].items()
        },
        "queues": {
            key(queue): [found["state"], {amount(what): of for what, of in found["allocated"].items()}]
            for queue, found in result["queues"].items()
        },
        "claims": {key(claim): list(map(key, found)) for claim, found in claims.items()},
        "pending": sorted(
            [key(e["pod"] or e["podGroup"]) or "", key(e["queue"]) or "", e["step"], e["plugin"] or "", e["reason"]]
            for e in result["pending"]
        ),
        "events": sorted(
            [event["cycle"], kind, key(about) or "", event["reason"]]
            for event in result["events"]
            for kind, _, about in [event["object"].partition("/")]
        ),
    }


# --- texts ------------------------------------------------------------------------------------------------------------


def _texts_of(known: ClusterSnapshot) -> Iterator[str]:
    """Yield the texts of objects that are long enough to tell something, and no words of the API."""
    for found in known.objects:
        if not isinstance(found, api.ConfigMap):
            yield from filter(_is_telling, _texts(msgspec.to_builtins(found)))


def _texts(part: Any, at: str = "") -> Iterator[str]:
    """Yield all texts but names of fields."""
    if isinstance(part, dict):
        is_free = at in ("labels", "annotations", "matchLabels", "nodeSelector", "requests", "limits", "attributes")
        yield from part if is_free else ()
        for key, each in part.items():
            yield from _texts(each, key)
    elif isinstance(part, list | tuple):
        for each in part:
            yield from _texts(each)
    elif isinstance(part, str):
        yield part


def _is_telling(text: str) -> bool:
    stays = (public.is_name, public.is_value, public.is_key, public.is_card, public.ATTRIBUTES.__contains__, _is_share)
    if len(text) < _LONG or text in _ANNOTATIONS or any(fn(text) for fn in stays) or _PLAIN.fullmatch(text):
        return False
    if text.startswith(("volcano.sh/crossquota-", "nvidia.com/", "vke.volcengine.com/")) or "/v1" in text:
        return False
    words = re.split(r"[\"\s{}:,|/*]+", text)
    return not all(any(fn(word) for fn in stays) or len(word) < _LONG for word in words)


def _is_share(word: str) -> bool:
    """Whether a text tells how a card is shared."""
    return all(public.is_word_of_keys(each) or public.is_profile(each) for each in word.split("-"))


def _is_left(text: str, after: ClusterSnapshot) -> bool:
    return text in written_text(after)


_WRITTEN: list[tuple[ClusterSnapshot, str]] = []
"""The last one. The cluster is kept, as another one might get its address."""


def written_text(known: ClusterSnapshot) -> str:
    """Return all texts of a snapshot, names of fields aside, each in a line."""
    if not _WRITTEN or _WRITTEN[0][0] is not known:
        file = json.loads(gzip.decompress(snapshot.written(known)))
        _WRITTEN[:] = [(known, "\n".join([file["configuration"], *_texts(file["objects"])]))]
    return _WRITTEN[0][1]
