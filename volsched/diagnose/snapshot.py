"""Everything that decides, in one compressed file: gzip'd JSON, objects of one kind in a row together.

What is left out: what the structs of objects do not have at all (environment, commands, volumes' secrets), ConfigMaps
but for the configuration, annotations of pods, workloads and namespaces that decide nothing, and parameters for drivers
of devices, which may be anything and decide nothing.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

import msgspec

from volsched.diagnose.cluster_snapshot import ClusterSnapshot
from volsched.diagnose.records import API_VERSION
from volsched.model import api
from volsched.model.api import native_groups as native
from volsched.model.dra import api as dra
from volsched.model.errors import VolschedError
from volsched.model.values import json_text
from volsched.simulation.manifests import identity_of, size_faults, subject_of, total_faults

KIND: Final = "Snapshot"
MAGIC: Final = b"\x1f\x8b"
LEVEL: Final = 6
SMALL: Final = 16 << 20
MOST_RATIO: Final = 200
"""How much larger than the file its JSON may be, where it is not ``SMALL`` (bytes): clusters come to some thirty."""

_OURS: Final = ("volcano.sh/", "volsched.io/", "scheduling.k8s.io/", "k8s.io/dra")
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_WHOLE: Final = (api.Node, api.Queue)
"""Kinds whose annotations any plugin may read."""

_STRUCTS: Final[dict[str, type[api.ApiObject]]] = {
    **{struct.__name__: struct for struct in api.KINDS.values()},
    **{struct.__name__: struct for struct in (*dra.KINDS.values(), *native.KINDS.values())},
}


class SnapshotError(VolschedError):
    """A file is no snapshot, or one that this version cannot read."""


class _Row(msgspec.Struct, rename="camel"):
    kind: str
    items: msgspec.Raw


class _File(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    configuration: str
    origin: str
    scheduler_names: tuple[str, ...]
    default_queue: str
    objects: list[_Row]
    taken_at: float = 0.0


def is_snapshot(start: bytes) -> bool:
    """Return whether a file that begins like this may be a snapshot."""
    return start.startswith(MAGIC)


def written(known: ClusterSnapshot) -> bytes:
    """Return the file; the same bytes for the same cluster."""
    kept = set(known.profile().pod_annotations())
    rows = [
        _Row(kind, msgspec.Raw(msgspec.json.encode(list(found))))
        for kind, found in groupby(_slim(known.objects, kept), key=lambda each: type(each).__name__)
    ]
    names = tuple(known.scheduler_names)
    file = _File(API_VERSION, KIND, known.configuration, known.origin, names, known.default_queue, rows, known.taken_at)
    return gzip.compress(msgspec.json.encode(file), LEVEL, mtime=0)


def read(data: bytes, source: str) -> ClusterSnapshot:
    """Return the cluster of a snapshot. Raises SnapshotError."""
    try:
        file = json_text.decode(_unpacked(data, source), _File)
        if (file.api_version, file.kind) != (API_VERSION, KIND):
            raise SnapshotError(f"{source} is {file.api_version} {file.kind}, not {API_VERSION} {KIND}")
        objects = tuple(found for row in file.objects for found in _items(row, source))
    except (OSError, EOFError, zlib.error, UnicodeError, msgspec.MsgspecError) as error:
        raise SnapshotError(f"{source} is no snapshot: {error}") from error
    _check(objects, source)
    names = file.scheduler_names
    origin = f"{source} ({file.origin})"
    return ClusterSnapshot(objects, file.configuration, origin, names, file.default_queue, file.taken_at)


def _unpacked(data: bytes, source: str) -> bytes:
    """Return what a file holds. Raises SnapshotError where that is out of all proportion to it."""
    most = max(SMALL, MOST_RATIO * len(data))
    unpacker = zlib.decompressobj(16 + zlib.MAX_WBITS)
    text = unpacker.decompress(data, most + 1)
    if len(text) > most:
        raise SnapshotError(f"{source} is no snapshot: it holds more than {MOST_RATIO} times its size")
    if not unpacker.eof:
        raise EOFError("it ends too early")
    return text


def _check(objects: Sequence[api.ApiObject], source: str) -> None:
    """Raise SnapshotError where objects have no name, the same one twice, or more pods than a simulation makes."""
    known: set[tuple[str, str, str]] = set()
    for found in objects:
        identity = identity_of(found)
        for fault in size_faults(found):
            raise SnapshotError(f"{source}: {subject_of(found)}: {fault.field}: {fault.message}")
        if identity in known:
            raise SnapshotError(f"{source}: {subject_of(found)} is there twice")
        known.add(identity)
    for message in total_faults(objects):
        raise SnapshotError(f"{source}: {message}")


def _items(row: _Row, source: str) -> list[Any]:
    struct = _STRUCTS.get(row.kind)
    if struct is None:
        raise SnapshotError(
            f"{source} holds {row.kind}, which this version does not know; use the version that wrote it"
        )
    return json_text.decode(bytes(row.items), list[struct])  # type: ignore[valid-type]


def _slim(objects: Iterable[api.ApiObject], kept: Collection[str]) -> Iterator[api.ApiObject]:
    for found in objects:
        if not isinstance(found, api.ConfigMap):
            yield _without_annotations(_without_parameters(found), kept)


def _without_parameters(found: api.ApiObject) -> api.ApiObject:
    """Return an object of resource.k8s.io without parameters for drivers (``opaque``), in specs and in allocations."""
    if not isinstance(found, dra.ResourceClaim | dra.ResourceClaimTemplate | dra.DeviceClass):
        return found
    changed: dict[str, Any] = {"spec": _plain_config(found.spec)}
    if isinstance(found, dra.ResourceClaim) and found.status.allocation is not None:
        allocation = found.status.allocation
        config = tuple(msgspec.structs.replace(each, opaque=None) for each in allocation.devices.config)
        devices = msgspec.structs.replace(allocation.devices, config=config)
        allocation = msgspec.structs.replace(allocation, devices=devices)
        changed["status"] = msgspec.structs.replace(found.status, allocation=allocation)
    return msgspec.structs.replace(found, **changed)


def _plain_config(part: Any, field: str = "") -> Any:
    """Return a spec, as it was sent, in which no ``config`` has any ``opaque``."""
    if isinstance(part, Mapping):
        found = {key: _plain_config(each, key) for key, each in part.items()}
        return {key: each for key, each in found.items() if (field, key) != ("config", "opaque")}
    return [_plain_config(each, field) for each in part] if isinstance(part, list | tuple) else part


def _without_annotations(found: api.ApiObject, kept: Collection[str]) -> api.ApiObject:
    annotations = found.metadata.annotations
    decides = {key: text for key, text in annotations.items() if _decides(found, key, kept)}
    if len(decides) == len(annotations):
        return found
    return msgspec.structs.replace(found, metadata=msgspec.structs.replace(found.metadata, annotations=decides))


def _decides(found: api.ApiObject, key: str, kept: Collection[str]) -> bool:
    if key == _LAST_APPLIED:
        return False
    families = (name[:-1] for name in kept if name.endswith("*"))
    ours = any(part in key for part in _OURS) or key in kept
    return isinstance(found, _WHOLE) or ours or any(key.startswith(family) for family in families)
