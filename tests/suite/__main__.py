"""Run the test suite as `make test` does: lint, types and import contracts beside two lanes of tests."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from tests.suite.run import Order, Run


def main() -> int:
    """Carry out the command line; return the exit status."""
    given = _parser().parse_args()
    if any(Path(word.partition("::")[0]).exists() for word in given.pytest if not word.startswith("-")):
        return subprocess.call([sys.executable, "-m", "pytest", *given.pytest])
    order = Order(
        arguments=given.pytest,
        check=not given.no_check,
        strict=given.strict,
        coverage=given.coverage or given.contexts,
        contexts=given.contexts,
        record_durations=given.record_durations,
    )
    return Run(order).run()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.suite", description=__doc__)
    parser.add_argument(
        "pytest",
        nargs="*",
        metavar="ARGUMENT",
        help="further arguments of pytest, after --; a file or folder among them runs alone and without lanes",
    )
    parser.add_argument("--no-check", action="store_true", help="leave lint, types and import contracts out")
    parser.add_argument("--strict", action="store_true", help="try no failed test again")
    parser.add_argument("--coverage", action="store_true", help="note which lines the tests reach")
    parser.add_argument("--contexts", action="store_true", help="note, too, which test reached each line")
    parser.add_argument("--record-durations", action="store_true", help="refresh the recorded durations of tests")
    return parser


if __name__ == "__main__":
    sys.exit(main())
