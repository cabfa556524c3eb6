"""What a drill measured against what it must show: a table for people, JSON for programs, a verdict as exit status."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal, TypeAlias

from bench.common import machine

RESULTS: Final = Path(__file__).parent / "results"

Comparison: TypeAlias = Literal["==", "<=", ">=", "<"]

_COMPARISONS: Final[Mapping[Comparison, Callable[[float, float], bool]]] = {
    "==": operator.eq,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
}


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that a drill must show: what was measured, and the bar. ``examples`` name what broke it.

    Where time is not ``judged``, the line is shown and nothing more.
    """

    what: str
    measured: float
    comparison: Comparison
    bar: float
    examples: tuple[str, ...] = ()
    judged: bool = True

    @property
    def is_met(self) -> bool:
        """Whether the bar is met, or does not count."""
        return not self.judged or _COMPARISONS[self.comparison](self.measured, self.bar)


class Report:
    """The outcome of one drill: lines that are met or not, and figures that have no bar.

    The short forms in the tests do not ``judge_time``: how fast things go is the machine's, which may be busy.
    """

    def __init__(self, name: str, what: str, *, judge_time: bool = True) -> None:
        self.name = name
        self._judge_time = judge_time
        self.lines: list[Line] = []
        self.figures: dict[str, float] = {}
        self._what = what
        self._machine = machine()
        print(f"{name}: {what}\ncommit {self._machine['commit']}, {self._machine['cores']} cores\n", flush=True)

    def progress(self, text: str) -> None:
        """Say how far a long drill is."""
        print(f"  {datetime.now(UTC):%H:%M:%S} {text}", flush=True)

    def must(
        self,
        what: str,
        measured: float,
        comparison: Comparison,
        bar: float,
        examples: tuple[str, ...] = (),
        *,
        is_time: bool = False,
    ) -> None:
        """Add a line that the drill is judged by; ``is_time`` says that it depends on how fast the machine is."""
        judged = self._judge_time or not is_time
        self.lines.append(Line(what, measured, comparison, bar, examples[:10], judged))

    def figure(self, what: str, measured: float) -> None:
        """Add a figure that says how much was tried."""
        self.figures[what] = measured

    @property
    def is_met(self) -> bool:
        """Whether there are lines, and all are met."""
        return bool(self.lines) and all(line.is_met for line in self.lines)

    def finish(self) -> int:
        """Print the table, write the JSON, and return the exit status: 0 when every line is met, 1 otherwise."""
        print()
        for what, measured in self.figures.items():
            print(f"  {'':<8} {what:<72} {measured:>12,.6g}")
        for line in self.lines:
            verdict = ("met" if line.is_met else "NOT MET") if line.judged else "-"
            print(f"  {verdict:<8} {line.what:<72} {line.measured:>12,.6g}   bar {line.comparison} {line.bar:g}")
            for example in line.examples:
                print(f"  {'':<8}   {example}")
        self._write()
        return 0 if self.is_met else 1

    def _write(self) -> None:
        RESULTS.mkdir(exist_ok=True)
        path = RESULTS / f"{self.name}.json"
        found = {
            "drill": self.name,
            "what": self._what,
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": self._machine,
            "figures": self.figures,
            "lines": [{**asdict(line), "is_met": line.is_met} for line in self.lines],
            "is_met": self.is_met,
        }
        path.write_text(json.dumps(found, indent=1) + "\n")
        print(f"\nwritten to {path}")
