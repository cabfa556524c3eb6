"""Reads a PodGroup of scheduling.k8s.io, in any version, into one record for the scheduler.

No field of a spec is ignored: an unknown field, or a known one that volsched does not support, is a fault of the group,
which is then not placed. v1alpha2 (Kubernetes 1.36) and later versions (1.37) have two structs; a null counts as
absent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from volsched.mirror.reading import owner_name, seconds
from volsched.model import api, labels
from volsched.model.api.native_groups import GROUP, PodGroup
from volsched.model.conditions import REMEMBERED
from volsched.model.errors import FieldError
from volsched.model.job import PodGroupCondition
from volsched.model.native_group import ApiVersion, NativeGroup
from volsched.model.pods.claim_use import ResourceClaimUse

Read: TypeAlias = dict[str, Any]


class _StrictStruct(msgspec.Struct, frozen=True, gc=False, rename="camel", forbid_unknown_fields=True):
    """The part that must be understood completely."""


class _Nothing(_StrictStruct, frozen=True):
    """A choice that states no more."""


class _GangSchedulingPolicy(_StrictStruct, frozen=True):
    min_count: int


class _SchedulingPolicy(_StrictStruct, frozen=True):
    basic: _Nothing | None = None
    gang: _GangSchedulingPolicy | None = None


class _TopologyConstraint(_StrictStruct, frozen=True):
    key: str


class _Constraints(_StrictStruct, frozen=True):
    topology: tuple[_TopologyConstraint, ...] = ()


class _PodGroupClaim(_StrictStruct, frozen=True):
    name: str
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class _WorkloadOfAlpha2(_StrictStruct, frozen=True):
    workload_name: str = ""
    pod_group_template_name: str = ""


class _TemplateOfAlpha2(_StrictStruct, frozen=True):
    workload: _WorkloadOfAlpha2 | None = None


class _WorkloadRef(_StrictStruct, frozen=True):
    workload_name: str = ""
    template_name: str = ""


class _Mode(_StrictStruct, frozen=True):
    single: _Nothing | None = None
    all: _Nothing | None = None


class _Spec(_StrictStruct, frozen=True):
    scheduling_policy: _SchedulingPolicy
    scheduling_constraints: _Constraints = _Constraints()
    resource_claims: tuple[_PodGroupClaim, ...] = ()
    priority_class_name: str = ""
    priority: int | None = None


class _SpecOfAlpha2(_Spec, frozen=True):
    pod_group_template_ref: _TemplateOfAlpha2 = _TemplateOfAlpha2()
    disruption_mode: str = "Pod"


class _SpecOf137(_Spec, frozen=True):
    workload_ref: _WorkloadRef = _WorkloadRef()
    parent_composite_pod_group_name: str = ""
    disruption_mode: _Mode = _Mode()
    preemption_policy: str = ""


def group_of(found: PodGroup) -> NativeGroup:
    """Return the record of a PodGroup. What of it is not understood is its ``fault``."""
    try:
        return understood(found)
    except FieldError as error:
        return msgspec.structs.replace(_about(found), fault=f"{error.path}: {error.message}")


def understood(found: PodGroup) -> NativeGroup:
    """Return the record of a PodGroup. Raises FieldError with the field that is not understood."""
    about = _about(found)
    try:
        return msgspec.structs.replace(about, **_READERS[about.version.name](api.as_json(found.spec)))
    except FieldError as error:
        raise FieldError(error.path.replace("$", "spec", 1), error.message) from error


def _about(found: PodGroup) -> NativeGroup:
    """Return the part that is read alike in all versions: identity and status of the group."""
    meta, version = found.metadata, VERSIONS[found.group_version]
    return NativeGroup(
        version,
        meta.namespace,
        meta.name,
        meta.uid,
        owner=owner_name(meta),
        created=seconds(meta.creation_timestamp),
        terminating=meta.deletion_timestamp is not None,
        labels=labels.kept(meta.labels),
        annotations=meta.annotations,
        claim_names=tuple((one.name, one.resource_claim_name) for one in found.status.resource_claim_statuses),
    )


def conditions_of(found: PodGroup) -> tuple[PodGroupCondition, ...]:
    """Return volsched's conditions at the API server, without their times."""
    kinds = (VERSIONS[found.group_version].condition, *REMEMBERED)
    stated = (known for known in found.status.conditions if known.type in kinds)
    return tuple(PodGroupCondition(known.type, known.status, known.reason, known.message) for known in stated)


def _of_alpha2(raw: Mapping[str, Any]) -> Read:
    spec = api.convert(raw, _SpecOfAlpha2)
    if spec.disruption_mode not in ("Pod", "PodGroup"):
        raise FieldError("$.disruptionMode", f'"{spec.disruption_mode}" is neither Pod nor PodGroup')
    workload = spec.pod_group_template_ref.workload or _WorkloadOfAlpha2()
    return {
        **_common(spec),
        "goes_whole": spec.disruption_mode == "PodGroup",
        "workload": workload.workload_name,
        "template": workload.pod_group_template_name,
    }


def _of_137(raw: Mapping[str, Any]) -> Read:
    spec = api.convert(raw, _SpecOf137)
    if spec.parent_composite_pod_group_name:
        named = spec.parent_composite_pod_group_name
        raise FieldError("$.parentCompositePodGroupName", f'groups of groups are not served (it is part of "{named}")')
    mode = spec.disruption_mode
    if mode.single is not None and mode.all is not None:
        raise FieldError("$.disruptionMode", "says both single and all")
    if spec.preemption_policy not in ("", "PreemptLowerPriority", "Never"):
        raise FieldError("$.preemptionPolicy", f'"{spec.preemption_policy}" is neither PreemptLowerPriority nor Never')
    return {
        **_common(spec),
        "goes_whole": mode.all is not None,
        "workload": spec.workload_ref.workload_name,
        "template": spec.workload_ref.template_name,
        "preempts": spec.preemption_policy != "Never" if spec.preemption_policy else None,
    }


def _common(spec: _Spec) -> Read:
    policy, topology = spec.scheduling_policy, spec.scheduling_constraints.topology
    if (policy.basic is None) == (policy.gang is None):
        raise FieldError("$.schedulingPolicy", "must say one of basic and gang")
    if policy.gang is not None and policy.gang.min_count < 1:
        raise FieldError("$.schedulingPolicy.gang.minCount", "must be at least 1")
    if len(topology) > 1:
        raise FieldError("$.schedulingConstraints.topology", "more than one key is not served")
    return {
        "is_gang": policy.gang is not None,
        "min_count": policy.gang.min_count if policy.gang is not None else 1,
        "topology_key": topology[0].key if topology else "",
        "priority": spec.priority,
        "priority_class": spec.priority_class_name,
        "claims": tuple(_claim(one) for one in spec.resource_claims),
    }


def _claim(one: _PodGroupClaim) -> ResourceClaimUse:
    return ResourceClaimUse(one.name, one.resource_claim_name or "", one.resource_claim_template_name or "")


_V1ALPHA2: Final = f"{GROUP}/v1alpha2"
_OF_137: Final = tuple(f"{GROUP}/{name}" for name in ("v1alpha3", "v1beta1", "v1"))

VERSIONS: Final[Mapping[str, ApiVersion]] = {
    _V1ALPHA2: ApiVersion(_V1ALPHA2, "PodGroupScheduled", one_priority=False),
    **{name: ApiVersion(name, "PodGroupInitiallyScheduled", one_priority=True) for name in _OF_137},
}
"""The particulars of each version, by its name."""

_READERS: Final[Mapping[str, Callable[[Mapping[str, Any]], Read]]] = {
    _V1ALPHA2: _of_alpha2,
    **dict.fromkeys(_OF_137, _of_137),
}
