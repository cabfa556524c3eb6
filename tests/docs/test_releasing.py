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


RIGHTS = {"attest": {"contents": "read", "id-token": "write", "attestations": "write"}}
"""Of jobs that may do more than read; they run nothing of the checkout."""


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
    for name, job in workflow["jobs"].items():
        assert job.get("permissions", {"contents": "read"}) == RIGHTS.get(name, {"contents": "read"})
        assert job["timeout-minutes"] <= 120


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_pinned_by_the_digest_of_a_commit_and_say_their_version(path: Path) -> None:
    used = re.findall(r"uses: *(.*)", path.read_text())

    assert used
    for line in used:
        assert re.fullmatch(r"[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line), line
    versions = dict(line.split(" # ") for each in WORKFLOWS for line in re.findall(r"uses: *(.*)", each.read_text()))
    assert len(versions) == len({pinned.partition("@")[0] for pinned in versions}), "one version of each action"


def test_what_a_release_is_made_of_is_attested_by_a_job_that_runs_nothing_of_the_checkout() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/release.yaml").read_text())
    attest = workflow["jobs"]["attest"]
    names = [step.get("uses", "").partition("@")[0] for step in attest["steps"]]

    assert attest["needs"] == "release"
    assert names[0] == "actions/download-artifact"
    assert names[-1] == "actions/attest-build-provenance"
    assert "actions/checkout" not in names
    assert attest["steps"][-1]["with"]["subject-path"] == "dist/*/*"
    assert all("make" not in step.get("run", "") for step in attest["steps"])
