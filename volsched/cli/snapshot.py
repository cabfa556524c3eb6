"""``volsched snapshot``: everything that decides, in one file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from volsched.cli import EXIT_INVALID
from volsched.cli.inputs.known import Progress, known, known_flags
from volsched.cli.output import report
from volsched.diagnose import snapshot as snapshots
from volsched.diagnose.anonymous import anonymised
from volsched.garbage import little_garbage


@click.command()
@known_flags
@click.option("-o", "--output", "target", required=True, metavar="FILE", help="The file that is written.")
@click.option(
    "--anonymise", is_flag=True, help="Replace every text that is not public: names, labels, addresses; same order."
)
def snapshot(*, paths: tuple[str, ...], target: str, anonymise: bool, **flags: Any) -> None:
    """Write everything that decides where pods go, from a cluster or from manifests, into one compressed file:
    nodes, queues, PodGroups, pods, claims, devices and the configuration in force.

    Left out are environment, commands, ConfigMaps, Secrets, parameters for drivers of devices, and annotations that
    decide nothing. The file may be given to `volsched simulate`, `explain` and `diff` by -f.

    \b
    Examples:
      volsched snapshot -o cluster.snapshot
      volsched snapshot -f manifests/ -o cluster.snapshot
      volsched snapshot --anonymise -o for-a-bug-report.snapshot
      volsched simulate -f cluster.snapshot

    \b
    Exit status: 0 written; 1 the API server did not answer or refused; 2 a flag, the input or the configuration is
    invalid, or the file cannot be written.
    """  # noqa: D205, D301 - laid out for click, which reads the backspace as "do not wrap"
    progress = Progress()
    with little_garbage():
        found = known(paths, flags, progress)
        if anonymise:
            found, _ = anonymised(found)
        data = snapshots.written(found)
    try:
        Path(target).write_bytes(data)
    except OSError as error:
        report(f"{target}: {error.strerror}")
        sys.exit(EXIT_INVALID)
    progress.show(f"{len(data) / 1e6:.2f} MB written to {target}", is_result=True)
