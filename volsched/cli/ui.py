"""``volsched ui``: the page, on this machine or in the cluster."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import click

from volsched.asking.known import KnownCluster
from volsched.cli.inputs import in_force
from volsched.cli.inputs.configuration import BUILT_IN_COUNTS
from volsched.cli.inputs.flags import SETTINGS
from volsched.cli.inputs.known import known_flags
from volsched.cli.output import report
from volsched.framework.config.loading import DEFAULT_CONFIGURATION
from volsched.simulation.runner import SCHEDULER_NAMES


@click.command(context_settings=SETTINGS)
@click.option("--listen-address", default="127.0.0.1:8088", metavar="ADDRESS", help="Where to serve the page.")
@click.option(
    "--auth",
    is_flag=True,
    help="Serve by TLS to those alone whom the API server lets get /ui, as their bearer token says; for a Deployment "
    "behind a proxy that logs people in. Without it the page is for this machine.",
)
@known_flags
def ui(listen_address: str, auth: bool, **flags: Any) -> None:
    """Serve a page of the cluster: queues, cards, who waits and why, what would help, and what if. Nothing is written.

    It reads with your own rights, those of the ClusterRole volsched-ui, and follows every change. Open
    http://localhost:8088 in a browser; Ctrl-C ends it.

    \b
    Examples:
      volsched ui
      volsched ui --context production --listen-address 127.0.0.1:9000

    \b
    Exit status: 0 ended by a signal; 1 the API server did not answer or refused; 2 a flag or the configuration is
    invalid.
    """  # noqa: D301 - laid out for click, which reads the backspace as "do not wrap"
    from volsched.kube.client.credentials import Source  # noqa: PLC0415 - `volsched --help` needs none of this
    from volsched.ui.program import serve  # noqa: PLC0415

    paths = flags.pop("paths")
    if paths:
        raise click.UsageError("the page is of a live cluster; for manifests there is volsched simulate")
    in_force.check_flags((), flags)
    configured = _configured(flags)
    report(f"serving http{'s' if auth else ''}://{listen_address}", "note")
    where = (flags["kubeconfig"], flags["kube_context"], flags["master"])
    with suppress(KeyboardInterrupt):
        asyncio.run(serve(Source(*where), configured, listen_address, with_access=auth))


def _configured(flags: dict[str, Any]) -> KnownCluster:
    """Return the configuration in force, without any objects yet."""
    counts = in_force.configuration(None, flags)
    if counts.doubt:
        report(counts.doubt, "warning")
    if counts.refusal:
        report(f"{counts.refusal}; {BUILT_IN_COUNTS}", "warning")
    names = tuple(dict.fromkeys(flags["scheduler_names"])) or counts.names or SCHEDULER_NAMES
    queue = flags["default_queue"] or counts.default_queue or "default"
    return KnownCluster((), counts.text or DEFAULT_CONFIGURATION, counts.origin, names, queue)
