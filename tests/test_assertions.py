"""An assertion that is always true protects nothing, and no run shows it.

mypy and ruff find most such assertions. Both are run here with the project's settings on assertions of each kind, so a
setting that is lost is seen. What they do not find is looked for here.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.assertions import always_true

pytestmark = pytest.mark.no_retry(reason="a guard")

ROOT = Path(__file__).parent.parent
SETTINGS = ROOT / "pyproject.toml"
LOOKED_AT = ("tests", "tools", "drills", "bench", "volsched/testing")

PREAMBLE = """
from __future__ import annotations

from collections.abc import Iterator


class Rule:
    name = "a"
    places: list[int] = []
    queue: str | None = None

    def applies(self) -> bool:
        return bool(self.places)

    async def asked(self) -> bool:
        return bool(self.places)


def each(rule: Rule) -> Iterator[int]:
    yield from rule.places
"""

VACUOUS = {
    "a method": "assert rule.applies",
    "a method is not None": "assert rule.applies is not None",
    "a method compared with what it may return": "assert rule.applies != 3",
    "a function": "assert each",
    "a lambda": "assert lambda: rule.places",
    "a coroutine that is not awaited": "assert rule.asked()",
    "a generator": "assert (place > 1 for place in rule.places)",
    "an iterator": "assert each(rule)",
    "an object that is never false": "assert rule",
    "None where there never is one": "assert rule.name is not None",
    "values of types that are never equal": "assert rule.name != 3",
    "a tuple": 'assert (rule.places, "no places")',
    "a text": 'assert "rule.places"',
    "a constant": "assert 1",
    "constants that are equal": "assert 1 == 1",
    "a value compared with itself": "assert rule.name == rule.name",
    "a call that returns None": "assert not rule.places.sort()",
    "a call that returns None compared": "assert rule.places.append(1) is None",
    "a comparison without assert": "rule.places == [1]",
}

HONEST = {
    "what a method returns": "assert rule.applies()",
    "a list": "assert rule.places",
    "a list that is empty": "assert not rule.places",
    "a text": "assert rule.name",
    "a text that may be None": "assert rule.queue",
    "None where there may be one": "assert rule.queue is not None",
    "equal values": "assert rule.places == [1]",
    "all of a generator": "assert all(place > 1 for place in rule.places)",
    "the items of an iterator": "assert [*each(rule)]",
    "two calls": "assert rule.applies() == rule.applies()",
    "a type": "assert isinstance(rule.queue, str)",
}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What is found in assertions, by the assertion."""
    lines = PREAMBLE.splitlines()
    for number, text in enumerate((*VACUOUS.values(), *HONEST.values())):  # alone: an assertion changes what is known
        lines += ["", "", f"def test_{number}(rule: Rule) -> None:", f"    {text}"]
    folder = tmp_path_factory.mktemp("checkout")
    module = folder / "tests/test_rule.py"
    module.parent.mkdir()
    (folder / "tests/__init__.py").touch()
    module.write_text("\n".join((*lines, "")))
    places = [*by_mypy(folder, module), *by_ruff(folder, module), *always_true(module.read_text())]
    return {lines[line - 1].strip(): rule for line, rule in places}


def by_mypy(folder: Path, module: Path) -> list[tuple[int, str]]:
    options = ["--config-file", str(SETTINGS), "--cache-dir", str(folder / "cache"), "--output", "json"]
    out = run("mypy", *options, str(module), folder=folder)
    return [(told["line"], told["code"]) for told in map(json.loads, out.splitlines())]


def by_ruff(folder: Path, module: Path) -> list[tuple[int, str]]:
    """Ask ruff; which files are tests its settings tell by the folder in which it runs."""
    (folder / "pyproject.toml").write_text(SETTINGS.read_text())
    out = run("ruff", "check", "--no-cache", "--output-format", "json", str(module), folder=folder)
    return [(told["location"]["row"], told["code"]) for told in json.loads(out)]


def run(tool: str, *arguments: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", tool, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


@pytest.mark.process
@pytest.mark.parametrize("text", VACUOUS.values(), ids=VACUOUS)
def test_an_assertion_that_is_always_true_is_found(found: dict[str, str], text: str) -> None:
    assert text in found


@pytest.mark.process
@pytest.mark.parametrize("text", HONEST.values(), ids=HONEST)
def test_an_honest_assertion_is_left_alone(found: dict[str, str], text: str) -> None:
    assert text not in found


@pytest.mark.parametrize("folder", LOOKED_AT)
def test_no_assertion_is_always_true_by_how_it_is_written(folder: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {why}, so the assertion cannot fail"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line, why in always_true(path.read_text())
    ]
    assert not found, "\n".join(found)


def test_tests_are_among_what_mypy_checks() -> None:
    settings = tomllib.loads(SETTINGS.read_text())["tool"]["mypy"]
    assert {"tests", "tools", "drills", "bench", "volsched"} <= set(settings["packages"])
