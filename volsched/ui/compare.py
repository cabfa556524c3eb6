"""``python -m volsched.ui.compare BEFORE AFTER``: what ``volsched diff`` shows of two snapshots, as JSON."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from volsched.diagnose import snapshot
from volsched.diagnose.diff import diff
from volsched.simulation.runner import Simulation


def main(before: str, after: str) -> None:
    """Print the differences."""
    sys.stdout.buffer.write(msgspec.json.encode(diff(_run(before), _run(after))))


def _run(path: str) -> Simulation:
    return snapshot.read(Path(path).read_bytes(), path).stage().run()


if __name__ == "__main__":
    main(*sys.argv[1:])
