"""What a schema keeps of an object, read from the documents of API servers."""

from __future__ import annotations

from typing import Any

import pytest

from volsched.kube.watch.schemas import KINDS, OPEN, keeps, schema_of

PATH = ("spec", "dra")


@pytest.mark.parametrize(
    ("schema", "is_kept"),
    [
        ({"properties": {"spec": {"properties": {"dra": {"type": "object"}}}}}, True),
        ({"properties": {"spec": {"properties": {"dra": {}}}}}, True),
        ({"properties": {"spec": {"properties": {"weight": {"type": "integer"}}}}}, False),
        ({"properties": {"spec": {"type": "object"}}}, False),
        ({"properties": {}}, False),
        ({"type": "object"}, False),
        ({"properties": {"spec": {"type": "object", OPEN: True}}}, True),
        ({"properties": {"spec": {"properties": {"weight": {}}, OPEN: True}}}, True),
        ({"properties": {"spec": {"additionalProperties": {"type": "string"}}}}, True),
        ({OPEN: True}, True),
    ],
)
def test_a_field_is_kept_where_it_is_declared_or_anything_is(schema: dict[str, Any], is_kept: bool) -> None:
    assert keeps(schema, PATH) is is_kept


def test_the_schema_of_a_kind_is_found_by_the_kind_that_it_says() -> None:
    queue = {"type": "object", KINDS: [{"group": "scheduling.volcano.sh", "kind": "Queue", "version": "v1beta1"}]}
    listed = {"type": "object", KINDS: [{"group": "scheduling.volcano.sh", "kind": "QueueList", "version": "v1beta1"}]}
    document = {"components": {"schemas": {"a.QueueList": listed, "a.Meta": {"type": "object"}, "a.Queue": queue}}}

    assert schema_of(document, "Queue") is queue
    assert schema_of(document, "PodGroup") is None


@pytest.mark.parametrize("document", [{}, {"components": {}}, {"components": {"schemas": None}}, None, "text"])
def test_a_document_without_schemas_says_nothing(document: Any) -> None:
    assert schema_of(document, "Queue") is None
