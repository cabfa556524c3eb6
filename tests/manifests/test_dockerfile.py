"""The Dockerfile is built by hand, and what comes out runs as nobody in a tree that it cannot write to."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.manifests.dockerfile import Builder, context, pairs, read

ROOT = Path(__file__).resolve().parents[2]
STAGES = read((ROOT / "Dockerfile").read_text())
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
USER = 65532


@pytest.fixture(scope="module")
def image() -> Iterator[Builder]:
    """The built image. Not in pytest's own folder, which is closed to other users."""
    folder = Path(tempfile.mkdtemp(prefix="volsched-image-"))
    folder.chmod(0o755)
    builder = Builder(ROOT, folder)
    builder.build(STAGES)
    yield builder
    shutil.rmtree(folder)


def run(image: Builder, *words: str) -> subprocess.CompletedProcess[str]:
    """Run something in the image as its user.

    A Python in a home folder is closed to other users, so the right to read everything is left; none to write is.
    """
    rights = "+dac_read_search"
    nobody = [
        *("setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--no-new-privs"),
        *(f"--inh-caps=-all,{rights}", f"--ambient-caps=-all,{rights}", f"--bounding-set=-all,{rights}"),
    ]
    path = image.environment["PATH"].replace(str(Path(sys.executable).parent), "")
    return subprocess.run(
        [*(nobody if os.geteuid() == 0 else []), *words],
        cwd=ROOT,
        env=image.environment | {"PATH": path},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def test_both_stages_have_one_base_pinned_by_digest_of_the_python_that_the_locks_are_for() -> None:
    assert len({stage.base for stage in STAGES}) == 1
    version = re.fullmatch(r"python:(3\.\d+)\.\d+-slim-\w+@sha256:[0-9a-f]{64}", STAGES[-1].base)
    assert version is not None
    for lock in (ROOT / "requirements").glob("*.lock"):
        assert f"with Python {version[1]}\n" in lock.read_text(), lock
    labels = pairs(STAGES[-1].the("LABEL"))
    assert labels["org.opencontainers.image.base.name"].endswith(STAGES[-1].base.split("@")[0])


def test_everything_that_is_installed_is_pinned_by_hash_or_comes_from_here() -> None:
    installs = [line for line in STAGES[0].of("RUN") for line in re.split(r"&&", line) if " pip " in line]

    assert installs
    for line in installs:
        assert "--require-hashes" in line or "--no-index" in line or "--no-build-isolation" in line, line


def test_user_is_a_number_and_not_root_and_no_shell_is_needed() -> None:
    final = STAGES[-1]

    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", final.the("USER"))
    assert final.the("USER") == f"{USER}:{USER}"
    assert final.words("ENTRYPOINT") == ["volsched"]
    assert final.of("RUN") == []


def test_version_and_licence_are_those_of_the_project() -> None:
    assert pairs(STAGES[-1].the("ARG"))["VERSION"] == PROJECT["version"]
    labels = pairs(STAGES[-1].the("LABEL"))
    assert labels["org.opencontainers.image.version"] == "${VERSION}"
    assert labels["org.opencontainers.image.licenses"] == PROJECT["license"]
    assert labels["org.opencontainers.image.description"] == PROJECT["description"]


def test_engine_is_sent_sources_and_locks_and_nothing_else() -> None:
    sent = context(ROOT)
    tops = {name.split("/")[0] for name in sent}

    assert tops == {"LICENSE", "README.md", "pyproject.toml", "requirements", "volsched", "actions", "plugins"}
    assert not [name for name in sent if "__pycache__" in name]
    packages = {path.relative_to(ROOT).as_posix() for path in (ROOT / "volsched").rglob("*.py")}
    assert packages <= sent


def test_it_says_its_version_and_schedules_the_example(image: Builder) -> None:
    entry = STAGES[-1].words("ENTRYPOINT")
    before = listing(image.root)

    version = run(image, *entry, "version")
    shown = run(image, *entry, "simulate", "-f", "manifests/examples")

    assert version.stdout.startswith(f"volsched {PROJECT['version']} "), version.stderr
    assert "vision/detector-0" in shown.stdout, shown.stderr
    assert listing(image.root) == before


def test_it_is_the_built_one_that_runs_and_not_the_checkout(image: Builder) -> None:
    program = "import volsched, actions, plugins; print(volsched.__file__, actions.__file__, plugins.__file__)"
    python = image.root / "opt/volsched/bin/python"

    done = run(image, str(python), "-P", "-c", program)

    assert done.stdout.count(f"{image.root}/opt/volsched/lib/") == 3, done.stdout + done.stderr


def test_every_verb_can_be_imported(image: Builder) -> None:
    for verb in ("run", "controllers", "simulate", "validate"):
        done = run(image, "volsched", verb, "--help")
        assert (done.returncode, done.stderr) == (0, ""), done.stderr


def test_files_that_are_no_modules_are_in_it_too(image: Builder, tmp_path: Path) -> None:
    manifest = tmp_path / "pod.yaml"
    manifest.write_text("{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {nodeselector: {}}}")

    assert "did you mean nodeSelector?" in run(image, "volsched", "validate", "-f", str(manifest)).stdout


def test_a_process_that_cannot_start_says_why(image: Builder) -> None:
    done = run(image, "volsched", "run", "--kubeconfig", "/nowhere")

    assert done.returncode == 2
    assert "/nowhere" in done.stderr


def test_tree_can_be_read_by_all_written_by_nobody_else_and_has_its_bytecode(image: Builder) -> None:
    tree = image.root / "opt/volsched"
    for path in tree.rglob("*"):
        mode = path.lstat().st_mode
        if not stat.S_ISLNK(mode):
            assert mode & stat.S_IROTH, path
            assert not mode & stat.S_IWOTH, path
    sources = [path for path in tree.rglob("*.py") if "site-packages/volsched/" in path.as_posix()]
    assert sources
    for path in sources:
        assert list((path.parent / "__pycache__").glob(f"{path.stem}.*.pyc")), path
    assert not list(tree.glob("lib/*/site-packages/pip"))


def listing(folder: Path) -> dict[str, float]:
    """All files below a folder with the times of their last change."""
    return {str(path): path.lstat().st_mtime for path in folder.rglob("*")}
