"""A real Chromium for tests of the page: the one on PATH, else Debian's, unpacked into the cache with its libraries."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

from tools import debian
from tools.controlplane.binaries import Report, print_progress

_NAMES: Final = ("chromium-headless-shell", "chromium", "google-chrome")
_PACKAGE: Final = "chromium-headless-shell"


def find(report: Report = print_progress) -> tuple[Path, dict[str, str]]:
    """Return the program, and the environment to start it with; raises BuildError."""
    for name in _NAMES:
        if found := shutil.which(name):
            return Path(found), dict(os.environ)
    folder = debian.unpacked("chromium", [_PACKAGE], report, with_libraries=True)
    libraries = sorted({str(path.parent) for path in (folder / "usr/lib").rglob("*.so*")})
    return folder / "usr/lib/chromium" / _PACKAGE, os.environ | {"LD_LIBRARY_PATH": ":".join(libraries)}
