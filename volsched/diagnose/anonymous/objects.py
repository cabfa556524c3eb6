"""Objects under other names: what becomes of each field.

A text for which nothing is stated here is the name of something, and gets another one. So a field that is new is never
shown by oversight.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import datetime
from functools import cache
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from volsched.diagnose.anonymous import notes
from volsched.diagnose.anonymous.expressions import Expressions
from volsched.diagnose.anonymous.names import Names
from volsched.model import api
from volsched.model.annotations import LAST_APPLIED
from volsched.model.api import native_groups as native
from volsched.model.dra import api as dra
from volsched.model.dra.device import DeviceId
from volsched.model.errors import FieldError, QuantityError
from volsched.model.job import PodGroupCondition
from volsched.model.values.duration import seconds_of
from volsched.model.values.quantity import parse
from volsched.simulation.kubelet_checks import SAFE_SYSCTLS

T = TypeVar("T", bound=msgspec.Struct)
Json: TypeAlias = Any

_PERCENT: Final = re.compile(r"\s*[0-9]{1,9}%?\s*", re.ASCII)
_FLOAT: Final = re.compile(r"[0-9.eE+-]{1,40}", re.ASCII)
_NOT_READ_HERE: Final = frozenset({LAST_APPLIED})
"""Annotations that are declared and change no decision: whether the API server dropped a field."""

NOT_UNDERSTOOD: Final = {"invalid": True}
"""A field that no spec has."""

_SPECS: Final[Mapping[type[api.ApiObject], type[dra.Strict]]] = {
    dra.ResourceClaim: dra.ResourceClaimSpec,
    dra.ResourceSlice: dra.ResourceSliceSpec,
    dra.DeviceClass: dra.DeviceClassSpec,
    dra.DeviceTaintRule: dra.DeviceTaintRuleSpec,
}
_OF_DRA_QUOTA: Final = ("capability", "deserved", "guarantee", "count", "capacity")
_OF_NATIVE: Final = frozenset(
    {
        *("schedulingPolicy", "basic", "gang", "minCount", "schedulingConstraints", "topology", "key"),
        *("name", "resourceClaimName", "resourceClaimTemplateName", "priorityClassName", "priority", "workload"),
        *("podGroupTemplateRef", "workloadName", "podGroupTemplateName", "workloadRef", "templateName"),
        *("resourceClaims", "disruptionMode", "single", "all", "preemptionPolicy", "parentCompositePodGroupName"),
    }
)  # fmt: skip
"""Members of specs of scheduling.k8s.io's PodGroups in any version. All others are refused, and still are."""


class Objects:
    """Gives objects other names. ``is_declared`` tells which foreign annotations plugins read."""

    def __init__(self, names: Names, expressions: Expressions, is_declared: Callable[[str], bool]) -> None:
        self._names = names
        self._expressions = expressions
        self._is_declared = is_declared

    def other(self, found: T) -> T:
        """Return a struct under other names."""
        of_kind = _OF_KIND.get(type(found))
        if of_kind is not None:
            found = of_kind(self, found)
        changed = {}
        for name, rule in _rules(type(found)):
            value = getattr(found, name)
            if value is None or value is True or value is False or value == "" or type(value) is int:
                continue
            other = rule(self, value) if rule is not None else self._part(value)
            if other is not value:
                changed[name] = other
        return msgspec.structs.replace(found, **changed) if changed else found

    def _part(self, value: Any) -> Any:
        """Return what nothing is stated of: structs go on, texts are names."""
        if isinstance(value, str):
            return self._names.name(value)
        if isinstance(value, msgspec.Struct):
            return self.other(value)
        if isinstance(value, tuple | list):
            return tuple(map(self._part, value)) if value else value
        if isinstance(value, Mapping):
            return {self._names.name(key): self._part(each) for key, each in value.items()} if value else value
        return value

    # -- texts of a kind ----------------------------------------------------------------------------------------------

    def _each(self, other: Callable[[str], str], value: Any) -> Any:
        return other(value) if isinstance(value, str) else tuple(map(other, value))

    def word(self, value: Any) -> Any:
        """Words of the API."""
        return self._each(self._names.word, value)

    def key(self, value: Any) -> Any:
        """Keys of labels."""
        return self._each(self._names.key, value)

    def domain(self, value: str) -> str:
        """Return a driver, or a group of the API."""
        return self._names.domain(value)

    def version(self, value: str) -> str:
        """Return a version of the API."""
        return self._names.version(value)

    def image(self, value: Any) -> Any:
        """Images."""
        return self._each(self._names.image, value)

    def attribute(self, value: str) -> str:
        """Return an attribute of devices."""
        return self._names.attribute(value)

    def resource(self, value: str) -> str:
        """Return a resource."""
        return self._names.resource(value)

    def card(self, value: Any) -> Any:
        """Values of attributes, one of which may be the name of a card."""
        return self._each(self._names.card, value)

    def sysctl(self, value: str) -> str:
        """Return a parameter of the kernel."""
        return value if value.replace("/", ".") in SAFE_SYSCTLS else self._names.name(value)

    def semver(self, value: Any) -> Any:
        """Semantic versions."""
        return self._each(self._names.semver, value)

    def nothing(self, value: Any) -> Any:
        """Fields that decide nothing."""
        return type(value)()

    def none(self, _: Any) -> Any:
        """Fields that decide nothing and may be absent."""
        return None

    def done(self, value: Any) -> Any:
        """Fields that their struct replaces."""
        return value

    def time(self, value: str) -> str:
        """Return a time. One that cannot be read cannot be read afterwards."""
        try:
            datetime.fromisoformat(value)
        except ValueError:
            return notes.UNREADABLE
        return value

    def duration(self, value: str) -> str:
        """Return a duration."""
        return value if seconds_of(value) is not None else notes.UNREADABLE

    def quantity(self, value: Any) -> Any:
        """Return a quantity."""
        try:
            parse(value.strip() if isinstance(value, str) else value)
        except QuantityError:
            return notes.UNREADABLE if isinstance(value, str) else value
        return value

    def quantities(self, value: Any) -> Any:
        """Quantities."""
        return tuple(map(self.quantity, value))

    def number(self, value: Any) -> Any:
        """Return a number, or a percentage."""
        return value if not isinstance(value, str) or _PERCENT.fullmatch(value) else notes.UNREADABLE

    # -- mappings -----------------------------------------------------------------------------------------------------

    def resources(self, value: Mapping[str, Any]) -> Any:
        """Amounts of resources."""
        return {self._names.resource(key): self.quantity(amount) for key, amount in value.items()}

    def usage(self, value: Mapping[str, Any]) -> Any:
        """Past usage of resources, as numbers in texts."""
        return {self._names.resource(key): _float(amount) for key, amount in value.items()}

    def capacities(self, value: Mapping[str, Any]) -> Any:
        """Amounts of capacities of devices, or what is stated of each capacity or attribute."""
        return {
            self._names.attribute(key): self.other(each) if isinstance(each, msgspec.Struct) else self.quantity(each)
            for key, each in value.items()
        }

    def times(self, value: Mapping[str, str]) -> Any:
        """Times by names."""
        return {self._names.name(key): self.time(text) for key, text in value.items()}

    def labels(self, value: Mapping[str, str]) -> Any:
        """Labels."""
        return {self._names.key(key): self._names.value(key, text) for key, text in value.items()}

    def annotations(self, value: Mapping[str, str]) -> Any:
        """Return those annotations that decide."""
        return dict(self._notes(value))

    def _notes(self, value: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        for key, text in value.items():
            other = notes.note(self._names, key, text)
            if other is not None:
                yield other
            elif self._is_declared(key) and key not in _NOT_READ_HERE:
                yield key, self._names.name(text)

    def job_plugins(self, value: Mapping[str, Any]) -> Any:
        """Plugins of a Volcano Job. Their arguments decide nothing about where pods go."""
        return {self._names.word(name): None if found is None else () for name, found in value.items()}

    def expression(self, value: str) -> str:
        """Return a selector of devices."""
        return self._expressions.other(value)

    # -- structs of which one field depends on another ----------------------------------------------------------------

    def requirement(self, found: Any) -> Any:
        """Return a condition on a label, or on a field of nodes."""
        values = tuple(self._names.value(found.key, text) for text in found.values)
        return msgspec.structs.replace(found, key=self._names.key(found.key), values=values)

    def taint(self, found: Any) -> Any:
        """Return a taint or a toleration."""
        return msgspec.structs.replace(
            found, key=self._names.key(found.key), value=self._names.value(found.key, found.value)
        )

    def condition(self, found: api.Condition) -> api.Condition:
        """Return a condition. A message stays from which something is read again."""
        message = notes.message(self._names, PodGroupCondition(found.type, found.status, found.reason, found.message))
        return msgspec.structs.replace(found, message=message)

    def queue_spec(self, found: api.QueueSpec) -> api.QueueSpec:
        """Return a queue's spec with its quota of devices."""
        return found if found.dra is None else msgspec.structs.replace(found, dra=self._dra_quota(found.dra))

    def _dra_quota(self, quota: Json) -> Json:
        if not isinstance(quota, Mapping):
            return self._part(quota)
        return {self._known(name, _OF_DRA_QUOTA): self._dra_classes(found) for name, found in quota.items()}

    def _dra_classes(self, found: Json) -> Json:
        if not isinstance(found, Mapping):
            return self._part(found)
        return {self._names.name(str(name)): self._dra_amounts(each) for name, each in found.items()}

    def _dra_amounts(self, found: Json) -> Json:
        if not isinstance(found, Mapping):
            return self._part(found)
        return {
            self._known(name, _OF_DRA_QUOTA): self.capacities(each)
            if isinstance(each, Mapping)
            else self.quantity(each)
            for name, each in found.items()
        }

    def _known(self, name: str, known: Collection[str]) -> str:
        return name if name in known else self._names.name(str(name))

    def native_group(self, found: native.PodGroup) -> native.PodGroup:
        """Return a PodGroup of scheduling.k8s.io."""
        return msgspec.structs.replace(found, spec=self._native_spec(found.spec))

    def _native_spec(self, part: Json, at: str = "") -> Json:
        if isinstance(part, Mapping):
            return {self._known(key, _OF_NATIVE): self._native_spec(each, key) for key, each in part.items()}
        if isinstance(part, list | tuple):
            return [self._native_spec(each, at) for each in part]
        if not isinstance(part, str):
            return part
        other = {"key": self._names.key, "disruptionMode": self._names.word, "preemptionPolicy": self._names.word}
        return other.get(at, self._names.name)(part)

    # -- specs of resource.k8s.io -------------------------------------------------------------------------------------

    def device_object(self, found: Any) -> Any:
        """Return an object whose spec is read late. A spec that is not understood stays so."""
        try:
            parsed = dra.parsed(found.spec, _SPECS[type(found)])
        except FieldError:
            return msgspec.structs.replace(found, spec=self._faulty(found.spec))
        spec = self.other(parsed)
        if isinstance(parsed, dra.ResourceSliceSpec) and isinstance(spec, dra.ResourceSliceSpec):
            spec = self._answering(parsed, spec)
        return msgspec.structs.replace(found, spec=msgspec.to_builtins(spec))

    def _answering(self, was: dra.ResourceSliceSpec, now: dra.ResourceSliceSpec) -> dra.ResourceSliceSpec:
        """Return a slice's spec with the results of selectors, which may read texts, for its devices."""
        found = []
        for device, other in zip(was.devices, now.devices, strict=True):
            answers = self._expressions.answers(DeviceId(was.driver, was.pool.name, device.name))
            found.append(msgspec.structs.replace(other, attributes={**other.attributes, **answers}))
        return msgspec.structs.replace(now, devices=tuple(found))

    def claim_template(self, found: dra.ResourceClaimTemplate) -> dra.ResourceClaimTemplate:
        """Return a template of claims."""
        outer = found.spec if isinstance(found.spec, Mapping) else {}
        inner = outer.get("metadata")
        meta = inner if isinstance(inner, Mapping) else {}
        labels, annotations = (_texts(meta.get(name)) for name in ("labels", "annotations"))
        try:
            spec: Json = msgspec.to_builtins(self.other(dra.parsed(outer.get("spec"), dra.ResourceClaimSpec)))
        except FieldError:
            spec = NOT_UNDERSTOOD
        others = {"labels": self.labels(labels), "annotations": self.annotations(annotations)}
        return msgspec.structs.replace(found, spec={"metadata": others, "spec": spec})

    def _faulty(self, spec: Json) -> Json:
        """Return the parts of a spec that are read although it is not understood: its pool and node."""
        raw = spec if isinstance(spec, Mapping) else {}
        pool = raw.get("pool")
        known = pool if isinstance(pool, Mapping) else {}
        selector = raw.get("deviceSelector")
        found: dict[str, Json] = {**NOT_UNDERSTOOD, **self._named(raw, "driver", "nodeName")}
        numbers = {name: known[name] for name in ("generation", "resourceSliceCount") if type(known.get(name)) is int}
        if known:
            found["pool"] = {"name": self._names.name(str(known.get("name", ""))), **numbers}
        if isinstance(selector, Mapping):
            found["deviceSelector"] = self._named(selector, "driver", "pool", "device")
        return found

    def _named(self, raw: Mapping[str, Json], *fields: str) -> dict[str, str]:
        others = {"driver": self._names.domain}
        texts = {name: raw[name] for name in fields if isinstance(raw.get(name), str)}
        return {name: others.get(name, self._names.name)(text) for name, text in texts.items()}


def _texts(found: Json) -> dict[str, str]:
    return {k: v for k, v in found.items() if isinstance(v, str)} if isinstance(found, Mapping) else {}


def _float(amount: Any) -> Any:
    return amount if not isinstance(amount, str) or _FLOAT.fullmatch(amount) else notes.UNREADABLE


Rule: TypeAlias = Callable[[Objects, Any], Any]
_O = Objects

_OF_KIND: Final[Mapping[type[msgspec.Struct], Rule]] = {
    **dict.fromkeys((api.LabelSelectorRequirement, api.TopologyLabelRequirement), _O.requirement),
    **dict.fromkeys((api.Taint, api.Toleration, dra.DeviceTaint, dra.DeviceToleration), _O.taint),
    **dict.fromkeys(_SPECS, _O.device_object),
    **dict.fromkeys(native.VERSIONS.values(), _O.native_group),
    api.Condition: _O.condition,
    api.QueueSpec: _O.queue_spec,
    dra.ResourceClaimTemplate: _O.claim_template,
}
"""Replacements of structs as a whole, before their fields."""

_DONE: Final = {"key": _O.done, "value": _O.done, "operator": _O.word, "effect": _O.word}
_ASKED: Final = {"allocation_mode": _O.word}
_SPEC_DONE: Final[Mapping[str, Rule]] = {"spec": _O.done}
_QUANTITY: Final = {"value": _O.quantity}

RULES: Final[Mapping[type[msgspec.Struct], Mapping[str, Rule]]] = {
    api.ObjectMeta: {
        **dict.fromkeys(("creation_timestamp", "deletion_timestamp"), _O.time),
        "labels": _O.labels,
        "annotations": _O.annotations,
        "resource_version": _O.nothing,
        "finalizers": _O.word,
    },
    api.OwnerReference: {"kind": _O.word, "api_version": _O.version},
    api.Condition: {
        **dict.fromkeys(("type", "status", "reason"), _O.word),
        **dict.fromkeys(("last_transition_time", "last_probe_time"), _O.time),
        "message": _O.done,
        "transition_id": _O.nothing,
    },
    api.LabelSelectorRequirement: {"key": _O.done, "operator": _O.word, "values": _O.done},
    api.TopologyLabelRequirement: {"key": _O.done, "values": _O.done},
    api.LabelSelector: {"match_labels": _O.labels},
    api.ResourceRequirements: {"requests": _O.resources, "limits": _O.resources},
    # nodes, and what is for all
    api.Taint: _DONE,
    api.NodeStatus: {"capacity": _O.resources, "allocatable": _O.resources, "declared_features": _O.word},
    api.NodeSystemInfo: {"operating_system": _O.word},
    api.ContainerImage: {"names": _O.image},
    api.NamespaceStatus: {"phase": _O.word},
    api.PriorityClass: {"preemption_policy": _O.word},
    api.ServiceSpec: {"selector": _O.labels},
    api.PodDisruptionBudgetSpec: {"min_available": _O.number, "max_unavailable": _O.number},
    api.PodDisruptionBudgetStatus: {"disrupted_pods": _O.times},
    # pods
    api.ContainerPort: {"protocol": _O.word},
    api.ContainerRestartRule: {"action": _O.word},
    api.Container: {"image": _O.image, "restart_policy": _O.word},
    api.Toleration: _DONE,
    api.PodAffinityTerm: dict.fromkeys(("topology_key", "match_label_keys", "mismatch_label_keys"), _O.key),
    api.TopologySpreadConstraint: {
        **dict.fromkeys(("when_unsatisfiable", "node_affinity_policy", "node_taints_policy"), _O.word),
        **dict.fromkeys(("topology_key", "match_label_keys"), _O.key),
    },
    api.PodSchedulingGate: {"name": _O.key},
    api.CSIVolumeSource: {"driver": _O.domain},
    api.ImageVolume: {"reference": _O.image},
    api.TypedObject: {"api_group": _O.domain, "kind": _O.word},
    api.PersistentVolumeClaimSpec: {"access_modes": _O.word, "volume_mode": _O.word},
    api.PodSpec: {
        **dict.fromkeys(("preemption_policy", "restart_policy"), _O.word),
        "overhead": _O.resources,
        "node_selector": _O.labels,
    },
    api.PodOS: {"name": _O.word},
    api.Sysctl: {"name": _O.sysctl},
    api.PodSecurityContext: {"supplemental_groups_policy": _O.word},
    api.RunningState: {"started_at": _O.time},
    api.TerminatedState: {"started_at": _O.time, "reason": _O.word, "finished_at": _O.time},
    api.ContainerStatus: {"allocated_resources": _O.resources},
    api.PodStatus: {
        **dict.fromkeys(("phase", "reason", "resize"), _O.word),
        "message": _O.nothing,
        "start_time": _O.time,
        "allocated_resources": _O.resources,
    },
    # volumes
    api.ObjectReference: {"kind": _O.word},
    api.CSIPersistentVolumeSource: {"driver": _O.domain},
    api.PersistentVolumeSpec: {"capacity": _O.resources, "access_modes": _O.word, "volume_mode": _O.word},
    api.VolumePhase: {"phase": _O.word},
    api.StorageClass: {"provisioner": _O.domain, "volume_binding_mode": _O.word, "reclaim_policy": _O.word},
    api.CSINodeDriver: {"name": _O.domain, "node_id": _O.nothing, "topology_keys": _O.key},
    api.CSIStorageCapacity: {"capacity": _O.quantity, "maximum_volume_size": _O.quantity},
    api.VolumeAttachmentSpec: {"attacher": _O.domain},
    # Volcano's
    api.Guarantee: {"resource": _O.resources},
    api.QueueSpec: {
        **dict.fromkeys(("capability", "deserved"), _O.resources),
        "state": _O.word,
        "dequeue_strategy": _O.word,
        "type": _O.word,
        "dra": _O.done,
    },
    api.QueueUsage: {"time": _O.time, "resource_seconds": _O.usage},
    api.QueueStatus: {"state": _O.word, "allocated": _O.resources},
    api.NetworkTopology: {"mode": _O.word},
    api.SubGroupPolicy: {"match_label_keys": _O.key},
    api.PodGroupSpec: {"min_resources": _O.resources},
    api.PodGroupStatus: {"phase": _O.word},
    api.LifecyclePolicy: {"action": _O.word, "event": _O.word, "events": _O.word, "timeout": _O.duration},
    api.DependsOn: {"iteration": _O.word},
    api.TaskSpec: {"topology_policy": _O.word},
    api.JobVolume: {"mount_path": _O.nothing},
    api.JobSpec: {"plugins": _O.job_plugins, "running_estimate": _O.duration},
    api.JobState: {"phase": _O.word, "reason": _O.word, "message": _O.nothing, "last_transition_time": _O.time},
    api.JobStatus: {"running_duration": _O.duration},
    # workloads
    api.RollingUpdate: {"max_surge": _O.number, "max_unavailable": _O.number},
    api.DeploymentStrategy: {"type": _O.word},
    api.StatefulSetSpec: {"pod_management_policy": _O.word},
    api.BatchJobSpec: {"completion_mode": _O.word},
    api.BatchJobStatus: {"start_time": _O.time, "completion_time": _O.time},
    # resource.k8s.io
    **dict.fromkeys((*_SPECS, dra.ResourceClaimTemplate), _SPEC_DONE),
    dra.DeviceTaint: {**_DONE, "time_added": _O.time},
    dra.DeviceToleration: _DONE,
    dra.CelSelector: {"expression": _O.expression},
    dra.CapacityRequirements: {"requests": _O.capacities},
    dra.ExactDeviceRequest: _ASKED,
    dra.DeviceSubRequest: _ASKED,
    dra.DeviceConstraint: {"match_attribute": _O.attribute, "distinct_attribute": _O.attribute},
    dra.DeviceConfiguration: {"opaque": _O.none},
    dra.AllocatedConfiguration: {"opaque": _O.none, "source": _O.word},
    dra.DeviceClassSpec: {"extended_resource_name": _O.resource},
    dra.ResourceSliceSpec: {"driver": _O.domain},
    dra.Counter: _QUANTITY,
    dra.DeviceAttribute: {
        **dict.fromkeys(("string", "strings"), _O.card),
        **dict.fromkeys(("version", "versions"), _O.semver),
    },
    dra.CapacityRange: dict.fromkeys(("min", "max", "step"), _O.quantity),
    dra.CapacityPolicy: {"default": _O.quantity, "valid_values": _O.quantities},
    dra.DeviceCapacity: _QUANTITY,
    dra.Device: {
        **dict.fromkeys(("attributes", "capacity"), _O.capacities),
        **dict.fromkeys(("binding_conditions", "binding_failure_conditions"), _O.word),
    },
    dra.DeviceTaintSelector: {"driver": _O.domain},
    dra.DeviceResult: {
        **dict.fromkeys(("binding_conditions", "binding_failure_conditions"), _O.word),
        "driver": _O.domain,
        "consumed_capacity": _O.capacities,
    },
    dra.DeviceStatus: {"driver": _O.domain},
    dra.Allocation: {"allocation_timestamp": _O.time},
    dra.Consumer: {"api_group": _O.domain, "resource": _O.word},
    # scheduling.k8s.io
    **dict.fromkeys(native.VERSIONS.values(), _SPEC_DONE),
}
"""Replacements of fields that are no names."""


@cache
def _rules(kind: type[msgspec.Struct]) -> tuple[tuple[str, Rule | None], ...]:
    own = {name: rule for base in reversed(kind.__mro__) for name, rule in RULES.get(base, {}).items()}
    return tuple((field.name, own.get(field.name)) for field in msgspec.structs.fields(kind))
