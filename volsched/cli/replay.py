"""``volsched replay``: jobs of a trace on a cluster of manifests, in virtual time."""

from __future__ import annotations

import time
from typing import Final

import click

from volsched.cli.configuration import profile_of
from volsched.cli.flags import files_flag, strict_flag
from volsched.cli.output import print_result, refuse, say, width
from volsched.cli.sources import read_manifests
from volsched.replay import table
from volsched.replay.jobs import ReplayJob
from volsched.replay.result import result_of
from volsched.replay.runner import Progress, Replay, Settings
from volsched.replay.summary import CARDS
from volsched.replay.trace import read_trace
from volsched.scheduler import Profile
from volsched.simulation.documents import InputError
from volsched.simulation.manifests import Inventory
from volsched.simulation.runner import SCHEDULER_NAMES

_EVERY: Final = 5.0
"""Seconds between two lines of progress."""


@click.command()
@files_flag()
@click.option("--jobs", "trace", required=True, metavar="FILE", help="The jobs, a CSV file; - for standard input.")
@click.option(
    "--config",
    metavar="FILE",
    help="The scheduler configuration: a bare file or a ConfigMap. Otherwise a ConfigMap among the manifests counts, "
    "else the built-in default.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="A page for people, or every job and the summary for programs.",
)
@click.option(
    "--cards",
    default=CARDS,
    show_default=True,
    metavar="RESOURCE",
    help="By this resource jobs are large or small, and queues have their shares.",
)
@strict_flag
def replay(*, paths: tuple[str, ...], trace: str, config: str | None, output: str, cards: str, strict: bool) -> None:
    """Schedule the jobs of a trace on the nodes and queues of manifests, in virtual time, and show how long each
    waited. Nothing outside is touched.

    The scheduler is that of `volsched run`, with the actions and plugins of the configuration. Jobs come when the trace
    says, start when the scheduler decides, and end after their duration. The same input gives the same result.

    \b
    Columns of the trace (the first three are needed):
      name          of the job, unique in its namespace
      submit_s      when it came, in seconds
      duration_s    how long it runs, in seconds
      declared_s    how long it says that it will run; empty: it does not say
      namespace, queue            "default" when empty
      pods, min_pods              1; as many as it has
      priority                    a number
      card                        the card models that it takes (volcano.sh/card.name)
      cpu, memory, nvidia.com/gpu, ...   what one pod asks for

    \b
    Examples:
      volsched replay -f cluster.yaml --jobs jobs.csv
      volsched replay -f cluster.yaml --jobs jobs.csv --config scheduler.conf -o json

    \b
    Exit status: 0 the replay was made; 2 the input or the configuration is invalid.
    """  # noqa: D205, D301 - laid out for click, which reads the backspace as "do not wrap"
    inventory = read_manifests(paths, strict=strict)
    profile = profile_of(config, inventory)
    jobs = _jobs(trace, inventory)
    done = _play(inventory, profile, jobs)
    result = result_of(done, cards)
    if output == "json":
        print_result(result, "json")
    else:
        click.echo(table.render(result, width()), nl=False)


def _jobs(trace: str, inventory: Inventory) -> list[ReplayJob]:
    """Return the jobs of a trace; the PriorityClasses that they need come into the inventory."""
    try:
        jobs, classes = read_trace(trace, SCHEDULER_NAMES[0], inventory)
    except InputError as error:
        refuse(error)
    inventory.objects.extend(classes)
    return jobs


def _play(inventory: Inventory, profile: Profile, jobs: list[ReplayJob]) -> Replay:
    done = Replay(inventory, profile, jobs, Settings(SCHEDULER_NAMES), _Progress())
    done.run()
    return done


class _Progress:
    """A line on standard error every few seconds: how far the clock and the jobs are."""

    def __init__(self) -> None:
        self._began = self._said = time.monotonic()

    def __call__(self, progress: Progress) -> None:
        now = time.monotonic()
        if now - self._said < _EVERY:
            return
        self._said = now
        waiting = progress.submitted - progress.over - progress.running
        say(
            f"{table.span(progress.seconds)}: {progress.over} of {progress.jobs} jobs over, {progress.running} run, "
            f"{waiting} wait ({now - self._began:.0f} s so far)",
            "progress",
        )
