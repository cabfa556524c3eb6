"""Scenarios, the plans that come of them, and the files that hold both."""

from __future__ import annotations

import json
import lzma
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from hypothesis import settings

from tests.plans.cluster import Cluster, Happening, Manifest
from tests.plans.sessions import Sessions

STORED = Path(__file__).parent / "stored"
CHUNKS = 10
"""Each has a configuration of its own for each theme, as reading a configuration costs as much as a cycle."""
Plan: TypeAlias = list[dict[str, Any]]
"""What each cycle of a scenario decided."""


@dataclass
class Scenario:
    """Objects at the start, a configuration, and for each further cycle what happens before it."""

    name: str
    configuration: str
    objects: list[Manifest]
    chapters: list[list[Happening]] = field(default_factory=list)


class Play:
    """A scenario on its way, cycle by cycle."""

    def __init__(self, scenario: Scenario) -> None:
        self.sessions = Sessions(scenario.configuration)
        self.cluster = Cluster(self.sessions, scenario.objects)
        self.plan: Plan = []
        self._waiting: dict[str, Any] = {}

    def cycle(self, chapter: list[Happening]) -> None:
        """Let things happen, run a cycle, and let things happen that this decided."""
        for what in chapter:
            self.cluster.happen(what)
        decided = self.sessions.decide(self.cluster.now)
        self.cluster.move(decided)
        waiting = decided.pop("waiting", {})
        changed = {about: why for about, why in waiting.items() if self._waiting.get(about) != why}
        changed |= {about: None for about in self._waiting if about not in waiting}
        self._waiting = waiting
        self.plan.append({**decided, **({"waiting": changed} if changed else {})})


def plan_of(scenario: Scenario) -> Plan:
    """Return what the sessions of a scenario decide now."""
    play = Play(scenario)
    for chapter in [[], *scenario.chapters]:
        play.cycle(chapter)
    return play.plan


def plans_of(scenarios: list[Scenario]) -> dict[str, Plan]:
    """Return the plans of scenarios by their names, as JSON has them."""
    return dict(json.loads(json.dumps({scenario.name: plan_of(scenario) for scenario in scenarios})))


# -- files ------------------------------------------------------------------------------------------------------------


def _file(what: str, chunk: int) -> Path:
    return STORED / f"{what}-{chunk:02}.json.xz"


def _read(file: Path) -> Any:
    return json.loads(lzma.decompress(file.read_bytes()))


def _write(file: Path, content: Any) -> None:
    """Write a file, unless it has this content."""
    if file.exists() and _read(file) == content:
        return
    file.parent.mkdir(exist_ok=True)
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    file.write_bytes(lzma.compress(text.encode(), preset=6))


def stored_scenarios(chunk: int) -> list[Scenario]:
    """Return the scenarios of a chunk."""
    return [Scenario(**stored) for stored in _read(_file("scenarios", chunk))]


def some_scenarios(chunk: int, one_in: int) -> list[Scenario]:
    """Return one in so many scenarios of a chunk; with the profile ``thorough`` all of them."""
    is_thorough = settings.default is not None and settings.default.max_examples > 40
    step = 1 if is_thorough else one_in
    return stored_scenarios(chunk)[chunk * 7 % step :: step]


def store_scenarios(chunk: int, scenarios: list[Scenario]) -> None:
    """Store the scenarios of a chunk."""
    _write(_file("scenarios", chunk), [vars(scenario) for scenario in scenarios])


def recorded_plans(chunk: int) -> dict[str, Plan]:
    """Return the recorded plans of a chunk, by the name of the scenario; none before the first record."""
    file = _file("plans", chunk)
    return dict(_read(file)) if file.exists() else {}


def record_plans(chunk: int, plans: dict[str, Plan]) -> None:
    """Record the plans of a chunk."""
    _write(_file("plans", chunk), plans)
