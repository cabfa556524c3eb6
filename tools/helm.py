"""Helm, which installs the chart: the one on PATH, else one that is built once into the cache.

python -m tools.helm template volsched charts/volsched
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tools.controlplane.binaries import (
    KUBERNETES_VERSION,
    GoModule,
    Report,
    find_or_build,
    print_progress,
)
from tools.controlplane.errors import BuildError

MODULE: Final = GoModule(
    name="helm",
    requirement="helm.sh/helm/v4",
    version="v4.3.1",
    commands={},
    stamps={"helm.sh/helm/v4/internal/version.version": "v4.3.1"},
)
_PACKAGE: Final = "helm.sh/helm/v4/cmd/helm"


def find(report: Report = print_progress) -> Path:
    """Return the program; raises BuildError."""
    return find_or_build(MODULE, _PACKAGE, "some two minutes", report)


def rendered(chart: Path, *flags: str, namespace: str = "volsched-system") -> subprocess.CompletedProcess[str]:
    """Run ``helm template``, as for a cluster of the version that the tests run on."""
    words: list[str | Path] = [
        find(),
        "template",
        "volsched",
        chart,
        "--namespace",
        namespace,
        "--kube-version",
        KUBERNETES_VERSION,
        *flags,
    ]
    return subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603 - our own line


def main(arguments: Sequence[str]) -> int:
    """Run it."""
    try:
        program = find()
    except BuildError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return subprocess.run([program, *arguments], check=False).returncode  # noqa: S603 - as asked for


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
