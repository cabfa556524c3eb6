"""Which tests execute a module: a recorded map, for `make test-of F=volsched/mirror/pods.py`.

A test counts if it executed a line inside a function of the module. Lines outside of functions are executed by the
first import, which says nothing about the test. Processes that a test starts are not measured.
"""

from __future__ import annotations

import argparse
import ast
import gzip
import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from coverage import CoverageData

RECORD: Final = Path(__file__).with_name("coverage_map.json.gz")
_ROOT: Final = Path(__file__).resolve().parents[2]


class CoverageMap:
    """Test functions by module; cases of one function are not told apart."""

    def __init__(self, tests: list[str], modules: Mapping[str, int]) -> None:
        self._tests = tests
        self._modules = modules  # bit n is set if test n executes the module

    @classmethod
    def recorded(cls, record: Path = RECORD) -> CoverageMap:
        """Return what was saved: the map of the repository."""
        found: Any = json.loads(gzip.decompress(record.read_bytes()))
        return cls(found["tests"], {module: int(bits, 16) for module, bits in found["modules"].items()})

    @classmethod
    def measured(cls, executed: Mapping[str, Iterable[str]]) -> CoverageMap:
        """Return the map of one run, given the test functions by module."""
        tests = sorted({test for found in executed.values() for test in found})
        place = {test: number for number, test in enumerate(tests)}
        bits = {module: sum(1 << place[test] for test in set(found)) for module, found in executed.items()}
        return cls(tests, bits)

    def tests_of(self, module: str) -> list[str]:
        """Return the test functions that execute a module; KeyError if the map does not have the module."""
        bits = self._modules[module]
        return [test for number, test in enumerate(self._tests) if bits >> number & 1]

    @property
    def modules(self) -> list[str]:
        """All modules of the map."""
        return sorted(self._modules)

    def save(self, record: Path = RECORD) -> None:
        """Write the map; equal maps are equal files."""
        content = {"tests": self._tests, "modules": {name: f"{self._modules[name]:x}" for name in self.modules}}
        record.write_bytes(gzip.compress(json.dumps(content).encode(), mtime=0))


def executed_by(files: Iterable[Path]) -> dict[str, set[str]]:
    """Read coverage files whose contexts are tests; return the test functions by module."""
    executed: dict[str, set[str]] = {}
    for file in files:
        data = CoverageData(str(file))
        data.read()
        for measured in data.measured_files():
            path = Path(measured)
            if path.suffix != ".py":  # a template of a page
                continue
            found = executed.setdefault(str(path.relative_to(_ROOT)), set())
            found.update(_tests_inside_functions(path, data.contexts_by_lineno(measured)))
    return executed


def _tests_inside_functions(path: Path, contexts: Mapping[int, list[str]]) -> Iterator[str]:
    inside = lines_of_functions(path.read_text())
    for line, found in contexts.items():
        if line in inside:
            yield from (function_of(context) for context in found if context)


def lines_of_functions(source: str) -> set[int]:
    """Return the numbers of the lines inside functions, without the line of `def`."""
    functions = (
        node for node in ast.walk(ast.parse(source)) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    )
    return {line for node in functions for line in range(node.body[0].lineno, (node.end_lineno or 0) + 1)}


def function_of(context: str) -> str:
    """Return the test function of a context of pytest-cov, such as `tests/x.py::test_y[a]|run`."""
    return context.rpartition("|")[0].partition("[")[0] or context.partition("[")[0]


def main() -> int:
    """Run the tests of a module, or record the map from coverage files."""
    parser = argparse.ArgumentParser(prog="python -m tests.suite.coverage_map", description=__doc__)
    parser.add_argument("--record", nargs="+", type=Path, metavar="FILE", help="coverage files to record the map from")
    parser.add_argument("--list", action="store_true", help="print the tests and run none")
    parser.add_argument("module", nargs="?", help="a file such as volsched/mirror/pods.py")
    parser.add_argument("pytest", nargs="*", help="further arguments of pytest")
    given = parser.parse_intermixed_args()
    if given.record:
        CoverageMap.measured(executed_by(given.record)).save()
        return 0
    if not given.module:
        parser.error("name a module: make test-of F=volsched/mirror/pods.py")
    return _run(parser, given)


def _run(parser: argparse.ArgumentParser, given: argparse.Namespace) -> int:
    module = str(Path(given.module).resolve().relative_to(_ROOT))
    if not RECORD.is_file():
        parser.error("there is no coverage map yet; `make coverage-map` records it")
    try:
        tests = CoverageMap.recorded().tests_of(module)
    except KeyError:
        parser.error(f"{module} is not in the coverage map; `make coverage-map` records it anew")
    there = [test for test in tests if (_ROOT / test.partition("::")[0]).is_file()]
    print(f"{len(there)} test functions execute {module}", flush=True)
    if given.list:
        print("\n".join(there))
        return 0
    command = [sys.executable, "-m", "pytest", "-n", "2", "--dist", "loadfile", *given.pytest, *_existing(there)]
    return subprocess.call(command, cwd=_ROOT)


def _existing(tests: list[str]) -> list[str]:
    """Leave out tests that were removed or renamed since the map was recorded; pytest refuses unknown names."""
    collected = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", *sorted({test.partition("::")[0] for test in tests})],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    known = {line.partition("[")[0] for line in collected.stdout.splitlines()}
    return [test for test in tests if test in known]


if __name__ == "__main__":
    sys.exit(main())
