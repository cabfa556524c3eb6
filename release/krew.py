"""The archive and the manifest with which krew installs `kubectl volsched`: `make krew`.

The archive has the wheel, and a launcher that installs it into a virtual environment beside itself when it is used for
the first time: volsched needs libraries with machine code, so no single file would do for all machines.
"""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Final

import yaml

from volsched import __version__

ROOT: Final = Path(__file__).resolve().parents[1]
SOURCE: Final = "https://github.com/volsched/volsched"
"""Where releases are published, unless a maintainer's own address is given."""

LAUNCHER: Final = """\
#!/bin/sh
# Runs volsched from a virtual environment beside this file, which the first call makes.
set -eu
here=$(dirname "$(readlink -f "$0")")
if ! [ -e "$here/environment/ready" ]; then
    python=${PYTHON:-python3}
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
        echo "kubectl volsched needs Python 3.11 or newer; name one: PYTHON=python3.12 kubectl volsched ..." >&2
        exit 1
    }
    echo "kubectl volsched: installing its Python packages, once" >&2
    "$python" -m venv --clear "$here/environment"
    "$here/environment/bin/python" -m pip install --quiet --disable-pip-version-check \\
        --require-hashes --no-deps -r "$here/run.lock"
    "$here/environment/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps "$here"/*.whl
    touch "$here/environment/ready"
fi
exec "$here/environment/bin/VERB" "$@"
"""
VERBS: Final = ("kubectl-volsched", "kubectl_complete-volsched")


def wheel(folder: Path) -> Path:
    """Build the wheel of this checkout into a folder and return it."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"]
    with tempfile.TemporaryDirectory() as scratch:
        settings = Path(scratch, "settings.cfg")
        settings.write_text(f"[build]\nbuild_base = {scratch}/build\n")  # `build` may have modules that have moved
        environment = os.environ | {"DIST_EXTRA_CONFIG": str(settings)}
        subprocess.run([*command, "--wheel-dir", folder, ROOT], env=environment, check=True)  # noqa: S603 - our own line
    [found] = folder.glob("volsched-*.whl")
    return found


def archive(folder: Path) -> Path:
    """Write the archive into a folder and return it; the same wheel makes the same archive."""
    target = folder / f"kubectl-volsched-{__version__}.tar.gz"
    with tempfile.TemporaryDirectory() as scratch, tarfile.open(target, "w:gz") as tar:
        for path in (wheel(Path(scratch)), ROOT / "requirements/run.lock", ROOT / "LICENSE"):
            _add(tar, path.name, path.read_bytes(), 0o644)
        for verb in VERBS:
            _add(tar, verb, LAUNCHER.replace("VERB", verb).encode(), 0o755)
    return target


def _add(tar: tarfile.TarFile, name: str, content: bytes, mode: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    tar.addfile(entry, io.BytesIO(content))


def manifest(archive: Path, source: str = SOURCE) -> str:
    """Return the manifest for an archive that is published as a file of this version's release."""
    platform = {
        "selector": {"matchExpressions": [{"key": "os", "operator": "In", "values": ["linux", "darwin"]}]},
        "uri": f"{source}/releases/download/v{__version__}/{archive.name}",
        "sha256": hashlib.sha256(archive.read_bytes()).hexdigest(),
        "bin": "kubectl-volsched",
    }
    return yaml.safe_dump(
        {
            "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
            "kind": "Plugin",
            "metadata": {"name": "volsched"},
            "spec": {
                "version": f"v{__version__}",
                "homepage": source,
                "shortDescription": "Show queues, cards and why pods wait",
                "description": "Shows what queues may hold and hold of which cards, simulates changes before they are\n"
                "made, and says what is wrong with manifests, by the rules of the scheduler volsched.\n",
                "caveats": "Needs Python 3.11 or newer. The first call installs volsched's Python packages beside the\n"
                "plugin, which takes a network and half a minute.\n",
                "platforms": [platform],
            },
        },
        sort_keys=False,
    )


def main(source: str = SOURCE) -> None:
    """Write both files into dist/."""
    folder = ROOT / "dist"
    folder.mkdir(exist_ok=True)
    made = archive(folder)
    (folder / "volsched.yaml").write_text(manifest(made, source))
    sys.stdout.write(f"{made}\n{folder / 'volsched.yaml'}\n")


if __name__ == "__main__":
    main(*sys.argv[1:2])
