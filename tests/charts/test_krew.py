"""`kubectl volsched` as krew installs it, which is the built wheel in an environment of its own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from release.krew import archive, manifest
from tests.cli.calls import without_progress
from tests.manifests.rendering import MANIFESTS, kubectl
from tests.manifests.test_overlays import VERSION
from tools import krew

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Run a command where krew has installed the plugin, far from the checkout."""
    folder = tmp_path_factory.mktemp("krew")
    made = archive(folder)
    (folder / "volsched.yaml").write_text(manifest(made))
    path = f"{folder / 'root/bin'}:{kubectl().parent}:{os.environ['PATH']}"
    environment = {name: text for name, text in os.environ.items() if not name.startswith("PYTHON")}
    environment |= {"KREW_ROOT": str(folder / "root"), "PATH": path, "HOME": str(folder)}

    def called(*command: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)

    done = called(krew.find(), "install", f"--manifest={folder / 'volsched.yaml'}", f"--archive={made}")
    assert done.returncode == 0, done.stderr
    return called


@pytest.mark.slow(reason="installs everything that volsched needs into an environment of its own")
def test_plugin_simulates_and_has_all_that_it_needs(run: Run) -> None:
    first = run("kubectl", "volsched", "version")
    simulated = run("kubectl", "volsched", "simulate", "-f", MANIFESTS / "examples", "--fail-on-pending")
    validated = run("kubectl", "volsched", "validate", "-f", MANIFESTS / "examples")

    assert first.stdout.startswith(f"volsched {VERSION} ("), first.stderr
    assert (simulated.returncode, "PLACED" in simulated.stdout, without_progress(simulated.stderr)) == (1, True, [])
    assert validated.returncode == 0, validated.stderr


def test_manifest_names_the_archive_and_the_version(tmp_path: Path) -> None:
    file = tmp_path / "kubectl-volsched-1.tar.gz"
    file.write_bytes(b"x")

    spec = yaml.safe_load(manifest(file, "https://git.example/volsched"))["spec"]

    assert spec["version"] == f"v{VERSION}"
    [platform] = spec["platforms"]
    assert platform["uri"] == f"https://git.example/volsched/releases/download/v{VERSION}/{file.name}"
    assert platform["sha256"].startswith("2d711642b726b044")
