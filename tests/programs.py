"""Build or download the programs that `make test` needs, those first that most tests need.

python -m tests.programs           # whatever the machine and the cache lack; minutes the first time, then nothing
python -m tests.programs --list    # which programs there are, who needs them, and which are still missing

A test that needs a program asks for the program itself, and waits while another process builds it. So this command only
saves time: tests that need no program run meanwhile. Programs that only judges, tools or a real node need, such as
Kubernetes' end-to-end suite, are not among these; the first command that needs such a program builds the program.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Final

from tests.monitoring.linter import find_linter
from tools import chromium, debian, helm, krew, prometheus, shells
from tools.controlplane.binaries import Report, find_binaries, find_kube_scheduler
from tools.controlplane.errors import BuildError


@dataclass(frozen=True)
class Program:
    """One or several programs that are found, or else made, in one step."""

    name: str
    needed_by: str
    """Folders of `tests`."""
    find: Callable[[Report], object]
    """Finds or makes the programs; raises BuildError."""


CONTROL_PLANE: Final = Program(
    "control plane",
    "cluster, drills, manifests, monitoring, ui, ...",
    lambda report: find_binaries(report=report),
)

BUILT: Final = (
    CONTROL_PLANE,
    Program("kube-scheduler", "manifests", find_kube_scheduler),
    Program("helm", "charts, manifests", helm.find),
    Program("dashboard-linter", "monitoring", find_linter),
    Program("krew", "charts", krew.find),
)
"""Programs that are built from Go modules, in that order."""

DOWNLOADED: Final = (
    Program("prometheus", "cluster, monitoring", prometheus.find_programs),
    Program("chromium", "ui", chromium.find),
    *(Program(name, "cluster", partial(shells.find, name)) for name in shells.NAMES),
    Program("mandoc", "cli", partial(debian.unpacked, "mandoc", ["mandoc"])),
)
"""Programs that Debian's packages have, in that order; they are downloaded while others are built."""


def is_there(program: Program) -> bool:
    """Tell whether a program is at hand; the first line of progress tells that it is not, and ends the search."""

    def refuse(line: str) -> None:
        raise _MissingError(line)

    try:
        program.find(refuse)
    except (_MissingError, BuildError):
        return False
    return True


class _MissingError(Exception):
    """Something was about to be built or downloaded."""


def make(programs: Sequence[Program]) -> list[str]:
    """Make programs one after the other with lines of progress, and return why some could not be made."""
    problems: list[str] = []
    for number, program in enumerate(programs, 1):
        began = time.monotonic()

        def told(line: str, step: str = f"{number}/{len(programs)} {program.name}", began: float = began) -> None:
            print_line(f"[{time.monotonic() - began:4.0f} s] {step}: {line}")

        try:
            program.find(told)
        except BuildError as error:
            told("failed")
            problems.append(f"{program.name}: {error}")
    return problems


def print_line(line: str) -> None:
    """Write one line at once, whole, also where several threads write."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    """Make what is missing; return 1 if a program could not be made."""
    parser = argparse.ArgumentParser(prog="python -m tests.programs", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--list", action="store_true", help="list the programs and make none")
    if parser.parse_args(arguments).list:
        for program in (*BUILT, *DOWNLOADED):
            state = "there" if is_there(program) else "missing"
            print_line(f"{program.name:<18}{state:<9}tests of: {program.needed_by}")
        return 0
    with ThreadPoolExecutor() as pool:
        problems = list(chain.from_iterable(pool.map(make, (BUILT, DOWNLOADED))))
    for problem in problems:
        print_line(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
