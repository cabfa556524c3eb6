"""Which tests of tools need not run, since they passed with the tool as it is now.

Tools of tests, such as the fault proxy, change seldom, and their tests take long. A run of all tests therefore runs the
tests of a tool only if something that decides about their outcome differs from the last run in which all of them
passed: their files, the files of the tool, a version in the lock file, or Python. The cache keeps a digest of all that.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.metadata
import platform
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools.controlplane.binaries import cache_root

ROOT: Final = Path(__file__).resolve().parents[2]
LOCK: Final = ROOT / "requirements" / "dev.lock"


@dataclass(frozen=True)
class Tool:
    """A tool of tests, by files and folders of the checkout.

    What these files import of `tools`, `tests` and `drills` counts too and need not be named.
    """

    tests: Sequence[str]
    sources: Sequence[str]


_FOLDERS: Final = ("tools", "tests", "drills")
"""Folders of which a tool counts what it imports."""

_CONTROL_PLANE: Final = "tools/controlplane"

TOOLS: Final = {
    "control plane": Tool(
        tests=("tests/tools/test_controlplane.py",),
        sources=("tests/cluster/control_plane.py", f"{_CONTROL_PLANE}/__main__.py", f"{_CONTROL_PLANE}/guard.py"),
    ),
    "fault proxy": Tool(tests=("tests/tools/test_fault_proxy.py",), sources=("tests/cluster/control_plane.py",)),
    "binaries": Tool(tests=("tests/tools/test_binaries.py",), sources=("tests/tools/conftest.py",)),
    "programs": Tool(tests=("tests/tools/test_programs.py",), sources=("tests/tools/conftest.py",)),
    "needed programs": Tool(tests=("tests/tools/test_needed.py",), sources=("tests/tools/conftest.py",)),
    "Debian": Tool(tests=("tests/tools/test_debian.py",), sources=("tests/tools/conftest.py",)),
    "Prometheus": Tool(tests=("tests/tools/test_prometheus.py",), sources=("tests/tools/conftest.py",)),
    "containers": Tool(
        tests=("tests/tools/test_kubelet.py", "tests/tools/test_shared_image.py"),
        sources=("tests/cluster/control_plane.py", "manifests", "Dockerfile", "requirements/run.lock"),
    ),
    "auditor": Tool(tests=("tests/tools/test_auditor.py",), sources=("drills/audit.py", "drills/reading.py")),
}

ALWAYS: Final = {
    "tools/playground.py": "tests/ui/test_page.py",
    "tools/realnode": "tests/realnode",
    "tools/schemas.py": "tests/cluster/test_fields.py",
    "tools/shells.py": "tests/cluster/test_completion.py",
}
"""Tools that have no tests of their own, and the tests of what users get that fail when the tool does."""


def stale_tools() -> dict[str, str]:
    """Return the tools whose tests have to run, each with its present digest for `remember`."""
    digests = {name: digest_of(tool) for name, tool in TOOLS.items()}
    return {name: digest for name, digest in digests.items() if _remembered(name) != digest}


def files_to_run(names: Iterable[str]) -> list[str]:
    """Return the files with the tests of these tools."""
    return [test for name in names for test in TOOLS[name].tests]


def remember(name: str, digest: str) -> None:
    """Note that all tests of a tool passed; `digest` is the one that the tool had when the tests began."""
    path = _path_of(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(digest)


def _remembered(name: str) -> str | None:
    """Return the digest with which the tests passed last; None if that is not known."""
    try:
        return _path_of(name).read_text()
    except (OSError, UnicodeDecodeError):
        return None


def _path_of(name: str) -> Path:
    return cache_root() / "passed-tools" / name.replace(" ", "-")


# -------------------------------------------------------------------------------------------------------------- digest


def digest_of(tool: Tool) -> str:
    """Return a digest of all that decides about the outcome of a tool's tests."""
    digest = hashlib.sha256(platform.python_version().encode())
    files = files_of(tool)
    for path in files:
        digest.update(f"\0{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    for line in _pins(_distributions(files)):
        digest.update(f"\0{line}".encode())
    return digest.hexdigest()


def files_of(tool: Tool) -> list[Path]:
    """Return the files of a tool and of its tests, with all that these import of the tools and of the tests."""
    todo = [file for place in (*tool.tests, *tool.sources) for file in _files_below(ROOT / place)]
    found: set[Path] = set()
    while todo:
        path = todo.pop()
        if path not in found:
            found.add(path)
            todo += filter(None, map(_file_of, _imported(path)))
    return sorted(found)


def _files_below(place: Path) -> Iterator[Path]:
    if place.is_dir():
        yield from (path for path in place.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    else:
        yield place


def _imported(path: Path) -> frozenset[str]:
    """Return the modules that a Python file imports, and the names that it imports from them, all in full."""
    is_python = path.suffix == ".py"
    return _imported_by(path.read_text(), path.relative_to(ROOT).parent.parts) if is_python else frozenset()


@functools.cache
def _imported_by(text: str, package: tuple[str, ...]) -> frozenset[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join((*above, *filter(None, [node.module])))
            found.update((module, *(f"{module}.{alias.name}" for alias in node.names)))
    return frozenset(found)


def _file_of(module: str) -> Path | None:
    """Return the file of a module, if the module is a tool or belongs to the tests."""
    if module.partition(".")[0] not in _FOLDERS:
        return None
    place = ROOT.joinpath(*module.split("."))
    return next((path for path in (place / "__init__.py", place.with_suffix(".py")) if path.is_file()), None)


def _distributions(files: Collection[Path]) -> set[str]:
    """Return the names of the distributions that some files import."""
    packages = {module.partition(".")[0] for path in files for module in _imported(path)} - sys.stdlib_module_names
    return {_normalised(name) for package in packages for name in _distributions_by_package().get(package, ())}


@functools.cache
def _distributions_by_package() -> Mapping[str, list[str]]:
    return importlib.metadata.packages_distributions()


def _pins(distributions: Collection[str]) -> Iterator[str]:
    """Return the lock file's lines about these distributions: which version of each is installed."""
    for line in LOCK.read_text().splitlines():
        name, is_pin, _ = line.partition("==")
        if is_pin and _normalised(name) in distributions:
            yield line


def _normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name.partition("[")[0]).lower()
