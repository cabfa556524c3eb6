"""``volsched explain``: why something waits, and what would help, as the scheduler itself decides it."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, NoReturn

import click
import msgspec
from click.shell_completion import CompletionItem

from volsched.cli.inputs.asked import EXIT_NOT_FOUND, asked_of
from volsched.cli.inputs.flags import follow_flag, output_flag
from volsched.cli.inputs.in_force import check_flags
from volsched.cli.inputs.known import Progress, configured_cluster, known, known_flags
from volsched.cli.inputs.look import KnownObjects
from volsched.cli.inputs.sources import RefusedError
from volsched.cli.names import asked_about, namespaces
from volsched.cli.output import Answer, print_answer, report
from volsched.cli.views.explanation import page
from volsched.diagnose.cluster_snapshot import ClusterSnapshot
from volsched.diagnose.records import KINDS, Explanation, Subject, document
from volsched.garbage import little_garbage
from volsched.model.changes import Change
from volsched.text_page import Paragraph

EXIT_WAITS: Final = 3

_SHORT: Final = {
    "po": "pod",
    "pg": "podgroup",
    "deploy": "deployment",
    "rs": "replicaset",
    "sts": "statefulset",
    "ds": "daemonset",
    "q": "queue",
}
"""Short names of kinds, as kubectl has them."""


class _Kind(click.ParamType[tuple[str, str]]):
    """A kind in any case, or ``kind/name``: kind in lower case and name, empty without one.

    Any controller of pods may be a workload, so no kind is refused here.
    """

    name = "kind"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        kind, slash, name = str(value).partition("/")
        if not kind.isalnum() or bool(slash) != bool(name):
            self.fail(f"{value!r} is neither a kind, such as {', '.join(KINDS)}, nor KIND/NAME", param, ctx)
        return _SHORT.get(kind.lower(), kind.lower()), name

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(kind) for kind in KINDS if kind.startswith(incomplete.lower())]


@click.command()
@click.argument("kind", type=_Kind(), metavar="KIND")
@click.argument("name", required=False, default="", shell_complete=asked_about)
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
@follow_flag
def explain(
    *,
    kind: tuple[str, str],
    name: str,
    namespace: str,
    paths: tuple[str, ...],
    nodes: bool,
    help_seconds: float,
    scheduler: str,
    output: str,
    **flags: Any,
) -> None:
    """Say why a pod, PodGroup, workload or queue waits: at which step, what is short, whose turn it is, who holds it,
    and the smallest changes that would let it start.

    A workload is what made the pods: a Job, Deployment, ReplicaSet, StatefulSet, DaemonSet or an object of any other
    kind. KIND/NAME, as tables and the page show workloads, is accepted, too.

    The cluster (or manifests, or a snapshot) is read into the scheduler's own mirror, and its own sessions are run on
    it, dry: nothing is written. Each change under "what would help" was tried by sessions that were run with it.

    \b
    Examples:
      volsched explain pod train-0 -n vision
      volsched explain podgroup train -n vision --nodes
      volsched explain Deployment/web -n shop
      volsched explain queue vision -o json
      volsched explain pod train-0 -n vision --watch
      volsched explain job train -n vision -f cluster.snapshot
      volsched explain pod train-0 -n vision --ask https://localhost:8080
      volsched explain pod segmenter-1 -n vision -f manifests/examples

    \b
    Exit status: 0 it is scheduled, or nothing waits; 1 the API server did not answer or refused; 2 a flag, the input
    or the configuration is invalid; 3 it waits; 4 there is no such object.
    """  # noqa: D205, D301 - laid out for click, which reads the backspace as "do not wrap"
    subject = _subject(kind, name, namespace)
    if flags.pop("follows"):
        _watch(subject, paths, flags, output, nodes=nodes)
    try:
        with little_garbage():
            answer = _worked_out(subject, known(paths, flags, progress := Progress()), progress, nodes, help_seconds)
    except RefusedError as refusal:
        answer = asked_of(scheduler, subject, refusal, flags)
    print_answer(_shown(answer), output)
    sys.exit(EXIT_WAITS if answer.state == "waits" else 0)


def _watch(subject: Subject, paths: tuple[str, ...], flags: dict[str, Any], output: str, *, nodes: bool) -> NoReturn:
    """Explain after each change, without a search for help, which takes seconds."""
    from volsched.cli import watching  # noqa: PLC0415 - half a second of imports, for those who follow a cluster
    from volsched.diagnose.explain import NotFoundError, UnknownKindError  # noqa: PLC0415 - as above
    from volsched.diagnose.explain import explain as explained  # noqa: PLC0415 - as above

    watching.check(paths)
    check_flags((), flags)
    configured, objects = configured_cluster(flags), KnownObjects()

    def view(changes: Sequence[Change]) -> Answer:
        objects.take(changes)
        stage = replace(configured, objects=tuple(objects.all())).stage()
        try:
            return _shown(explained(stage.run(), subject, nodes=nodes))
        except (NotFoundError, UnknownKindError) as error:
            message = str(error)
            return Answer(lambda: [Paragraph(message, mood="bad")], lambda: {"kind": "NotFound", "message": message})

    watching.watch(flags, None, view, output)


def _subject(kind: tuple[str, str], name: str, namespace: str) -> Subject:
    """Return the subject of a question; raises UsageError if its name is missing, or stated twice."""
    given, with_kind = kind
    if bool(name) == bool(with_kind):
        raise click.UsageError("Missing argument 'NAME'." if not name else f"both {with_kind!r} and {name!r} are names")
    return Subject(given, name or with_kind, "" if given == "queue" else namespace)


def _worked_out(
    subject: Subject, of: ClusterSnapshot, progress: Progress, nodes: bool, help_seconds: float
) -> Explanation:
    """Explain by sessions that are run here; ends when there is no such object."""
    from volsched.diagnose.advice import advise  # noqa: PLC0415 - completion of names, which has to be quick, needs none
    from volsched.diagnose.explain import NotFoundError, UnknownKindError, find, not_run  # noqa: PLC0415
    from volsched.diagnose.explain import explain as explained  # noqa: PLC0415 - as above

    stage = of.stage()
    simulation = stage.run(progress.cycle)
    try:
        answer = explained(simulation, subject, nodes=nodes)
    except UnknownKindError as error:
        raise click.UsageError(str(error)) from None
    except NotFoundError as error:
        report(str(error))
        sys.exit(EXIT_NOT_FOUND)
    can_be_helped = subject.kind != "queue" and not_run(simulation, subject) is None
    if answer.state == "waits" and can_be_helped and help_seconds:
        progress.begin("searching for what would help")
        until = time.monotonic() + help_seconds

        def remaining() -> float:
            progress.tick()
            return until - time.monotonic()

        advice = advise(stage, find(simulation, subject), remaining)
        answer = msgspec.structs.replace(answer, advice=advice)
    return answer


def _shown(answer: Explanation) -> Answer:
    return Answer(lambda: page(answer), lambda: document("Explanation", answer))
