"""Finds the key of a mapping whose value has the wrong type, which msgspec does not tell.

Its paths have ``[...]`` for every key of a mapping (``$.metadata.labels[...]``), and a node may have fifty labels. The
message tells the type of the value (``got `int```), and that type is wrong everywhere on the path, so the first value
of that type is the wrong one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from volsched.model.errors import shortened

ANY_KEY: Final = "[...]"

_GOT: Final = r"got `(\w+)`\Z"
_STEP: Final = r"\.([^.\[\]]+)|(\[\.\.\.\])|\[(\d+)\]"
_KINDS: Final[Mapping[type, str]] = {
    bool: "bool",
    int: "int",
    float: "float",
    str: "str",
    list: "array",
    dict: "object",
}


def with_keys(path: str, message: str, value: Any) -> str:
    """Return msgspec's path into a value with the keys of mappings filled in, as far as the message tells."""
    got = re.search(_GOT, message)
    if got is None or ANY_KEY not in path:
        return path
    steps = [step.groups(default="") for step in re.finditer(_STEP, path)]
    return next(_leading_to(got[1], steps, value, path[0]), path)


def _leading_to(kind: str, steps: Sequence[Sequence[str]], value: Any, path: str) -> Iterator[str]:
    """Yield each way along the steps that ends at a value of this kind."""
    if not steps:
        if _KINDS.get(type(value)) == kind:
            yield path
        return
    (field, is_any, index), rest = steps[0], steps[1:]
    if is_any:
        for key, item in _items(value):
            yield from _leading_to(kind, rest, item, f"{path}[{key}]")
    elif index and isinstance(value, list) and int(index) < len(value):
        yield from _leading_to(kind, rest, value[int(index)], f"{path}[{index}]")
    elif field and isinstance(value, Mapping):
        yield from _leading_to(kind, rest, value.get(field), f"{path}.{field}")


def _items(value: Any) -> Iterator[tuple[str, Any]]:
    if not isinstance(value, Mapping):
        return iter(())
    return ((shortened(str(key)), item) for key, item in value.items())
