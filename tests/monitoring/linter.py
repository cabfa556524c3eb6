"""Grafana's own dashboard-linter: the program on ``PATH``, else one that is built into the cache, once a version."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from tools.controlplane.binaries import GoModule, Report, build_program, cache_root, go_arch, print_progress

PROGRAM: Final = "dashboard-linter"
PATH: Final = "github.com/grafana/dashboard-linter"
VERSION: Final = "v0.0.0-20241224134444-1765d94aec4a"
"""It has no releases. Go's module proxy has this version by its name only, the checksum database none."""

MODULE: Final = GoModule(
    name=PROGRAM,
    requirement=PATH,
    version=VERSION,
    commands={},
    stamps={},
    sums=(
        f"{PATH} {VERSION} h1:wpyAYX8+Rqu0LIEE7zXBR/qjBH4t0yXvqlRGa1wD5rg=",
        f"{PATH} {VERSION}/go.mod h1:aeONzEz1tWGxQvxYm5DFxxaJ90JINhRT50TrZ0oXuJM=",
    ),
)


def find_linter(report: Report = print_progress) -> Path:
    """Return the program's path; raises BuildError when there is none and none can be built."""
    if on_path := shutil.which(PROGRAM):
        return Path(on_path)
    program = cache_root() / f"{PROGRAM}-{VERSION}-{go_arch()}" / PROGRAM
    return build_program(MODULE, PATH, program, f"Grafana's {PROGRAM} (some 3 minutes)", report)
