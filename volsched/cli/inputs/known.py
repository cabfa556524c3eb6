"""The inputs of verbs that ask questions: a snapshot, manifests, or a cluster, with the configuration in force."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import click

from volsched.cli.inputs import in_force
from volsched.cli.inputs.configuration import BUILT_IN_COUNTS, check_rivals
from volsched.cli.inputs.flags import scheduler_flags, together
from volsched.cli.inputs.sources import check_source, read_cluster, read_manifests, source_flags
from volsched.cli.output import refuse, report
from volsched.cli.printing import say
from volsched.diagnose import snapshot
from volsched.diagnose.cluster_snapshot import ClusterSnapshot
from volsched.framework.config.loading import DEFAULT_CONFIGURATION
from volsched.model import api
from volsched.model.api import native_groups as native
from volsched.model.changes import DroppedFields, Put
from volsched.model.errors import ConfigError
from volsched.model.values.visible import visible
from volsched.ports import CycleReport
from volsched.simulation.documents import InputError, read_text
from volsched.simulation.manifests import Inventory
from volsched.simulation.runner import SCHEDULER_NAMES

_LONG: Final = 2.0
"""Seconds after which progress is shown."""

known_flags: Final = together(
    source_flags,
    in_force.config_flags,
    scheduler_flags,
)
"""Where to read, and which configuration counts."""


class Progress:
    """Progress lines on standard error, after two seconds; ``unit`` is the word for sessions."""

    def __init__(self, unit: str = "session") -> None:
        self._unit = unit
        self._began = time.monotonic()
        self._present = ""

    def show(self, message: str, *, is_result: bool = False) -> None:
        """Show what was done. A result is shown at once if standard error is a terminal."""
        self._present = ""
        if self._is_long or (is_result and sys.stderr.isatty()):
            say(f"{message} ({time.monotonic() - self._began:.1f} s)", err=True)

    def begin(self, message: str) -> None:
        """Show what is being done now; if it is too early, ``tick`` shows it."""
        if self._is_long:
            self.show(message)
        else:
            self._present = message

    def tick(self) -> None:
        """Show what is being done, once, when it takes long and standard error is a terminal. Call it often."""
        if self._present and self._is_long and sys.stderr.isatty():
            self.show(self._present)

    @property
    def _is_long(self) -> bool:
        return time.monotonic() - self._began > _LONG

    def cycle(self, number: int, report: CycleReport) -> None:
        """Show what a session did."""
        waiting = sum(report.waiting.pods.values())
        self.show(f"{self._unit} {number}: {report.placed} placed, {report.evicted} evicted, {waiting} waiting")


def known(paths: Sequence[str], flags: Mapping[str, Any], progress: Progress) -> ClusterSnapshot:
    """Read what the flags name; ends with a word about why not."""
    given = dict(flags)
    check_source(paths, given)
    in_force.check_flags(paths, given)
    found = _of_snapshot(paths, given) or _read(paths, given)
    progress.show(f"{len(found.objects)} objects read")
    return found


def _of_snapshot(paths: Sequence[str], flags: Mapping[str, Any]) -> ClusterSnapshot | None:
    """Return the cluster of the snapshot that is named, with what flags replace; None when there is none."""
    found = snapshot_in(paths)
    if found is None:
        return None
    names = tuple(dict.fromkeys(flags["scheduler_names"])) or found.scheduler_names
    found = replace(found, scheduler_names=names, default_queue=flags["default_queue"] or found.default_queue)
    return configured(found, flags["config"]) if flags["config"] else found


def snapshot_in(paths: Sequence[str]) -> ClusterSnapshot | None:
    """Return the cluster of the snapshot among these paths; None when they are manifests. Ends when it is broken."""
    snapshots = [path for path in paths if Path(path).is_file() and snapshot.is_snapshot(_start_of(path))]
    if not snapshots:
        return None
    if len(paths) > 1:
        raise click.UsageError(f"{visible(snapshots[0])} is a snapshot, which is a whole cluster; give it alone")
    try:
        return snapshot.read(Path(paths[0]).read_bytes(), paths[0])
    except snapshot.SnapshotError as error:
        refuse(error)


def _start_of(path: str) -> bytes:
    with Path(path).open("rb") as file:
        return file.read(len(snapshot.MAGIC))


def _read(paths: Sequence[str], flags: Mapping[str, Any]) -> ClusterSnapshot:
    inventory = read_manifests(paths) if paths else None
    if inventory is not None and not flags["config"]:
        check_rivals(inventory)
    found = configured_cluster(flags, inventory)
    objects = inventory.objects if inventory is not None else _of_cluster(flags)
    taken_at = 0.0 if inventory is not None else time.time()
    origin = found.origin or "the built-in configuration"
    return replace(found, objects=tuple(objects), origin=origin, taken_at=taken_at)


def configured_cluster(flags: Mapping[str, Any], inventory: Inventory | None = None) -> ClusterSnapshot:
    """Return the configuration in force, of manifests or of the cluster, without any objects yet."""
    counts = in_force.configuration(inventory, flags)
    if counts.doubt:
        report(counts.doubt, "warning")
    if counts.refusal:
        report(f"{counts.refusal}; {BUILT_IN_COUNTS}", "warning")
    names = tuple(dict.fromkeys(flags["scheduler_names"])) or counts.names or SCHEDULER_NAMES
    queue = flags["default_queue"] or counts.default_queue or "default"
    return ClusterSnapshot((), counts.text or DEFAULT_CONFIGURATION, counts.origin, names, queue)


def _of_cluster(flags: Mapping[str, Any]) -> list[api.ApiObject]:
    from volsched.kube.watch.resources import watched  # noqa: PLC0415 - half a second of imports, for a cluster alone

    kinds = [resource.kind for resource in watched(need_groups=True)]
    changes = read_cluster(flags, [*kinds, *native.NAMES])
    lost = [f for change in changes if isinstance(change, DroppedFields) for f in sorted(change.fields)]
    if lost:
        report(f"the CustomResourceDefinition of Queues does not keep {', '.join(lost)}", "warning")
    return [change.object for change in changes if isinstance(change, Put)]


def configured(found: ClusterSnapshot, path: str) -> ClusterSnapshot:
    """Return the cluster with the configuration of a file; ends when it does not hold."""
    try:
        other = replace(found, configuration=read_text(path), origin=path)
        other.profile()
    except (InputError, ConfigError) as error:
        refuse(error, path)
    return other
