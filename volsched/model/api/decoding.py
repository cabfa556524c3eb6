"""Decodes text and plain values into structs. A fault names its field."""

import re
from collections.abc import Mapping
from datetime import date
from functools import cache
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from volsched.model.api.core import ConfigMap, Namespace, Node, PodDisruptionBudget, PriorityClass, Service
from volsched.model.api.pods import Pod
from volsched.model.api.shared import ApiObject, ObjectMeta
from volsched.model.api.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from volsched.model.api.volcano import Job, PodGroup, Queue
from volsched.model.api.workloads import BatchJob, DaemonSet, Deployment, ReplicaSet, StatefulSet
from volsched.model.errors import FieldError, ObjectError
from volsched.model.values import json_text
from volsched.model.values.json_text import MOST_LEVELS
from volsched.model.values.paths import with_keys

KINDS: Final[Mapping[tuple[str, str], type[ApiObject]]] = {
    ("v1", "Pod"): Pod,
    ("v1", "Node"): Node,
    ("v1", "Namespace"): Namespace,
    ("v1", "ConfigMap"): ConfigMap,
    ("v1", "Service"): Service,
    ("v1", "PersistentVolume"): PersistentVolume,
    ("v1", "PersistentVolumeClaim"): PersistentVolumeClaim,
    ("apps/v1", "Deployment"): Deployment,
    ("apps/v1", "ReplicaSet"): ReplicaSet,
    ("apps/v1", "StatefulSet"): StatefulSet,
    ("apps/v1", "DaemonSet"): DaemonSet,
    ("batch/v1", "Job"): BatchJob,
    ("policy/v1", "PodDisruptionBudget"): PodDisruptionBudget,
    ("scheduling.k8s.io/v1", "PriorityClass"): PriorityClass,
    ("storage.k8s.io/v1", "StorageClass"): StorageClass,
    ("storage.k8s.io/v1", "CSINode"): CSINode,
    ("storage.k8s.io/v1", "CSIDriver"): CSIDriver,
    ("storage.k8s.io/v1", "CSIStorageCapacity"): CSIStorageCapacity,
    ("storage.k8s.io/v1", "VolumeAttachment"): VolumeAttachment,
    ("scheduling.volcano.sh/v1beta1", "Queue"): Queue,
    ("scheduling.volcano.sh/v1beta1", "PodGroup"): PodGroup,
    ("batch.volcano.sh/v1alpha1", "Job"): Job,
}
"""The struct of each kind of a group and version."""

AnyObject = TypeVar("AnyObject", bound=ApiObject)
T = TypeVar("T")

_MESSAGE_AND_PATH: Final = r"(?s)(.*?)(?: - at `(?:key in )?(\$.*)`)?"


def decode_object(raw: Mapping[str, Any]) -> ApiObject:
    """Return the struct for an object as it was read from YAML or JSON, or raise ObjectError."""
    if not isinstance(raw, Mapping):
        raise ObjectError("object", "", "$", f"must be a mapping, not {type(raw).__name__}")
    kind = raw.get("kind")
    version = raw.get("apiVersion")
    known = KINDS.get((version, kind)) if isinstance(kind, str) and isinstance(version, str) else None
    if known is None:
        raise ObjectError(str(kind), object_name(raw), "$.kind", f"{version} {kind} is not understood")
    return decode_as(known, raw)


def decode_text(kind: type[AnyObject], text: bytes) -> AnyObject:
    """Return the object of a JSON text as a struct of this kind, or raise ObjectError. Nulls count as absent."""
    try:
        try:
            return json_text.decode(text, kind)
        except msgspec.ValidationError:
            return decode_as(kind, json_text.decode(text))
    except (msgspec.DecodeError, UnicodeError) as error:
        raise ObjectError(kind.__name__, "", "$", f"is not JSON: {error}") from error


def decode_as(kind: type[AnyObject], raw: Any) -> AnyObject:
    """Return the object as a struct of this kind, or raise ObjectError. Nulls count as absent."""
    if not isinstance(raw, Mapping):
        raise ObjectError(kind.__name__, "", "$", f"must be a mapping, not {type(raw).__name__}")
    try:
        return convert(_with_texts(as_json(raw, _NULLS_MEAN_AMOUNTS.get(kind, {})), kind), kind)
    except FieldError as error:
        raise ObjectError(str(raw.get("kind") or kind.__name__), object_name(raw), error.path, error.message) from error


def _with_texts(read: dict[str, Any], kind: type[AnyObject]) -> dict[str, Any]:
    """Return plain values with those as JSON that the struct takes as text."""
    texts = {name: msgspec.Raw(msgspec.json.encode(read[name])) for name in _texts_of(kind) if name in read}
    return {**read, **texts} if texts else read


@cache
def _texts_of(kind: type[ApiObject]) -> tuple[str, ...]:
    return tuple(field.encode_name for field in msgspec.structs.fields(kind) if field.type is msgspec.Raw)


def convert(read: Any, kind: type[T]) -> T:
    """Return plain values as a struct of this kind. Raises FieldError with the path (`$.spec.nodeSelector`)."""
    try:
        return msgspec.convert(read, kind)
    except msgspec.ValidationError as error:
        raise FieldError(*field_and_message(error, read)) from error


def field_and_message(error: msgspec.ValidationError, read: Any) -> tuple[str, str]:
    """Return the path (`$.spec.nodeSelector`) and the text of what msgspec found wrong in what it read."""
    match = re.fullmatch(_MESSAGE_AND_PATH, str(error))
    message, path = match.groups() if match else (str(error), None)
    return with_keys(path or "$", message, read), message


Nulls: TypeAlias = Mapping[str, "Nulls"]
"""Fields, and fields inside of them, in which null entries stay; in the innermost they stay everywhere."""

_EVERYWHERE: Final = "*"
_BELOW: Final[Nulls] = {_EVERYWHERE: {}}
_NULLS_MEAN_AMOUNTS: Final[Mapping[type[ApiObject], Nulls]] = {
    Queue: {"spec": {"capability": _BELOW, "deserved": _BELOW, "guarantee": {"resource": _BELOW}, "dra": _BELOW}},
}


def as_json(value: Any, nulls: Nulls | None = None, levels: int = MOST_LEVELS) -> Any:
    """Return a value from YAML as the API server would read it.

    Mapping entries that are null count as absent, except where `nulls` says otherwise; keys are texts, and times stay
    texts. Raises FieldError for values that are nested deeper than `levels`.
    """
    if levels < 0:
        raise FieldError("$", f"is nested deeper than {MOST_LEVELS} levels")
    if isinstance(value, Mapping):
        known = nulls or {}
        stay = _EVERYWHERE in known
        return {
            _key_text(key): as_json(item, known if stay else known.get(key), levels - 1)
            for key, item in value.items()
            if stay or item is not None
        }
    if isinstance(value, list | tuple):
        return [as_json(item, nulls, levels - 1) for item in value]
    if isinstance(value, date):
        return value.isoformat().replace("+00:00", "Z")
    return value


def _key_text(key: Any) -> Any:
    if isinstance(key, bool):
        return "true" if key else "false"
    return str(key) if isinstance(key, int | float) else key


def object_name(raw: Mapping[str, Any]) -> str:
    """Return `namespace/name` of an unchecked object, as far as it has them."""
    metadata = raw.get("metadata")
    if not isinstance(metadata, Mapping):
        return ""
    parts = [metadata.get("namespace"), metadata.get("name") or metadata.get("generateName")]
    return "/".join(part for part in parts if isinstance(part, str) and part)


def identity_of(raw: Any) -> ObjectMeta:
    """Return the identity of an unchecked object, as far as it names itself."""
    metadata = raw.get("metadata") if isinstance(raw, Mapping) else None
    found = metadata if isinstance(metadata, Mapping) else {}
    identity = {name: found[name] for name in _IDENTITY if isinstance(found.get(name), str)}
    return msgspec.convert(identity, ObjectMeta)


_IDENTITY: Final = ("name", "namespace", "uid", "resourceVersion")
