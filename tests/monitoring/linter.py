"""Grafana's own dashboard-linter: the program on ``PATH``, else one that is built into the cache, once a version."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from volsched.testing.controlplane.binaries import (
    GoModule,
    Report,
    cache_root,
    find_go,
    go_arch,
    go_build,
    locked,
    print_progress,
    write_module,
)

PROGRAM: Final = "dashboard-linter"
PATH: Final = "github.com/grafana/dashboard-linter"
VERSION: Final = "v0.0.0-20241224134444-1765d94aec4a"
"""It has no releases. Go's module proxy has this version by its name only, the checksum database none."""

MODULE: Final = GoModule(
    name=PROGRAM,
    requirement=PATH,
    version=VERSION,
    commands={PROGRAM: PATH},
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
    folder = cache_root() / f"{PROGRAM}-{VERSION}-{go_arch()}"
    program = folder / PROGRAM
    with locked(folder / ".lock", report):
        if not program.is_file():
            go = find_go(report)
            work = write_module(MODULE, folder / "src", go)
            go_build(go, work, PATH, program, MODULE.stamps, f"Grafana's {PROGRAM} (some 3 minutes)", report)
    return program
