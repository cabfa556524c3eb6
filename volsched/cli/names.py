"""Names for shell completion, asked of the cluster that the command line names so far.

A shell waits while this answers, so it gives up early, and a cluster that does not answer completes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import click
from click.shell_completion import CompletionItem

Complete = Callable[[click.Context, click.Parameter, str], list[str]]

PATIENCE_SECONDS: Final = 3.0


def of_kind(kind: str) -> Complete:
    """Return what completes names of objects of a kind; in the namespace of `-n`, where one is given."""

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
        namespace = context.params.get("namespace")
        found = {name for where, name in _listed(kind, context) if not namespace or where == namespace}
        given = context.params.get(parameter.name or "") or ()
        taken = {given} if isinstance(given, str) else set(given)
        return sorted(name for name in found - taken if name.startswith(incomplete))

    return complete


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
    return [name for name in found if name.startswith(incomplete)]


def _listed(kind: str, context: click.Context) -> list[tuple[str, str]]:
    """Return namespace and name of each object; none when the cluster does not answer in time, or refuses."""
    from volsched.kube.client.credentials import Source  # noqa: PLC0415 - as above
    from volsched.kube.errors import ApiError, CredentialsError  # noqa: PLC0415
    from volsched.kube.watch.listing import read_names  # noqa: PLC0415
    from volsched.kube.watch.resources import watched  # noqa: PLC0415

    given = [context.params.get(name) or "" for name in ("kubeconfig", "kube_context", "master")]
    [resource] = [found for found in watched(need_groups=False) if found.kind == kind]
    try:
        return read_names(Source(*given), resource, PATIENCE_SECONDS)
    except (ApiError, CredentialsError, TimeoutError):
        return []
