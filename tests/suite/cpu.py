"""CPU time of a process and of all its descendants, so that a run can say which tests keep the machine busy."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Final

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_FIRST_TIME: Final = 11
"""Index of `utime` in proc_pid_stat(5) behind the command; `stime`, `cutime` and `cstime` follow."""


def cpu_seconds(process: int | None = None) -> float:
    """Return the CPU time so far of a process, this one by default, its running descendants and those it waited for.

    Zero for a process that has gone.
    """
    if process is None:
        return sum(os.times()[:4]) + sum(map(cpu_seconds, children(os.getpid())))
    return sum(_ticks(each) for each in _family(process)) / _TICKS


def _family(process: int) -> Iterator[int]:
    """Yield a process and its descendants; any of them may go meanwhile."""
    yield process
    for child in children(process):
        yield from _family(child)


def children(process: int) -> list[int]:
    """Return the identifiers of the children of all threads of a process; none if the process has gone."""
    tasks = f"/proc/{process}/task"
    with contextlib.suppress(OSError):
        return [int(child) for thread in os.listdir(tasks) for child in _read(f"{tasks}/{thread}/children").split()]
    return []


def _ticks(process: int) -> int:
    """Return user and system time of a process and of the children that it waited for, in clock ticks."""
    behind_the_command = _read(f"/proc/{process}/stat").rpartition(") ")[2].split()
    return sum(map(int, behind_the_command[_FIRST_TIME : _FIRST_TIME + 4]))


def _read(path: str) -> str:
    """Read a file of a process; empty if the process has gone. This is done for each test, so without a text layer."""
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read().decode(errors="replace")
    except OSError:
        return ""
