"""Programs that only pretend, for tests of what starts them: a Go, and whatever else a test writes."""

from __future__ import annotations

from pathlib import Path

from tools.controlplane.binaries import GO_MINIMUM

_VERSION = ".".join(map(str, GO_MINIMUM))
FAKE_GO = rf"""#!/bin/sh
case "$1" in
env) echo go{_VERSION};;
mod) printf 'module k\nreplace (\n\tk8s.io/api => ./staging/src/k8s.io/api\n)\n' > "$TRACES/mod"
     echo "{{\"GoMod\": \"$TRACES/mod\"}}";;
build) echo "$@" >> "$TRACES/builds"
     printf 'k8s.io/api\nk8s.io/klog\n' >&2
     for package in "$@"; do :; done
     while [ -e "$TRACES/hold-$(basename "$package")" ]; do sleep 0.05; done
     case "$package" in */cmd/kwok) echo "main.go:1: syntax error" >&2; exit 3;; esac
     while [ "$1" != -o ]; do shift; done; echo made > "$2";;
esac
"""
"""It compiles two packages into nothing, notes each build in ``$TRACES/builds``, and fails to build kwok.

While there is a file ``$TRACES/hold-NAME``, where NAME is the last part of the package's path, the build goes on.
"""


def builds(traces: Path) -> list[str]:
    """Return what was built, in order, by the last parts of the packages' paths."""
    return [Path(line).name for line in (traces / "builds").read_text().splitlines()]


def write_program(folder: Path, name: str, text: str) -> None:
    """Put a script into a folder."""
    folder.mkdir(exist_ok=True, parents=True)
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)
