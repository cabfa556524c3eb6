"""Flags that verbs share, defined once: they mean the same in all of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from volsched import cli
from volsched.cli.names import contexts, files, of_kind
from volsched.cli.printing import FOR_PROGRAMS, WIDE
from volsched.kube.serve.listeners import Listeners
from volsched.model.errors import shortened
from volsched.model.pods.limits import DEFAULT
from volsched.model.values.duration import seconds_of

if TYPE_CHECKING:
    from volsched.kube.serve.connections import Network

_MOST_DIGITS: Final = 18

Command = TypeVar("Command", bound=Callable[..., Any])

SETTINGS: Final = {**cli.SETTINGS, "show_default": True}


class Duration(click.ParamType[float]):
    """A time as Go writes it (`15s`, `1m30s`, `500ms`), or a number of seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return seconds."""
        if isinstance(value, int | float):
            return float(value)
        seconds = seconds_of(str(value))
        if seconds is None:
            self.fail(f"{value!r} is no duration; write it as 15s, 1m30s or 500ms", param, ctx)
        return seconds


class Networks(click.ParamType["tuple[Network, ...]"]):
    """Networks (CIDR) and single addresses, with commas between several."""

    name = "networks"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[Network, ...]:
        """Return networks; a single address is one of its own."""
        from volsched.kube.serve.connections import networks  # noqa: PLC0415 - `simulate` needs none of this

        try:
            return networks(str(value))
        except ValueError as error:
            self.fail(f"{error}; write it as 10.0.0.0/24 or 10.0.0.7", param, ctx)


class PodLimit(click.ParamType[tuple[str, int]]):
    """The limit of one pod for one thing, `NAME=NUMBER`."""

    name = "limit"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        """Return the name of the field of `PodLimits`, and the number."""
        name, _, number = str(value).partition("=")
        if name not in DEFAULT.by_name():
            self.fail(f"{name!r} is no limit of a pod; it is one of {', '.join(DEFAULT.by_name())}", param, ctx)
        if not (number.isascii() and number.isdigit() and len(number) <= _MOST_DIGITS):
            self.fail(f"{shortened(str(value))!r}: write it as {name}=NUMBER", param, ctx)
        return name.replace("-", "_"), int(number)


def together(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Make one decorator of several, in the order in which `--help` shows them."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


scheduler_flags: Final = together(
    click.option(
        "--scheduler-name",
        "scheduler_names",
        multiple=True,
        show_default="those of the scheduler that runs, else volsched and volcano",
        help="The schedulerName of pods that are scheduled. May be repeated.",
    ),
    click.option(
        "--default-queue",
        default="",
        shell_complete=of_kind("Queue"),
        show_default="that of the scheduler that runs, else default",
        help="The queue of what names none.",
    ),
)
"""The scheduler names of its pods, and the queue of pods that name none."""


def leader_flags(lease: str, namespace: str, what: str) -> Callable[[Command], Command]:
    """Return the flags of the election; `lease` and `namespace` name in words which Lease is the default."""
    return together(
        click.option(
            "--leader-elect",
            type=bool,
            is_flag=False,
            flag_value="true",
            default=True,
            help=f"Elect one leader among several {what}.",
        ),
        click.option(
            "--leader-elect-lease-duration", type=Duration(), default="15s", help="After this others may take over."
        ),
        click.option(
            "--leader-elect-renew-deadline", type=Duration(), default="10s", help="A leader without news stops then."
        ),
        click.option("--leader-elect-retry-period", type=Duration(), default="2s", help="Pause between two tries."),
        click.option(
            "--leader-elect-resource-name", default="", metavar="NAME", show_default=lease, help="The Lease object."
        ),
        click.option(
            "--leader-elect-resource-namespace",
            default="",
            metavar="NAMESPACE",
            show_default=namespace,
            help="The namespace of the Lease object.",
        ),
    )


FILES_HELP: Final = "A file, a folder (its *.yaml, *.yml and *.json, sorted), or - for standard input. May be repeated."


def files_flag(text: str = FILES_HELP, *, required: bool = True) -> Callable[[Command], Command]:
    """Return the flag that names manifests."""
    return click.option(
        "-f",
        "--filename",
        "paths",
        multiple=True,
        required=required,
        metavar="PATH",
        shell_complete=files,
        help=text,
    )


def kept_bytes_flag(default: int, objects: str) -> Callable[[Command], Command]:
    """Return the flag of how much is kept of objects (`volsched.mirror.memory_bound`); `objects` names which."""
    return click.option(
        "--kept-bytes",
        type=click.IntRange(min=0),
        default=default,
        metavar="BYTES",
        show_default=True,
        help=f"Memory for the {objects} of all namespaces, by estimate: above it the newest ones that hold nothing are "
        "refused, of the namespace that has most. Half of what the process may use. 0: no bound.",
    )


strict_flag: Final = click.option("--strict", is_flag=True, help="An unknown field is an error, not a warning.")


follow_flag: Final = click.option(
    "-w",
    "--watch",
    "follows",
    is_flag=True,
    help="Follow the cluster after the answer: a terminal shows the present answer in place, a pipe gets what changes.",
)


def output_flag(people: str, text: str) -> Callable[[Command], Command]:
    """Return the flag for the form of an answer; `people` is the form for them, `text` states what comes."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice([people, WIDE, *FOR_PROGRAMS]),
        default=people,
        show_default=True,
        help=text,
    )


def check_configmap(flags: dict[str, Any]) -> None:
    """Raise click.UsageError when --scheduler-configmap is given and names no object of a cluster."""
    if flags["scheduler_configmap"] and not re.fullmatch(r"[^/]+/[^/]+", flags["scheduler_configmap"]):
        raise click.UsageError("--scheduler-configmap must be NAMESPACE/NAME")


connection_flags: Final = together(
    click.option(
        "--kubeconfig",
        default="",
        metavar="FILE",
        shell_complete=files,
        help="A kubeconfig file; in a cluster none is needed.",
    ),
    click.option(
        "--context",
        "kube_context",
        default="",
        metavar="NAME",
        shell_complete=contexts,
        help="A context of the kubeconfig file.",
    ),
    click.option(
        "--master", default="", metavar="URL", help="The API server's address, in place of the configured one."
    ),
)

server_flags: Final = together(
    click.option(
        "--listen-address", default=":8080", metavar="ADDRESS", help="Serve metrics and probes here; empty: do not."
    ),
    click.option(
        "--healthz-address", default=":11251", metavar="ADDRESS", help="Serve the probes here, too; empty: do not."
    ),
    click.option(
        "--node-address",
        type=Networks(),
        default="",
        envvar="VOLSCHED_HOST_IP",
        metavar="ADDRESS",
        show_default="VOLSCHED_HOST_IP, which the manifests set to the address of the pod's node",
        help="From here the kubelet asks for probes: the limit of connections per address does not apply to it.",
    ),
    click.option(
        "--metrics-auth",
        is_flag=True,
        default=False,
        help="Serve metrics and configuration by TLS, to whom the API server lets get /metrics and /configz.",
    ),
    connection_flags,
    click.option("--kube-api-qps", type=float, default=0.0, help="Limit of requests per second; 0 is no limit."),
    click.option("--kube-api-burst", type=int, default=5000, help="Requests that may be made at once under a limit."),
)

watch_flag: Final = click.option(
    "--watch-silence", type=Duration(), default="75s", help="A watch that says nothing this long is renewed."
)

log_flags: Final = together(
    click.option(
        "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="info", help="Log level."
    ),
    click.option("--log-format", type=click.Choice(["auto", "json", "console"]), default="auto", help="Log format."),
)


def lease_from(flags: dict[str, Any], name: str, namespace: str) -> Any:
    """Return the flags of the election as `LeaseSettings`; raises click.UsageError for times that contradict."""
    from volsched.kube.lead.elector import LeaseSettings  # noqa: PLC0415 - `volsched --help` needs none of this

    lease = LeaseSettings(
        flags["lock_object_namespace"] or flags["leader_elect_resource_namespace"] or namespace,
        flags["leader_elect_resource_name"] or name,
        flags["leader_elect_lease_duration"],
        flags["leader_elect_renew_deadline"],
        flags["leader_elect_retry_period"],
    )
    if flags["leader_elect"] and lease.problem():
        raise click.UsageError(f"--leader-elect-...: {lease.problem()}")
    return lease


def listening(context: click.Context, flags: dict[str, Any]) -> Listeners:
    """Listen on the addresses of the flags until the verb is over, before slow imports."""
    listeners = Listeners()
    context.call_on_close(listeners.close)
    listeners.open(flags["healthz_address"], flags["listen_address"])
    return listeners
