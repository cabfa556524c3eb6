"""What docs/releasing.md and the workflows call is there, for every engine that they name."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "releasing.md").read_text()
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yaml"))
TARGETS = set(re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE))
SAVES = {
    "buildah": "buildah push docker.io/library/volsched:{v} docker-archive:{f}:docker.io/library/volsched:{v}",
    "podman": "podman save --format docker-archive --output {f} docker.io/library/volsched:{v}",
    "docker": "docker save --output {f} docker.io/library/volsched:{v}",
}


def made(*words: str) -> list[str]:
    """The commands that make would run; another make that runs the tests has no part in it."""
    outside = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    done = subprocess.run(["make", "-n", *words], cwd=ROOT, env=outside, capture_output=True, text=True, check=True)
    return [" ".join(line.split()) for line in done.stdout.replace("\\\n", " ").splitlines()]


@pytest.mark.parametrize("engine", SAVES)
@pytest.mark.process
def test_an_image_is_built_and_saved_by_each_engine(engine: str) -> None:
    commands = made(
        "archive", f"ENGINE={engine}", "VERSION=1.2.3", "REVISION=abc", "SOURCE=https://git", "ARCHIVE=out/it"
    )

    given = "--build-arg VERSION=1.2.3 --build-arg REVISION=abc --build-arg SOURCE=https://git"
    assert f"{engine} build {given} --tag docker.io/library/volsched:1.2.3 ." in commands
    assert commands[-1] == SAVES[engine].format(v="1.2.3", f="out/it")


@pytest.mark.process
def test_an_engine_may_be_a_path_and_have_flags() -> None:
    commands = made("archive", "ENGINE=sudo /usr/bin/podman --root=/x", "VERSION=1.2.3", "ARCHIVE=out/it")

    assert commands[-1].startswith("sudo /usr/bin/podman --root=/x save --format docker-archive")


@pytest.mark.process
def test_without_an_engine_it_is_said_which_could_be() -> None:
    done = subprocess.run(["make", "image", "ENGINE="], cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode != 0
    assert "no buildah, podman or docker on PATH; name one of them: make image ENGINE=..." in done.stderr


def test_every_target_that_is_named_is_there() -> None:
    named = set(re.findall(r"\bmake ([a-z-]+)", PAGE + "".join(path.read_text() for path in WORKFLOWS)))
    assert named
    assert named <= TARGETS


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_may_read_and_no_more_and_do_what_the_makefile_does(path: Path) -> None:
    workflow = yaml.safe_load(path.read_text())

    assert workflow["permissions"] == {"contents": "read"}
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    runs = [step["run"] for step in steps if "run" in step]
    assert runs
    assert all(re.search(r"\bmake [a-z-]+|sha256sum --check", run) for run in runs)
    for job in workflow["jobs"].values():
        assert job["timeout-minutes"] <= 120
