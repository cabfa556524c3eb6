"""Every reason that the code can emit, read from its syntax: ConfigReports, Events, conditions.

A reason is a constant, a module's constant, one of those of pods' conditions, or a parameter whose callers say it. One
that is passed on from a Verdict or a plan step (an attribute ``.reason`` or ``.condition_reason``), or that is the
``.type`` of a condition, was made elsewhere. Anything else fails the test: it could not be documented.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.docs.pages import ROOT
from volsched.model.verdict import ConditionReason

MAKERS = {
    "UnservedRule": 1, "Wait": 0,
    "Verdict": 3, "RecordEvent": 6, "PodGroupCondition": 2, "WritePodCondition": 3, "about_queue": 2, "about_node": 2,
    "about_group": 2, "about_pod": 2,
}  # fmt: skip
"""What carries a reason, and the place of the parameter of that name."""

SKIPPED = ("volsched/testing/", "volsched/model/api/", "volsched/mirror/reading.py")
"""Test helpers; and where conditions are only read."""


PASSED_ON = ("reason", "condition_reason", "type")
ENUMERATED = (ConditionReason.__name__,)
"""Attributes whose values were made elsewhere, and enumerations, of which the page has a table."""


@dataclass(frozen=True)
class Found:
    """A reason and where the code says it."""

    reason: str
    where: str


class _Module:
    def __init__(self, path: Path) -> None:
        self.path = path.relative_to(ROOT).as_posix()
        self.tree = ast.parse(path.read_text())
        self.functions = [n for n in ast.walk(self.tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]

    def calls(self, node: ast.AST) -> Iterator[ast.Call]:
        return (found for found in ast.walk(node) if isinstance(found, ast.Call))

    def enclosing(self, node: ast.AST) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
        inside = [f for f in self.functions if any(child is node for child in ast.walk(f))]
        return inside[-1] if inside else None

    def constant(self, name: str) -> str | None:
        module = importlib.import_module(self.path.removesuffix(".py").removesuffix("/__init__").replace("/", "."))
        value = getattr(module, name, None)
        return value if isinstance(value, str) else None


def emitted() -> list[Found]:
    found: list[Found] = []
    for package in ("volsched", "plugins", "actions"):
        for path in sorted((ROOT / package).rglob("*.py")):
            if not path.relative_to(ROOT).as_posix().startswith(SKIPPED):
                found.extend(_of_module(_Module(path)))
    return found


def _of_module(module: _Module) -> Iterator[Found]:
    for call in module.calls(module.tree):
        place = MAKERS.get(_name(call.func))
        if place is not None:
            argument = _argument(call, "reason", place)
            if argument is not None:
                yield from _resolved(module, argument, call)
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Dict):
            entries = {key.value: value for key, value in zip(node.keys, node.values, strict=True)
                       if isinstance(key, ast.Constant)}  # fmt: skip
            if {"type", "status", "reason"} <= set(entries):
                yield from _resolved(module, entries["reason"], node)


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _argument(call: ast.Call, name: str, place: int) -> ast.expr | None:
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    if any(isinstance(argument, ast.Starred) for argument in call.args):
        raise AssertionError(f"cannot tell the reason in {ast.unparse(call)}")
    return call.args[place] if len(call.args) > place else None


def _resolved(module: _Module, value: ast.expr, at: ast.AST) -> Iterator[Found]:
    where = f"{module.path}:{value.lineno}"
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        if value.value:
            yield Found(value.value, where)
        return
    if isinstance(value, ast.Attribute) and value.attr == "value":
        value = value.value
    if isinstance(value, ast.Attribute) and (value.attr in PASSED_ON or ast.unparse(value.value) in ENUMERATED):
        return
    if isinstance(value, ast.IfExp):
        yield from _resolved(module, value.body, at)
        yield from _resolved(module, value.orelse, at)
        return
    if isinstance(value, ast.Name):
        function = module.enclosing(at)
        names = [a.arg for a in function.args.args] if function is not None else []
        if function is not None and value.id in names:
            place = names.index(value.id) - (names[0] == "self")
            for call in module.calls(module.tree):
                if _name(call.func) == function.name:
                    argument = _argument(call, value.id, place)
                    if argument is not None:
                        yield from _resolved(module, argument, call)
            return
        constant = module.constant(value.id)
        if constant is not None:
            yield Found(constant, where)
            return
    raise AssertionError(f"{where}: cannot tell which reason {ast.unparse(value)} is")
