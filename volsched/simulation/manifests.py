"""From files to objects: every manifest is read, and every fault in them is said with its file, document and field.

A creation time that is absent stays absent: such objects count as older than all that have one, in the order of the
input (the mirror numbers them as they arrive).
"""

from __future__ import annotations

import json
import sys
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
import yaml

from volsched import registry
from volsched.framework.arguments import hint
from volsched.framework.dra.amounts import FLAT
from volsched.framework.loading import find_in_data
from volsched.framework.validation import UNKNOWN_KIND, Fault, Surroundings
from volsched.model import api, dra
from volsched.model.errors import ConfigError, ObjectError, VolschedError, shortened
from volsched.validation.quantities import quantity_faults
from volsched.validation.states import state_faults

STANDARD_INPUT: Final = "standard input"
SUFFIXES: Final = (".yaml", ".yml", ".json")

MOST_PODS: Final = 1_000_000
"""Pods of one workload that a simulation makes."""

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


def _versions() -> dict[str, tuple[str, ...]]:
    versions: dict[str, tuple[str, ...]] = dict(dra.VERSIONS)
    for version, kind in api.KINDS:
        versions[kind] = (*versions.get(kind, ()), version)
    return versions


_VERSIONS: Final = _versions()
_UID_SPACE: Final = uuid.UUID("6ba7b812-9dad-11d1-80b4-00c04fd430c8")

Object = TypeVar("Object", bound=api.ApiObject)


@dataclass(frozen=True, slots=True)
class InputProblem:
    """What is wrong with the input: where it stands, which object and field, and what to do about it."""

    source: str
    place: str
    subject: str
    field: str
    message: str

    def __str__(self) -> str:
        return ": ".join(part for part in (self.source, self.place, self.subject, self.field, self.message) if part)


class InputError(VolschedError):
    """The input cannot be used; it has everything that is wrong."""

    def __init__(self, problems: Iterable[InputProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


@dataclass(frozen=True, slots=True)
class Document:
    """One object as it was read. ``place`` says where in the file it stands, ``line`` where it begins."""

    source: str
    place: str
    raw: Mapping[str, Any]

    def problem(self, message: str, field: str = "", subject: str = "") -> InputProblem:
        """Return a problem of this document."""
        return InputProblem(self.source, self.place, subject, field, message)


@dataclass(slots=True)
class Inventory:
    """All objects of the input, in its order, and the configuration that was among them.

    ``origin`` says of each object, by kind, namespace and name, where it came from. ``configuration_problems`` say why
    no ConfigMap can be used, which is nobody's concern when the configuration is given otherwise.
    """

    objects: list[api.ApiObject] = field(default_factory=list)
    configuration: str | None = None
    configuration_source: str = ""
    configuration_problems: list[InputProblem] = field(default_factory=list)
    origin: dict[tuple[str, str, str], Document] = field(default_factory=dict)

    def chosen_configuration(self) -> str | None:
        """Return the configuration that a ConfigMap holds, if one does; InputError when it is not to be said which."""
        if self.configuration_problems:
            raise InputError(self.configuration_problems)
        return self.configuration

    def of(self, kind: type[Object]) -> list[Object]:
        """Return the objects of one kind."""
        return [found for found in self.objects if isinstance(found, kind)]


# --- files ----------------------------------------------------------------------------------------------------------


def read_documents(paths: Sequence[str]) -> list[Document]:
    """Read every object of files, folders and ``-``, lists taken apart; InputError for what cannot be read."""
    problems: list[InputProblem] = []
    documents: list[Document] = []
    for source, text in read_texts(paths):
        try:
            documents.extend(documents_in(source, text))
        except InputError as error:
            problems.extend(error.problems)
    if problems:
        raise InputError(problems)
    return documents


def read_texts(paths: Sequence[str]) -> list[tuple[str, str]]:
    """Read files, folders and ``-``: where each text is from, and the text; InputError for what cannot be read."""
    problems: list[InputProblem] = []
    texts = []
    for path in paths:
        for file in _files(path, problems):
            try:
                texts.append((_source(file), read_text(file)))
            except InputError as error:
                problems.extend(error.problems)
    if problems:
        raise InputError(problems)
    return texts


def documents_in(source: str, text: str) -> list[Document]:
    """Return every object of one text; InputError when it is not YAML or JSON or holds something else."""
    problems: list[InputProblem] = []
    documents: list[Document] = []
    try:
        documents.extend(_objects(source, text, problems))
    except Exception as error:  # the YAML reader fails in many ways on odd tags, characters and deep nesting
        problems.append(_unreadable(source, error))
    if problems:
        raise InputError(problems)
    return documents


def read_text(path: str) -> str:
    """Read one file, or standard input for ``-``; InputError when that fails."""
    try:
        if path == "-":
            return sys.stdin.read()
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError([InputProblem(_source(path), "", "", "", _said(error))]) from error


def _files(path: str, problems: list[InputProblem]) -> list[str]:
    folder = Path(path)
    if path == "-" or not folder.is_dir():
        return [path]
    found = sorted(file for file in folder.iterdir() if file.suffix in SUFFIXES and file.is_file())
    if not found:
        problems.append(InputProblem(path, "", "", "", f"the folder has no {', '.join(f'*{s}' for s in SUFFIXES)}"))
    return [str(file) for file in found]


def _source(path: str) -> str:
    return STANDARD_INPUT if path == "-" else path


def _said(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "there is no such file or folder"
    if isinstance(error, UnicodeDecodeError):
        return "is not UTF-8 text"
    return getattr(error, "strerror", None) or str(error)


def _unreadable(source: str, error: Exception) -> InputProblem:
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        said = f"is not YAML: {shortened(str(error.problem or error.context), 200)}"
        return InputProblem(source, f"line {mark.line + 1}" if mark else "", "", "", said)
    said = "nested too deeply" if isinstance(error, RecursionError) else shortened(str(error), 200)
    return InputProblem(source, "", "", "", f"cannot be read: {said}")


def _objects(source: str, text: str, problems: list[InputProblem]) -> Iterator[Document]:
    for number, raw in enumerate(_parsed(text), start=1):
        place = f"document {number}"
        if raw is None:
            continue
        if not isinstance(raw, Mapping):
            problems.append(InputProblem(source, place, "", "", "is no object: it must be a mapping with a kind"))
            continue
        yield from _unlisted(Document(source, place, raw), problems)


def _unlisted(document: Document, problems: list[InputProblem]) -> Iterator[Document]:
    """Yield the document, or what is in it when it is a list."""
    raw = document.raw
    kind, items = raw.get("kind"), raw.get("items")
    if not (isinstance(kind, str) and kind.endswith("List") and ("items" in raw or kind == "List")):
        yield document
        return
    if not isinstance(items or [], list):
        problems.append(document.problem("must be a list", "items", kind))
        return
    for number, item in enumerate(items or (), start=1):
        inner = Document(document.source, f"{document.place}, item {number}", item)
        if not isinstance(item, Mapping):
            problems.append(inner.problem("is no object: it must be a mapping with a kind"))
            continue
        if "kind" not in item and kind != "List":
            whole = {"apiVersion": raw.get("apiVersion"), "kind": kind.removesuffix("List"), **item}
            inner = Document(inner.source, inner.place, whole)
        yield from _unlisted(inner, problems)


def _parsed(text: str) -> Iterable[Any]:
    if text.lstrip()[:1] in ("{", "["):
        try:
            return [json.loads(text)]
        except json.JSONDecodeError:
            pass  # several documents, or YAML in its flow style
    return yaml.load_all(text, Loader=_Loader)


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # whichever of two there is
    """YAML as the API server's clients read it: a time stays a text, and no key is said twice."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - as in the base class
        first: [(tag, regexp) for tag, regexp in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> Any:
        """Refuse a key that is said twice, of which one would be lost."""
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"key {shortened(key.value, 60)} is said twice", key.start_mark
                    )
                seen.add(key.value)
        return super().construct_mapping(node, deep=deep)


# --- objects --------------------------------------------------------------------------------------------------------


def take_stock(documents: Sequence[Document]) -> Inventory:
    """Decode all documents; InputError with everything that is wrong in any of them."""
    problems: list[InputProblem] = []
    inventory = Inventory()
    for document in documents:
        found = _decoded(document, problems)
        if found is None:
            continue
        identity = identity_of(found)
        if identity in inventory.origin:
            first = inventory.origin[identity]
            said = f"is given twice, first in {first.source}, {first.place}"
            problems.append(document.problem(said, subject=subject_of(found)))
            continue
        inventory.origin[identity] = document
        inventory.objects.append(found)
        if isinstance(found, api.ConfigMap):
            _take_configuration(inventory, found, document)
    if problems:
        raise InputError(problems)
    return inventory


def _decoded(document: Document, problems: list[InputProblem]) -> api.ApiObject | None:
    unknown = unknown_kind(document.raw)
    if unknown is not None:
        problems.append(document.problem(unknown.message, unknown.field, unknown_subject(document.raw)))
        return None
    try:
        found = completed(decode(document.raw))
    except ObjectError as error:
        problems.append(document.problem(error.message, field_of(error), subject_of_raw(document.raw)))
        return None
    amounts = [fault for fault in quantity_faults(found) if not _is_told(found, fault)]
    more = _of_plugins(found, amounts)
    faults = [*identity_faults(found), *amounts, *more, *state_faults(found), *_size_faults(found)]
    for fault in faults:
        problems.append(document.problem(fault.message, fault.field, subject_of(found)))  # noqa: PERF401
    return None if faults else found


def _of_plugins(found: api.ApiObject, amounts: Sequence[Fault]) -> Iterator[Fault]:
    """Yield what plugins say of the same amounts, with the code by which `volsched validate` has it."""
    if not amounts:
        return
    for validate in registry.validators():
        for fault in validate(found, Surroundings((found,))):
            if fault.severity == "error" and any(amount.field.startswith(f"{fault.field}.") for amount in amounts):
                yield replace(fault, message=f"{fault.message} [{fault.code}]")


def _is_told(found: api.ApiObject, fault: Fault) -> bool:
    """Say whether the run itself tells of a fault: a quota of devices counts as 0 then, whichever way it is spelled."""
    return isinstance(found, api.Queue) and FLAT in fault.field


def decode(raw: Mapping[str, Any]) -> api.ApiObject:
    """Return the struct of an object of any kind that is understood; ObjectError otherwise."""
    kind = raw.get("kind", "")
    if raw.get("apiVersion") in dra.VERSIONS.get(kind, ()):
        return api.decode_as(dra.KINDS[kind], raw)
    return api.decode_object(raw)


def unknown_kind(raw: Mapping[str, Any]) -> Fault | None:
    """Say why an object's kind is not understood; None when it is."""
    version, kind = raw.get("apiVersion"), raw.get("kind")
    if not isinstance(kind, str) or not kind:
        if "actions" in raw or "tiers" in raw:
            said = "is missing; a scheduler configuration is given with --config, or inside a ConfigMap"
            return Fault("kind", UNKNOWN_KIND, said)
        return Fault("kind", UNKNOWN_KIND, "is missing" if not kind else "must be a text")
    versions = _VERSIONS.get(kind)
    if versions is None:
        of = f" of {version}" if isinstance(version, str) and version else ""
        return Fault("kind", UNKNOWN_KIND, f"{shortened(kind, 60)}{of} is not understood{hint(kind, _VERSIONS)}")
    if not isinstance(version, str) or not version:
        said = "is missing" if not version else "must be a text"
        return Fault("apiVersion", UNKNOWN_KIND, f"{said}; {kind} is of {' or '.join(versions)}")
    if version not in versions:
        return Fault("kind", UNKNOWN_KIND, f"{kind} of {version} is not understood; it is of {' or '.join(versions)}")
    return None


def unknown_subject(raw: Mapping[str, Any]) -> str:
    """Return how to call an object whose kind is not understood; empty when it does not even have a name."""
    kind, metadata = raw.get("kind"), raw.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    return subject_of_raw(raw if isinstance(kind, str) and kind else {**raw, "kind": "object"}) if name else ""


def known_kinds() -> Iterable[str]:
    """Return the kinds that are understood."""
    return _VERSIONS


def completed(found: Object) -> Object:
    """Give an object the namespace and the uid that it does not say, and a Node what the API server fills in."""
    meta = found.metadata
    namespace = "" if type(found).__name__ in CLUSTER_SCOPED else meta.namespace or "default"
    uid = meta.uid or derived_uid(kind_of(found), namespace, meta.name)
    if isinstance(found, api.Node) and not found.status.allocatable and found.status.capacity:
        status = msgspec.structs.replace(found.status, allocatable=found.status.capacity)
        found = msgspec.structs.replace(found, status=status)
    if (namespace, uid) == (meta.namespace, meta.uid):
        return found
    return msgspec.structs.replace(found, metadata=msgspec.structs.replace(meta, namespace=namespace, uid=uid))


def derived_uid(kind: str, namespace: str, name: str) -> str:
    """Return the uid of an object that says none: the same in every run."""
    return str(uuid.uuid5(_UID_SPACE, f"{kind}/{namespace}/{name}"))


def kind_of(found: api.ApiObject) -> str:
    """Return the kind; a Volcano Job and a batch Job are told apart by ``BatchJob``."""
    return type(found).__name__


def identity_of(found: api.ApiObject) -> tuple[str, str, str]:
    """Return what may be given only once."""
    return kind_of(found), found.metadata.namespace, found.metadata.name


def subject_of(found: api.ApiObject) -> str:
    """Return `Kind/namespace/name`, or `Kind/name`, as users write it."""
    kind = "Job" if isinstance(found, api.BatchJob) else kind_of(found)
    return f"{kind}/{found.key}" if found.metadata.name else kind


def subject_of_raw(raw: Mapping[str, Any]) -> str:
    """Return the same of an object of which nothing is known to be right."""
    kind, metadata = str(raw.get("kind")), raw.get("metadata")
    name, namespace = (metadata.get("name"), metadata.get("namespace")) if isinstance(metadata, Mapping) else ("", "")
    scope = [] if kind in CLUSTER_SCOPED else [str(namespace or "default")]
    return "/".join([kind, *scope, str(name)]) if name else kind


def field_of(error: ObjectError) -> str:
    """Return the field that cannot be read."""
    return error.field.removeprefix("$").removeprefix(".")


def identity_faults(found: api.ApiObject) -> Iterator[Fault]:
    """Yield what is wrong with an object's name."""
    if not found.metadata.name:
        hint = "; generateName is for the API server, say a name here" if found.metadata.generate_name else ""
        yield Fault("metadata.name", "Required", f"is missing{hint}")


def _size_faults(found: api.ApiObject) -> Iterator[Fault]:
    """Yield why the pods of a workload cannot be made: a slip of the pen must not fill the memory."""
    sizes: list[tuple[str, int]] = []
    if isinstance(found, api.Job):
        sizes = [(f"spec.tasks[{number}].replicas", task.replicas) for number, task in enumerate(found.spec.tasks)]
    elif isinstance(found, api.Deployment | api.ReplicaSet | api.StatefulSet):
        sizes = [("spec.replicas", found.spec.replicas or 0)]
    elif isinstance(found, api.BatchJob):
        sizes = [("spec.parallelism", found.spec.parallelism or 0)]
    for field_, size in sizes:
        if not 0 <= size <= MOST_PODS:
            yield Fault(field_, "Invalid", f"{size} must be from 0 to {MOST_PODS}")


def _take_configuration(inventory: Inventory, found: api.ConfigMap, document: Document) -> None:
    problems = inventory.configuration_problems
    try:
        key = find_in_data(found.data)
    except ConfigError as error:
        problems.append(document.problem(error.message, error.path, subject_of(found)))
        return
    if key is None:
        return
    if inventory.configuration is not None:
        said = f"holds a scheduler configuration, and so does {inventory.configuration_source}; leave one of them out"
        problems.append(document.problem(said, f"data[{key}]", subject_of(found)))
        return
    inventory.configuration = found.data[key]
    inventory.configuration_source = f"{document.source}: {document.place}: {subject_of(found)}: data[{key}]"
