"""The bound on memory for the objects of all namespaces together: above it, new objects are refused.

A tenant who may make objects in one namespace may make so many, or such large ones, that a process has no memory for
them. So there is a bound on the sum. Above it, the newest objects that hold nothing are refused, in the namespace that
uses most: pods without a node, claims without devices, PodGroups without running pods. Objects that hold something on a
node always count, as that room is not free. Refused objects are read again once there is room.

A large object that holds nothing is refused as soon as its namespace uses half of the bound. Otherwise a tenant could
fill the bound with large pods that get nodes one after the other, and leave nothing to others. From then on an object
in use that is new and large, or has grown large, loses what does not say how much it uses: an author may add
tolerations, images and annotations to a running pod.

Weights are estimates of memory, in KiB: the kept part of an object as JSON, and Python's overhead for each value. A
spec that pods share is kept once, and weighed once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Final

import msgspec

from volsched.model import api
from volsched.model.api import native_groups as native
from volsched.model.changes import Change, Deleted, Put, Refused, Unreadable
from volsched.model.cluster import Cluster
from volsched.model.dra import api as dra
from volsched.model.job import NATIVE, RUNNING, UNKNOWN
from volsched.model.pods.limits import KEPT_BYTES, trimmed, without_images
from volsched.model.values.bounded import Bounded, Size

_ROOM: Final = 0.9
"""The part of the bound below which refused objects are looked at again."""

_SHARE: Final = 0.5
"""The part of the bound above which a namespace gets no more large objects."""

LARGE: Final = 32 << 10
"""Bytes: an object that takes more is large. An ordinary pod takes 4 KiB."""

_EACH: Final = 1024
"""Bytes that an object takes beside its content: entries of tables, what is counted for it."""

_ANNOTATIONS: Final = 8192
"""Characters of the annotations that are kept of a large object in use."""

_VALUE: Final = 128
"""Bytes that Python needs for a value, beside its text."""

_SHARED_BYTES: Final = 8192
"""Of a spec: a larger one is weighed for each pod."""

_SHARED: Final = 8192
"""Specs that are remembered to have been weighed."""

_Name = tuple[str, str]
"""Kind and name."""


class MemoryUse:
    """The memory use by namespace. Belongs to the thread that takes changes in.

    ``most`` is in bytes; 0 is no bound. ``holds`` tells whether an object uses something on a node, and ``weigh`` its
    bytes in memory; None leaves it to the estimate. An object above ``large`` bytes is large. Above the bound a large
    object is refused although it is in use, if that is what ``may_go`` says, and its namespace uses more than half.
    """

    def __init__(
        self,
        most: int = KEPT_BYTES,
        holds: Callable[[api.ApiObject], bool] | None = None,
        weigh: Callable[[api.ApiObject], int | None] = lambda _: None,
        large: int = LARGE,
        may_go: Callable[[api.ApiObject], bool] = lambda _: False,
    ) -> None:
        self.most = most
        self._large = large >> 10
        self._holds = holds or holds_something
        self._weigh = weigh
        self._may_go = may_go
        self.total = 0
        """KiB that are kept."""
        self.refused: dict[tuple[str, str, str], bool] = {}
        """Kind, namespace and name of refused objects that still exist. Whether it was refused as a large one."""
        self.passed = 0
        """KiB of all that was ever taken in."""
        self._spaces: Counter[str] = Counter()
        self._holding: dict[_Name, dict[str, int]] = {}
        self._waiting: dict[str, dict[_Name, tuple[int, str]]] = {}
        self._specs: Bounded[int, None] = Bounded(_SHARED)
        self._cut: dict[tuple[str, str, str], None] = {}

    def tables(self) -> Mapping[str, Size]:
        """Return the sizes of what is kept here."""
        return {
            "holdings.objects": lambda: sum(map(len, list(self._holding.values()))),
            "holdings.waiting": lambda: sum(map(len, list(self._waiting.values()))),
            "holdings.specs": lambda: len(self._specs),
            "holdings.refused": lambda: len(self.refused),
            "holdings.cut": lambda: len(self._cut),
        }

    @property
    def kept_bytes(self) -> int:
        """Return the estimated memory of all objects."""
        return self.total << 10

    @property
    def has_room_again(self) -> bool:
        """True if a refused object may fit by now."""
        if self.kept_bytes >= self.most * _ROOM:
            return False
        return any(
            not is_large or self._taken_by(space) < self.most * _SHARE * _ROOM
            for (_, space, _), is_large in self.refused.items()
        )

    def _taken_by(self, namespace: str) -> int:
        return self._spaces[namespace] << 10

    def kinds_refused(self) -> set[str]:
        """Return the kinds of what was refused."""
        return {kind for kind, _, _ in self.refused}

    def of(self, changes: Sequence[Change], kind: str = "") -> Sequence[Change]:
        """Return changes as they are to be taken in; refused ones follow as ``Refused``.

        All are of a ``kind``, if it is given: then it is not read from the objects.
        """
        if not self.most:
            return changes
        taken: list[Change] = []
        for change in changes:
            match change:
                case Put(found) if found.metadata.namespace:
                    taken.extend(self._take(change, kind or native.kind_of(found)))
                    continue
                case Deleted(stated, namespace, name) | Unreadable(stated, _, namespace, name):
                    self._drop(kind or stated, namespace, name)
                    self.refused.pop((kind or stated, namespace, name), None)
                    self._cut.pop((kind or stated, namespace, name), None)
            taken.append(change)
        return taken

    def _take(self, change: Put, kind: str) -> Iterator[Change]:
        found, meta = change.object, change.object.metadata
        weight, waits = self._weight_of(found), not self._holds(found)
        if not waits and self._is_cut(kind, meta, weight):
            found = lightened(found)
            change, weight = Put(found), self._weight_of(found)
        yield change
        self._put(kind, meta, weight, waits=waits)
        if waits and weight > self._large and self._has_much(meta.namespace):
            yield self._refuse(kind, meta.namespace, meta.name, meta.uid, is_large=True)
        elif self.kept_bytes > self.most:
            yield from self._make_room()
            if not waits and self.kept_bytes > self.most and self._is_too_large(found, weight):
                yield self._refuse(kind, meta.namespace, meta.name, meta.uid, is_large=True)

    def _is_too_large(self, found: api.ApiObject, weight: int) -> bool:
        """True if an object in use has to go: nothing else makes room."""
        return weight > self._large and self._has_much(found.metadata.namespace) and self._may_go(found)

    def _has_much(self, namespace: str) -> bool:
        """True if a namespace uses so much that it gets no more large objects."""
        return self._taken_by(namespace) > self.most * _SHARE

    def _is_cut(self, kind: str, meta: api.ObjectMeta, weight: int) -> bool:
        """True if an object in use is kept in part: it came large, or has grown, when its namespace used much."""
        name = kind, meta.namespace, meta.name
        before = self._holding.get((kind, meta.namespace), {}).get(meta.name, 0)
        if weight > self._large and weight > before and self._has_much(meta.namespace):
            self._cut[name] = None
        return name in self._cut

    def _put(self, kind: str, meta: api.ObjectMeta, weight: int, *, waits: bool) -> None:
        namespace, name = meta.namespace, meta.name
        if self.refused:
            self.refused.pop((kind, namespace, name), None)
        before, _ = self._waiting.get(namespace, {}).get((kind, name), (0, ""))
        if not waits or before < weight:  # an object that has grown is as a new one
            self._drop(kind, namespace, name)
            before = 0
        if waits:
            self._waiting.setdefault(namespace, {})[kind, name] = weight, meta.uid
        else:
            self._holding.setdefault((kind, namespace), {})[name] = weight
        self._count(namespace, weight - before)
        self.passed += weight

    def _count(self, namespace: str, by: int) -> None:
        self.total += by
        self._spaces[namespace] += by
        if not self._spaces[namespace]:
            del self._spaces[namespace]

    def _drop(self, kind: str, namespace: str, name: str) -> None:
        held = self._holding.get((kind, namespace))
        weight = held.pop(name, 0) if held is not None else 0
        if held is not None and not held:
            del self._holding[kind, namespace]
        waiting = self._waiting.get(namespace)
        if waiting is not None:
            weight += waiting.pop((kind, name), (0, ""))[0]
            if not waiting:
                del self._waiting[namespace]
        if weight:
            self._count(namespace, -weight)

    def _make_room(self) -> Iterator[Refused]:
        """Refuse the newest objects that hold nothing, in the namespace that uses most, until the bound is kept."""
        while self.kept_bytes > self.most and self._waiting:
            namespace = max(self._waiting, key=lambda each: (self._spaces[each], each))
            (kind, name), (_, uid) = next(reversed(self._waiting[namespace].items()))
            yield self._refuse(kind, namespace, name, uid)

    def _refuse(self, kind: str, namespace: str, name: str, uid: str, *, is_large: bool = False) -> Refused:
        """Let an object go."""
        message = self._message(namespace, is_large=is_large)
        self._drop(kind, namespace, name)
        self.refused[kind, namespace, name] = is_large
        return Refused(kind, namespace, name, uid, message)

    def _message(self, namespace: str, *, is_large: bool) -> str:
        most, holds = self.most >> 20, self._taken_by(namespace) >> 20
        if is_large:
            return (
                f"it takes more than {self._large} KiB, and the objects of namespace {namespace} take {holds} MiB, "
                f"more than half of the {most} MiB of --kept-bytes for all namespaces"
            )
        return (
            f"the objects of all namespaces take more than the {most} MiB of --kept-bytes, and those of "
            f"namespace {namespace} take most, {holds} MiB"
        )

    def _weight_of(self, found: api.ApiObject) -> int:
        """Return the KiB that are kept of an object, by estimate."""
        known = self._weigh(found)
        if known is not None:
            return -(-known // 1024)
        if not isinstance(found, api.Pod):
            return -(-(_EACH + _size(found)) // 1024)
        spec = msgspec.json.encode(found.spec)
        number = hash(spec)
        is_known = len(spec) <= _SHARED_BYTES and number in self._specs
        self._specs[number] = None
        return -(-(_EACH + _size(found.metadata) + (0 if is_known else _size_of(spec))) // 1024)


def _size(found: object) -> int:
    return _size_of(msgspec.json.encode(found))


def _size_of(text: bytes) -> int:
    return len(text) + _VALUE * text.count(b",")


def lightened(found: api.ApiObject) -> api.ApiObject:
    """Return an object in use without what its author may add: its amounts and its place stay."""
    kept = _shortest(found.metadata.annotations)
    further = {"managed_fields": ()} if hasattr(found.metadata, "managed_fields") else {}
    found = msgspec.structs.replace(
        found, metadata=msgspec.structs.replace(found.metadata, annotations=kept, **further)
    )
    match found:
        case api.Pod():
            return msgspec.structs.replace(found, spec=without_images(trimmed(found.spec)))
        case api.PodGroup():
            spec = msgspec.structs.replace(found.spec, min_task_member={}, min_resources=None, sub_group_policy=())
            return msgspec.structs.replace(found, spec=spec)
        case _:
            return found


def _shortest(annotations: Mapping[str, str]) -> dict[str, str]:
    """Return the shortest annotations, as many as are kept of a large object."""
    by_length = sorted(annotations.items(), key=lambda item: (len(item[0]) + len(item[1]), item[0]))
    lengths = accumulate(len(key) + len(text) for key, text in by_length)
    return {key: text for (key, text), length in zip(by_length, lengths, strict=True) if length <= _ANNOTATIONS}


def holds_something(found: api.ApiObject) -> bool:
    """True if an object uses something on a node: it is kept, however much there is."""
    match found:
        case api.Pod():
            return bool(found.spec.node_name) and found.status.phase not in ("Succeeded", "Failed")
        case api.PodGroup():
            return found.status.phase in (RUNNING, UNKNOWN)
        case dra.ResourceClaim():
            return found.status.allocation is not None
        case api.PersistentVolumeClaim():
            return found.status.phase == "Bound"  # the author of a claim may name any volume
        case native.PodGroup():
            return any(one.type in _PLACED and one.status == "True" for one in found.status.conditions)
        case _:
            return False


_PLACED: Final = frozenset({"PodGroupScheduled", "PodGroupInitiallyScheduled"})
"""Conditions of Kubernetes' own PodGroups whose pods have nodes, by version."""


def is_in_use(cluster: Cluster, refused: Refused) -> bool:
    """True if a refused object holds something by a decision that the API server does not show yet."""
    key = f"{refused.namespace}/{refused.name}"
    match refused.kind:
        case "Pod":
            task = cluster.tasks.get(refused.uid)
            return task is not None and task.node is not None
        case "ResourceClaim":
            return refused.uid in cluster.devices.in_flight
        case "PersistentVolumeClaim":
            return key in cluster.storage.assumed
        case "PodGroup" | native.KIND as kind:
            job = cluster.jobs.get(key if kind == "PodGroup" else f"{refused.namespace}/{NATIVE}{refused.name}")
            return job is not None and any(task.node is not None for task in job.tasks.values())
        case _:
            return False
