"""Fuzz: everything that reads what users write gets whatever they might write, and says so or refuses it.

An input is named ``parser/round/number`` and made from its name alone, so each can be made again (``--replay``). A run
goes on where the last one stopped: the state says how many rounds are done, how many inputs each parser has had, and
what was found and is not mended yet, which is tried first.
"""

from __future__ import annotations

import argparse
import json
import logging
import multiprocessing
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Final

import structlog

from drills.fuzz_inputs import Maker
from drills.fuzz_parsers import PARSERS, Parser
from drills.report import Report

GOAL: Final = 10_000_000
HOPELESS_SECONDS: Final = 20.0
"""Of CPU: an input that takes longer is ended."""

STATE: Final = Path(__file__).with_name("fuzz-state.json")
"""Kept with the code, so that another machine goes on where this one stopped; inputs are counted over all commits."""

_INPUTS_OF_A_SHARE: Final = 20
"""In a round. A round is what one process does at a time, some seconds."""

_LONGEST_KEPT: Final = 20_000
_MOST_FINDINGS: Final = 200
_ROOT: Final = Path(__file__).resolve().parents[1]


class HopelessError(Exception):
    """An input took so long that it was ended."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How long to run, in how many processes, and where it is kept how far it came."""

    minutes: float = 10.0
    seed: int = 17
    processes: int = 1
    state: Path | None = None
    parsers: tuple[str, ...] = ()

    @property
    def state_file(self) -> Path:
        """Where the state is kept."""
        return self.state or STATE


@dataclass(frozen=True, slots=True)
class Finding:
    """An input that was neither read nor refused: what was raised or how long it took, where, and the input."""

    name: str
    said: str
    where: str
    given: str

    def __str__(self) -> str:
        return f"{self.name}: {self.said} ({self.where})"


@dataclass(slots=True)
class Round:
    """What became of one round of inputs."""

    inputs: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)
    slowest: float = 0.0
    """As a part of what its parser may take."""
    slowest_name: str = ""


@dataclass(slots=True)
class State:
    """How far all runs have come; `next_round` is the first that was never begun."""

    next_round: int = 0
    seed: int = 17
    inputs: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path, seed: int) -> State:
        """Return what was kept; a new beginning when there is nothing or it is of another seed."""
        if not path.exists():
            return cls(seed=seed)
        raw = json.loads(path.read_text())
        if raw["seed"] != seed:
            raise SystemExit(f"{path} is of seed {raw['seed']}; name another file with --state")
        findings = [Finding(**found) for found in raw["findings"]]
        return cls(raw["next_round"], seed, Counter(raw["inputs"]), findings)

    def write(self, path: Path) -> None:
        """Keep it, all of it or nothing."""
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_suffix(".new")
        said = {
            "next_round": self.next_round,
            "seed": self.seed,
            "inputs": dict(self.inputs),
            "findings": [asdict(finding) for finding in self.findings],
        }
        beside.write_text(json.dumps(said, indent=1) + "\n")
        beside.replace(path)

    def add(self, done: Round) -> None:
        """Count a round."""
        self.inputs.update(done.inputs)
        known = {finding.where for finding in self.findings}
        for found in done.findings:
            if found.where not in known and len(self.findings) < _MOST_FINDINGS:
                known.add(found.where)
                self.findings.append(found)


# --- one input ------------------------------------------------------------------------------------------------------


def try_input(parser: Parser, maker: Maker, name: str) -> tuple[float, Finding | None]:
    """Make an input and have it read; return the seconds of CPU that it took, and what is wrong with the outcome."""
    maker.begin(name)
    given = parser.make(maker)
    began = time.process_time()
    try:
        with _ended_when_hopeless():
            parser.read(given)
    except parser.declared:
        pass
    except Exception as error:  # whatever else is raised is what is looked for
        where = f"{parser.name}, {type(error).__name__} at {_place_of(error)}"
        return time.process_time() - began, Finding(name, _said(error), where, _shown(given))
    took = time.process_time() - began
    if took > parser.seconds:
        return took, Finding(name, f"took {took:.2f} s of CPU", f"{parser.name}, slow", _shown(given))
    return took, None


@contextmanager
def _ended_when_hopeless() -> Iterator[None]:
    signal.setitimer(signal.ITIMER_PROF, HOPELESS_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _is_hopeless(_signal: int, _frame: FrameType | None) -> None:
    raise HopelessError(f"took more than {HOPELESS_SECONDS:g} s of CPU and was ended")


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error)[:200]}"


def _place_of(error: Exception) -> str:
    """Return where in the project an exception was raised: the innermost line that is not a library's."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(str(_ROOT))]
    ours = [frame for frame in frames if "/.venv/" not in frame.filename]
    last = (ours or frames)[-1]
    return f"{Path(last.filename).relative_to(_ROOT)}:{last.lineno}"


def _shown(given: Any) -> str:
    text = ascii(given)
    return text if len(text) <= _LONGEST_KEPT else f"{text[:_LONGEST_KEPT]}… ({len(text)} characters)"


# --- rounds ---------------------------------------------------------------------------------------------------------


def do_round(seed: int, number: int, names: tuple[str, ...] = ()) -> Round:
    """Give each parser its share of inputs."""
    maker, done = Maker(), Round()
    for parser in PARSERS:
        if names and parser.name not in names:
            continue
        for index in range(parser.share * _INPUTS_OF_A_SHARE):
            took, finding = try_input(parser, maker, f"{parser.name}/{seed}.{number}/{index}")
            if took / parser.seconds > done.slowest:
                done.slowest = took / parser.seconds
                done.slowest_name = f"{parser.name}/{seed}.{number}/{index}: {took:.2f} s"
            if finding is not None:
                done.findings.append(finding)
        done.inputs[parser.name] += parser.share * _INPUTS_OF_A_SHARE
    return done


def _prepare() -> None:
    signal.signal(signal.SIGPROF, _is_hopeless)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


@contextmanager
def _prepared() -> Iterator[None]:
    """Have this process prepared within a ``with`` block, and as it was after that."""
    configuration, handler = structlog.get_config(), signal.getsignal(signal.SIGPROF)
    _prepare()
    try:
        yield
    finally:
        structlog.configure(**configuration)
        signal.signal(signal.SIGPROF, handler)


def _one_of_many(given: tuple[int, int, tuple[str, ...]]) -> Round:
    return do_round(*given)


def _rounds(settings: Settings, first: int) -> Iterator[Round]:
    """Yield what became of each round, until the time is over."""
    until = time.monotonic() + settings.minutes * 60
    numbers = ((settings.seed, first + index, settings.parsers) for index in range(sys.maxsize))
    if settings.processes == 1:
        with _prepared():
            yield from _until(until, map(_one_of_many, numbers))
        return
    with multiprocessing.get_context("spawn").Pool(settings.processes, _prepare) as pool:
        pending = [pool.apply_async(_one_of_many, (next(numbers),)) for _ in range(settings.processes)]
        while pending:
            done = pending.pop(0).get()
            if time.monotonic() < until:
                pending.append(pool.apply_async(_one_of_many, (next(numbers),)))
            yield done


def _until(until: float, rounds: Iterable[Round]) -> Iterator[Round]:
    for done in rounds:
        yield done
        if time.monotonic() >= until:
            return


def again(findings: Iterable[Finding]) -> list[Finding]:
    """Try what was found before; return what is not mended."""
    with _prepared():
        found = [replay(finding.name) for finding in findings]
    return [finding for finding in found if finding is not None]


def replay(name: str) -> Finding | None:
    """Make one input again and have it read."""
    parser = next((parser for parser in PARSERS if parser.name == name.partition("/")[0]), None)
    if parser is None:
        known = ", ".join(parser.name for parser in PARSERS)
        raise SystemExit(f"there is no parser {name.partition('/')[0]!r}; there are {known}")
    return try_input(parser, Maker(), name)[1]


# --- the drill ------------------------------------------------------------------------------------------------------


def run(report: Report, settings: Settings) -> None:
    """Fuzz for some time, and judge all that was found and is not mended."""
    state = State.read(settings.state_file, settings.seed)
    state.findings = again(state.findings)
    before, began = sum(state.inputs.values()), time.monotonic()
    told, slowest, slowest_name = began, 0.0, ""
    for done in _rounds(settings, state.next_round):
        state.next_round += 1
        state.add(done)
        if done.slowest > slowest:
            slowest, slowest_name = done.slowest, done.slowest_name
        if time.monotonic() - told > 60:
            told = time.monotonic()
            state.write(settings.state_file)
            report.progress(f"{sum(state.inputs.values()):,} inputs so far, {len(state.findings)} findings")
    took = time.monotonic() - began
    state.write(settings.state_file)
    _judge(report, state, sum(state.inputs.values()) - before, took, settings.parsers)
    report.must("slowest input, as a part of the seconds of CPU that it may take", slowest, "<=", 1, (slowest_name,))


def _judge(report: Report, state: State, inputs: int, took: float, names: tuple[str, ...]) -> None:
    report.figure("parsers", len(PARSERS))
    report.figure("inputs this run", inputs)
    report.figure("inputs a second", inputs / took)
    report.figure("inputs so far", sum(state.inputs.values()))
    report.figure("rounds so far", state.next_round)
    found = tuple(str(finding) for finding in state.findings)
    report.must("exceptions, and inputs that took too long", len(found), "==", 0, found)
    chosen = [parser.name for parser in PARSERS if not names or parser.name in names]
    untried = tuple(name for name in chosen if not state.inputs[name])
    report.must("parsers without an input", len(untried), "==", 0, untried)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--minutes", type=float, default=10.0, help="how long to go on (10); the goal is 10 million inputs"
    )
    parser.add_argument("--seed", type=int, default=17, help="of all inputs (17); a state belongs to one seed")
    parser.add_argument("--processes", type=int, default=1, help="at a time (1)")
    parser.add_argument("--state", type=Path, help="where it is kept how far all runs came (drills/fuzz-state.json)")
    parser.add_argument("--parser", action="append", default=[], help="one parser only; may be repeated")
    parser.add_argument(
        "--replay", metavar="NAME", help="make one input again, as a finding names it, and have it read"
    )
    return parser.parse_args()


def _replayed(name: str) -> int:
    with _prepared():
        finding = replay(name)
    print(f"{finding}\n{finding.given}" if finding is not None else f"{name}: read, or refused as declared")
    return 1 if finding is not None else 0


def main() -> int:
    """Run the drill from the command line."""
    given = _arguments()
    if given.replay:
        return _replayed(given.replay)
    report = Report("fuzz", "everything that reads what users write reads it, or refuses it in its own words")
    run(report, Settings(given.minutes, given.seed, given.processes, given.state, tuple(given.parser)))
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
