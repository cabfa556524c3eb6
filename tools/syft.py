"""Syft, which states what an image is made of (an SBOM): the one on PATH, else one that is built once into the cache.

python -m tools.syft scan docker-archive:FILE --output spdx-json=OUT
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tools.controlplane.binaries import (
    GoModule,
    Report,
    find_or_build,
    print_progress,
)
from tools.controlplane.errors import BuildError

MODULE: Final = GoModule(
    name="syft",
    requirement="github.com/anchore/syft",
    version="v1.54.1",
    commands={},
    stamps={"main.version": "1.54.1"},
)
_PACKAGE: Final = "github.com/anchore/syft/cmd/syft"


def find(report: Report = print_progress) -> Path:
    """Return the program; raises BuildError."""
    return find_or_build(MODULE, _PACKAGE, "some ten minutes", report)


def main(arguments: Sequence[str]) -> int:
    """Run it; it asks nobody for newer versions of itself."""
    try:
        program = find()
    except BuildError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    environment = os.environ | {"SYFT_CHECK_FOR_APP_UPDATE": "false"}
    return subprocess.run([program, *arguments], env=environment, check=False).returncode  # noqa: S603 - as asked for


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
