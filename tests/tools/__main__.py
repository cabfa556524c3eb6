"""Run the tests of all tools, and note which tools passed: ``python -m tests.tools [ARGUMENTS OF PYTEST]``."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.tools import remembering

WORKERS = ("-n", "3", "--dist", "loadfile", "--max-worker-restart", "0")
"""Tests of tools wait more than they work, so there is one more at a time than a small machine has cores."""


def main(arguments: list[str]) -> int:
    """Run pytest and return its exit status."""
    return pytest.main([*remembering.PLUGIN, *WORKERS, str(Path(__file__).parent), *arguments])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
