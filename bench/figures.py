"""Figures of `python -m bench opcodes`, their record, and how both differ.

A record holds for one minor version of Python, because each version compiles to other opcodes.
"""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

RECORD: Final = Path(__file__).with_name(f"opcodes-{sys.version_info.major}.{sys.version_info.minor}.json")
TOLERANCE: Final = 0.03
SHARE_TO_NAME: Final = 0.05
"""A package is named when it has this part of a change."""
MEASURES: Final = ("opcodes", "elements")

Amounts = dict[str, float]
"""An amount for each package."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What one variant took: for each placed pod, or for the session when the session places none."""

    nodes: int
    placed: int
    opcodes: Amounts
    elements: Amounts

    @property
    def unit(self) -> str:
        """Say what the amounts are for."""
        return "for each placed pod" if self.placed else "for the session"


Record = dict[str, Figures]
"""The figures of each variant."""


def read(path: Path = RECORD) -> Record | None:
    """Return a record; None when no figures are recorded for this Python."""
    if not path.exists():
        return None
    return {name: Figures(**found) for name, found in json.loads(path.read_text())["variants"].items()}


def write(record: Mapping[str, Figures], path: Path = RECORD) -> None:
    """Write a record."""
    found = {"python": platform.python_version(), "variants": {name: asdict(record[name]) for name in record}}
    path.write_text(json.dumps(found, indent=1) + "\n")


def differences(record: Mapping[str, Figures], found: Mapping[str, Figures]) -> list[str]:
    """Say which figures are not those of the record, and which packages changed them."""
    said = []
    for variant, now in found.items():
        before = record.get(variant)
        if before is None:
            said.append(f"{variant}: the record has no such variant")
            continue
        if (now.nodes, now.placed) != (before.nodes, before.placed):
            placed, was = (f"{each.placed:,} pods placed on {each.nodes:,} nodes" for each in (now, before))
            said.append(f"{variant}: {placed}, recorded are {was}")
        texts = ((name, difference(getattr(before, name), getattr(now, name))) for name in MEASURES)
        said += [f"{variant}, {name} {now.unit}: {text}" for name, text in texts if text]
    return said


def difference(before: Amounts, now: Amounts) -> str:
    """Say by how much a total differs from its record, and where. The text is empty when the total holds."""
    was, total = sum(before.values()), sum(now.values())
    change = total - was
    if abs(change) <= TOLERANCE * was:
        return ""
    by_package = {name: now.get(name, 0.0) - before.get(name, 0.0) for name in before.keys() | now.keys()}
    named = [name for name, part in by_package.items() if part / change >= SHARE_TO_NAME]
    lines = [
        f"    {name}: {now.get(name, 0.0):,.1f}, recorded {before.get(name, 0.0):,.1f} ({by_package[name]:+,.1f})"
        for name in sorted(named, key=lambda name: (-abs(by_package[name]), name))
    ]
    return "\n".join([f"{total:,.1f}, recorded {was:,.1f} ({percent(was, total)})", *lines])


def percent(before: float, now: float) -> str:
    """Return by how many hundredths a figure changed."""
    return f"{(now / before - 1) * 100:+.1f} %" if before else "none before" if now else "+0.0 %"
