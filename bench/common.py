"""What all benches share: a table, a JSON beside it, and clocks that a shared machine does not spoil.

CPU time is the figure to trust: these machines are shared, and a clock on the wall measures the neighbours, too. Where
only the wall will do (a race, a latency), contestants are compared within one run.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from volsched.run.loop import GC_THRESHOLDS

RESULTS = Path(__file__).parent / "results"
QUIET_SECONDS = 0.0041
_TICKS = os.sysconf("SC_CLK_TCK")


@contextmanager
def garbage_as_in_run() -> Iterator[None]:
    """Treat garbage as ``volsched run`` does once it has listed everything: what is there stays out of its way."""
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


class Report:
    """The outcome of one bench: rows for people and for programs."""

    def __init__(self, name: str, what: str) -> None:
        self.name = name
        self.what = what
        self.rows: list[dict[str, Any]] = []
        self.notes: list[str] = []
        self._machine = machine()
        self._slowness = slowness()
        print(f"{name}: {what}\non {self._machine['cpu']}, {self._machine['cores']} cores, "
              f"Python {self._machine['python']}, commit {self._machine['commit']}\n")  # fmt: skip

    def add(self, **row: Any) -> None:
        """Add a row and print it at once, so that a long bench shows progress."""
        self.rows.append(row)
        print("  " + "  ".join(f"{key} {_shown(value)}" for key, value in row.items()), flush=True)

    def note(self, text: str) -> None:
        """Add a sentence below the table."""
        self.notes.append(text)

    def finish(self) -> None:
        """Print everything as tables, one for each kind of row, and write the JSON."""
        print()
        for rows in _of_one_kind(self.rows):
            print_table(rows)
        for note in self.notes:
            print(f"* {note}")
        RESULTS.mkdir(exist_ok=True)
        after = slowness()
        path = RESULTS / f"{self.name}.json"
        found = {
            "bench": self.name,
            "what": self.what,
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": self._machine | {"load_after": os.getloadavg()[0], "slowness": [self._slowness, after]},
            "rows": self.rows,
            "notes": self.notes,
        }
        path.write_text(json.dumps(found, indent=1) + "\n")
        print(f"\nload average {self._machine['load_before']:.1f} before, {os.getloadavg()[0]:.1f} after; {path}")
        print(f"fixed work took {self._slowness:.2f} times as long as on a quiet core before, {after:.2f} times after")


def parser(doc: str | None) -> argparse.ArgumentParser:
    """Make an argument parser that shows a module's docstring."""
    return argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)


def print_table(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print rows of equal keys below one head."""
    head = list(rows[0])
    cells = [[_shown(row[key]) for key in head] for row in rows]
    widths = [max(len(name), *(len(row[place]) for row in cells)) for place, name in enumerate(head)]
    for line in (head, *cells):
        first, *rest = (
            text.ljust(width) if place == 0 else text.rjust(width)
            for place, (text, width) in enumerate(zip(line, widths, strict=True))
        )
        print("  ".join([first, *rest]))
    print()


def machine() -> dict[str, Any]:
    """Say what this runs on."""
    return {
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "kernel": platform.release(),
        "commit": _commit(),
        "load_before": os.getloadavg()[0],
    }


class Stopwatch:
    """CPU seconds of this process, and seconds on the wall, since it was made."""

    def __init__(self) -> None:
        self._cpu, self._wall = time.process_time(), time.perf_counter()

    def cpu(self) -> float:
        """CPU seconds of all threads of this process."""
        return time.process_time() - self._cpu

    def wall(self) -> float:
        """Seconds."""
        return time.perf_counter() - self._wall


def slowness(runs: int = 5) -> float:
    """Say how many times slower this core is now than it was when it was quiet (an AMD EPYC of 2026).

    Measured with a fixed piece of work, half of it plain Python and half NumPy on small arrays, as the engine's is; its
    CPU time grows when a neighbour shares the core's caches and pipelines.
    """
    return min(_fixed_work() for _ in range(runs)) / QUIET_SECONDS


def _fixed_work() -> float:
    rows = np.arange(1250)
    column = np.arange(5000, dtype=np.int64)
    began = time.process_time()
    kept: dict[int, tuple[int, str]] = {}
    for number in range(12_000):
        kept[number % 997] = (number, f"{number}")
        if kept[number % 997][0] < 0:
            return 0.0
    for _ in range(400):
        gathered = column[rows]
        (gathered * 100 // 7)[gathered > 3].argmax()
    return time.process_time() - began


def cpu_seconds(pid: int | str = "self") -> float:
    """User and system time of a process so far, its threads included, its children not."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def memory_mib(pid: int | str = "self", what: str = "VmRSS") -> float:
    """Resident memory of a process; ``VmHWM`` is its peak."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{what}:"):
            return int(line.split()[1]) / 1024
    return 0.0


def quantile(values: Sequence[float], share: float) -> float:
    """Return the value below which this share of all values is."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


def _of_one_kind(rows: Sequence[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    kinds: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        kinds.setdefault(tuple(row), []).append(row)
    return list(kinds.values())


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}" if abs(value) < 10 else f"{value:.1f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _commit() -> str:
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parent,
        check=False,
    )
    return done.stdout.strip() or "unknown"
