"""``volsched diff``: what another configuration, or other objects, would change."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, Final

import click

from volsched.cli.inputs.flags import output_flag
from volsched.cli.inputs.known import Progress, configured, known, known_flags
from volsched.cli.inputs.sources import read_manifests
from volsched.cli.output import is_for_people, print_page, print_result
from volsched.diagnose.cluster_snapshot import ClusterSnapshot
from volsched.diagnose.diff import SORTS
from volsched.diagnose.diff import diff as compared
from volsched.diagnose.records import Difference, document
from volsched.diagnose.restarted_pods import without_nodes
from volsched.garbage import little_garbage
from volsched.simulation.manifests import identity_of
from volsched.text_page import Part, Row, section

EXIT_DIFFERS: Final = 1


@click.command()
@known_flags
@click.option("--new-config", metavar="FILE", help="The configuration after the change.")
@click.option("--with", "added", multiple=True, metavar="PATH", help="Manifests that replace objects, or join.")
@click.option("--without", "removed", multiple=True, metavar="KIND/[NAMESPACE/]NAME", help="An object that goes.")
@click.option(
    "--fail-on",
    default="",
    metavar="SORTS",
    help=f"Exit with 1 when there are differences of these sorts, separated by commas: {', '.join(SORTS)}, or any.",
)
@output_flag("table", "Tables for people, or the whole answer for programs.")
def diff(
    *,
    paths: tuple[str, ...],
    new_config: str | None,
    added: tuple[str, ...],
    removed: tuple[str, ...],
    fail_on: str,
    output: str,
    **flags: Any,
) -> None:
    """Show which pods start, wait, move or are evicted differently after a change, by queue and by gang, and why. The
    scheduler is run without the change and with it, on a snapshot, on manifests or on a cluster, and writes nothing.

    \b
    Examples:
      volsched diff -f cluster.snapshot --new-config new.conf
      volsched diff -f cluster.snapshot --with queues/vision.yaml
      volsched diff -f manifests/ --without Node/a100-2 --fail-on waits,evicted
      volsched diff --with more-nodes.yaml -o json

    \b
    Exit status: 0 compared; 1 --fail-on and such differences, or the API server did not answer or refused; 2 a flag,
    the input or a configuration is invalid.
    """  # noqa: D205, D301 - laid out for click, which reads the backspace as "do not wrap"
    failing = _sorts(fail_on)
    if not (new_config or added or removed):
        raise click.UsageError("nothing is changed; give --new-config, --with or --without")
    progress = Progress()
    with little_garbage():
        before = known(paths, flags, progress)
        after = _without(before, removed)
        after = after.with_objects(read_manifests(added).objects) if added else after
        after = configured(after, new_config) if new_config else after
        answer = compared(before.stage().run(progress.cycle), after.stage().run(progress.cycle))
    if is_for_people(output):
        print_page(_page(answer), output)
    else:
        print_result(document("Difference", answer), output)
    sys.exit(EXIT_DIFFERS if failing.intersection(answer.summary) else 0)


def _sorts(text: str) -> set[str]:
    wanted = {sort.strip() for sort in text.split(",") if sort.strip()}
    if "any" in wanted:
        return set(SORTS)
    unknown = sorted(wanted.difference(SORTS))
    if unknown:
        raise click.UsageError(f"--fail-on: {unknown[0]!r} is no sort of difference; there are {', '.join(SORTS)}, any")
    return wanted


def _without(found: ClusterSnapshot, removed: tuple[str, ...]) -> ClusterSnapshot:
    """Leave objects out; the pods of a node that goes are made again. Raises click.UsageError for what is not there."""
    identities = {_written(identity_of(each)): identity_of(each) for each in found.objects}
    for name in removed:
        if name.lower() not in identities:
            raise click.UsageError(
                f"--without {name!r}: there is no such object; write KIND/NAMESPACE/NAME or KIND/NAME"
            )
    gone = [identities[name.lower()] for name in dict.fromkeys(removed)]
    nodes = [name for kind, _, name in gone if kind == "Node"]
    return without_nodes(found.without([each for each in gone if each[0] != "Node"]), nodes)


def _written(identity: tuple[str, str, str]) -> str:
    return "/".join(part for part in identity if part).lower()


def _page(answer: Difference) -> Iterator[Part]:
    if not answer.pods:
        yield "Nothing differs: every pod starts, waits or stays as without the change."
        return
    yield f"{', '.join(f'{count} {_WORDS[sort]}' for sort, count in answer.summary.items())}."
    yield from section("Queues", _counts("QUEUE", answer.queues))
    yield from section("Gangs", _counts("GANG", answer.gangs))
    yield from section("Pods", _pods(answer))


_WORDS: Final = {
    "starts": "start",
    "waits": "wait",
    "moves": "move",
    "evicted": "evicted",
    "spared": "evicted no longer",
    "reason": "wait for another reason",
}


def _counts(what: str, counts: dict[str, dict[str, int]]) -> Iterator[Row]:
    sorts = [sort for sort in SORTS if any(sort in found for found in counts.values())]
    yield what, *map(str.upper, sorts)
    for name, found in counts.items():
        yield name or "-", *(str(found.get(sort, 0)) for sort in sorts)


def _pods(answer: Difference) -> Iterator[Row]:
    yield "POD", "DIFFERENCE", "BEFORE", "AFTER", "WHY"
    for pod in answer.pods:
        yield pod.pod, pod.sort, pod.before, pod.after, pod.why
