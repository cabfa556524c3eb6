"""``volsched queue list`` and ``volsched queue describe``: limits and usage of queues, with the jobs that use them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Final, NoReturn

import click

from volsched.cli.inputs import in_force
from volsched.cli.inputs.flags import SETTINGS, output_flag, scheduler_flags, together
from volsched.cli.inputs.look import look
from volsched.cli.inputs.sources import check_source, read_manifests, source_flags
from volsched.cli.names import of_kind
from volsched.cli.output import is_for_people, print_page, print_result, report
from volsched.cli.views import queues as queue_view
from volsched.framework.quota_report import Usage
from volsched.framework.validation import Surroundings
from volsched.model import api
from volsched.model.cards.names import CARD_QUOTA
from volsched.model.errors import nearest

EXIT_NOT_FOUND: Final = 1


_flags: Final = together(
    source_flags,
    in_force.config_flags,
    scheduler_flags,
    output_flag("table", "Tables for people, or all of it for programs."),
)
"""The flags of all verbs about queues."""


@click.group(context_settings=SETTINGS)
def queue() -> None:
    """Show what queues may hold, what they hold, and who holds it, as the plugins in force count it.

    Quota is what a plugin in force lets the queue hold, - where none limits it; used is what pods with a node hold;
    reserved is what admitted jobs may still take for their minimum; headroom is with how much a new job that asks for
    this alone would be admitted now. Cards by name are those of `volsched cards`. Of a cluster, the configuration is
    that of the scheduler that runs there.

    \b
    Examples:
      volsched queue list
      volsched queue describe vision
      volsched queue describe -h
    """  # noqa: D301 - click reads the backspace as "do not wrap"


@queue.command("list")
@_flags
def list_(paths: tuple[str, ...], output: str, **flags: Any) -> None:
    """Show quota, used, reserved and headroom of every queue by card and resource, all other quotas that are in force
    (devices, CPU pods on GPU nodes, shared cards), and every card of the cluster.

    Of a cluster the rights of the ClusterRole volsched-queue-reader are needed. With manifests, the state is what
    `volsched simulate` begins with.

    \b
    Examples:
      volsched queue list
      volsched queue list --scheduler-configmap volsched-system/volsched-config
      volsched queue list -f manifests/ -o json | jq '.queues.vision.cards'

    \b
    Exit status: 0 shown; 1 the API server did not answer or refused; 2 a flag, the input or the configuration is
    invalid.
    """  # noqa: D205, D301 - as above
    state = _CountedQueues(paths, flags)
    if is_for_people(output):
        print_page(queue_view.list_page(state.seen, state.footer), output)
    else:
        state.report_doubt()
        print_result(queue_view.listed(state.seen, state.about), output)


@queue.command()
@click.argument("names", nargs=-1, required=True, metavar="QUEUE...", shell_complete=of_kind("Queue"))
@_flags
def describe(names: tuple[str, ...], paths: tuple[str, ...], output: str, **flags: Any) -> None:
    """Show queues one by one: quotas, the jobs that hold, have reserved and wait for cards, where their pods are, and
    what is wrong in annotations of the queue and its jobs.

    Rights and state are those of `volsched queue list`.

    \b
    Examples:
      volsched queue describe vision
      volsched queue describe vision language -o json
      kubectl get nodes,queues,podgroups,pods -A -o yaml | volsched queue describe vision -f -

    \b
    Exit status: 0 shown; 1 there is no such queue, or the API server did not answer or refused; 2 a flag, the input
    or the configuration is invalid.
    """  # noqa: D205, D301 - as above
    state = _CountedQueues(paths, flags)
    for name in names:
        if name not in state.seen.usage.queues:
            _not_found(name, state.seen.usage)
    state.report_doubt()
    if is_for_people(output):
        pages = [queue_view.page(state.seen, name, state.problems(name)) for name in dict.fromkeys(names)]
        print_page([part for page in pages for part in ("", *page)][1:], output)
    else:
        problems = {name: state.problems(name) for name in names}
        print_result(queue_view.described(state.seen, state.about, problems), output)


def _not_found(name: str, usage: Usage) -> NoReturn:
    meant = nearest(name, usage.queues)
    known = ", ".join(usage.queues)
    report(f"there is no queue {name!r}; " + (f"did you mean {meant!r}?" if meant else f"there are {known}"))
    sys.exit(EXIT_NOT_FOUND)


class _CountedQueues:
    """The read objects, and the accounts that follow from them."""

    def __init__(self, paths: Sequence[str], flags: dict[str, Any]) -> None:
        check_source(paths, flags)
        in_force.check_flags(paths, flags)
        inventory = read_manifests(paths) if paths else None
        self._in_force = in_force.configuration(inventory, flags)
        self.seen = look(inventory, self._in_force, flags)
        if self._in_force.refusal:
            report(f"{self._in_force.refusal}; quotas are shown without it", "note")
        self._warn_of_quotas()

    @property
    def about(self) -> queue_view.About:
        """Data beside the accounts: the source of the configuration, and the arguments of capacity-card."""
        return queue_view.About(self._in_force.origin, self._in_force.arguments_of(in_force.CAPACITY_CARD) or {})

    @property
    def footer(self) -> str:
        """Return the text below a page: the counted configuration, if that is not obvious."""
        if self._in_force.doubt:
            return self._in_force.doubt
        if not self._in_force.origin:
            return f"Counted with the defaults of capacity-card and capacity-dra; {in_force.WAY_OUT}."
        return (
            ""
            if self.seen.is_limited
            else f"No plugin in force limits queues by resource or card ({self._in_force.origin})."
        )

    def report_doubt(self) -> None:
        """Report what may be otherwise than is shown, where no page has room for it."""
        if self._in_force.doubt:
            report(self._in_force.doubt, "warning")

    def _warn_of_quotas(self) -> None:
        """Warn that queues have quotas of cards which no plugin enforces."""
        queues = (found for found in self.seen.objects if isinstance(found, api.Queue))
        stated = any(CARD_QUOTA in queue.metadata.annotations for queue in queues)
        if self._in_force.arguments_of(in_force.CAPACITY_CARD) is None and stated:
            text = f"{self._in_force.origin} does not use {in_force.CAPACITY_CARD}, so quotas of cards limit nobody"
            report(text, "warning")

    def problems(self, name: str) -> list[str]:
        """Faults of annotations of cards: in those of a queue, and of its jobs and their pods."""
        use = self.seen.usage.queues[name]
        return queue_view.problems_of(
            use, self.seen.objects, Surroundings(self.seen.objects, self._in_force.arguments_of)
        )
