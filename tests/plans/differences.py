"""What is other than recorded, in lines that people read: scenario, cycle, what it is about, was and is."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MOST_SCENARIOS = 20
MOST_LINES = 40
MOST_LETTERS = 400
ABSENT = "-"


@dataclass(frozen=True)
class Difference:
    """How the plan of one scenario differs from its record: a line for each thing that does."""

    scenario: str
    lines: tuple[str, ...]


def differences(recorded: Mapping[str, Any], now: Mapping[str, Any]) -> list[Difference]:
    """Return the scenarios whose plans differ, in the order of their names."""
    found: list[Difference] = []
    for name in sorted({*recorded, *now}):
        if name not in recorded:
            found.append(Difference(name, ("was not recorded",)))
        elif name not in now:
            found.append(Difference(name, ("is recorded and there no longer",)))
        elif recorded[name] != now[name]:
            found.append(Difference(name, tuple(_lines(recorded[name], now[name]))))
    return found


def told(found: Sequence[Difference]) -> str:
    """Return a text about differences: the first of them in full, and how many there are."""
    if not found:
        return "No plan differs from its record."
    parts = [f"{len(found)} plans differ from their records."]
    for difference in found[:MOST_SCENARIOS]:
        parts += ["", f'Scenario "{difference.scenario}":', *(f"  {line}" for line in difference.lines[:MOST_LINES])]
        if len(difference.lines) > MOST_LINES:
            parts.append(f"  ... and {len(difference.lines) - MOST_LINES} more lines")
    if len(found) > MOST_SCENARIOS:
        themes = Counter(difference.scenario.rstrip("0123456789 ") for difference in found[MOST_SCENARIOS:])
        parts += ["", "Others: " + ", ".join(f"{count} of {theme}" for theme, count in themes.items())]
    return "\n".join(parts)


def _lines(was: Any, now: Any) -> Iterator[str]:
    old, new = _flat(was), _flat(now)
    for about in sorted({*old, *new}, key=_place):
        before, after = old.get(about, ABSENT), new.get(about, ABSENT)
        if before != after:
            yield f"{about}:"
            yield f"  was {_short(before)}"
            yield f"  is  {_short(after)}"


def _place(about: str) -> tuple[int, str]:
    """Put cycles into their order, and first what was bound and evicted."""
    words = about.split()
    cycle = int(words[1].rstrip(",")) if words[0] == "cycle" else 0
    return cycle, about


def _flat(plan: Any) -> dict[str, Any]:
    """Return everything that a plan states, by a few words that tell what it is about."""
    if isinstance(plan, dict):
        return {f"{what} {about}": value for what, table in plan.items() for about, value in _entries(table)}
    found: dict[str, Any] = {}
    for number, cycle in enumerate(plan, start=1):
        for what, table in cycle.items():
            found |= {f"cycle {number}, {what} {about}".rstrip(): value for about, value in _entries(table)}
    return found


def _entries(table: Any) -> Iterator[tuple[str, Any]]:
    """Yield the entries of a table; of a list those of each pod or object, and the order."""
    if isinstance(table, dict):
        yield from table.items()
    elif isinstance(table, list):
        names = [_name(entry) for entry in table]
        yield from zip(_numbered(names), table, strict=True)
        yield "in this order", names
    else:
        yield "", table


def _name(entry: Any) -> str:
    """Return the pod or object that an entry of a list is about."""
    if not isinstance(entry, dict):
        return str(entry)
    return " ".join(str(entry[key]) for key in ("cycle", "pod", "podGroup", "object", "reason") if entry.get(key))


def _numbered(names: list[str]) -> Iterator[str]:
    """Yield names, those that stand there again with a number."""
    seen: dict[str, int] = {}
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        yield name if seen[name] == 1 else f"{name} ({seen[name]})"


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True, ensure_ascii=False)
    return text if len(text) <= MOST_LETTERS else f"{text[:MOST_LETTERS]}..."
