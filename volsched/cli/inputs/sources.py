"""The sources of verbs that show things: manifests, or else a cluster, which they only read."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NoReturn, TypeVar

import click

from volsched.cli.inputs.flags import FILES_HELP, connection_flags, files_flag
from volsched.cli.output import refuse, report
from volsched.model.changes import Change, DroppedFields, Put
from volsched.simulation.documents import InputError, InputProblem, read_documents
from volsched.simulation.kinds import HOW_TO_OBTAIN, LeftOut
from volsched.simulation.manifests import Inventory, read_inventory

Command = TypeVar("Command", bound=Callable[..., Any])

EXIT_CLUSTER: Final = 1
"""The API server did not answer, or refused."""

FORBIDDEN: Final = 403

_NUMBER: Final = re.compile(r"\[[0-9]+\]")
"""A place in a list, inside a field."""

_CONNECTION: Final = {"kubeconfig": "--kubeconfig", "kube_context": "--context", "master": "--master"}


class RefusedError(click.ClickException):
    """The user lacks the right to list an object kind; ends the command with the API server's message."""

    exit_code = EXIT_CLUSTER

    def show(self, file: Any = None) -> None:
        """Report it as everything else is reported."""
        del file
        report(self.message)


def source_flags(command: Command) -> Command:
    """Add the flags for the source: -f for manifests, those of a connection for a cluster."""
    return files_flag(f"Read manifests in place of a cluster. {FILES_HELP}", required=False)(connection_flags(command))


def check_source(paths: Sequence[str], flags: dict[str, Any]) -> None:
    """Raise click.UsageError when manifests and a cluster are both named."""
    given = [flag for name, flag in _CONNECTION.items() if flags[name]]
    if paths and given:
        raise click.UsageError(f"-f reads manifests and {given[0]} a cluster; give one of them")


def read_manifests(paths: Sequence[str], *, strict: bool = False, at_max: bool = False) -> Inventory:
    """Return the objects of manifests, after a message about left-out or doubtful ones; ends if they are wrong."""
    try:
        inventory = read_inventory(read_documents(paths), strict=strict, at_max=at_max)
    except InputError as error:
        refuse(error)
    report_left_out(inventory.left_out)
    for doubt in _once(inventory.doubts):
        report(doubt, "warning")
    return inventory


def report_left_out(left_out: LeftOut) -> None:
    """Report the left-out objects in one line; missing pods make it a warning with a way out."""
    if left_out.has_pods:
        report(f"{left_out}; {HOW_TO_OBTAIN}", "warning")
    elif left_out:
        report(str(left_out), "note")


def _once(doubts: Sequence[InputProblem]) -> Iterator[str]:
    """Yield each doubt about a field with the first object that has it, and the number of others."""
    alike: dict[tuple[str, str, str], list[InputProblem]] = {}
    for doubt in doubts:
        kind = doubt.subject.partition("/")[0]
        alike.setdefault((kind, _NUMBER.sub("[]", doubt.field), doubt.message), []).append(doubt)
    for first, *others in alike.values():
        subjects = {other.subject for other in others} - {first.subject}
        yield f"{first} (and in {len(subjects)} more)" if subjects else str(first)


def read_cluster(flags: Mapping[str, Any], kinds: Sequence[str]) -> list[Change]:
    """Return all objects of these kinds from the cluster that the flags name, and the lost fields of Queues.

    Ends with a message about a failure.
    """
    keep_quiet()
    from volsched.kube.errors import ApiError  # noqa: PLC0415 - half a second of imports, for those who ask a cluster
    from volsched.kube.watch.resources import watched  # noqa: PLC0415
    from volsched.kube.watch.served_kinds import POD_GROUPS, WORKLOADS  # noqa: PLC0415

    resources: dict[str, Any] = {kind.kind: kind for kind in (WORKLOADS, POD_GROUPS)}
    resources |= {resource.kind: resource for resource in watched(need_groups=True)}
    try:
        found = ask(flags, [resources[kind] for kind in kinds])
    except ApiError as error:
        refuse_cluster(error.status, error.message)
    for unreadable in found.unreadable:
        report(f"{unreadable}; it is left out", "warning")
    changes: list[Change] = [Put(each) for each in found.objects]
    return changes if found.dropped is None else [DroppedFields("Queue", found.dropped), *changes]


def ask(flags: Mapping[str, Any], resources: Sequence[Any]) -> Any:
    """Return everything of some kinds as a `Listing`; raises ApiError. Ends when no cluster is named."""
    keep_quiet()
    from volsched.kube.client.credentials import Source  # noqa: PLC0415
    from volsched.kube.errors import CredentialsError  # noqa: PLC0415
    from volsched.kube.watch import listing  # noqa: PLC0415 - as above

    try:
        return listing.read_cluster(Source(flags["kubeconfig"], flags["kube_context"], flags["master"]), resources)
    except CredentialsError as error:
        give_up(f"{error}; name a cluster with --kubeconfig, or manifests with -f")


def refuse_cluster(status: int, message: str) -> NoReturn:
    """End the command for an answer of the API server. Raises RefusedError for a missing right."""
    if status == FORBIDDEN:
        raise RefusedError(message)
    give_up(message)


def keep_quiet() -> None:
    """Send messages of libraries to standard error, where it is no part of the answer."""
    from volsched import logs  # noqa: PLC0415 - as above

    logs.setup("error")


def give_up(message: str) -> NoReturn:
    """Report why the cluster cannot be read, and stop."""
    report(message)
    sys.exit(EXIT_CLUSTER)
