"""Which fields objects have: `make schemas` asks a real kube-apiserver, and the result is a file of the package.

What the API server offers (its discovery and its OpenAPI documents) is cut down to names: of each kind that
volsched reads the tree of its fields, and of all other kinds only that they exist. Kinds of Volcano come from
`manifests/crds`. A test compares the file with the API server of the tests.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from tools.controlplane import ApiClient, ControlPlane
from tools.documents import yaml_documents
from volsched.model import api
from volsched.model.dra import api as dra

FILE: Final = Path(__file__).resolve().parents[1] / "volsched" / "validation" / "schemas.json"
CRDS: Final = Path(__file__).resolve().parents[1] / "manifests" / "crds"

READ_AT_MAX: Final = (
    ("autoscaling/v1", "HorizontalPodAutoscaler"),
    ("autoscaling/v2", "HorizontalPodAutoscaler"),
    ("batch/v1", "CronJob"),
)
"""Kinds that `volsched simulate --at-max` reads."""

EMBEDDED: Final = {
    "batch.volcano.sh/v1alpha1 Job.spec.tasks.template": "core.v1.PodTemplateSpec",
    "batch.volcano.sh/v1alpha1 Job.spec.volumes.volumeClaim": "core.v1.PersistentVolumeClaimSpec",
}
"""Parts of custom objects that a CRD leaves open, and that are Kubernetes' own."""

Schema: TypeAlias = Mapping[str, Any]
_REFERENCE: Final = "#/components/schemas/"
_METADATA: Final = "meta.v1.ObjectMeta"
_LEAF: Final = ""


def schemas_of(server: ApiClient, crds: Path = CRDS) -> dict[str, Any]:
    """Return what the file holds, as an API server and the CRDs in a folder have it."""
    tree = _FieldTypes()
    wanted = {*api.KINDS, *READ_AT_MAX, *((version, kind) for kind, of in dra.VERSIONS.items() for version in of)}
    versions = list(_versions(server))
    for version in versions:
        document = server.get(f"/openapi/v3/{_path_of(version)}")["components"]["schemas"]
        for kind, name in _kinds_of(document, version):
            if (version, kind) in wanted:
                tree.add_kind(version, kind, _REFERENCE + name, document)
    for path in sorted(crds.glob("*.yaml")):
        [definition] = yaml_documents(path.read_text(encoding="utf-8"))
        for version, kind, schema in _custom_kinds(definition):
            tree.add_custom(version, kind, schema)
    kinds = {version: sorted(_listed(server, version)) for version in versions}
    return {"kubernetes": kinds, "kinds": tree.kinds, "types": tree.types}


def text_of(schemas: Mapping[str, Any]) -> str:
    """Return the file's text: sorted, a type a line, so that a new release shows as a small difference."""
    parts = []
    for part, entries in sorted(schemas.items()):
        lines = ",\n".join(f"  {_json(key)}: {_json(entry)}" for key, entry in sorted(entries.items()))
        parts.append(f" {_json(part)}: {{\n{lines}\n }}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _json(value: Any) -> str:
    return msgspec.json.encode(value, order="sorted").decode()


class _FieldTypes:
    """Types by name: for each field the name of its type, none for what has no fields.

    A `[` before it states that there is a list of them, a `{` that there is a map to them.
    """

    def __init__(self) -> None:
        self.kinds: dict[str, str] = {}
        self.types: dict[str, dict[str, str]] = {}

    def add_kind(self, version: str, kind: str, reference: str, document: Schema) -> None:
        """Add a kind of Kubernetes and all types that it is made of."""
        self.kinds[f"{version} {kind}"] = self._shape({"$ref": reference}, "", document)

    def add_custom(self, version: str, kind: str, schema: Schema) -> None:
        """Add a kind that a CRD declares."""
        name = f"{version} {kind}"
        properties = {**schema["properties"], "metadata": {"$ref": _REFERENCE + _METADATA}}
        self.kinds[name] = self._shape({**schema, "properties": properties}, name, {})

    def _shape(self, schema: Schema, place: str, document: Schema) -> str:
        if place in EMBEDDED:
            return EMBEDDED[place]
        reference = schema.get("$ref") or next((part["$ref"] for part in schema.get("allOf", ()) if "$ref" in part), "")
        if reference:
            return self._named(reference.removeprefix(_REFERENCE), document)
        if "items" in schema:
            return _within("[", self._shape(schema["items"], place, document))
        if isinstance(schema.get("additionalProperties"), Mapping):
            return _within("{", self._shape(schema["additionalProperties"], place, document))
        return self._put(place, schema, document) if schema.get("properties") else _LEAF

    def _named(self, full_name: str, document: Schema) -> str:
        name = ".".join(full_name.split(".")[-3:])
        if name in self.types or full_name not in document:
            return name
        found = document[full_name]
        return self._put(name, found, document) if found.get("properties") else self._shape(found, name, document)

    def _put(self, name: str, schema: Schema, document: Schema) -> str:
        fields = self.types[name] = {}
        for field, inner in schema["properties"].items():
            fields[field] = self._shape(inner, f"{name}.{field}", document)
        return name


def _within(mark: str, shape: str) -> str:
    return mark + shape if shape else _LEAF


def _versions(server: ApiClient) -> Iterator[str]:
    yield from server.get("/api")["versions"]
    for group in server.get("/apis")["groups"]:
        if not group["name"].endswith("volcano.sh"):
            yield from (version["groupVersion"] for version in group["versions"])


def _path_of(version: str) -> str:
    return f"apis/{version}" if "/" in version else f"api/{version}"


def _listed(server: ApiClient, version: str) -> set[str]:
    """Return the kinds of objects that can be made, subresources left out."""
    resources = server.get(f"/{_path_of(version)}")["resources"]
    return {found["kind"] for found in resources if "/" not in found["name"]}


def _kinds_of(document: Schema, version: str) -> Iterator[tuple[str, str]]:
    for name, schema in document.items():
        for known in schema.get("x-kubernetes-group-version-kind", ()):
            if "/".join(part for part in (known["group"], known["version"]) if part) == version:
                yield known["kind"], name


def _custom_kinds(crd: Schema) -> Iterable[tuple[str, str, Schema]]:
    if crd["kind"] == "CustomResourceDefinition":
        spec = crd["spec"]
        for version in spec["versions"]:
            yield f"{spec['group']}/{version['name']}", spec["names"]["kind"], version["schema"]["openAPIV3Schema"]


def main(make: Callable[[], ControlPlane] = ControlPlane) -> int:
    """Write the file."""
    with make() as cluster:
        FILE.write_text(text_of(schemas_of(cluster.api)), encoding="utf-8")
    sys.stdout.write(f"{FILE}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
