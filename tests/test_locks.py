"""The lock files are whole: what is locked is installed without resolving, so nobody adds what is missing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
LOCKS = ROOT / "requirements"


def pins(lock: str) -> dict[str, str]:
    """Versions by name."""
    text = (LOCKS / f"{lock}.lock").read_text()
    return {
        canonicalize_name(name): version for name, version in re.findall(r"^([\w.-]+)(?:\[.*?\])?==(\S+)", text, re.M)
    }


def needed(name: str, *extras: str) -> Iterator[Requirement]:
    """All that a distribution needs with these extras, and all that those need, each once for the same extras."""
    waiting, seen = [(name, frozenset(extras))], set()
    while waiting:
        asked = waiting.pop()
        if asked in seen:
            continue
        seen.add(asked)
        for requirement in _direct(*asked):
            yield requirement
            waiting.append((canonicalize_name(requirement.name), frozenset(requirement.extras)))


def _direct(name: str, extras: frozenset[str]) -> Iterator[Requirement]:
    for line in distribution(name).requires or ():
        requirement = Requirement(line)
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in extras | {""}):
            yield requirement


@pytest.mark.parametrize(("lock", "extras"), [("run", ()), ("dev", ("dev",))])
def test_what_is_locked_is_all_that_is_needed_in_versions_that_go_together(lock: str, extras: tuple[str, ...]) -> None:
    locked = pins(lock)

    lacking = [
        f"{requirement}: {locked.get(canonicalize_name(requirement.name), 'not locked')}"
        for requirement in needed("volsched", *extras)
        if not requirement.specifier.contains(locked.get(canonicalize_name(requirement.name), ""), prereleases=True)
    ]

    assert lacking == []


def test_what_is_installed_here_is_what_is_locked() -> None:
    assert {name: distribution(name).version for name in pins("dev")} == pins("dev")


def test_both_locks_have_the_same_versions() -> None:
    assert pins("run").items() <= pins("dev").items()
