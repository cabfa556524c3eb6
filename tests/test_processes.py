"""No test that `make unit` runs starts a process, and so none starts a control plane."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

import pytest

from tests.processes import FOLDERS, GUARD, TESTS, Guard, pytest_collection_modifyitems

NOTHING = [sys.executable, "-c", ""]
SAID = "it starts a process and has no @pytest.mark.process"


def by_asyncio() -> None:
    async def start() -> None:
        await asyncio.create_subprocess_exec(*NOTHING)

    asyncio.run(start())


@pytest.mark.parametrize(
    "start",
    [
        pytest.param(lambda: subprocess.run(NOTHING, check=True), id="subprocess"),
        pytest.param(by_asyncio, id="asyncio"),
        pytest.param(lambda: os.system("true"), id="system"),  # noqa: S605 - the words are ours
        pytest.param(os.fork, id="fork"),
        pytest.param(lambda: os.posix_spawn(sys.executable, NOTHING, {}), id="spawn"),
    ],
)
def test_without_the_mark_no_process_is_started(start: Callable[[], object]) -> None:
    with pytest.raises(pytest.fail.Exception, match=SAID):
        start()
    assert GUARD.refused
    GUARD.refused.clear()


@pytest.mark.process
def test_with_the_mark_one_is() -> None:
    subprocess.run(NOTHING, check=True)


@pytest.mark.parametrize("is_marked", [True, False])
def test_a_test_that_catches_the_failure_fails_when_it_ends(is_marked: bool) -> None:
    guard = Guard()
    item = SimpleNamespace(get_closest_marker=lambda _: is_marked or None)
    watching = guard.watch(cast("pytest.Item", item))
    next(watching)
    if is_marked:
        guard("os.fork", ())
    else:
        with pytest.raises(pytest.fail.Exception, match=SAID):
            guard("os.fork", ())

    with pytest.raises(StopIteration if is_marked else pytest.fail.Exception):
        next(watching)
    guard("os.fork", ())


def collected(
    request: pytest.FixtureRequest, *marks: pytest.MarkDecorator, folder: str = "model", file: str = "x.py"
) -> pytest.Item:
    item = pytest.Function.from_parent(request.node.parent, name="a_test", callobj=lambda: None)
    item.path = TESTS / folder / file
    for mark in marks:
        item.add_marker(mark)
    pytest_collection_modifyitems([item])
    return item


def test_whole_folders_are_marked(request: pytest.FixtureRequest) -> None:
    assert all((TESTS / folder).is_dir() for folder in FOLDERS)
    assert collected(request, folder="cluster").get_closest_marker("process")
    assert not collected(request).get_closest_marker("process")


@pytest.mark.parametrize("name", ["slow", "no_retry"])
def test_a_mark_that_leaves_a_test_out_says_why(request: pytest.FixtureRequest, name: str) -> None:
    collected(request, getattr(pytest.mark, name)(reason="a thousand clusters"))
    with pytest.raises(pytest.UsageError, match=f"say why: @pytest.mark.{name}"):
        collected(request, getattr(pytest.mark, name))


def test_what_drills_and_judges_say_counts_the_first_time(request: pytest.FixtureRequest) -> None:
    assert collected(request, folder="drills").get_closest_marker("no_retry")
    assert not collected(request, folder="cluster").get_closest_marker("no_retry")


def test_a_file_with_marked_tests_has_the_mark_in_its_text(request: pytest.FixtureRequest) -> None:
    with pytest.raises(pytest.UsageError, match="in its own file"):
        collected(request, pytest.mark.process, file="__init__.py")
    assert collected(request, pytest.mark.process, file="test_processes.py", folder=".").get_closest_marker("process")


@pytest.mark.process
def test_make_unit_leaves_out_what_is_marked_and_asks_for_no_coverage() -> None:
    shown = subprocess.run(["make", "-n", "unit"], cwd=TESTS.parent, capture_output=True, text=True, check=True).stdout

    assert '-m "not process and not slow"' in shown
    assert "--cov" not in shown


@pytest.mark.process
@pytest.mark.parametrize("plugin", ["", "P=nobody"])
def test_make_test_plugin_names_the_plugins_when_it_is_told_none_of_them(plugin: str) -> None:
    words = ["make", "test-plugin", *plugin.split()]
    done = subprocess.run(words, cwd=TESTS.parent, capture_output=True, text=True, check=False)

    assert done.returncode == 2
    for folder in TESTS.parent.glob("plugins/*/__init__.py"):
        assert folder.parent.name in done.stderr


@pytest.mark.process
@pytest.mark.parametrize("plugin", ["capacity_card", "capacity-card"])
def test_make_test_plugin_runs_its_folder_and_what_holds_for_all(plugin: str) -> None:
    words = ["make", "-n", "test-plugin", f"P={plugin}"]
    shown = subprocess.run(words, cwd=TESTS.parent, capture_output=True, text=True, check=True).stdout.split()

    assert {"tests/plugins/capacity_card", "tests/properties/test_table.py"} <= set(shown)
    assert "tests/plugins/capacity_dra" not in shown
    assert all((TESTS.parent / word).exists() for word in shown if word.startswith("tests/"))
