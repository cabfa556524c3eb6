"""The Dockerfile is built by hand, and what comes out runs as nobody in a tree that it cannot write to."""

from __future__ import annotations

import itertools
import re
import stat
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.container import Container, Mount, why_not
from tests.manifests.dockerfile import Image, context, pairs, read

ROOT = Path(__file__).resolve().parents[2]
STAGES = read((ROOT / "Dockerfile").read_text())
FINAL = STAGES[-1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
USER = 65532

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(image: Image, tmp_path: Path) -> Run:
    """Runs something in a container of the image in which nothing can be written."""
    if why_not():
        pytest.skip(f"no containers by hand: {why_not()}")
    given = tmp_path / "given"
    given.mkdir()
    shown = [Mount(ROOT / "manifests/examples", "/examples"), Mount(given, "/given")]
    roots = itertools.count()

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        made = Container(words, FINAL.environment, FINAL.user, [*image.mounts, *shown])
        return made.run(tmp_path / f"root-{next(roots)}")

    return run


def test_both_stages_have_one_base_pinned_by_digest_of_the_python_that_the_locks_are_for() -> None:
    assert len({stage.base for stage in STAGES}) == 1
    version = re.fullmatch(r"python:(3\.\d+)\.\d+-slim-\w+@sha256:[0-9a-f]{64}", FINAL.base)
    assert version is not None
    for lock in (ROOT / "requirements").glob("*.lock"):
        assert f"with Python {version[1]}\n" in lock.read_text(), lock
    labels = pairs(FINAL.the("LABEL"))
    assert labels["org.opencontainers.image.base.name"].endswith(FINAL.base.split("@")[0])


def test_everything_that_is_installed_is_pinned_by_hash_or_comes_from_here() -> None:
    installs = [line for line in STAGES[0].of("RUN") for line in re.split(r"&&", line) if " pip " in line]

    assert installs
    for line in installs:
        assert "--require-hashes" in line or "--no-index" in line or "--no-build-isolation" in line, line


def test_user_is_a_number_and_not_root_and_no_shell_is_needed() -> None:
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", FINAL.the("USER"))
    assert FINAL.the("USER") == f"{USER}:{USER}"
    assert FINAL.words("ENTRYPOINT") == ["volsched"]
    assert FINAL.of("RUN") == []


def test_version_and_licence_are_those_of_the_project() -> None:
    assert pairs(" ".join(FINAL.of("ARG")))["VERSION"] == PROJECT["version"]
    labels = pairs(FINAL.the("LABEL"))
    for what in ("version", "revision", "source"):
        assert labels[f"org.opencontainers.image.{what}"] == f"${{{what.upper()}}}"
    assert labels["org.opencontainers.image.licenses"] == PROJECT["license"]
    assert labels["org.opencontainers.image.description"] == PROJECT["description"]


def test_engine_is_sent_sources_and_locks_and_nothing_else() -> None:
    sent = context(ROOT)
    tops = {name.split("/")[0] for name in sent}

    assert tops == {"LICENSE", "README.md", "pyproject.toml", "requirements", "volsched", "actions", "plugins"}
    assert not [name for name in sent if "__pycache__" in name]
    packages = {path.relative_to(ROOT).as_posix() for path in (ROOT / "volsched").rglob("*.py")}
    assert packages <= sent


def test_it_says_its_version_and_schedules_the_example(image: Image, run: Run) -> None:
    entry = FINAL.words("ENTRYPOINT")
    before = listing(image.root)

    version = run(*entry, "version")
    shown = run(*entry, "simulate", "-f", "/examples")

    assert version.stdout.startswith(f"volsched {PROJECT['version']} "), version.stderr
    assert "vision/detector-0" in shown.stdout, shown.stderr
    assert listing(image.root) == before


def test_it_is_the_built_one_that_runs_and_not_the_checkout(run: Run) -> None:
    program = "import volsched, actions, plugins; print(volsched.__file__, actions.__file__, plugins.__file__)"

    done = run("/opt/volsched/bin/python", "-P", "-c", program)

    assert done.stdout.count("/opt/volsched/lib/") == 3, done.stdout + done.stderr


def test_every_verb_can_be_imported(run: Run) -> None:
    for verb in ("run", "controllers", "certificates", "simulate", "validate"):
        done = run("volsched", verb, "--help")
        assert (done.returncode, done.stderr) == (0, ""), done.stderr


def test_files_that_are_no_modules_are_in_it_too(run: Run, tmp_path: Path) -> None:
    manifest = tmp_path / "given" / "pod.yaml"
    manifest.write_text("{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {nodeselector: {}}}")

    assert "did you mean nodeSelector?" in run("volsched", "validate", "-f", "/given/pod.yaml").stdout


def test_a_process_that_cannot_start_says_why(run: Run) -> None:
    done = run("volsched", "run", "--kubeconfig", "/nowhere")

    assert done.returncode == 2
    assert "/nowhere" in done.stderr


def test_tree_can_be_read_by_all_written_by_nobody_else_and_has_its_bytecode(image: Image) -> None:
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
