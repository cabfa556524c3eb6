"""``volsched explain``: why something waits, and what would help, as the scheduler itself decides it."""

from __future__ import annotations

import sys
import time
from typing import Any, Final

import click
import msgspec

from volsched.cli.inputs.asked import EXIT_NOT_FOUND, asked_of
from volsched.cli.inputs.flags import output_flag
from volsched.cli.inputs.known import Progress, known, known_flags
from volsched.cli.inputs.sources import RefusedError
from volsched.cli.names import asked_about, namespaces
from volsched.cli.output import print_result, report, width
from volsched.cli.printing import show
from volsched.cli.views.explanation import page
from volsched.diagnose.cluster_snapshot import ClusterSnapshot
from volsched.diagnose.records import KINDS, Explanation, Subject, document
from volsched.garbage import little_garbage

EXIT_WAITS: Final = 3


@click.command()
@click.argument("kind", type=click.Choice(KINDS))
@click.argument("name", shell_complete=asked_about)
@click.option(
    "-n",
    "--namespace",
    default="default",
    show_default=True,
    shell_complete=namespaces,
    help="The namespace of the object.",
)
@known_flags
@click.option("--nodes", is_flag=True, help="Add a line for each group of nodes with its refusal.")
@click.option(
    "--help-seconds",
    type=click.FloatRange(0),
    default=10.0,
    show_default=True,
    help="How long to search for what would help; 0: do not.",
)
@click.option(
    "--ask",
    "scheduler",
    metavar="URL",
    default="",
    envvar="VOLSCHED_SCHEDULER",
    help="Where the scheduler serves /explain (https://...): it is asked when you may not list the cluster.",
)
@output_flag("text", "A page for people, or the whole answer for programs.")
def explain(
    *,
    kind: str,
    name: str,
    namespace: str,
    paths: tuple[str, ...],
    nodes: bool,
    help_seconds: float,
    scheduler: str,
    output: str,
    **flags: Any,
) -> None:
    """Say why a pod, PodGroup, Job or queue waits: at which step, what is short, whose turn it is, who holds it, and
    the smallest changes that would let it start.

    The cluster (or manifests, or a snapshot) is read into the scheduler's own mirror, and its own sessions are run on
    it, dry: nothing is written. Each change under "what would help" was tried by sessions that were run with it.

    \b
    Examples:
      volsched explain pod train-0 -n vision
      volsched explain podgroup train -n vision --nodes
      volsched explain queue vision -o json
      volsched explain job train -n vision -f cluster.snapshot
      volsched explain pod train-0 -n vision --ask https://localhost:8080
      volsched explain pod segmenter-1 -n vision -f manifests/examples

    \b
    Exit status: 0 it is scheduled, or nothing waits; 1 the API server did not answer or refused; 2 a flag, the input
    or the configuration is invalid; 3 it waits; 4 there is no such object.
    """  # noqa: D205, D301 - laid out for click, which reads the backspace as "do not wrap"
    subject = Subject(kind, name, "" if kind == "queue" else namespace)
    try:
        with little_garbage():
            answer = _worked_out(subject, known(paths, flags, progress := Progress()), progress, nodes, help_seconds)
    except RefusedError as refusal:
        answer = asked_of(scheduler, subject, refusal, flags)
    _show(answer, output)
    sys.exit(EXIT_WAITS if answer.state == "waits" else 0)


def _worked_out(
    subject: Subject, of: ClusterSnapshot, progress: Progress, nodes: bool, help_seconds: float
) -> Explanation:
    """Explain by sessions that are run here; ends when there is no such object."""
    from volsched.diagnose.advice import advise  # noqa: PLC0415 - completion of names, which has to be quick, needs none
    from volsched.diagnose.explain import NotFoundError, find, not_run  # noqa: PLC0415
    from volsched.diagnose.explain import explain as explained  # noqa: PLC0415 - as above

    stage = of.stage()
    simulation = stage.run(progress.cycle)
    try:
        answer = explained(simulation, subject, nodes=nodes)
    except NotFoundError as error:
        report(str(error))
        sys.exit(EXIT_NOT_FOUND)
    can_be_helped = subject.kind != "queue" and not_run(simulation, subject) is None
    if answer.state == "waits" and can_be_helped and help_seconds:
        progress.show("searching for what would help")
        until = time.monotonic() + help_seconds
        advice = advise(stage, find(simulation, subject), lambda: until - time.monotonic())
        answer = msgspec.structs.replace(answer, advice=advice)
    return answer


def _show(answer: Explanation, output: str) -> None:
    if output == "text":
        show(page(answer, width()))
    else:
        print_result(document("Explanation", answer), output)
