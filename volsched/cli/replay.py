"""``volsched replay``: jobs of a trace on a cluster of manifests, in virtual time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import click

from volsched.cli.inputs.configuration import profile_of
from volsched.cli.inputs.flags import files_flag, strict_flag
from volsched.cli.inputs.sources import read_manifests
from volsched.cli.output import print_page, print_result, refuse, report
from volsched.cli.printing import WIDE
from volsched.replay import table
from volsched.replay.compare import Policy, comparison_of
from volsched.replay.jobs import ReplayJob
from volsched.replay.objects import DURATION, annotated_jobs, past_jobs
from volsched.replay.plot import PlotError, charts_of, draw
from volsched.replay.result import result_of
from volsched.replay.runner import Replay, ReplayError, ReplayProgress, ReplaySettings
from volsched.replay.summary import CARDS, Json
from volsched.replay.trace import read_trace
from volsched.scheduler import Profile
from volsched.simulation.documents import InputError
from volsched.simulation.manifests import Inventory
from volsched.simulation.runner import SCHEDULER_NAMES
from volsched.text_page import Part

_EVERY: Final = 5.0
"""Seconds between two lines of progress."""


@click.command()
@files_flag()
@click.option("--jobs", "trace", metavar="FILE", help="Jobs from a CSV file; - for standard input.")
@click.option(
    "--past",
    is_flag=True,
    help="Replay what the manifests, a snapshot of a cluster, say is over or runs: Jobs, Volcano Jobs and pods.",
)
@click.option(
    "--config",
    metavar="FILE",
    help="The scheduler configuration: a bare file or a ConfigMap. Otherwise a ConfigMap among the manifests counts, "
    "else the built-in default.",
)
@click.option(
    "--compare",
    metavar="FILE",
    help="Replay the same under this configuration too, and show who gains and who loses by it.",
)
@click.option("--plot", metavar="FILE", help="Draw use and waits into a page (.html) or a picture (.png).")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", WIDE, "json"]),
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
def replay(  # noqa: PLR0913 - a parameter for each flag
    *,
    paths: tuple[str, ...],
    trace: str | None,
    past: bool,
    config: str | None,
    compare: str | None,
    plot: str | None,
    output: str,
    cards: str,
    strict: bool,
) -> None:
    """Schedule jobs on the nodes and queues of manifests, in virtual time, and show how long they waited. Nothing
    outside is touched.

    The scheduler is that of `volsched run`, with the actions and plugins of the configuration. Jobs come when the trace
    says, start when the scheduler decides, and end after their duration. The same input gives the same result.

    Jobs are from a CSV file (--jobs), from workloads among the manifests that say how long they run (the annotation
    replay.volsched.io/duration; replay.volsched.io/submit says when they come), and from a cluster's past (--past).

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
      volsched replay -f cluster.yaml --jobs jobs.csv --config today.conf --compare other.conf --plot waits.html
      kubectl get nodes,queues,podgroups,jobs,jobs.batch.volcano.sh,pods -A -o yaml | volsched replay -f - --past

    \b
    Exit status: 0 the replay was made; 2 the input or the configuration is invalid.
    """  # noqa: D205, D301 - laid out for click, which reads the backspace as "do not wrap"
    inventory = read_manifests(paths, strict=strict)
    policies = [(config or "the configuration in force", profile_of(config, inventory))]
    if compare is not None:
        policies.append((compare, profile_of(compare, inventory)))
    jobs = _jobs(trace, inventory, past=past)
    played = [_play(name, inventory, profile, jobs, cards) for name, profile in policies]
    if plot is not None:
        _draw(played, cards, plot)
    if compare is None:
        _print(played[0][2], output, table.render)
    else:
        _print(comparison_of(played[0], played[1], cards), output, table.render_comparison)


def _jobs(trace: str | None, inventory: Inventory, *, past: bool) -> list[ReplayJob]:
    """Return all jobs; those of the inventory are taken out of it, and PriorityClasses come in."""
    scheduler = SCHEDULER_NAMES[0]
    try:
        jobs = annotated_jobs(inventory, scheduler)
        jobs += _past(inventory) if past else []
        if trace is not None:
            traced, classes = read_trace(trace, scheduler, inventory)
            jobs += traced
            inventory.objects.extend(classes)
    except InputError as error:
        refuse(error)
    if not jobs:
        raise click.UsageError(
            f"there are no jobs to replay; name a CSV file with --jobs, say {DURATION} on workloads, or take what a "
            "snapshot tells of the past with --past"
        )
    return jobs


def _past(inventory: Inventory) -> list[ReplayJob]:
    found = past_jobs(inventory, SCHEDULER_NAMES)
    for reason in found.left_out:
        report(f"{reason}; it is left out", "warning")
    return found.jobs


def _play(name: str, inventory: Inventory, profile: Profile, jobs: list[ReplayJob], cards: str) -> Policy:
    done = Replay(inventory, profile, jobs, ReplaySettings(SCHEDULER_NAMES), _ProgressLine())
    try:
        records = done.run()
    except ReplayError as error:
        refuse(error)
    return name, records, result_of(done, cards)


def _draw(played: list[Policy], cards: str, path: str) -> None:
    try:
        draw(charts_of(played, cards), path)
    except PlotError as error:
        refuse(error)


def _print(result: Json, output: str, render: Callable[[Json], list[Part]]) -> None:
    if output == "json":
        print_result(result, "json")
    else:
        print_page(render(result), output)


class _ProgressLine:
    """A line on standard error every few seconds: how far the clock and the jobs are."""

    def __init__(self) -> None:
        self._began = self._printed_at = time.monotonic()

    def __call__(self, progress: ReplayProgress) -> None:
        now = time.monotonic()
        if now - self._printed_at < _EVERY:
            return
        self._printed_at = now
        waiting = progress.submitted - progress.over - progress.running
        report(
            f"{table.span(progress.seconds)}: {progress.over} of {progress.jobs} jobs over, {progress.running} run, "
            f"{waiting} wait ({now - self._began:.0f} s so far)",
            "progress",
        )
