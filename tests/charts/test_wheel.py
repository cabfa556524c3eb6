"""The built wheel, as pipx installs it: in an environment of its own, far from the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Callable
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from release.krew import ROOT, wheel
from tests.manifests.rendering import MANIFESTS
from tests.test_locks import pins

pytestmark = pytest.mark.process

Run = Callable[..., subprocess.CompletedProcess[str]]

PACKAGES = ("volsched", "plugins", "actions")

OFFERED = {f"volsched.testing.{name}" for name in ("builders", "checked", "contract", "naive", "recount")}
FOR_PLUGIN_AUTHORS = """
import importlib, pkgutil, sys

sys.modules.update(dict.fromkeys(sys.argv[1:]))  # whose import fails then
import volsched.testing

for module in pkgutil.walk_packages(volsched.testing.__path__, "volsched.testing."):
    importlib.import_module(module.name)
    print(module.name)
"""
"""Imports all of `volsched.testing` without the packages that it is given, and prints the modules."""


def packages_for_development() -> list[str]:
    """Return the packages that are installed here and that an installation without extras lacks."""
    there = {"volsched", *pins("run")}
    by_package = packages_distributions()
    return [name for name, owners in by_package.items() if there.isdisjoint(map(canonicalize_name, owners))]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def run(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Run a program of the wheel; its libraries are those of the environment that the tests run in."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder / "environment", with_pip=False)
    python = folder / "environment/bin/python"
    install = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*install, "--disable-pip-version-check", built], check=True)
    [packages] = (folder / "environment/lib").glob("python*/site-packages")
    (packages / "libraries.pth").write_text(sysconfig.get_path("purelib"))
    environment = {name: text for name, text in os.environ.items() if not name.startswith("PYTHON")}

    def called(program: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        command = [folder / "environment/bin" / program, *arguments]
        return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)

    where = called("python", "-c", "import volsched; print(volsched.__file__)")
    assert where.stdout.startswith(str(folder)), where
    return called


def test_the_packages_are_in_the_wheel_and_nothing_else(built: Path) -> None:
    """Tools, drills, benches and tests need a checkout, and what an earlier build left is out of date."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *PACKAGES]
    kept = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True)
    names = zipfile.ZipFile(built).namelist()
    assert {name for name in names if ".dist-info/" not in name} == set(kept.stdout.split())


def test_what_plugin_authors_import_needs_only_packages_of_run_time(run: Run) -> None:
    done = run("python", "-c", FOR_PLUGIN_AUTHORS, *packages_for_development())
    assert (done.returncode, set(done.stdout.split())) == (0, OFFERED), done.stderr


def test_program_of_the_packages_name_simulates(run: Run) -> None:
    """`pipx run volsched` runs the program that is called as the package is."""
    done = run("volsched", "simulate", "-f", MANIFESTS / "examples")
    assert (done.returncode, "PLACED" in done.stdout) == (0, True), done.stderr


def test_wheel_explains_and_has_the_page(run: Run) -> None:
    explained = run("volsched", "explain", "pod", "segmenter-1", "-n", "vision", "-f", MANIFESTS / "examples")
    page = run("kubectl-volsched", "ui", "--help")

    assert explained.returncode == 3, explained.stderr
    assert "pod vision/segmenter-1 waits at step" in explained.stdout
    assert (page.returncode, "kubeconfig" in page.stdout) == (0, True), page.stderr
