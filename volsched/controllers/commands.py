"""The Commands of Volcano's command line that are carried out, and their targets.

A Command does not name its author, so it has the power of the right to make Commands in its namespace: it is about Jobs
of that namespace, and about Queues, which belong to no namespace, only where an administrator allows it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from volsched.controllers.job_controller import COMMANDS
from volsched.controllers.objects import Command
from volsched.controllers.queues import STATE_AFTER
from volsched.controllers.store import Store
from volsched.controllers.writes import COMMAND, JOB, QUEUE, ApiKind
from volsched.model import api
from volsched.model.errors import shortened
from volsched.model.plan import RecordEvent
from volsched.model.pods.owners import group_of

_ACTIONS: Final[Mapping[ApiKind, Collection[str]]] = {JOB: COMMANDS, QUEUE: STATE_AFTER}


def why_not(command: Command, store: Store, namespaces: Collection[str]) -> str:
    """Return why a Command is not carried out; empty if it is.

    `namespaces` are those whose Commands may be for Queues.
    """
    target, namespace = command.target, command.metadata.namespace
    kind = next((kind for kind in _ACTIONS if kind.name == target.kind), None)
    group = group_of(target.api_version)
    if kind is None or group not in ("", group_of(kind.group_version)):
        target_kind = shortened(f"{target.kind} of {target.api_version}" if target.api_version else target.kind)
        return f"target: {target_kind!r} is neither a Job of {group_of(JOB.group_version)} nor a Queue"
    if command.action not in _ACTIONS[kind]:
        known = ", ".join(_ACTIONS[kind])
        return f"action: {shortened(command.action)!r} means nothing to a {kind.name}; there are {known}"
    if kind is QUEUE and namespace not in namespaces:
        return (
            f"Commands to Queues are taken from {_listed(namespaces)} only; write spec.state of the Queue, or start "
            f"volsched with --queue-command-namespace={namespace}"
        )
    found = _found(store, kind, namespace, target.name)
    if found is None or target.uid not in ("", found.metadata.uid):
        where = f" in namespace {namespace}" if kind is JOB else ""
        what = f"{kind.name} {shortened(target.name)!r}" + (f" of uid {shortened(target.uid)}" if target.uid else "")
        return f"target: there is no {what}{where}"
    return ""


def refused(command: Command, why: str) -> RecordEvent:
    """Return the Event that states why a Command was not carried out."""
    meta, kind, version = command.metadata, COMMAND.name, COMMAND.group_version
    message = f"{why}; it was deleted and not carried out"
    return RecordEvent(
        kind, version, meta.namespace, meta.name, meta.uid, "Warning", "CommandRefused", message, "Reconciling"
    )


def _found(store: Store, kind: ApiKind, namespace: str, name: str) -> api.ApiObject | None:
    if kind is QUEUE:
        return store.queues.get(name)
    view = store.jobs.get(f"{namespace}/{name}")
    return view.job if view is not None else None


def _listed(namespaces: Collection[str]) -> str:
    return f"the namespace{'' if len(namespaces) == 1 else 's'} {', '.join(sorted(namespaces))}"
