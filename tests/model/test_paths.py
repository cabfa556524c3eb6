"""Under which key a value of the wrong type stands."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from volsched.model.values.paths import with_keys


class Box(msgspec.Struct):
    sizes: list[dict[str, int]] = []
    inside: dict[str, Box] = {}


@pytest.mark.parametrize(
    ("read", "path"),
    [
        ({"inside": {"a": {}, "b.c/d": {"sizes": [{}, {"x": 1, "y": "2"}]}}}, "$.inside[b.c/d].sizes[1][y]"),
        ({"inside": {"a": {"sizes": [{}]}, "b": {"sizes": [{}, {"y": "2"}]}}}, "$.inside[b].sizes[1][y]"),
        ({"inside": {"a": {}, "b": []}}, "$.inside[b]"),
        ({"inside": {"k" * 200: "x"}}, "$.inside[" + "k" * 79 + "…]"),
        ({"sizes": 3}, "$.sizes"),
    ],
)
def test_a_path_has_the_key_of_each_mapping(read: Any, path: str) -> None:
    assert _told(read) == path


def test_a_message_that_has_no_kind_leaves_the_path_as_it_is() -> None:
    assert with_keys("$.a[...]", "Object missing required field `b`", {"a": {"x": {}}}) == "$.a[...]"


def _told(read: Any) -> str:
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.convert(read, Box)
    message, path = str(caught.value).removesuffix("`").split(" - at `")
    return with_keys(path, message, read)
