"""Every field of the objects that the mirror takes in, and one change of each.

The fields are those of the structs in ``volsched.model.api`` and its neighbours, found by introspection. The values are
those of ``field_examples.yaml``. A change is made from the value, or is written here where another value would mean
nothing.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

import msgspec
import yaml

from volsched.mirror.native.reading import _SpecOf137, _SpecOfAlpha2
from volsched.model import api
from volsched.model.api.native_groups import VERSIONS
from volsched.model.dra import api as dra
from volsched.simulation.manifests import decode

EXAMPLES: Final = Path(__file__).with_name("field_examples.yaml")

Raw = dict[str, Any]
Place = tuple[str | int, ...]
"""The keys and indices that lead to a value of an object."""


class _TemplateSpec(msgspec.Struct):
    """The part of a ResourceClaimTemplate that is read."""

    spec: dra.ResourceClaimSpec


READ_LATE: Final[Mapping[str, Any]] = {
    "ResourceClaim": dra.ResourceClaimSpec,
    "ResourceClaimTemplate": _TemplateSpec,
    "ResourceSlice": dra.ResourceSliceSpec,
    "DeviceClass": dra.DeviceClassSpec,
    "DeviceTaintRule": dra.DeviceTaintRuleSpec,
    **{kind.__name__: _SpecOfAlpha2 if "alpha2" in version else _SpecOf137 for version, kind in VERSIONS.items()},
}
"""What the spec of a kind is read as whose struct keeps the spec as it was sent."""


@dataclass(frozen=True)
class Example:
    """An object, and the objects beside it."""

    raw: Raw
    others: Sequence[api.ApiObject]

    @cached_property
    def object(self) -> api.ApiObject:
        return decode(self.raw)

    @property
    def kind(self) -> type[api.ApiObject]:
        return type(self.object)

    def __str__(self) -> str:
        return f"{self.kind.__name__} {self.object.key}"


@dataclass(frozen=True)
class Change:
    """An example in which one field has another value, or (``removes``) none."""

    example: Example
    path: str
    object: api.ApiObject
    removes: bool = False

    def __str__(self) -> str:
        return f"{self.example}: {self.path} {'removed' if self.removes else 'changed'}"


def examples() -> list[Example]:
    """Return all examples."""
    found = []
    for group in yaml.safe_load(EXAMPLES.read_text()).values():
        objects = [decode(raw) for raw in group]
        for place, raw in enumerate(group):
            found.append(Example(raw, [*objects[:place], *objects[place + 1 :]]))
    return found


# --- the fields of a kind --------------------------------------------------------------------------------------------


@cache
def fields_of(kind: type[api.ApiObject]) -> dict[str, Any]:
    """Return the fields of a kind by their paths, with their types.

    ``spec.containers[].name`` is a field of each item, ``spec.counters{}.value`` one of each entry.
    """
    return dict(_fields(kind, "", READ_LATE.get(kind.__name__)))


def _fields(struct: Any, path: str, spec: Any) -> Iterator[tuple[str, Any]]:
    hints = get_type_hints(struct)
    for field in msgspec.structs.fields(struct):
        where = f"{path}.{field.encode_name}" if path else field.encode_name
        hint = spec if spec is not None and where == "spec" else hints[field.name]
        yield where, hint
        inner, steps = _struct_in(hint)
        if inner is not None:
            yield from _fields(inner, where + steps, spec)


def has_fields(hint: Any) -> bool:
    """Return whether a field is made of other fields, so that these are what is changed."""
    inner, _ = _struct_in(hint)
    return inner is not None and bool(msgspec.structs.fields(inner))


def _struct_in(hint: Any) -> tuple[Any, str]:
    """Return the struct that a value is, or has as items, and the steps to it; None for other values."""
    hint = _not_none(hint)
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return hint, ""
    if get_origin(hint) in (tuple, dict):
        inner, steps = _struct_in(_item(hint))
        return inner, ("[]" if get_origin(hint) is tuple else "{}") + steps
    return None, ""


def _not_none(hint: Any) -> Any:
    """Return the first type of a union that is not None, any other type as it is."""
    is_union = get_origin(hint) in (Union, UnionType)
    return next(each for each in get_args(hint) if each is not NoneType) if is_union else hint


def _item(hint: Any) -> Any:
    arguments = get_args(hint)
    return arguments[0] if get_origin(hint) is tuple else arguments[1]


# --- changes ---------------------------------------------------------------------------------------------------------


def changes_of(examples: Sequence[Example], texts: Iterable[str]) -> Iterator[Change]:
    """Yield the changes of each field in all examples of a kind that have the field, or in the first where none has.

    ``texts`` are the paths of labels and annotations that are fields, too.
    """
    kind = examples[0].kind
    for path, hint in (fields_of(kind) | dict.fromkeys(texts, str)).items():
        if reason_in(NEVER_CHANGES, kind.__name__, path):
            continue
        having = [(example, place) for example in examples if (place := _place(example.raw, path))]
        if not has_fields(hint):
            for example in [example for example, _ in having] or examples[:1]:
                yield Change(example, path, decode(_changed(example, path, hint)))
        for example, place in having:
            if len(place) > 1 and path not in NEVER_REMOVED:
                yield Change(example, path, decode(_without(example.raw, place)), removes=True)


def _changed(example: Example, path: str, hint: Any) -> Raw:
    """Return an example in which a field has another value, or one where there was none."""
    changed = deepcopy(example.raw)
    written = CHANGES.get(example.kind.__name__, {}).get(path)
    place = _place(changed, path)
    if place is not None:
        _at(changed, place[:-1])[place[-1]] = another(_at(changed, place)) if written is None else written
    else:
        _add(changed, _steps(path), made(hint) if written is None else written)
    return changed


def _add(raw: Raw, steps: Sequence[str], value: Any) -> None:
    """Give an object a field, and all that is missing above the field."""
    *above, last = steps
    added = [value] if last == "[]" else {_NEW if last == "{}" else last.strip("[]"): value}
    place = next(_places(raw, above), None)
    if place is None:
        _add(raw, above, added)
    elif isinstance(added, list):
        _at(raw, place).extend(added)
    else:
        _at(raw, place).update(added)


def another(value: Any) -> Any:
    """Return a value of the same kind that is not this one: another number, or a number that a text has."""
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case str():
            changed = re.sub(r"\d+", lambda found: str(int(found[0]) + 1), value, count=1)
            return changed if changed != value else f"{value}x"
        case [*rest, last]:
            return [*rest, another(last)]
        case dict() if value:
            key = next(iter(value))
            return {**value, key: another(value[key])}
    return {_NEW: _NEW}


def made(hint: Any) -> Any:
    """Return a value of a type that is not the default of a field."""
    hint = _not_none(hint)
    match get_origin(hint) or hint:
        case builtins.bool:
            return True
        case builtins.int:
            return 7
        case builtins.tuple:
            return [made(_item(hint))]
        case builtins.dict:
            return {_NEW: made(_item(hint))}
    return {} if _struct_in(hint)[0] is not None else _NEW


_NEW: Final = "7"
"""A text that is a name, a key and a quantity."""


@cache
def _steps(path: str) -> list[str]:
    """Return the steps of a path: names, ``[]`` for an item, ``{}`` for an entry, ``[key]`` for the entry of a key."""
    return [step.removeprefix(".") for step in re.findall(r"\.?[^.\[{]+|\[\]|\{\}|\[[^\]]+\]", path)]


def _places(value: Any, steps: Sequence[str], place: Place = ()) -> Iterator[Place]:
    """Yield the places in an object to which a path leads."""
    if not steps:
        yield place
        return
    step, rest = steps[0], steps[1:]
    if step == "[]":
        keys: Sequence[str | int] = range(len(value))
    elif step == "{}":
        keys = list(value)
    else:
        keys = [name for name in (step.strip("[]"),) if name in value]
    for key in keys:
        yield from _places(value[key], rest, (*place, key))


def _place(raw: Raw, path: str) -> Place | None:
    return next(_places(raw, _steps(path)), None)


def _at(raw: Raw, place: Place) -> Any:
    value: Any = raw
    for key in place:
        value = value[key]
    return value


def _without(raw: Raw, place: Place) -> Raw:
    changed = deepcopy(raw)
    del _at(changed, place[:-1])[place[-1]]
    return changed


# --- exceptions, each with the reason --------------------------------------------------------------------------------


def reason_in(reasons: Mapping[str, Mapping[str, str]], name: str, path: str) -> str:
    """Return why a field, or one that the field is inside of, is an exception; empty when the field is none."""
    for prefix, reason in (*reasons.get(name, {}).items(), *reasons.get("", {}).items()):
        if path == prefix or (path.startswith(prefix) and path[len(prefix)] in ".[{"):
            return reason
    return ""


_NATIVE_KINDS: Final = tuple(kind.__name__ for kind in VERSIONS.values())
_OTHER: Final = "Kubernetes never changes this of an object: one that differs is another object"
_MADE_AT: Final = "Kubernetes never changes when an object was made"
_FIXED: Final = "the API server refuses any change of this field of a pod"

NEVER_CHANGES: Final[Mapping[str, Mapping[str, str]]] = {
    "": {"metadata.name": _OTHER, "metadata.namespace": _OTHER},
    "Pod": {
        "metadata.uid": "pods are told apart by it: the pod that was there goes by an event of its own",
        "metadata.creationTimestamp": _MADE_AT,
        "spec.schedulerName": _FIXED,
        "spec.schedulingGroup": _FIXED,
    },
    "PodGroup": {"metadata.creationTimestamp": _MADE_AT},
    **{kind: {"metadata.creationTimestamp": _MADE_AT} for kind in _NATIVE_KINDS},
}
"""Fields that no later event shows otherwise, by kind; those under "" are of all kinds."""

NEVER_REMOVED: Final = ("metadata.uid", "metadata.creationTimestamp")
"""Fields that the API server gives every object."""

_BY_OTHERS: Final = "controllers and the garbage collector read this, no decision does"
_WHEN: Final = "decisions do not depend on when or for which generation a condition was written"
_UNUSED: Final[Mapping[str, str]] = {
    "metadata.generateName": "the name counts",
    "metadata.generation": "the mirror takes changes with any generation",
    "metadata.deletionGracePeriodSeconds": "the object counts until it is gone",
    "metadata.ownerReferences": _BY_OTHERS,
    "metadata.finalizers": _BY_OTHERS,
}
_NAME_ALONE: Final[Mapping[str, str]] = {
    **_UNUSED,
    "metadata.uid": "the object is known by its name",
    "metadata.resourceVersion": "the mirror takes objects with any version",
    "metadata.creationTimestamp": "its age decides nothing",
    "metadata.deletionTimestamp": "it counts until it is gone",
    "metadata.labels": "no rule selects such objects",
    "metadata.annotations": "it has no annotation with a meaning",
}


def _conditions(path: str) -> dict[str, str]:
    fields = ("lastTransitionTime", "lastProbeTime", "observedGeneration", "transitionID")
    return {f"{path}[].{field}": _WHEN for field in fields}


def _without_fields(given: Mapping[str, str], *fields: str) -> dict[str, str]:
    return {path: reason for path, reason in given.items() if path.removeprefix("metadata.") not in fields}


_OF_GROUPS: Final[Mapping[str, str]] = {
    **_without_fields(_UNUSED, "ownerReferences"),
    "metadata.ownerReferences[].uid": "people are shown the kind and name of the workload alone",
    "metadata.ownerReferences[].apiVersion": "people are shown the kind and name of the workload alone",
}
_UNSERVED: Final = "no subgroup or domain is looked for: jobs that insist on one wait"
_NATIVE: Final[Mapping[str, str]] = {
    **_OF_GROUPS,
    **_conditions("status.conditions"),
    "status.conditions[].type": "a condition that the mirror has seen is remembered",
    "metadata.resourceVersion": _NAME_ALONE["metadata.resourceVersion"],
}

_OF_KUBELETS: Final = "kubelets refuse pods by it, so only the kubelet of a simulation reads it"

NEVER_READ: Final[Mapping[str, Mapping[str, str]]] = {
    "Node": {
        **_UNUSED,
        "metadata.resourceVersion": _NAME_ALONE["metadata.resourceVersion"],
        "metadata.creationTimestamp": _NAME_ALONE["metadata.creationTimestamp"],
        "status.conditions": "the node lifecycle controller makes taints of them, which are read",
        "status.nodeInfo.operatingSystem": _OF_KUBELETS,
        "status.features.supplementalGroupsPolicy": _OF_KUBELETS,
    },
    "Namespace": {
        **_without_fields(_NAME_ALONE, "labels", "annotations"),
        "status.phase": "the API server itself takes no new objects into a namespace that goes",
    },
    "PriorityClass": {
        **_NAME_ALONE,
        "preemptionPolicy": "the API server copies it into pods",
    },
    "Queue": {
        **_UNUSED,
        "metadata.resourceVersion": _NAME_ALONE["metadata.resourceVersion"],
        "metadata.deletionTimestamp": _NAME_ALONE["metadata.deletionTimestamp"],
        "metadata.labels": _NAME_ALONE["metadata.labels"],
        "spec.state": "controllers turn it into status.state, which is read",
        "spec.dequeueStrategy": "`volsched validate` tells that it has no effect",
        "spec.affinity": "an Event tells that it has no effect",
        "spec.type": "`volsched validate` tells that it has no effect",
        **dict.fromkeys(
            [f"status.{name}" for name in ("pending", "running", "inqueue", "unknown", "completed", "allocated")],
            "it is written from what is counted here",
        ),
    },
    "PodGroup": {
        **_OF_GROUPS,
        "metadata.resourceVersion": _NAME_ALONE["metadata.resourceVersion"],
        "metadata.deletionTimestamp": _NAME_ALONE["metadata.deletionTimestamp"],
        "metadata.annotations[volcano.sh/revocable-zone]": "an Event tells that it has no effect",
        "metadata.annotations[volcano.sh/numa-topology-policy]": "an Event tells that it has no effect",
        "spec.networkTopology.highestTierAllowed": _UNSERVED,
        "spec.networkTopology.highestTierName": _UNSERVED,
        **{
            f"spec.subGroupPolicy[].{field}": _UNSERVED
            for field in (
                "name",
                "labelSelector",
                "matchLabelKeys",
                "networkTopology.highestTierAllowed",
                "networkTopology.highestTierName",
            )
        },
        **_conditions("status.conditions"),
    },
    "PodDisruptionBudget": {
        **_NAME_ALONE,
        "spec.minAvailable": "the disruption controller makes status.disruptionsAllowed of it, which is read",
        "spec.maxUnavailable": "the disruption controller makes status.disruptionsAllowed of it, which is read",
        "status.desiredHealthy": "status.disruptionsAllowed is made of it",
        "status.disruptedPods": "status.disruptionsAllowed has them off already",
    },
    "Pod": {
        "spec.os.name": _OF_KUBELETS,
        "spec.securityContext.supplementalGroupsPolicy": _OF_KUBELETS,
        "spec.securityContext.sysctls[].name": _OF_KUBELETS,
        **_without_fields(_UNUSED, "ownerReferences"),
        "metadata.ownerReferences[].name": "only the kind of the owner counts",
        "metadata.ownerReferences[].uid": "only the kind of the owner counts",
        "metadata.ownerReferences[].apiVersion": "only the kind of the owner counts",
        "spec.containers[].restartPolicy": "only init containers are sidecars by it",
        "spec.ephemeralContainers[].name": "only their requests count",
        "spec.ephemeralContainers[].image": "they come when the pod has its node",
        "spec.ephemeralContainers[].restartPolicy": "they have none",
        "spec.ephemeralContainers[].restartPolicyRules": "they have none",
        "spec.ephemeralContainers[].ports": "they have none",
        "spec.tolerations[].tolerationSeconds": "how long a pod stays after the taint came is up to the taint manager",
        "spec.restartPolicy": _BY_OTHERS,
        "spec.runtimeClassName": "the API server copies its overhead and node selector into the pod",
        "spec.volumes[].persistentVolumeClaim.readOnly": "how the claim may be used, the claim itself states",
        "spec.volumes[].ephemeral.volumeClaimTemplate": "the claim that is made of it counts",
        "spec.volumes[].awsElasticBlockStore.readOnly": "no two pods of a node share such a volume, read-only or not",
        "spec.volumes[].iscsi.targetPortal": "kube-scheduler compares the iqn alone",
        "spec.volumes[].iscsi.lun": "kube-scheduler compares the iqn alone",
        "spec.volumes[].csi": "a volume that the driver makes with the pod needs nothing that is counted",
        "status.reason": "told on the PodGroup when a node refuses the pod, and not kept",
        "status.message": "told on the PodGroup when a node refuses the pod, and not kept",
        "status.conditions[].status": "of volsched.io/Ungated, it counts at the event in which the gate goes",
        "status.conditions[].message": "no decision reads words",
        **_conditions("status.conditions"),
        **{
            f"status.{containers}[].{field}": reason
            for containers in ("containerStatuses", "initContainerStatuses")
            for field, reason in (
                ("state", _BY_OTHERS),
                ("lastState", _BY_OTHERS),
                ("restartCount", _BY_OTHERS),
                ("resources.limits", "requests"),
            )
        },
        "status.resources.limits": "only requests count",
    },
    **dict.fromkeys(_NATIVE_KINDS, _NATIVE),
    "Workload": _without_fields(_NAME_ALONE, "annotations"),
    "DeviceClass": _without_fields(_NAME_ALONE, "creationTimestamp"),
    "ResourceClaim": {
        **_without_fields(_UNUSED, "ownerReferences"),
        "metadata.creationTimestamp": _NAME_ALONE["metadata.creationTimestamp"],
        "metadata.labels": _NAME_ALONE["metadata.labels"],
        **_conditions("status.devices[].conditions"),
    },
    "ResourceClaimTemplate": _NAME_ALONE,
    "ResourceSlice": _NAME_ALONE,
    "DeviceTaintRule": _NAME_ALONE,
}
"""Fields that no record has, by kind."""

_PLACED_AS: Final = "a pod with a node goes on counting as what it was placed"
_OURS: Final = "only volsched writes the condition, and an older event does not take it back"

KEPT: Final[Mapping[str, Mapping[str, str]]] = {
    "Pod team/placed": {"metadata.annotations": _PLACED_AS},
    "Pod team/resized": {"metadata.annotations": _PLACED_AS},
    "Pod team/let-in": {"status.conditions": _OURS},
    "PodGroupV1alpha2 team/native1": {"status.conditions": _OURS},
    "PodGroupV1beta1 team/native2": {"status.conditions": _OURS},
    "PodGroupV1alpha3 team/native3": {"status.conditions": _OURS},
    "PodGroupV1 team/native4": {"status.conditions": _OURS},
}
"""Fields of examples that a mirror which knew the object before may hold otherwise than one that did not."""

ONE_WAY: Final[Mapping[str, Mapping[str, str]]] = {
    "Pod": {
        "spec.nodeName": "a pod never leaves its node",
        "spec.schedulingGates": "a gate that was lifted never comes back",
    },
}
"""Fields that have another value once, and never the earlier one again."""

CHANGES: Final[Mapping[str, Mapping[str, Any]]] = {
    "Pod": {
        "metadata.annotations[scheduling.k8s.io/group-name]": "g2",
        "spec.preemptionPolicy": "Never",
        "status.resize": "Infeasible",
        "status.allocatedResources": {"memory": "9Gi"},
    },
    "ResourceClaim": {
        "metadata.ownerReferences[].apiVersion": "batch/v1",
    },
}
"""Other values of fields, by kind, where one that is made by its type means nothing."""
