"""``volsched queue list`` and ``volsched queue describe``: limits and usage of queues, with the jobs that use them."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final, NoReturn

import click

from volsched.cli.inputs import in_force
from volsched.cli.inputs.flags import SETTINGS, follow_flag, output_flag, scheduler_flags, together
from volsched.cli.inputs.look import Look, Looking, kinds_of, look
from volsched.cli.inputs.sources import check_source, read_manifests, source_flags
from volsched.cli.names import of_kind
from volsched.cli.output import Answer, View, is_for_people, print_answer, report
from volsched.cli.views import queues as queue_view
from volsched.framework.quota_report import Usage
from volsched.framework.validation import Surroundings
from volsched.model import api
from volsched.model.cards.names import CARD_QUOTA
from volsched.model.changes import Change
from volsched.model.errors import nearest
from volsched.simulation.manifests import Inventory
from volsched.text_page import Part

EXIT_NOT_FOUND: Final = 1


_flags: Final = together(
    source_flags,
    in_force.config_flags,
    scheduler_flags,
    output_flag("table", "Tables for people, or all of it for programs."),
    follow_flag,
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
def list_(paths: tuple[str, ...], output: str, *, follows: bool, **flags: Any) -> None:
    """Show quota, used, reserved and headroom of every queue by card and resource, all other quotas that are in force
    (devices, CPU pods on GPU nodes, shared cards), and every card of the cluster.

    Of a cluster the rights of the ClusterRole volsched-queue-reader are needed. With manifests, the state is what
    `volsched simulate` begins with.

    \b
    Examples:
      volsched queue list
      volsched queue list --scheduler-configmap volsched-system/volsched-config
      volsched queue list -f manifests/ -o json | jq '.queues.vision.cards'
      volsched queue list --watch

    \b
    Exit status: 0 shown; 1 the API server did not answer or refused, or Ctrl-C ended --watch; 2 a flag, the input or
    the configuration is invalid.
    """  # noqa: D205, D301 - as above
    if follows:
        _watch_list(paths, output, flags)
    state = _CountedQueues(paths, flags)
    if not is_for_people(output):
        state.report_doubt()
    print_answer(state.listed(), output)


@queue.command()
@click.argument("names", nargs=-1, required=True, metavar="QUEUE...", shell_complete=of_kind("Queue"))
@_flags
def describe(names: tuple[str, ...], paths: tuple[str, ...], output: str, *, follows: bool, **flags: Any) -> None:
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
    if follows:
        _watch_queues(names, paths, output, flags)
    state = _CountedQueues(paths, flags)
    for name in names:
        if name not in state.seen.usage.queues:
            _not_found(name, state.seen.usage)
    state.report_doubt()
    print_answer(state.described(names), output)


def _not_found(name: str, usage: Usage) -> NoReturn:
    meant = nearest(name, usage.queues)
    known = ", ".join(usage.queues)
    report(f"there is no queue {name!r}; " + (f"did you mean {meant!r}?" if meant else f"there are {known}"))
    sys.exit(EXIT_NOT_FOUND)


def _watch_list(paths: Sequence[str], output: str, flags: dict[str, Any]) -> NoReturn:
    state = _FollowedQueues(paths, flags)

    def view(changes: Sequence[Change]) -> Answer:
        state.take(changes)
        return state.listed()

    state.watch(view, output)


def _watch_queues(names: Sequence[str], paths: Sequence[str], output: str, flags: dict[str, Any]) -> NoReturn:
    state = _FollowedQueues(paths, flags)

    def view(changes: Sequence[Change]) -> Answer:
        state.take(changes)
        return state.described(names)

    state.watch(view, output)


class _CountedQueues:
    """The read objects, and the accounts that follow from them."""

    def __init__(self, paths: Sequence[str], flags: dict[str, Any]) -> None:
        check_source(paths, flags)
        in_force.check_flags(paths, flags)
        inventory = read_manifests(paths) if paths else None
        self._in_force = in_force.configuration(inventory, flags)
        self.seen = self._look(inventory, flags)
        if self._in_force.refusal:
            report(f"{self._in_force.refusal}; quotas are shown without it", "note")
        self._warn_of_quotas()

    def _look(self, inventory: Inventory | None, flags: Mapping[str, Any]) -> Look:
        return look(inventory, self._in_force, flags)

    def listed(self) -> Answer:
        """Return all queues."""
        return Answer(
            lambda: queue_view.list_page(self.seen, self.footer), lambda: queue_view.listed(self.seen, self.about)
        )

    def described(self, names: Sequence[str]) -> Answer:
        """Return some queues; on a page a line for each that does not exist."""
        queues = self.seen.usage.queues
        problems = {name: self.problems(name) for name in names if name in queues}

        def page() -> Sequence[Part]:
            pages: Sequence[Sequence[Part]] = [
                queue_view.page(self.seen, name, problems[name])
                if name in problems
                else [f"There is no queue {name!r}."]
                for name in dict.fromkeys(names)
            ]
            return [part for each in pages for part in ("", *each)][1:]

        return Answer(page, lambda: queue_view.described(self.seen, self.about, problems))

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


class _FollowedQueues(_CountedQueues):
    """The accounts of a cluster that is followed: ``seen`` is what they are now."""

    def __init__(self, paths: Sequence[str], flags: dict[str, Any]) -> None:
        from volsched.cli import watching  # noqa: PLC0415 - half a second of imports, for those who follow a cluster

        watching.check(paths)
        self._flags = flags
        self._watching = watching
        super().__init__((), flags)

    def _look(self, inventory: Inventory | None, flags: Mapping[str, Any]) -> Look:
        del inventory
        self._looking = Looking(self._in_force, flags)
        return self._looking.look()

    def take(self, changes: Sequence[Change]) -> None:
        """Take changes of the cluster in."""
        self._looking.take(changes)
        self.seen = self._looking.look()

    def watch(self, view: View, output: str) -> NoReturn:
        """Show what a view says, until Ctrl-C."""
        self.report_doubt()
        self._watching.watch(self._flags, kinds_of(self._in_force), view, output)
