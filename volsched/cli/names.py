"""Names for shell completion, asked of the cluster that the command line names so far.

A shell waits while this answers, so it gives up early, and a cluster that does not answer completes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from volsched.kube.client.credentials import Source
    from volsched.kube.watch.resources import Resource

Complete = Callable[[click.Context, click.Parameter, str], list[str]]

PATIENCE_SECONDS: Final = 3.0

_CLUSTER_WIDE: Final = ("Queue", "Namespace")
_KINDS: Final = {"pod": "Pod", "podgroup": "PodGroup", "queue": "Queue"}
"""The kinds of `explain` that volsched watches."""
_WORKLOADS: Final = {
    "job": ("Job", "jobs", ("batch.volcano.sh/v1alpha1", "batch/v1")),
    "deployment": ("Deployment", "deployments", ("apps/v1",)),
    "replicaset": ("ReplicaSet", "replicasets", ("apps/v1",)),
    "statefulset": ("StatefulSet", "statefulsets", ("apps/v1",)),
    "daemonset": ("DaemonSet", "daemonsets", ("apps/v1",)),
}
"""Kind, plural and API versions of the workloads of `explain`."""


def of_kind(kind: str) -> Complete:
    """Return the completion of names of a kind without a namespace, without names that were given already."""

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
        given = context.params.get(parameter.name or "") or ()
        taken = {given} if isinstance(given, str) else set(given)
        return [name for name in _beginning(incomplete, _watched(kind), context) if name not in taken]

    return complete


def asked_about(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete names of the kind that stands before, in the namespace of `-n`."""
    kind, _ = context.params.get("kind") or ("", "")
    if kind in _WORKLOADS:
        return _beginning(incomplete, _workloads(kind), context)
    return _beginning(incomplete, _watched(_KINDS[kind]), context) if kind in _KINDS else []


def namespaces(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete names of namespaces."""
    return _beginning(incomplete, _watched("Namespace"), context)


def files(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Have the shell complete names of files by itself."""
    return [CompletionItem(incomplete, type="file")]


def contexts(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete contexts of the kubeconfig file."""
    from volsched.kube.client.contexts import context_names  # noqa: PLC0415 - completion alone needs them
    from volsched.kube.errors import CredentialsError  # noqa: PLC0415

    try:
        found = context_names(context.params.get("kubeconfig") or "")
    except CredentialsError:
        return []
    return [name for name in found if name.startswith(incomplete) and name.isprintable()]


def _watched(kind: str) -> list[Resource]:
    from volsched.kube.watch.resources import watched  # noqa: PLC0415 - as above

    return [found for found in watched(need_groups=False) if found.kind == kind]


def _workloads(kind: str) -> list[Resource]:
    from volsched.kube.watch.resources import Resource  # noqa: PLC0415 - as above
    from volsched.model import api  # noqa: PLC0415

    name, plural, versions = _WORKLOADS[kind]
    return [Resource(name, version, plural, api.ApiObject) for version in versions]


def _beginning(incomplete: str, resources: Sequence[Resource], context: click.Context) -> list[str]:
    """Return the names with this prefix, in the namespace of `-n` if there is one and the kind has one."""
    namespace = context.params.get("namespace") or ""
    found = _listed(resources, namespace, context)
    names = {name for where, name in found if where in ("", namespace or where)}
    return sorted(name for name in names if name.startswith(incomplete) and name.isprintable())


def _listed(resources: Sequence[Resource], namespace: str, context: click.Context) -> list[tuple[str, str]]:
    """Return namespace and name of each object; none without a cluster that answers."""
    from volsched.kube.client.credentials import Source, is_there  # noqa: PLC0415 - as above

    source = Source(*(context.params.get(name) or "" for name in ("kubeconfig", "kube_context", "master")))
    within = [found if found.kind in _CLUSTER_WIDE else replace(found, namespace=namespace) for found in resources]
    return _read(source, within) if is_there(source) else []


def _read(source: Source, resources: Sequence[Resource]) -> list[tuple[str, str]]:
    from volsched.kube.errors import ApiError, CredentialsError  # noqa: PLC0415 - as above
    from volsched.kube.watch.listing import read_names  # noqa: PLC0415

    try:
        return read_names(source, resources, PATIENCE_SECONDS)
    except (ApiError, CredentialsError, TimeoutError):
        return []
