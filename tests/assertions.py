"""Assertions that are always true by how they are written, where neither mypy nor ruff finds them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

RETURN_NONE: Final = frozenset(("append", "clear", "extend", "insert", "reverse", "sort"))
"""Methods that change what they are called on, and return None."""


def always_true(source: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of assertions that cannot fail, with the reason."""
    for found in ast.walk(ast.parse(source)):
        if isinstance(found, ast.Assert):
            reason = _why(found.test)
            if reason:
                yield found.lineno, reason


def _why(test: ast.expr) -> str:
    match test:
        case ast.Constant(value=value) if value:
            return "a constant is asserted"
        case ast.UnaryOp(op=ast.Not(), operand=ast.Call(func=ast.Attribute(attr=name))) if name in RETURN_NONE:
            return f"{name}() returns None"
        case ast.Compare(left=left, ops=[ast.Eq() | ast.Is()], comparators=[right]) if _is_same(left, right):
            return "a value is compared with itself"
    return ""


def _is_same(left: ast.expr, right: ast.expr) -> bool:
    """Return whether two expressions read the same; calls may return another value each time."""
    calls = any(isinstance(part, ast.Call) for part in ast.walk(left))
    return not calls and ast.dump(left) == ast.dump(right)
