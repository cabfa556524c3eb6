"""``volsched ui``: the page, on this machine or in the cluster."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import click

from volsched.cli.inputs import in_force
from volsched.cli.inputs.flags import SETTINGS
from volsched.cli.inputs.known import Progress, configured_cluster, known, known_flags, snapshot_in
from volsched.cli.inputs.sources import EXIT_CLUSTER
from volsched.cli.output import refuse, report
from volsched.kube.serve.listeners import parse_address
from volsched.model.errors import ConfigError, VolschedError

LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
"""Loopback hosts; in a request to the page no others may be named."""


@click.command(context_settings=SETTINGS)
@click.option(
    "--listen-address",
    default="127.0.0.1:8088",
    metavar="ADDRESS",
    help="Where to serve the page; without --auth this machine alone may reach it.",
)
@click.option(
    "--auth",
    is_flag=True,
    help="Serve by TLS to those alone whom the API server lets get /ui, as their bearer token says; for a Deployment "
    "behind a proxy that logs people in. Without it the page is for this machine.",
)
@click.option(
    "--cluster-name",
    default="",
    metavar="NAME",
    help="The name of the cluster in the header of the page; by default the context of the kubeconfig, with -f the "
    "names of the files.",
)
@click.option(
    "--grafana-url",
    default="",
    metavar="URL",
    help="Where Grafana with the dashboards of manifests/grafana is; the overview links to them.",
)
@known_flags
def ui(listen_address: str, auth: bool, cluster_name: str, grafana_url: str, **flags: Any) -> None:
    """Serve a page of the cluster: queues, cards, who waits and why, what would help, and what if. Nothing is written.

    It reads with your own rights, those of the ClusterRole volsched-ui, and follows every change. Open the link that it
    prints in a browser: without --auth it has a secret, and no other user of this machine can look. Ctrl-C ends it.

    With -f no cluster is needed: manifests are scheduled in memory, as volsched simulate does it, and the page shows
    how that ended: who is on which card, and why the rest waits. A snapshot is shown as it is. Neither is followed:
    start it anew to see other files.

    \b
    Examples:
      volsched ui
      volsched ui -f manifests/examples
      volsched ui -f cluster.snapshot --config other.conf
      volsched ui --context production --listen-address 127.0.0.1:9000

    \b
    Exit status: 0 ended by a signal; 1 the API server did not answer or refused, or the address cannot be listened on;
    2 a flag, the input or the configuration is invalid.
    """  # noqa: D301 - laid out for click, which reads the backspace as "do not wrap"
    paths = flags.pop("paths")
    _check(paths, listen_address, auth=auth)
    _check_url(grafana_url)
    if paths:
        _serve_still(paths, flags, listen_address, Header(cluster_name or _names_of(paths), grafana_url))
    else:
        _serve_cluster(flags, listen_address, Header(cluster_name or _context_of(flags), grafana_url), auth=auth)


@dataclass(frozen=True, slots=True)
class Header:
    """What flags say about the page: the name of the cluster, and the address of Grafana."""

    cluster: str
    grafana_url: str


def _check_url(url: str) -> None:
    parts = urlsplit(url)
    if url and (parts.scheme not in ("http", "https") or not parts.netloc or parts.query or parts.fragment):
        raise click.UsageError(f"--grafana-url {url} is no address of Grafana; write https://HOST or https://HOST/PATH")


def _check(paths: Sequence[str], address: str, *, auth: bool) -> None:
    if paths and auth:
        raise click.UsageError("--auth asks the API server who may look, and with -f there is none; leave it out")
    try:
        host, _ = parse_address(address)
    except VolschedError as error:
        raise click.UsageError(f"--listen-address: {error}") from None
    if not auth and host not in LOOPBACK:
        raise click.UsageError(
            f"--listen-address {address} can be reached from other machines, and without --auth the page is for this "
            "one alone; listen on 127.0.0.1, [::1] or localhost"
        )


def _names_of(paths: Sequence[str]) -> str:
    """Return the names of files, as the reader gave them, without their folders."""
    return ", ".join(Path(path).resolve().name if path != "-" else "standard input" for path in paths)


def _context_of(flags: Mapping[str, Any]) -> str:
    """Return the context of the kubeconfig that is used; empty in a pod, and if there is none."""
    from volsched.kube.client.contexts import current_context  # noqa: PLC0415 - `volsched --help` needs none of this
    from volsched.kube.errors import CredentialsError  # noqa: PLC0415

    try:
        return flags["kube_context"] or current_context(flags["kubeconfig"])
    except CredentialsError:
        return ""  # the connection tells what is wrong with the kubeconfig


def _serve_still(paths: Sequence[str], flags: Mapping[str, Any], address: str, header: Header) -> None:
    from volsched.ui.program import serve_still  # noqa: PLC0415 - `volsched --help` needs none of this
    from volsched.ui.static_cluster import StaticCluster  # noqa: PLC0415

    progress = Progress()
    found = known(paths, flags, progress)
    try:
        still = StaticCluster(
            found, schedules=snapshot_in(paths) is None, on_cycle=progress.cycle, cluster=header.cluster
        )
    except ConfigError as error:
        refuse(error, found.origin)
    _run(serve_still(still, address, _report_link, header.grafana_url))


def _serve_cluster(flags: Mapping[str, Any], address: str, header: Header, *, auth: bool) -> None:
    from volsched.kube.client.credentials import Source  # noqa: PLC0415 - `volsched --help` needs none of this
    from volsched.ui.program import serve  # noqa: PLC0415

    in_force.check_flags((), flags)
    configured = configured_cluster(flags)
    source = Source(flags["kubeconfig"], flags["kube_context"], flags["master"])
    names = {"cluster": header.cluster, "grafana_url": header.grafana_url}
    _run(serve(source, configured, address, _report_link, with_access=auth, **names))


def _report_link(link: str) -> None:
    report(f"serving {link}", "note")


def _run(serving: Coroutine[Any, Any, None]) -> None:
    """Serve until a signal comes; ends with a word about why the page cannot be served."""
    from volsched.kube.errors import CredentialsError, KubeSetupError  # noqa: PLC0415 - as above

    try:
        asyncio.run(serving)
    except CredentialsError as error:
        report(f"{error}; name a cluster with --kubeconfig, or manifests with -f")
        sys.exit(EXIT_CLUSTER)
    except KubeSetupError as error:
        report(str(error))
        sys.exit(EXIT_CLUSTER)
