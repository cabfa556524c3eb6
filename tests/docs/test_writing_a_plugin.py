"""The plugin of the page is taken from it, packaged as the page says, and run by the page's own test."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.cli.calls import without_progress
from tests.docs.pages import DOCS, Block, blocks

PAGE = DOCS / "writing-a-plugin.md"
FILES = {name: block for block in blocks(PAGE) if (name := block.word("file")) is not None}
MOST_LINES = 46


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """The page's files in a folder, with the metadata that an installer would make of its pyproject."""
    for name, block in FILES.items():
        (tmp_path / name).write_text(block.text)
    project = tomllib.loads(FILES["pyproject.toml"].text)["project"]
    info = tmp_path / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    points = [
        line
        for group, entries in project["entry-points"].items()
        for line in (f"[{group}]", *(f"{name} = {where}" for name, where in entries.items()))
    ]
    (info / "entry_points.txt").write_text("\n".join(points) + "\n")
    return tmp_path


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join((str(folder), *filter(None, [os.environ.get("PYTHONPATH")])))
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def pytest_in(folder: Path) -> subprocess.CompletedProcess[str]:
    return run(folder, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir=.", "test_racks.py")


@pytest.mark.process
def test_plugin_of_the_page_passes_the_test_of_the_page(package: Path) -> None:
    done = pytest_in(package)

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.process
def test_its_arguments_are_checked_like_those_of_any_plugin(package: Path) -> None:
    text = (package / "scheduler.conf").read_text()
    assert "racks.weight: 20" in text
    program = (
        "import sys; from volsched.registry import load_profile\n"
        "from volsched.framework.config.loading import ConfigurationError\n"
        "try: load_profile(open('scheduler.conf').read())\n"
        "except ConfigurationError as error: sys.exit(str(error))"
    )
    assert run(package, "-c", program).returncode == 0

    (package / "scheduler.conf").write_text(text.replace("racks.weight: 20", "racks.wieght: 20"))
    done = run(package, "-c", program)

    assert done.returncode == 1
    assert "did you mean racks.weight?" in done.stderr


@pytest.mark.process
def test_its_validator_is_asked_and_says_what_the_page_says(package: Path) -> None:
    (said,) = [block for block in blocks(PAGE) if "said-by-validate" in block.words]
    template = '{"metadata": {"annotations": {"example.com/rack": "a"}}, "spec": {"containers": [{"name": "main"}]}}'
    (package / "web.yaml").write_text(
        f'{{apiVersion: apps/v1, kind: Deployment, metadata: {{name: web}}, spec: {{"template": {template}}}}}'
    )

    done = run(package, "-m", "volsched", "validate", "-f", "web.yaml")

    assert done.returncode == 1, done.stderr
    assert done.stdout == said.text


@pytest.mark.process
def test_a_version_that_stands_still_is_named_as_the_page_says(package: Path) -> None:
    (said,) = [block for block in blocks(PAGE) if "misdeclared" in block.words]
    source = FILES["racks.py"].text
    assert source.count("task.job.version") == 1
    (package / "racks.py").write_text(source.replace("task.job.version", "0"))

    done = pytest_in(package)

    assert done.returncode == 1
    assert said.text.strip() in done.stdout


def test_it_is_about_forty_lines_of_code() -> None:
    assert code_lines(FILES["racks.py"]) <= MOST_LINES


def code_lines(block: Block) -> int:
    return sum(1 for line in block.text.splitlines() if line.strip() and not line.lstrip().startswith(("#", '"""')))


@pytest.mark.process
def test_simulate_prints_a_hint_for_a_callback_without_annotations_and_none_for_the_page(package: Path) -> None:
    simulate = ("-m", "volsched", "simulate", "--config", "scheduler.conf", "-f", "nodes.yaml")
    (package / "nodes.yaml").write_text(
        "{apiVersion: v1, kind: Node, metadata: {name: a}, status: {allocatable: {cpu: 1}}}"
    )
    assert without_progress(run(package, *simulate).stderr) == []

    source = FILES["racks.py"].text
    (package / "racks.py").write_text(
        source.replace("(template: PodTemplate, node: NodePropertiesView)", "(template, node)")
    )

    assert "hint: plugin racks: in_a_rack is asked for every pod and node" in run(package, *simulate).stderr


@pytest.mark.process
def test_a_bug_of_a_plugin_is_said_to_be_one_of_its_distribution(package: Path) -> None:
    source = FILES["racks.py"].text
    (package / "racks.py").write_text(
        source.replace("return None if RACK in node.labels", "return node.nothing if RACK")
    )
    pod = (
        "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {schedulerName: volsched, containers: [{name: main}]}}"
    )
    node = "{apiVersion: v1, kind: Node, metadata: {name: a}, status: {allocatable: {pods: 1}}}"
    (package / "world.yaml").write_text(f"{node}\n---\n{pod}")

    done = run(package, "-m", "volsched", "simulate", "--config", "scheduler.conf", "-f", "world.yaml")

    assert done.returncode == 70
    assert "this is a bug of plugin racks of volsched-racks 1.0; please report it there" in done.stderr
