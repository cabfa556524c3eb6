"""Krew, which installs plugins of kubectl: the one on PATH, else one that is built once into the cache."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tools.controlplane.binaries import (
    GoModule,
    Report,
    find_or_build,
    print_progress,
)

MODULE: Final = GoModule(
    name="krew", requirement="sigs.k8s.io/krew", version="v0.4.3", commands={},
    stamps={"sigs.k8s.io/krew/internal/version.gitTag": "v0.4.3"},
)  # fmt: skip
_PACKAGE: Final = "sigs.k8s.io/krew/cmd/krew"


def find(report: Report = print_progress) -> Path:
    """Return the program; raises BuildError."""
    return find_or_build(MODULE, _PACKAGE, "a minute", report)
