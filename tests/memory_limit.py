"""Memory limits as a kubelet sets them, by control groups, and how much the manifests give to each process."""

from __future__ import annotations

import contextlib
import functools
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from volsched.model.values.quantity import parse

_ROOT: Final = Path("/sys/fs/cgroup")
_MANIFESTS: Final = Path(__file__).resolve().parents[1] / "manifests"
_ONE: Final = ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes")
_TWO: Final = ("", "memory.max", "memory.current")
"""Of each version of control groups: the folder of the memory controller, and the files of limit and use."""


@functools.cache
def why_not() -> str:
    """Say why this machine can limit no memory; empty when it can."""
    try:
        with memory_limit(1 << 30):
            return ""
    except OSError as error:
        return f"no control group of this process's own: {error.strerror or error}"


class MemoryLimit:
    """A control group; what is put into it has so many bytes, page cache included, and is killed beyond."""

    def __init__(self, folder: Path, usage: str) -> None:
        self._folder = folder
        self._usage = usage

    def put(self, pid: int) -> None:
        """Put a process into it; what it has from before is not counted."""
        (self._folder / "cgroup.procs").write_text(str(pid))

    @property
    def used(self) -> int:
        """Bytes in use now."""
        return int((self._folder / self._usage).read_text())


@contextlib.contextmanager
def memory_limit(most: int) -> Iterator[MemoryLimit]:
    """Make a control group with a limit in bytes; its processes must have ended when it is left. Raises OSError."""
    controller, limit, usage = _ONE if (_ROOT / "memory" / _ONE[1]).exists() else _TWO
    folder = _ROOT / controller / f"volsched-{os.getpid()}-{uuid.uuid4().hex[:6]}"
    folder.mkdir()
    try:
        (folder / limit).write_text(str(most))
        yield MemoryLimit(folder, usage)
    finally:
        folder.rmdir()


def limit_of(component: str) -> int:
    """The bytes that the Deployment of a component gives to its process."""
    found: Any = yaml.safe_load((_MANIFESTS / "base" / component / "deployment.yaml").read_text())
    text = found["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["memory"]
    return int(parse(text))
