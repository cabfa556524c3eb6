"""Finds the configuration in force: that of the manifests, of a flag, or of the scheduler in the cluster.

A scheduler states on its Lease the source of its configuration, and the hash of the text (`lead.leases`). Without a
Lease (no leader election, Volcano's own scheduler) the ConfigMaps in the manifests of volsched and of Volcano are read.
Only those of the namespace where volsched runs count, and of Volcano's: in other ones a tenant may write them. The
result is reported, also if nothing was found. A configuration that no scheduler of volsched follows may be Volcano's
own: if it is refused, its first fault is reported and it does not count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import click

from volsched import registry
from volsched.cli.inputs.configuration import first_fault
from volsched.cli.inputs.flags import check_configmap, together
from volsched.cli.inputs.sources import FORBIDDEN, ask
from volsched.cli.output import refuse, report
from volsched.framework.config.loading import DEFAULT_CONFIGURATION, IN_KUBE_SCHEDULERS_PLACE, find_in_data
from volsched.model import api
from volsched.model.errors import ConfigError
from volsched.scheduler import Profile
from volsched.simulation.documents import InputError, read_text
from volsched.simulation.manifests import Inventory

WELL_KNOWN: Final = ("volsched-config", "volcano-scheduler-configmap")
"""ConfigMaps that the manifests of volsched and of Volcano bring, the likelier one first."""

VOLCANO_SYSTEM: Final = "volcano-system"
"""Where Volcano's manifests bring theirs; volsched's is `--system-namespace`."""

NAMED_AT_MOST: Final = 3
"""The most Leases of other namespaces that are named: users may make more."""

WAY_OUT: Final = "--config or --scheduler-configmap names one"

CAPACITY_CARD: Final = "capacity-card"
"""The plugin whose arguments and whose problems `volsched queue` shows."""

OF_ALL: Final = """
actions: "allocate"
tiers:
- plugins:
  - name: capacity-card
  - name: capacity-dra
"""
"""The configuration if none is known: the plugins whose quotas are in objects, with defaults."""


config_flags: Final = together(
    click.option(
        "--config",
        metavar="FILE",
        help="The scheduler configuration. Otherwise that of the scheduler that runs in the cluster, as its Lease "
        "says; with manifests, a ConfigMap among them.",
    ),
    click.option(
        "--scheduler-configmap",
        default="",
        metavar="NAMESPACE/NAME",
        help="The scheduler configuration: a ConfigMap object of the cluster.",
    ),
    click.option(
        "--system-namespace",
        default="volsched-system",
        envvar="VOLSCHED_NAMESPACE",
        metavar="NAMESPACE",
        show_default="VOLSCHED_NAMESPACE, else volsched-system",
        help="Where volsched runs: what a Lease says elsewhere does not count.",
    ),
)
"""The flags that name a configuration."""


@dataclass(frozen=True, slots=True)
class InForce:
    """A configuration with its plugins. ``origin``: its source, empty without one; ``doubt``: a message for the user.

    ``names`` and ``default_queue`` are those of the running scheduler, empty if it is not known.
    """

    profile: Profile
    origin: str = ""
    doubt: str = ""
    names: tuple[str, ...] = ()
    default_queue: str = ""
    is_absent: bool = False
    """Nothing in the cluster looks like the configuration of a scheduler."""
    text: str = ""
    """The configuration as it is written; empty where none counts."""
    refusal: str = ""
    """Why a found configuration does not count: its first fault, with its place, and a way out."""

    def arguments_of(self, plugin: str) -> Mapping[str, Any] | None:
        """Return the arguments of a plugin; None when it is not configured."""
        return self.profile.configuration.arguments_of(plugin)


@dataclass(frozen=True, slots=True)
class _FoundText:
    """A text, and what was found out about it; no text where there is none."""

    text: str | None = None
    origin: str = ""
    doubt: str = ""
    names: tuple[str, ...] = ()
    default_queue: str = ""
    is_absent: bool = False
    is_followed: bool = True
    """A flag names it, or a scheduler of volsched states that it follows it."""


def check_flags(paths: Sequence[str], flags: Mapping[str, Any]) -> None:
    """Raise click.UsageError for flags that contradict each other."""
    if paths and flags["scheduler_configmap"]:
        raise click.UsageError("--scheduler-configmap is an object of a cluster; with -f, give --config FILE")
    if flags["config"] and flags["scheduler_configmap"]:
        raise click.UsageError("--config and --scheduler-configmap exclude each other")
    check_configmap(dict(flags))


def configuration(inventory: Inventory | None, flags: Mapping[str, Any], *, is_optional: bool = False) -> InForce:
    """Return the configuration that counts; ends if a followed one is missing or refused.

    If it ``is_optional``, a refused one of the cluster is a doubt, and counts as none. One without a known follower
    counts as none, too, and its refusal is reported.
    """
    try:
        found = _named(flags) or (_of_manifests(inventory) if inventory is not None else _of_cluster(flags))
    except (InputError, ConfigError) as error:
        if inventory is not None and not flags["config"]:
            return _without(first_fault(error, inventory.configuration_source), "--config FILE names another")
        refuse(error, f"ConfigMap/{flags['scheduler_configmap']}" if flags["scheduler_configmap"] else "")
    try:
        profile = registry.load_profile(OF_ALL if found.text is None else found.text)[0]
    except ConfigError as error:
        if not found.is_followed:
            way_out = WAY_OUT if inventory is None else "--config FILE names another"
            return _without(first_fault(error, found.origin), way_out)
        if is_optional and inventory is None and found.doubt:
            return InForce(registry.load_profile(OF_ALL)[0], doubt=found.doubt)
        if found.doubt:
            report(found.doubt, "warning")
        refuse(error, found.origin)
    words = (found.origin, found.doubt, found.names, found.default_queue, found.is_absent)
    return InForce(profile, *words, text=found.text or "")


def _without(fault: str, way_out: str) -> InForce:
    return InForce(registry.load_profile(OF_ALL)[0], refusal=f"{fault}; {way_out}")


def _named(flags: Mapping[str, Any]) -> _FoundText | None:
    """Return the configuration that a flag names."""
    if flags["config"]:
        return _FoundText(read_text(flags["config"]), flags["config"])
    if not flags["scheduler_configmap"]:
        return None
    namespace, name = flags["scheduler_configmap"].split("/")
    found = next(iter(_config_maps(flags, name, namespace)), None)
    if found is None:
        raise ConfigError("", "there is no such object in the cluster")
    return _FoundText(_text_of(found), _origin(found))


def _of_manifests(inventory: Inventory) -> _FoundText:
    chosen = inventory.chosen_configuration()
    return _FoundText() if chosen is None else _FoundText(chosen, inventory.configuration_source, is_followed=False)


# --- the scheduler that runs ----------------------------------------------------------------------------------------


def _of_cluster(flags: Mapping[str, Any]) -> _FoundText:
    """Return the configuration in force of this cluster's scheduler, as far as it can be found out."""
    from volsched.kube.errors import ApiError  # noqa: PLC0415 - half a second of imports, for those who ask a cluster

    try:
        lease, doubt = _scheduler(flags)
        if lease is None:
            return replace(_well_known(flags), doubt=doubt) if doubt else _well_known(flags)
        found = _in_force(flags, lease)
    except ApiError as error:
        return _FoundText(doubt=f"The scheduler's configuration cannot be read: {error.message}; {WAY_OUT}.")
    words = " ".join(part for part in (doubt, found.doubt) if part)
    return replace(found, doubt=words, names=lease.names, default_queue=lease.default_queue)


def _scheduler(flags: Mapping[str, Any]) -> tuple[Any, str]:
    """Return what the scheduler seen last states of itself, and a word where there are others; None for none."""
    from volsched.kube.lead import leases  # noqa: PLC0415 - as above

    wanted = set(flags["scheduler_names"])
    found = [leases.read(lease) for lease in _leases(flags)]
    meant = sorted((one for one in found if not wanted or wanted & set(one.names)), key=lambda one: one.renewed)
    if not meant:
        return None, ""
    *others, last = meant
    if not any((one.configuration, one.hash) != (last.configuration, last.hash) for one in others):
        return last, ""
    names = ", ".join(one.lease for one in others)
    return last, f"There are other schedulers ({names}); shown is that of the Lease {last.lease}."


def _leases(flags: Mapping[str, Any]) -> list[api.Lease]:
    """Return the Leases of schedulers where volsched runs. Others are named, if the caller may see them."""
    from volsched.kube.errors import ApiError  # noqa: PLC0415
    from volsched.kube.lead import leases  # noqa: PLC0415 - as above

    home = flags["system_namespace"]
    try:
        listed = ask(flags, [leases.of_schedulers()]).objects
    except ApiError as error:
        if error.status != FORBIDDEN:
            raise
        return list(ask(flags, [leases.of_schedulers(home)]).objects)
    others = [lease.key for lease in listed if lease.metadata.namespace != home]
    if others:
        more = f" and {len(others) - NAMED_AT_MOST} more" if len(others) > NAMED_AT_MOST else ""
        names = ", ".join(others[:NAMED_AT_MOST])
        report(f"Leases outside of {home} do not count ({names}{more}); --system-namespace names another", "note")
    return [lease for lease in listed if lease.metadata.namespace == home]


def _in_force(flags: Mapping[str, Any], lease: Any) -> _FoundText:
    """Return the text that a scheduler has in force."""
    from volsched.kube.lead.leases import BUILT_IN  # noqa: PLC0415
    from volsched.kube.watch.config_source import text_hash  # noqa: PLC0415 - as above

    if lease.configuration == BUILT_IN:
        texts = {text_hash(text): text for text in (DEFAULT_CONFIGURATION, IN_KUBE_SCHEDULERS_PLACE)}
        if lease.hash in texts:
            return _FoundText(texts[lease.hash], BUILT_IN)
        return _FoundText(doubt=f"The built-in configuration of that scheduler is another version's; {WAY_OUT}.")
    if lease.config_map is None:
        return _of_file(flags, lease)
    namespace, name = lease.config_map
    found = next(iter(_config_maps(flags, name, namespace)), None)
    if found is None:
        return _FoundText(doubt=f"ConfigMap/{namespace}/{name}, which the scheduler follows, is gone; {WAY_OUT}.")
    text = _text_of(found)
    if text_hash(text) == lease.hash:
        return _FoundText(text, _origin(found))
    doubt = f"{_origin(found)} says something else than what is in force (hash {lease.hash}): its Events say why."
    return _FoundText(text, _origin(found), doubt)


def _of_file(flags: Mapping[str, Any], lease: Any) -> _FoundText:
    """Return the ConfigMap that a scheduler's file was most likely mounted from: one of the very text."""
    from volsched.kube.watch.config_source import text_hash  # noqa: PLC0415 - as above

    for name in WELL_KNOWN:
        for found in _at_home(flags, name):
            if any(text_hash(text) == lease.hash for text in found.data.values()):
                return _FoundText(next(t for t in found.data.values() if text_hash(t) == lease.hash), _origin(found))
    return _FoundText(
        doubt=f"The scheduler reads its configuration from the file {lease.configuration}, and no ConfigMap "
        f"{' or '.join(WELL_KNOWN)} has that text; {WAY_OUT}."
    )


def _well_known(flags: Mapping[str, Any]) -> _FoundText:
    """Return the ConfigMap of our manifests or Volcano's, if no Lease states what is in force."""
    for name in WELL_KNOWN:
        for found in _at_home(flags, name):
            if find_in_data(found.data) is not None:
                doubt = f"No Lease says which configuration is in force; counted with {_origin(found)}."
                return _FoundText(_text_of(found), _origin(found), doubt, is_followed=False)
    looked = f"in {flags['system_namespace']} neither a Lease of a volsched scheduler nor a ConfigMap "
    looked += " or ".join(WELL_KNOWN)
    return _FoundText(
        doubt=f"No scheduler configuration was found in the cluster ({looked}); {WAY_OUT}.", is_absent=True
    )


def _at_home(flags: Mapping[str, Any], name: str) -> Iterator[api.ConfigMap]:
    """Yield the ConfigMaps of a name from where volsched runs, and from where Volcano does."""
    for namespace in dict.fromkeys((flags["system_namespace"], VOLCANO_SYSTEM)):
        yield from _config_maps(flags, name, namespace)


def _config_maps(flags: Mapping[str, Any], name: str, namespace: str) -> list[api.ConfigMap]:
    from volsched.kube.watch.resources import Resource  # noqa: PLC0415 - as above

    selector = f"metadata.name={name}"
    resource = Resource("ConfigMap", "v1", "configmaps", api.ConfigMap, namespace=namespace, field_selector=selector)
    return [found for found in ask(flags, [resource]).objects if isinstance(found, api.ConfigMap)]


def _text_of(found: api.ConfigMap) -> str:
    key = find_in_data(found.data)
    if key is None:
        raise ConfigError("data", "no key holds a scheduler configuration")
    return found.data[key]


def _origin(found: api.ConfigMap) -> str:
    return f"ConfigMap/{found.key}"
