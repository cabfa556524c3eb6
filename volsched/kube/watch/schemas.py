"""The fields of custom objects that the API server keeps, by its own OpenAPI document.

A CustomResourceDefinition without a field drops it from every object. Server-side apply, and kubectl's own checks,
refuse such an object; other clients lose the field silently, and the object shows no trace of it. So the schema is
read. Every authenticated user may read it (the ClusterRole system:discovery), so no right is needed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import structlog

from volsched.kube.client.rest import Api
from volsched.kube.errors import ApiError
from volsched.model.changes import DroppedFields

OPEN: Final = "x-kubernetes-preserve-unknown-fields"
KINDS: Final = "x-kubernetes-group-version-kind"
QUEUES: Final = "scheduling.volcano.sh/v1beta1"
QUEUE_FIELDS: Final = ("spec.dra",)
"""Fields of a Queue that decide something and that a foreign CRD may lack."""

LOOK_AGAIN_SECONDS: Final = 300.0
"""A CRD is rarely changed. The document has some 80 KB."""

_log = structlog.get_logger(__name__)


async def follow_queue_schema(api: Api, report: Callable[[DroppedFields], None]) -> None:
    """Report the fields of Queues that the API server drops, now and after each change. Runs forever."""
    known: frozenset[str] | None = None
    while True:
        dropped = await dropped_of_queues(api)
        if dropped is not None and dropped != known:
            if dropped:
                _log.warning("the CRD of Queue drops fields; install the one of volsched", fields=sorted(dropped))
            known = dropped
            report(DroppedFields("Queue", dropped))
        await asyncio.sleep(LOOK_AGAIN_SECONDS)


async def dropped_of_queues(api: Api) -> frozenset[str] | None:
    """Return the fields of Queues that the API server drops, or None while it is not known."""
    try:
        document = await api.get(f"/openapi/v3/apis/{QUEUES}", "openapi")
    except ApiError as error:
        _log.debug("no schema of Queues", error=str(error))
        return None
    schema = schema_of(document, "Queue")
    if schema is None:
        return None
    return frozenset(field for field in QUEUE_FIELDS if not keeps(schema, field.split(".")))


def schema_of(document: Any, kind: str) -> Mapping[str, Any] | None:
    """Return the schema of a kind from an OpenAPI document (version 3) of its group, or None when it is not there."""
    components = document.get("components") if isinstance(document, Mapping) else None
    schemas = components.get("schemas") if isinstance(components, Mapping) else None
    for schema in schemas.values() if isinstance(schemas, Mapping) else ():
        if any(named.get("kind") == kind for named in schema.get(KINDS) or ()):
            return schema  # type: ignore[no-any-return]
    return None


def keeps(schema: Mapping[str, Any], path: Sequence[str]) -> bool:
    """True if an object of this schema keeps a field: every step of its path is declared, or anything is kept."""
    for step in path:
        if schema.get(OPEN) or schema.get("additionalProperties"):
            return True
        found = (schema.get("properties") or {}).get(step)
        if found is None:
            return False
        schema = found
    return True
