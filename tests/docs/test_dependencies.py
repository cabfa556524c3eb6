"""docs/dependencies.md names every dependency of pyproject, and no other."""

from __future__ import annotations

import re
import tomllib

import pytest

from tests.docs.pages import DOCS, ROOT, codes, rows, section

PAGE = DOCS / "dependencies.md"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def names(requirements: list[str]) -> list[str]:
    return [re.split(r"[<>=!~;\[ ]", requirement, maxsplit=1)[0] for requirement in requirements]


@pytest.mark.parametrize(
    ("heading", "requirements"),
    [
        ("At run time", PROJECT["dependencies"]),
        ("For tests and development", PROJECT["optional-dependencies"]["dev"]),
    ],
)
def test_dependencies_of_pyproject_are_those_of_the_page(heading: str, requirements: list[str]) -> None:
    documented = {next(codes(cells[0])) for cells in rows(section(PAGE, heading))}

    assert documented == set(names(requirements))


def test_every_dependency_has_a_reason() -> None:
    for cells in rows(section(PAGE, "At run time")):
        assert all(cells), cells


def test_modules_that_the_page_points_at_exist() -> None:
    for line in PAGE.read_text().splitlines():
        for code in codes(line):
            if code.startswith(("volsched/", "plugins/", "actions/", "requirements/")):
                assert (ROOT / code).exists(), code
