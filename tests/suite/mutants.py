"""Mutants: small faults put into a module, to see whether its tests notice them.

Run this before and after tests change, with the same seed: a mutant that the old tests killed must still be killed.

    python -m tests.suite.mutants --seed 1 --count 40 plugins/drf volsched/mirror/pods.py

A mutant is one changed place inside a function. The tests of the module are those of the coverage map. Mutants live in
a copy of the checkout, which is removed in the end.
"""

from __future__ import annotations

import argparse
import ast
import json
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from tests.suite.coverage_map import RECORD, CoverageMap, lines_of_functions

ROOT: Final = Path(__file__).resolve().parents[2]
SECONDS: Final = 900
"""After this time a mutant counts as killed: the module no longer ends."""

_OPPOSITES: Final = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
    ast.Is: "is not", ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in",
    ast.Add: "-", ast.Sub: "+", ast.Mult: "+", ast.BitOr: "&", ast.BitAnd: "|",
    ast.And: "or", ast.Or: "and",
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One place of a module, and the text that takes its place."""

    module: str
    line: int
    start: int
    end: int
    """Offsets in characters of the source."""
    was: str
    becomes: str

    def applied(self, source: str) -> str:
        """Return the source with this fault."""
        return source[: self.start] + self.becomes + source[self.end :]

    def __str__(self) -> str:
        return f"{self.module}:{self.line}: {self.was} -> {self.becomes}"


def mutants_of(module: str, source: str) -> list[Mutant]:
    """Return all mutants of a module, in the order of its lines."""
    places = _Places(source)
    inside = lines_of_functions(source)
    found = (
        Mutant(module, node.lineno, *places.span(node), " ".join(places.text(node).split()), becomes)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, (ast.expr, ast.stmt)) and node.lineno in inside
        for becomes in _faults(node, places)
    )
    return sorted(found, key=lambda mutant: (mutant.start, mutant.end, mutant.becomes))


class _Places:
    """Offsets of nodes: the parser counts bytes of lines."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._lines = source.splitlines(keepends=True)
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line))

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        return self._offset(node.lineno, node.col_offset), self._offset(node.end_lineno or 0, node.end_col_offset or 0)

    def text(self, node: ast.expr | ast.stmt) -> str:
        start, end = self.span(node)
        return self._source[start:end]

    def _offset(self, line: int, column: int) -> int:
        return self._starts[line - 1] + len(self._lines[line - 1].encode()[:column].decode())


def _faults(node: ast.expr | ast.stmt, places: _Places) -> Iterator[str]:
    """Yield what may take the place of a node."""
    text = places.text
    match node:
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _OPPOSITES:
            yield f"({text(left)} {_OPPOSITES[type(op)]} {text(right)})"
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPPOSITES:
            yield f"({text(left)} {_OPPOSITES[type(op)]} {text(right)})"
        case ast.BoolOp(op=op, values=values):
            yield f"({f' {_OPPOSITES[type(op)]} '.join(text(value) for value in values)})"
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield f"bool({text(operand)})"
        case ast.IfExp(test=test, body=body, orelse=orelse):
            yield f"({text(orelse)} if {text(test)} else {text(body)})"
        case ast.Constant(value=bool() as value):
            yield str(not value)
        case ast.Constant(value=int() as value):
            yield str(value + 1)
        case ast.Expr(value=ast.Call()) | ast.AugAssign():
            yield "pass"
        case ast.Return(value=ast.expr()):
            yield "return None"
        case ast.Continue() | ast.Break():
            yield "pass"


def drawn(modules: Sequence[Path], count: int, seed: int) -> list[Mutant]:
    """Draw mutants from modules, each place with the same chance."""
    names = sorted(str(path.resolve().relative_to(ROOT)) for path in modules)
    found = [mutant for name in names for mutant in mutants_of(name, (ROOT / name).read_text())]
    return random.Random(seed).sample(found, min(count, len(found)))  # noqa: S311


def nearest_first(module: str, files: Iterable[str]) -> list[str]:
    """Sort test files by the words that their paths share with a module's: what is about it kills its mutants soon."""
    words = set(_words(module))
    return sorted(files, key=lambda file: (-len(words & set(_words(file))), file))


def _words(path: str) -> list[str]:
    return re.split(r"[/_.]", path.removesuffix(".py"))


def outcome_of(mutant: Mutant, folder: Path, tests: Sequence[str]) -> str:
    """Run tests in a copy of the checkout that has the mutant; return `killed`, `lives` or `other source`."""
    path = folder / mutant.module
    source = path.read_text()
    if " ".join(source[mutant.start : mutant.end].split()) != mutant.was:
        return "other source"
    path.write_text(mutant.applied(source))
    try:
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "2", "-p", "no:cacheprovider", *tests]
        done = subprocess.run(command, cwd=folder, capture_output=True, check=False, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return "killed"
    finally:
        path.write_text(source)
    return "lives" if done.returncode == 0 else "killed"


def main() -> int:
    """Try the mutants, and print what became of each."""
    parser = _parser()
    given = parser.parse_args()
    modules = [path for name in given.modules for path in (sorted(name.rglob("*.py")) if name.is_dir() else [name])]
    known = CoverageMap.recorded(given.map)
    mutants = drawn(modules, given.count, given.seed)
    unknown = sorted({mutant.module for mutant in mutants} - set(known.modules))
    if unknown:
        parser.error(f"not in the coverage map: {', '.join(unknown)}; `make coverage-map` records it anew")
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "checkout"
        left_out = shutil.ignore_patterns(".venv", ".git", ".*_cache", ".test-results")
        shutil.copytree(given.checkout, folder, ignore=left_out)
        for mutant in mutants:
            tests = [test for test in known.tests_of(mutant.module) if (folder / test.partition("::")[0]).is_file()]
            files = nearest_first(mutant.module, {test.partition("::")[0] for test in tests})
            outcome = outcome_of(mutant, folder, [*files, "-m", given.marks])
            print(f"{outcome:7} {mutant}", flush=True)
            rows.append({**asdict(mutant), "outcome": outcome})
    if given.json:
        given.json.write_text(json.dumps(rows, indent=1))
    print(f"{sum(row['outcome'] == 'killed' for row in rows)} of {len(rows)} killed")
    return 0


def _parser() -> argparse.ArgumentParser:
    shown = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="python -m tests.suite.mutants", description=__doc__, formatter_class=shown)
    parser.add_argument("modules", nargs="+", type=Path, help="files and folders of the product")
    parser.add_argument("--count", type=int, default=40, help="how many mutants are drawn (40)")
    parser.add_argument("--seed", type=int, default=1, help="the seed of the draw (1)")
    parser.add_argument("--marks", default="not process", help='which tests count, as for pytest -m ("not process")')
    parser.add_argument("--checkout", type=Path, default=ROOT, help="another checkout whose tests are tried")
    parser.add_argument("--map", type=Path, default=RECORD, help="the coverage map of that checkout")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the outcomes to a file, too")
    return parser


if __name__ == "__main__":
    sys.exit(main())
