"""An auditor that follows the API server by itself and counts again, at every event, what nobody may overrun.

It watches pods, PodGroups, Queues, Nodes, ResourceClaims and ResourceSlices, straight from the API server and not
through a proxy, and trusts nothing but what these objects say. All pods come through one watch, in the order in which
they were written. So it sees each state between two writes. It keeps its findings by kind, with the names.

A watch that ends in good order goes on where it was. One that breaks, or that the API server refuses to go on with
(410, a restart), is followed by a new list; `relisted` says so, as writes may have been missed in between. It is not
known then whether a pod that is gone was ever bound. Where the API server's versions went back, what was known of
bindings counts no more.
"""

from __future__ import annotations

import http.client
import json
import threading
import time
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final, Literal, TypeAlias

from drills.device_audit import DeviceAudit
from drills.reading import (
    CORE,
    GROUP_NAME,
    MEMORY,
    QUEUE_NAME,
    Json,
    Share,
    amounts,
    charges_of,
    is_finished,
    key_of,
    notes_of,
    quota_of,
    requests_of,
    shares_of,
)
from drills.report import Report
from tools.controlplane import ApiClient, ApiServerError

GROUPS: Final = "/apis/scheduling.volcano.sh/v1beta1"
DEVICES: Final = "/apis/resource.k8s.io/v1"
PATHS: Final = {
    "nodes": "/api/v1/nodes",
    "queues": f"{GROUPS}/queues",
    "podgroups": f"{GROUPS}/podgroups",
    "slices": f"{DEVICES}/resourceslices",
    "claims": f"{DEVICES}/resourceclaims",
    "pods": "/api/v1/pods",
}
IN_PART_SECONDS: Final = 60.0
WATCH_SECONDS: Final = 60
KEPT: Final = 20
"""Findings of a kind whose words are kept; the others are counted."""

Sums: TypeAlias = defaultdict[str, Decimal]
Kind: TypeAlias = Literal["moved", "node", "quota", "cards", "devices", "in part", "vanished"]

_WORDS: Final[dict[Kind, str]] = {
    "moved": "pods bound twice, or seen on another node than before",
    "node": "bindings that overran a node's cpu, memory, pods or extended resources",
    "quota": "bindings that overran a queue's cards, or its cpu or memory",
    "cards": "bindings that overran a shared card, or named none",
    "devices": "devices given out twice or beyond their capacity, or in another order than their claims allow",
    "in part": f"gangs left in part for over {IN_PART_SECONDS:g} s",
    "vanished": "pods that went without ever having been bound",
}


class RelistError(Exception):
    """The API server cannot go on with a watch."""


_EXPECTED: Final = (OSError, http.client.HTTPException, ApiServerError, RelistError, json.JSONDecodeError)
"""What a watch may break with. Anything else is a fault of the auditor, and no drill is met that had one."""


@dataclass(slots=True)
class Held:
    """What a pod holds: on its node, of its queue, of its node's cards. The same is given back as was taken."""

    node: str
    queue: str
    requests: dict[str, Decimal] = field(default_factory=dict)
    charged: dict[str, Decimal] = field(default_factory=dict)
    shares: tuple[Share, ...] = ()
    is_leaving: bool = False
    """Its deletion has begun: it holds its node, and its queue no more."""
    trouble: str = ""
    """Why nobody can say which cards it has."""


@dataclass(slots=True)
class Gang:
    """The pods of one PodGroup that have a node, and since when they are too few."""

    minimum: int = 0
    """0 until the PodGroup was seen."""
    queue: str = ""
    members: dict[str, Json] = field(default_factory=dict)
    """Pods by uid."""
    is_deleted: bool = False
    has_started: bool = False
    in_part_since: float | None = None
    was_told: bool = False


class Auditor:
    """Follows one API server from `start` until `stop`; its findings may be asked for at any time.

    `quotas` says whether queues are to be held to their cards (the configuration has capacity-card).
    """

    def __init__(self, api: ApiClient, *, quotas: bool = True, clock: Callable[[], float] = time.monotonic) -> None:
        self.counts: Counter[Kind] = Counter()
        self.relisted: list[str] = []
        self.failures: list[str] = []
        self.bound = 0
        self.longest_in_part = 0.0
        self.latencies = array("d")
        """Seconds from when a pod was first seen until it was seen with a node."""
        self._api = api
        self._quotas = quotas
        self._clock = clock
        self._words: dict[Kind, list[str]] = defaultdict(list)
        self._lock = threading.RLock()
        self._listed = {kind: threading.Event() for kind in PATHS}
        self._is_over = threading.Event()
        self._nodes: dict[str, Json] = {}
        self._queues: dict[str, Json] = {}
        self._gangs: dict[str, Gang] = defaultdict(Gang)
        self._pods: dict[str, Json] = {}
        self._seen_at: dict[str, float] = {}
        self._held: dict[str, Held] = {}
        self._on_node: dict[str, Sums] = defaultdict(_no_sums)
        self._of_queue: dict[str, Sums] = defaultdict(_no_sums)
        self._on_card: dict[tuple[str, int], list[int]] = defaultdict(lambda: [0, 0])
        self._waits_for_more: set[str] = set()
        self._versions = dict.fromkeys(PATHS, 0)
        self._devices = DeviceAudit()

    # -- life -----------------------------------------------------------------------------------------------------

    def start(self, timeout: float = 120.0) -> Auditor:
        """Follow everything, and return once everything was listed."""
        for kind in PATHS:
            threading.Thread(target=self._follow, args=(kind,), name=f"audit-{kind}", daemon=True).start()
        threading.Thread(target=self._look_at_gangs, name="audit-gangs", daemon=True).start()
        for kind, listed in self._listed.items():
            if not listed.wait(timeout):
                raise TimeoutError(f"the auditor could not list {kind} in {timeout:g} s")
        return self

    def stop(self) -> None:
        """Look at nothing any more; watches that are open end by themselves."""
        self._is_over.set()

    def catch_up(self, timeout: float = 60.0) -> None:
        """Return once everything that was written before this call has been looked at; raises TimeoutError."""
        listed = self._api.get(PATHS["pods"])
        claims = max((_version(claim) for claim in self._api.items(PATHS["claims"])), default=0)
        deadline = self._clock() + timeout
        while not self._has_seen(listed) or self._versions["claims"] < claims:
            if self._clock() > deadline:
                raise TimeoutError(f"the auditor is behind: it knows of versions up to {self._versions['pods']}")
            time.sleep(0.05)

    def _has_seen(self, listed: Json) -> bool:
        """Whether all that is in a list is known, and that what is not there has gone."""
        there = {_uid(pod) for pod in listed["items"]}
        latest = max((_version(pod) for pod in listed["items"]), default=0)
        end = _version(listed)
        with self._lock:
            is_stale = any(uid not in there and _version(pod) <= end for uid, pod in self._pods.items())
            return self._versions["pods"] >= latest and not is_stale

    # -- findings -------------------------------------------------------------------------------------------------

    def examples(self, kind: Kind) -> tuple[str, ...]:
        """The words of the first findings of a kind."""
        return tuple(self._words[kind])

    def waiting(self, scheduler: str = "") -> list[str]:
        """Pods without a node that nobody is deleting; of one scheduler, or of all."""
        with self._lock:
            return [
                key_of(pod)
                for pod in self._pods.values()
                if not pod["spec"].get("nodeName")
                and "deletionTimestamp" not in pod["metadata"]
                and not pod["spec"].get("schedulingGates")
                and scheduler in {"", pod["spec"].get("schedulerName")}
            ]

    def judge(self, report: Report, without: tuple[Kind, ...] = ()) -> None:
        """Add a line to a report for each kind of finding, and the figures that say what was looked at.

        `without` names kinds that a drill brings about itself, as one that deletes pods which wait.
        """
        self.judge_bindings()
        for kind, words in _WORDS.items():
            if kind in without:
                continue
            report.must(words, self.counts[kind], "==", 0, self.examples(kind), is_time=kind == "in part")
        report.must("faults of the auditor itself", len(self.failures), "==", 0, tuple(self.failures))
        report.figure("bindings that the auditor saw", self.bound)
        report.figure("longest time that a gang was in part, seconds", self.longest_in_part)
        report.figure("times that the auditor had to list anew", len(self.relisted))

    def judge_bindings(self) -> None:
        """Judge whether claims were reserved before their pods were bound, once all has been seen (``catch_up``)."""
        with self._lock:
            for words in self._devices.judge_bindings():
                self._find("devices", words)

    def placed(self) -> dict[str, str]:
        """The nodes of all pods that have one."""
        with self._lock:
            return {key_of(pod): node for pod in self._pods.values() if (node := pod["spec"].get("nodeName"))}

    def recount(self) -> list[str]:
        """Say which of the auditor's own sums differ from what the pods add up to; for tests."""
        with self._lock:
            again = Auditor(self._api, quotas=False, clock=self._clock)
            for kind, things in (
                ("nodes", self._nodes.values()),
                ("pods", self._pods.values()),
            ):
                for thing in things:
                    again.apply(kind, "ADDED", thing)
            return [
                f"{name}: kept {_nonzero(kept)}, counted {_nonzero(counted)}"
                for name, kept, counted in (
                    ("nodes", self._on_node, again._on_node),
                    ("cards", self._on_card, again._on_card),
                )
                if _nonzero(kept) != _nonzero(counted)
            ]

    def _find(self, kind: Kind, words: str) -> None:
        self.counts[kind] += 1
        if len(self._words[kind]) < KEPT:
            self._words[kind].append(words)

    # -- following ------------------------------------------------------------------------------------------------

    def _follow(self, kind: str) -> None:
        broke_at: float | None = None
        trouble = ""
        while not self._is_over.is_set():
            try:
                listed = self._api.get(PATHS[kind])
                with self._lock:
                    if broke_at is not None:
                        self._say_relisted(kind, self._clock() - broke_at, trouble)
                    self.replace(kind, listed)
                broke_at = None
                self._listed[kind].set()
                self._watch(kind, listed["metadata"]["resourceVersion"])
            except Exception as error:
                trouble = f"{type(error).__name__}: {error}"[:200]
                if not isinstance(error, _EXPECTED):
                    self.failures.append(f"{kind}: {trouble}")
                broke_at = self._clock() if broke_at is None else broke_at
                self._is_over.wait(0.2)

    def _watch(self, kind: str, version: str) -> None:
        """Take changes in until the watch breaks; one that ends in good order is opened again where it was."""
        while not self._is_over.is_set():
            path = f"{PATHS[kind]}?allowWatchBookmarks=true"
            for event in self._api.watch(path, resource_version=version, timeout_seconds=WATCH_SECONDS):
                thing = event["object"]
                if event["type"] == "ERROR":
                    raise RelistError(f"{thing.get('code')} {thing.get('message')}")
                version = thing["metadata"]["resourceVersion"]
                if event["type"] != "BOOKMARK":
                    with self._lock:
                        self.apply(kind, event["type"], thing)
                        self._versions[kind] = max(self._versions[kind], int(version))
                if self._is_over.is_set():
                    return

    def _say_relisted(self, kind: str, seconds: float, trouble: str) -> None:
        self.relisted.append(f"{kind} listed anew after {seconds:.1f} s: {trouble}")
        if kind == "pods":  # what could not be seen is not held against a gang
            for gang in self._gangs.values():
                if gang.in_part_since is not None:
                    gang.in_part_since += seconds

    def replace(self, kind: str, listed: Json) -> None:
        """Take a list in: it is all that there is."""
        version = int(listed["metadata"]["resourceVersion"])
        if version < self._versions[kind]:
            self.relisted.append(f"{kind}: versions went back from {self._versions[kind]} to {version}")
            if kind == "pods":
                self._forget_pods()
        self._versions[kind] = version
        of_devices = {"claims": self._devices.claims, "slices": self._devices.slices}
        known = {"pods": self._pods, "nodes": self._nodes, "queues": self._queues, **of_devices}.get(kind, {})
        if kind == "claims":
            self._devices.list_claims(listed["items"])
        key = _uid if kind == "pods" else key_of
        there = {key(item) for item in listed["items"]}
        for gone in [thing for name, thing in known.items() if name not in there]:
            if kind == "pods":
                self._forget_pod(gone)
            else:
                self.apply(kind, "DELETED", gone)
        for item in listed["items"]:
            self.apply(kind, "MODIFIED", item)

    def _forget_pods(self) -> None:
        """Believe nothing of what was known of pods: the store was put back to an earlier state."""
        for uid in list(self._held):
            self._give_back(uid)
        for gang in self._gangs.values():
            gang.members.clear()
            gang.has_started, gang.in_part_since = False, None
        self._pods.clear()
        self._seen_at.clear()
        self._devices.forget()

    def apply(self, kind: str, what: str, thing: Json) -> None:
        """Take one event in, and look at all that it touches."""
        match kind:
            case "pods":
                take_in = self._see_deletion if what == "DELETED" else self._see_pod
                take_in(thing)
            case "slices":
                self._devices.see_slice(thing, is_deleted=what == "DELETED")
            case "claims":
                for words in self._devices.see_claim(thing, is_deleted=what == "DELETED"):
                    self._find("devices", words)
            case "podgroups":
                self._see_group(thing, is_deleted=what == "DELETED")
            case "nodes" | "queues":
                known = self._nodes if kind == "nodes" else self._queues
                is_new = key_of(thing) not in known
                if what == "DELETED":
                    known.pop(key_of(thing), None)
                else:
                    known[key_of(thing)] = thing
                    if is_new:
                        self._look_again()

    # -- pods -----------------------------------------------------------------------------------------------------

    def _see_pod(self, pod: Json) -> None:
        uid, node = _uid(pod), pod["spec"].get("nodeName", "")
        before = self._pods.get(uid)
        was_on = before["spec"].get("nodeName", "") if before else ""
        self._pods[uid] = pod
        if was_on and node != was_on:
            self._find("moved", f"pod {key_of(pod)}: on {was_on}, then on {node or 'no node'}")
        if not before:
            self._seen_at[uid] = self._clock()
        if node and not was_on:
            self.bound += 1
            if before:
                self._devices.see_binding(pod)
                self.latencies.append(self._clock() - self._seen_at[uid])
        if node:
            self._seen_at.pop(uid, None)
            self._hold(uid)
        self._see_member(pod)

    def _see_deletion(self, pod: Json) -> None:
        known = self._pods.get(_uid(pod), pod)
        if not pod["spec"].get("nodeName") and not known["spec"].get("nodeName"):
            self._find("vanished", f"pod {key_of(pod)} was deleted and had no node")
        self._forget_pod(pod)

    def _forget_pod(self, pod: Json) -> None:
        uid = _uid(pod)
        self._pods.pop(uid, None)
        self._seen_at.pop(uid, None)
        self._give_back(uid)
        self._waits_for_more.discard(uid)
        key = _group_of(pod)
        if key in self._gangs:
            self._gangs[key].members.pop(uid, None)
            self._look_at(key, self._gangs[key])
            self._drop_if_over(key)

    def _hold(self, uid: str) -> None:
        """Charge a pod for what it holds now, and look whether that is more than there is."""
        before = self._held.get(uid)
        self._give_back(uid)
        pod = self._pods[uid]
        if is_finished(pod):
            return
        held = self._what_it_holds(pod)
        if held is None:
            self._waits_for_more.add(uid)
            return
        self._waits_for_more.discard(uid)
        self._held[uid] = held
        self._charge(held, 1)
        if before is None or (before.shares, before.queue, before.trouble) != (held.shares, held.queue, held.trouble):
            for kind, words in self._overrun(held):
                self._find(kind, f"pod {key_of(pod)} on {held.node}: {words}")

    def _what_it_holds(self, pod: Json) -> Held | None:
        """What a pod with a node holds; None when its node or its queue was not seen yet."""
        node, queue = self._nodes.get(pod["spec"]["nodeName"]), self._queue_of(pod)
        if node is None or (self._quotas and queue not in self._queues):
            return None
        held = Held(key_of(node), queue, requests_of(pod), is_leaving="deletionTimestamp" in pod["metadata"])
        held.charged = charges_of(pod, node)
        try:
            held.shares = tuple(shares_of(pod, self._card_memory(held.node)))
        except ValueError as error:
            held.trouble = str(error)
        return held

    def _queue_of(self, pod: Json) -> str:
        if key := _group_of(pod):
            return self._gangs[key].queue
        return notes_of(pod).get(QUEUE_NAME, "default")

    def _give_back(self, uid: str) -> None:
        if (held := self._held.pop(uid, None)) is not None:
            self._charge(held, -1)

    def _charge(self, held: Held, sign: int) -> None:
        on_node, of_queue = self._on_node[held.node], self._of_queue[held.queue]
        for resource, number in held.requests.items():
            on_node[resource] += sign * number
        if not held.is_leaving:
            for name, number in (*held.charged.items(), *held.requests.items()):
                of_queue[name] += sign * number
        for share in held.shares:
            card = self._on_card[held.node, share.card]
            card[0] += sign * share.core
            card[1] += sign * share.memory

    def _look_again(self) -> None:
        """Charge the pods whose node or queue was not seen before."""
        for uid in list(self._waits_for_more):
            self._hold(uid)

    # -- what is more than there is -------------------------------------------------------------------------------

    def _overrun(self, held: Held) -> Iterator[tuple[Kind, str]]:
        allocatable = amounts(self._nodes[held.node]["status"]["allocatable"])
        on_node = self._on_node[held.node]
        for resource in held.requests:
            if on_node[resource] > (there := allocatable.get(resource, Decimal(0))):
                yield "node", f"{resource}: {on_node[resource]} of {there} given away"
        if self._quotas and not held.is_leaving:
            for name, number, most in self._beyond_quota(held):
                yield "quota", f"queue {held.queue} holds {number} {name}, and may hold {most}"
        if held.trouble:
            yield "cards", held.trouble
        for share in held.shares:
            yield from self._overrun_card(held.node, share)

    def _beyond_quota(self, held: Held) -> Iterator[tuple[str, object, object]]:
        queue, of_queue = self._queues[held.queue], self._of_queue[held.queue]
        quota, capability = quota_of(queue), amounts(queue["spec"].get("capability"))
        for card in held.charged:
            if of_queue[card] > (most := quota.get(card, Decimal(0))):
                yield card, of_queue[card], most
        for resource in ("cpu", "memory"):
            if resource in capability and of_queue[resource] > capability[resource]:
                yield resource, of_queue[resource], capability[resource]

    def _overrun_card(self, node: str, share: Share) -> Iterator[tuple[Kind, str]]:
        core, memory = self._on_card[node, share.card]
        cards, of_card = self._cards(node), self._card_memory(node)
        if not 0 <= share.card < cards:
            yield "cards", f"card {share.card} is none of {cards}"
        elif core > 100 or memory > of_card:
            yield "cards", f"card {share.card}: {core} percent and {memory} of {of_card} MiB given away"

    def _cards(self, node: str) -> int:
        return (
            int(amounts(self._nodes[node]["status"]["allocatable"]).get(CORE, 0)) // 100 if node in self._nodes else 0
        )

    def _card_memory(self, node: str) -> int:
        cards = self._cards(node)
        return int(amounts(self._nodes[node]["status"]["allocatable"]).get(MEMORY, 0)) // cards if cards else 0

    # -- gangs ----------------------------------------------------------------------------------------------------

    def _see_group(self, group: Json, *, is_deleted: bool) -> None:
        key = key_of(group)
        gang = self._gangs[key]
        gang.is_deleted = is_deleted
        if is_deleted:
            self._drop_if_over(key)
            return
        was = gang.queue
        gang.minimum = int(group["spec"].get("minMember") or 1)
        gang.queue = group["spec"].get("queue") or "default"
        if not was:
            for uid in [uid for uid in gang.members if uid in self._waits_for_more]:
                self._hold(uid)
        self._look_at(key, gang)

    def _drop_if_over(self, key: str) -> None:
        if self._gangs[key].is_deleted and not self._gangs[key].members:
            del self._gangs[key]

    def _see_member(self, pod: Json) -> None:
        key = _group_of(pod)
        if key and pod["spec"].get("nodeName"):
            self._gangs[key].members[_uid(pod)] = pod
            self._look_at(key, self._gangs[key])

    def _look_at(self, key: str, gang: Gang) -> None:
        """Note whether a gang is in part. One that had its minimum once may end pod by pod."""
        there = len(gang.members)
        if not there:
            gang.has_started = False
        elif gang.minimum and there >= gang.minimum:
            gang.has_started = True
        is_in_part = 0 < there < gang.minimum and not gang.has_started
        now = self._clock()
        if gang.in_part_since is not None:
            self._tell_in_part(key, gang, now - gang.in_part_since)
        if not is_in_part:
            gang.in_part_since, gang.was_told = None, False
        elif gang.in_part_since is None:
            gang.in_part_since = now

    def _tell_in_part(self, key: str, gang: Gang, seconds: float) -> None:
        self.longest_in_part = max(self.longest_in_part, seconds)
        if seconds > IN_PART_SECONDS and not gang.was_told:
            gang.was_told = True
            names = ", ".join(key_of(pod) for pod in gang.members.values())
            self._find("in part", f"PodGroup {key}: {len(gang.members)} of {gang.minimum} for {seconds:.0f} s: {names}")

    def _look_at_gangs(self) -> None:
        while not self._is_over.wait(1.0):
            with self._lock:
                for key, gang in self._gangs.items():
                    if gang.in_part_since is not None:
                        self._look_at(key, gang)


def _no_sums() -> Sums:
    return defaultdict(Decimal)


def _uid(thing: Json) -> str:
    return str(thing["metadata"]["uid"])


def _group_of(pod: Json) -> str:
    """Namespace and name of a pod's PodGroup, empty when it has none."""
    name = notes_of(pod).get(GROUP_NAME)
    return f"{pod['metadata']['namespace']}/{name}" if name else ""


def _version(thing: Json) -> int:
    return int(thing["metadata"]["resourceVersion"])


def _nonzero(sums: object) -> dict[object, object]:
    """Sums that are not zero, so that what came and went makes no difference."""
    found: dict[object, object] = {}
    for name, row in sums.items():  # type: ignore[attr-defined]
        numbers = {key: number for key, number in (row.items() if isinstance(row, dict) else enumerate(row)) if number}
        if numbers:
            found[name] = numbers
    return found
