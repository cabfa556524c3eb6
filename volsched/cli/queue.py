"""``volsched queue list`` and ``volsched queue describe``: what queues may hold of which cards, and who holds them."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final, NoReturn

import click

from plugins.capacity_card.plugin import CapacityCardPlugin
from plugins.capacity_card.usage import Usage, usage_of
from volsched import registry
from volsched.cache.mirror import Mirror, MirrorSettings
from volsched.cli import queue_view
from volsched.cli.flags import SETTINGS, check_configmap, output_flag, together
from volsched.cli.output import print_result, refuse, say, width
from volsched.cli.sources import check_source, read_cluster, read_config_map, read_manifests, source_flags
from volsched.framework.arguments import nearest
from volsched.framework.loading import find_in_data
from volsched.framework.validation import Surroundings
from volsched.model import api
from volsched.model.changes import Change, Put
from volsched.model.errors import ConfigError
from volsched.simulation.documents import InputError, read_text
from volsched.simulation.manifests import Inventory
from volsched.simulation.runner import SCHEDULER_NAMES
from volsched.simulation.world import World

EXIT_NOT_FOUND: Final = 1
_KINDS: Final = ("Node", "Queue", "PodGroup", "Pod")


_flags: Final = together(
    source_flags,
    click.option(
        "--config",
        metavar="FILE",
        help="The scheduler configuration, whose arguments of capacity-card decide what counts. Otherwise a "
        "ConfigMap among the manifests; else the plugin's defaults.",
    ),
    click.option(
        "--scheduler-configmap",
        default="",
        metavar="NAMESPACE/NAME",
        help="The scheduler configuration: a ConfigMap object of the cluster, as `volsched run` is given it.",
    ),
    click.option(
        "--scheduler-name",
        "scheduler_names",
        multiple=True,
        default=SCHEDULER_NAMES,
        show_default=True,
        help="The schedulerName of pods that count. May be repeated.",
    ),
    click.option("--default-queue", default="default", show_default=True, help="The queue of what names none."),
    output_flag("table", "Tables for people, or all of it for programs."),
)
"""The flags of all verbs about queues."""


@click.group(context_settings=SETTINGS)
def queue() -> None:
    """Show what queues may hold of which cards, what they hold, and who holds it.

    Quota is what a Queue's annotation volcano.sh/card.quota says (of cpu and memory: spec.capability); used is what
    pods with a node hold; reserved is what admitted jobs may still take for their minimum; headroom is with how much a
    new job that asks for this alone would be admitted now. Cards by name are those of `volsched cards`.

    \b
    Examples:
      volsched queue list
      volsched queue describe vision
      volsched queue describe -h
    """  # noqa: D301 - click reads the backspace as "do not wrap"


@queue.command("list")
@_flags
def list_(paths: tuple[str, ...], output: str, **flags: Any) -> None:
    """Show quota, used, reserved and headroom of every queue, by card, and of every card in the whole cluster.

    Of a cluster only the rights to list nodes, queues, podgroups and pods are needed (and the ConfigMap, where one is
    named): those of the ClusterRole volsched-queue-reader. With manifests, the state is what `volsched simulate` begins
    with.

    \b
    Examples:
      volsched queue list
      volsched queue list --scheduler-configmap volsched-system/volsched-config
      volsched queue list -f manifests/ -o json | jq '.queues.vision.cards'

    \b
    Exit status: 0 shown; 1 the API server did not answer or refused; 2 a flag, the input or the configuration is
    invalid.
    """  # noqa: D301 - as above
    state = _State(paths, flags)
    if output == "table":
        click.echo(queue_view.list_page(state.usage, state.origin, width()), nl=False)
    else:
        print_result(queue_view.listed(state.usage, state.arguments), output)


@queue.command()
@click.argument("names", nargs=-1, required=True, metavar="QUEUE...")
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
    state = _State(paths, flags)
    for name in names:
        if name not in state.usage.queues:
            _not_found(name, state.usage)
    if output == "table":
        pages = [queue_view.page(state.usage, name, state.problems(name), width()) for name in dict.fromkeys(names)]
        click.echo("\n".join(pages), nl=False)
    else:
        problems = {name: state.problems(name) for name in names}
        print_result(queue_view.described(state.usage, state.arguments, problems), output)


def _not_found(name: str, usage: Usage) -> NoReturn:
    meant = nearest(name, usage.queues)
    known = ", ".join(usage.queues)
    say(f"there is no queue {name!r}; " + (f"did you mean {meant!r}?" if meant else f"there are {known}"))
    sys.exit(EXIT_NOT_FOUND)


class _State:
    """What was read, and the accounts that follow from it."""

    def __init__(self, paths: Sequence[str], flags: dict[str, Any]) -> None:
        _check(paths, flags)
        inventory = read_manifests(paths) if paths else None
        text, self.origin = _configuration(inventory, flags)
        self.arguments = _arguments(text, self.origin)
        mirror = _mirror(flags, is_live=inventory is None)
        self._objects = inventory.objects if inventory is not None else read_cluster(flags, _KINDS)
        mirror.apply(_changes(inventory, self._objects, flags))
        for problem in mirror.problems:
            where = "/".join(part for part in (problem.kind, problem.namespace, problem.name) if part)
            say(f"{where}: {problem.field}: {problem.message}", "warning")
        self.usage = usage_of(mirror.cluster, self.arguments)

    def problems(self, name: str) -> list[str]:
        """What is wrong in annotations of cards: in those of a queue, and of its jobs and their pods."""
        return queue_view.problems_of(self.usage.queues[name], self._objects, Surroundings(self._objects))


def _check(paths: Sequence[str], flags: dict[str, Any]) -> None:
    check_source(paths, flags)
    if paths and flags["scheduler_configmap"]:
        raise click.UsageError("--scheduler-configmap is an object of a cluster; with -f, give --config FILE")
    if flags["config"] and flags["scheduler_configmap"]:
        raise click.UsageError("--config and --scheduler-configmap exclude each other")
    check_configmap(flags)


def _mirror(flags: Mapping[str, Any], *, is_live: bool) -> Mirror:
    """Make an empty mirror. In a cluster, a pod without a PodGroup that has a node was scheduled by itself."""
    names = tuple(dict.fromkeys(flags["scheduler_names"]))
    mirror = Mirror(MirrorSettings(names, flags["default_queue"], plain_pods=is_live))
    mirror.keep_annotations(CapacityCardPlugin.POD_ANNOTATIONS, CapacityCardPlugin.ASKING_ANNOTATIONS)
    return mirror


def _changes(inventory: Inventory | None, objects: Sequence[api.ApiObject], flags: Mapping[str, Any]) -> list[Change]:
    if inventory is None:
        return [Put(found) for found in objects]
    return World(inventory, tuple(dict.fromkeys(flags["scheduler_names"]))).begin()


# --- the configuration ----------------------------------------------------------------------------------------------


def _configuration(inventory: Inventory | None, flags: dict[str, Any]) -> tuple[str | None, str]:
    """Return the text of the configuration that counts, and where it is from; no text when there is none."""
    try:
        if flags["config"]:
            return read_text(flags["config"]), flags["config"]
        if flags["scheduler_configmap"]:
            return _from_cluster(flags), f"ConfigMap/{flags['scheduler_configmap']}"
        if inventory is not None and (chosen := inventory.chosen_configuration()) is not None:
            return chosen, inventory.configuration_source
    except (InputError, ConfigError) as error:
        refuse(error, f"ConfigMap/{flags['scheduler_configmap']}" if flags["scheduler_configmap"] else "")
    return None, ""


def _from_cluster(flags: dict[str, Any]) -> str:
    namespace, name = flags["scheduler_configmap"].split("/")
    found = read_config_map(flags, namespace, name)
    if found is None:
        raise ConfigError("", "there is no such object in the cluster")
    key = find_in_data(found.data)
    if key is None:
        raise ConfigError("data", "no key holds a scheduler configuration")
    return found.data[key]


def _arguments(text: str | None, origin: str) -> Mapping[str, Any]:
    """Return the arguments of capacity-card in a configuration; its defaults, with a word, when it is not in there."""
    defaults = {argument.key: argument.default for argument in CapacityCardPlugin.ARGUMENTS}
    if text is None:
        return defaults
    try:
        configuration = registry.load_configuration(text).configuration
    except ConfigError as error:
        refuse(error, origin)
    for tier in configuration.tiers:
        for option in tier:
            if option.name == CapacityCardPlugin.name:
                return option.arguments
    say(f"{origin} does not use {CapacityCardPlugin.name}, so quotas of cards limit nobody", "warning")
    return defaults
