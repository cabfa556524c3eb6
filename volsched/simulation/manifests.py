"""Reads manifests into objects, and reports every fault with its file, document and field.

An absent creation time stays absent: such objects count as older than all that have one, in the order of the input (the
mirror numbers them as they arrive).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from volsched import registry
from volsched.framework.config.loading import find_in_data
from volsched.framework.dra.amounts import FLAT
from volsched.framework.validation import Fault, Faults, Surroundings, under
from volsched.model import api
from volsched.model.api import native_groups as native
from volsched.model.dra import api as dra
from volsched.model.errors import ConfigError, ObjectError, shortened
from volsched.simulation import at_max as most
from volsched.simulation.documents import Document, InputError, InputProblem
from volsched.simulation.generated_names import named
from volsched.simulation.kinds import LeftOut, Why, judged
from volsched.simulation.nodes import taints_of_conditions
from volsched.validation.fields import field_faults
from volsched.validation.objects import read_object
from volsched.validation.quantities import quantity_faults
from volsched.validation.states import state_faults
from volsched.validation.unserved import ignored_faults

MOST_PODS: Final = 200_000
"""The most pods of all workloads in a simulation: more than a Kubernetes cluster has, in half a GiB."""

SYSTEM_CLASSES: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
"""The PriorityClasses of Kubernetes itself, with their values."""

CLUSTER_SCOPED: Final = frozenset(
    {
        "CSIDriver",
        "CSINode",
        "DeviceClass",
        "DeviceTaintRule",
        "Namespace",
        "Node",
        "PersistentVolume",
        "PriorityClass",
        "Queue",
        "ResourceSlice",
        "StorageClass",
        "VolumeAttachment",
    }
)
"""Kinds whose objects belong to no namespace."""

_WRITTEN: Final = {"BatchJob": "Job", "VolcanoCronJob": "CronJob", **native.NAMES}
"""The user names of kinds of which there are two."""

_UID_SPACE: Final = uuid.UUID("6ba7b812-9dad-11d1-80b4-00c04fd430c8")

Object = TypeVar("Object", bound=api.ApiObject)


@dataclass(slots=True)
class Inventory:
    """All objects of the input, in its order, and the configuration among them.

    ``origin`` has the source of each object, by kind, namespace and name. Of several ConfigMaps with a configuration
    the accepted one counts; ``rivals`` are others that are accepted as well, and ``configuration_problems`` state why
    there is none, which does not matter if the configuration is given otherwise. ``doubts`` are warnings: unknown
    fields, keys that are given twice, fields without effect, and requests of ``--at-max`` that have none.
    """

    objects: list[api.ApiObject] = field(default_factory=list)
    configuration: str | None = None
    configuration_source: str = ""
    configuration_problems: list[InputProblem] = field(default_factory=list)
    rivals: list[InputProblem] = field(default_factory=list)
    origin: dict[tuple[str, str, str], Document] = field(default_factory=dict)
    left_out: LeftOut = field(default_factory=LeftOut)
    doubts: list[InputProblem] = field(default_factory=list)

    def chosen_configuration(self) -> str | None:
        """Return the configuration that a ConfigMap holds, if one does.

        Raises InputError when that could be several.
        """
        if problems := [*self.rivals, *self.configuration_problems]:
            raise InputError(problems)
        return self.configuration

    def of(self, kind: type[Object]) -> list[Object]:
        """Return the objects of one kind."""
        return [found for found in self.objects if isinstance(found, kind)]


# --- objects --------------------------------------------------------------------------------------------------------


def read_inventory(documents: Sequence[Document], *, strict: bool = False, at_max: bool = False) -> Inventory:
    """Decode all documents. InputError with everything that is wrong in any of them.

    With ``strict`` an unknown field is a fault, else a doubt. With ``at_max`` CronJobs are run and workloads scaled as
    far as their autoscalers may.
    """
    problems: list[InputProblem] = []
    inventory = Inventory()
    for document in named(documents):
        inventory.doubts.extend(_given_twice(document))
        judgement = judged(document, plays_at_max=at_max)
        if isinstance(judgement, Fault):
            problems.append(document.problem(judgement.message, judgement.field, unknown_subject(document.raw)))
            continue
        if judgement in (None, Why.AT_MAX):
            (problems if strict else inventory.doubts).extend(_unknown_fields(document))
        if judgement is not None:
            inventory.left_out.add(judgement, document)
        elif (found := _decoded(document, problems)) is not None:
            _take(inventory, found, document, problems)
    problems += (InputProblem("", "", "", "", message) for message in total_faults(inventory.objects))
    if problems:
        raise InputError(problems)
    _choose_configuration(inventory)
    if at_max:
        _play(inventory)
    return inventory


def _take(inventory: Inventory, found: api.ApiObject, document: Document, problems: list[InputProblem]) -> None:
    identity = identity_of(found)
    if identity in inventory.origin:
        first = inventory.origin[identity]
        message = f"is given twice, first in {first.source}, {first.place}"
        problems.append(document.problem(message, subject=subject_of(found)))
        return
    inventory.origin[identity] = document
    inventory.objects.append(found)
    ignored = ignored_faults(found)
    inventory.doubts.extend(document.problem(fault.message, fault.field, subject_of(found)) for fault in ignored)


def _play(inventory: Inventory) -> None:
    """Put what CronJobs and autoscalers may bring about at most in their place."""
    objects, doubts = most.at_most(inventory.objects)
    inventory.objects = [completed(found) for found in objects]
    for about, field_, message in doubts:
        inventory.doubts.append(inventory.origin[identity_of(about)].problem(message, field_, subject_of(about)))


def _unknown_fields(document: Document) -> Iterator[InputProblem]:
    for fault in field_faults(document.raw):
        yield document.problem(fault.message, fault.field, subject_of_raw(document.raw))


def _given_twice(document: Document) -> Iterator[InputProblem]:
    for found in document.twice:
        yield document.problem(found.message, found.field, subject_of_raw(document.raw))


def _decoded(document: Document, problems: list[InputProblem]) -> api.ApiObject | None:
    try:
        found = completed(decode(document.raw))
    except ObjectError as error:
        problems.append(document.problem(error.message, field_of(error), subject_of_raw(document.raw)))
        return None
    faults = list(_faults(found))
    for fault in faults:
        problems.append(document.problem(fault.message, fault.field, subject_of(found)))  # noqa: PERF401
    return None if faults else found


def _faults(found: api.ApiObject) -> Faults:
    yield from identity_faults(found)
    run = most.run_of(found, "run")
    if run is not None:
        yield from under("spec.jobTemplate", _faults(run))
        return
    amounts = [fault for fault in quantity_faults(found) if not _is_reported(found, fault)]
    yield from amounts
    yield from _of_plugins(found, amounts)
    yield from state_faults(found)
    yield from _size_faults(found)


def _of_plugins(found: api.ApiObject, amounts: Sequence[Fault]) -> Iterator[Fault]:
    """Yield plugins' reports about the same amounts, with the code of `volsched validate`."""
    if not amounts:
        return
    for validate in registry.validators():
        for fault in validate(found, Surroundings((found,))):
            if fault.severity == "error" and any(amount.field.startswith(f"{fault.field}.") for amount in amounts):
                yield replace(fault, message=f"{fault.message} [{fault.code}]")


def _is_reported(found: api.ApiObject, fault: Fault) -> bool:
    """True if the run itself reports a fault: a quota of devices counts as 0 then, in either spelling."""
    return isinstance(found, api.Queue) and FLAT in fault.field


def decode(raw: Mapping[str, Any]) -> api.ApiObject:
    """Return the struct of an object of any kind that is understood; ObjectError otherwise."""
    kind, version = raw.get("kind", ""), raw.get("apiVersion", "")
    if version in dra.VERSIONS.get(kind, ()):
        return api.decode_as(dra.KINDS[kind], raw)
    if (version, kind) in native.KINDS:
        return api.decode_as(native.KINDS[version, kind], raw)
    played = most.KINDS.get((version.rpartition("/")[0], kind)) if isinstance(version, str) else None
    return api.decode_as(played, raw) if played is not None else read_object(raw)


def unknown_subject(raw: Mapping[str, Any]) -> str:
    """Return the name of an object of an unknown kind; empty without one."""
    kind, metadata = raw.get("kind"), raw.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    return subject_of_raw(raw if isinstance(kind, str) and kind else {**raw, "kind": "object"}) if name else ""


def completed(found: Object) -> Object:
    """Give an object its default namespace and uid, and a Node or a Pod the defaults of Kubernetes."""
    meta = found.metadata
    namespace = "" if type(found).__name__ in CLUSTER_SCOPED else meta.namespace or "default"
    uid = meta.uid or derived_uid(kind_of(found), namespace, meta.name)
    if isinstance(found, api.Node) and not found.status.allocatable and found.status.capacity:
        status = msgspec.structs.replace(found.status, allocatable=found.status.capacity)
        found = msgspec.structs.replace(found, status=status)
    if isinstance(found, api.Node) and (taints := taints_of_conditions(found)):
        spec = msgspec.structs.replace(found.spec, taints=(*found.spec.taints, *taints))
        found = msgspec.structs.replace(found, spec=spec)
    if isinstance(found, api.Pod) and not found.spec.scheduler_name:
        named = msgspec.structs.replace(found.spec, scheduler_name=api.DEFAULT_SCHEDULER)
        found = msgspec.structs.replace(found, spec=named)
    if (namespace, uid) == (meta.namespace, meta.uid):
        return found
    return msgspec.structs.replace(found, metadata=msgspec.structs.replace(meta, namespace=namespace, uid=uid))


def with_system_classes(inventory: Inventory) -> Inventory:
    """Return an inventory with the two PriorityClasses that every cluster has."""
    known = {found.metadata.name for found in inventory.of(api.PriorityClass)}
    made = [
        completed(api.PriorityClass(metadata=api.ObjectMeta(name=name), value=value))
        for name, value in SYSTEM_CLASSES.items()
        if name not in known
    ]
    return replace(inventory, objects=[*made, *inventory.objects])


def states_uid(found: api.ApiObject) -> bool:
    """True if the uid of a completed object was in the input."""
    meta = found.metadata
    return meta.uid != derived_uid(kind_of(found), meta.namespace, meta.name)


def derived_uid(kind: str, namespace: str, name: str) -> str:
    """Return the uid of an object that states none: the same in every run."""
    return str(uuid.uuid5(_UID_SPACE, f"{kind}/{namespace}/{name}"))


def kind_of(found: api.ApiObject) -> str:
    """Return the kind; of two of a name one is called otherwise: ``BatchJob``, ``NativePodGroup``."""
    return native.kind_of(found)


def identity_of(found: api.ApiObject) -> tuple[str, str, str]:
    """Return what may be given only once."""
    return kind_of(found), found.metadata.namespace, found.metadata.name


def subject_of(found: api.ApiObject) -> str:
    """Return `Kind/namespace/name`, or `Kind/name`, as users write it."""
    kind = kind_of(found)
    kind = _WRITTEN.get(kind, kind)
    return f"{kind}/{found.key}" if found.metadata.name else kind


LONGEST_NAME: Final = 253
"""The longest name by the API server's rules. A longer one is cut in messages."""


def subject_of_raw(raw: Mapping[str, Any]) -> str:
    """Return the same of an unchecked object."""
    kind, metadata = _word(raw.get("kind")), raw.get("metadata")
    name, namespace = (metadata.get("name"), metadata.get("namespace")) if isinstance(metadata, Mapping) else ("", "")
    scope = [] if kind in CLUSTER_SCOPED else [_word(namespace or "default")]
    return "/".join([kind, *scope, _word(name)]) if name else kind


def _word(value: Any) -> str:
    """Return a value as a word of a message; of lists and mappings, which may be nested deep, the type alone."""
    return f"({type(value).__name__})" if isinstance(value, list | dict) else shortened(str(value), LONGEST_NAME)


def field_of(error: ObjectError) -> str:
    """Return the field that cannot be read."""
    return error.field.removeprefix("$").removeprefix(".")


def identity_faults(found: api.ApiObject) -> Iterator[Fault]:
    """Yield what is wrong with an object's name."""
    if not found.metadata.name:
        yield Fault("metadata.name", "Required", "is missing, and so is metadata.generateName")


def _size_faults(found: api.ApiObject) -> Iterator[Fault]:
    """Yield why the pods of a workload cannot be made: a misspelt number must not fill the memory."""
    least = 1 if isinstance(found, most.HorizontalPodAutoscaler) else 0
    for field_, size in _sizes(found):
        if not least <= size <= MOST_PODS:
            yield Fault(field_, "Invalid", f"{size} must be from {least} to {MOST_PODS}")


def total_faults(objects: Iterable[api.ApiObject]) -> Iterator[str]:
    """Yield why the pods of all workloads together cannot be made. Each alone may be as large as it states."""
    total = sum(size for found in objects for _, size in _sizes(found))
    if total > MOST_PODS:
        yield f"workloads have {total} pods together, of which {MOST_PODS} are made at most"


def size_faults(found: api.ApiObject) -> Iterator[Fault]:
    """Yield why an object cannot be taken for one, or its pods cannot be made."""
    yield from identity_faults(found)
    yield from _size_faults(found)


def _sizes(found: api.ApiObject) -> list[tuple[str, int]]:
    if isinstance(found, api.Job):
        return [(f"spec.tasks[{number}].replicas", task.replicas) for number, task in enumerate(found.spec.tasks)]
    if isinstance(found, api.Deployment | api.ReplicaSet | api.StatefulSet):
        return [("spec.replicas", found.spec.replicas or 0)]
    if isinstance(found, api.BatchJob):
        return [("spec.parallelism", found.spec.parallelism or 0)]
    if isinstance(found, most.HorizontalPodAutoscaler):
        return [("spec.maxReplicas", found.spec.max_replicas)]
    return []


# --- the configuration among them ------------------------------------------------------------------------------------


class _Held(NamedTuple):
    """A configuration that a ConfigMap holds."""

    text: str
    source: str
    field: str
    subject: str
    document: Document

    def problem(self, message: str) -> InputProblem:
        """Return the text that follows the statement that it holds one."""
        return self.document.problem(f"holds a scheduler configuration, {message}", self.field, self.subject)


def _choose_configuration(inventory: Inventory) -> None:
    """Find the configuration that counts: the only one, or the only one that is accepted."""
    held = [found for item in inventory.of(api.ConfigMap) if (found := _held(inventory, item)) is not None]
    if not held:
        return
    accepted = [found for found in held if len(held) == 1 or _is_accepted(found.text)]
    chosen = (accepted or held)[0]
    inventory.configuration, inventory.configuration_source = chosen.text, chosen.source
    inventory.doubts.extend(inventory.configuration_problems)
    inventory.configuration_problems.clear()
    for found in held:
        if found in accepted[1:]:
            way_out = "leave one of them out, or name one with --config"
            inventory.rivals.append(found.problem(f"and so does {chosen.source}; {way_out}"))
        elif found is not chosen:
            inventory.doubts.append(found.problem(f"and is passed over for {chosen.source}"))


def _held(inventory: Inventory, found: api.ConfigMap) -> _Held | None:
    """Return the configuration that a ConfigMap holds, if one. Noted is that it could be several."""
    document = inventory.origin[identity_of(found)]
    try:
        key = find_in_data(found.data)
    except ConfigError as error:
        inventory.configuration_problems.append(document.problem(error.message, error.path, subject_of(found)))
        return None
    if key is None:
        return None
    source = f"{document.source}: {document.place}: {subject_of(found)}: data[{key}]"
    return _Held(found.data[key], source, f"data[{key}]", subject_of(found), document)


def _is_accepted(text: str) -> bool:
    try:
        registry.load_configuration(text)
    except ConfigError:
        return False
    return True
