"""Ask all judges again: the programs whose answers tests of volsched compare with and have on record.

python -m tests.judges                           # all; kube-scheduler's gangs take six minutes
python -m tests.judges nodes devices             # some of the questions
python -m tests.judges gangs-topology --case t5  # one case, also one that is not recorded yet
python -m tests.judges --record gangs-topology   # write the answers down, after a case was added or changed

The programs are built first where they are missing. Exit status: 0 when all answers are those on record, 1 when one
differs or is out of date, 2 when the command cannot be read.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from tests.judges.answers import Cases, Question, as_json, canonical, differences
from tests.judges.questions import ALL
from tests.oracle.oracle import OracleError
from tests.oracle.questions import QUESTIONS as ORACLE
from tools.controlplane import ControlPlaneError
from tools.controlplane.binaries import Report

ROOT: Final = Path(__file__).resolve().parents[2]
ORACLES_TESTS: Final = "tests/oracle/test_oracle.py"
SHOWN: Final = 20
"""So many answers that differ are printed of each question."""

VOLCANO: Final = (
    "not asked: tests/volcano/worlds.jsonl has recorded sessions, and this project has no program that asks Volcano"
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Ask, and return the exit status."""
    options = _read(arguments)
    chosen = [ALL[name] for name in options.names or ALL]
    try:
        return _ask_some(chosen, options.case) if options.case else _ask_all(chosen, record=options.record)
    except (ControlPlaneError, OracleError) as error:
        sys.stderr.write(f"a judge could not be asked: {error}\n")
        return 1


def _read(arguments: Sequence[str] | None) -> argparse.Namespace:
    questions = "".join(f"  {q.name:<18} {q.about} ({q.judge})\n" for q in ALL.values())
    parser = argparse.ArgumentParser(
        prog="python -m tests.judges",
        description=__doc__,
        epilog=f"questions:\n{questions}  {'volcano':<18} {VOLCANO}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="QUESTION", help="what to ask; everything if none is named")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--record", action="store_true", help="write the answers into the files that tests read")
    how.add_argument("--case", action="append", default=[], help="ask about this case only, and print the answer")
    options = parser.parse_args(arguments)
    for name in options.names:
        if name not in ALL:
            parser.error(f"there is no question {name!r}; there are: {', '.join(ALL)}")
    return options


def _ask_all(questions: Sequence[Question], *, record: bool) -> int:
    """Ask about all cases, and compare the answers with the recorded ones or record them."""
    if any(question in ORACLE for question in questions) and not _oracle_is_right():
        _say("oracle", f"it is not asked, as its own tests fail: {ORACLES_TESTS}")
        return 1
    good = sum(map(_record if record else _is_as_recorded, questions))
    _say("volcano", VOLCANO)
    _say("in all", f"{good} of {len(questions)} questions {'recorded' if record else 'have the recorded answers'}")
    return 0 if good == len(questions) else 1


def _oracle_is_right() -> bool:
    """Whether the oracle passes its tests: worlds whose answers anybody can tell."""
    _say("oracle", "running its own tests")
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", ORACLES_TESTS], cwd=ROOT, check=False)
    return done.returncode == 0


def _record(question: Question) -> bool:
    cases = question.cases()
    before, basis = question.recorded(), question.basis(cases)
    answers = as_json(question.ask(cases, _reporter(question)))
    question.record(basis, answers)
    _say(question.name, f"recorded {len(answers)} answers of {question.judge}, {len(before)} were recorded before")
    _say_differences(question, list(differences(before, answers)) if before else [])
    return True


def _is_as_recorded(question: Question) -> bool:
    cases = question.cases()
    outdated = question.outdated(cases)
    began = time.monotonic()
    _say(question.name, f"asking {question.judge} about {len(cases)} cases")
    changed = list(differences(question.recorded(), question.ask(cases, _reporter(question))))
    if changed:
        _say(question.name, f"{len(changed)} of {len(cases)} answers differ from the recorded ones")
        _say_differences(question, changed)
    if outdated:
        _say(question.name, f"what is recorded is out of date: {' and '.join(outdated)}")
    if changed or outdated:
        _say(question.name, f"to record new answers: python -m tests.judges --record {question.name}")
        return False
    _say(question.name, f"the recorded answers to {len(cases)} cases, in {time.monotonic() - began:.0f} s")
    return True


def _ask_some(questions: Sequence[Question], wanted: Sequence[str]) -> int:
    """Ask about some cases, and print the answers and what differs from the recorded ones."""
    found = [(each, {name: case for name, case in each.cases().items() if name in wanted}) for each in questions]
    missing = set(wanted).difference(*(cases for _, cases in found))
    if missing:
        sys.stderr.write(f"no question has a case {', '.join(sorted(missing))}\n")
        return 2
    results = [_ask_of(question, cases) for question, cases in found if cases]
    return 0 if all(results) else 1


def _ask_of(question: Question, cases: Cases) -> bool:
    answers = question.ask(cases, _reporter(question))
    for name, answer in answers.items():
        _say(question.name, f"{name}: {canonical(answer)}")
    known = question.recorded()
    changed = list(differences({name: known[name] for name in answers if name in known}, answers))
    _say_differences(question, changed)
    return not changed


def _say_differences(question: Question, changed: Sequence[tuple[str, str]]) -> None:
    for case, what in changed[:SHOWN]:
        _say(question.name, f"  {case}: {what}")
    if len(changed) > SHOWN:
        _say(question.name, f"  and {len(changed) - SHOWN} more")


def _reporter(question: Question) -> Report:
    return partial(_say, question.name)


def _say(name: str, line: str) -> None:
    sys.stdout.write(f"{name}: {line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
