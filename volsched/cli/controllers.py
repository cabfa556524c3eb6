"""`volsched controllers`: the flags, those of `volsched run` where they mean the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from volsched.cli.inputs.flags import (
    Duration,
    Networks,
    kept_bytes_flag,
    leader_flags,
    lease_from,
    listening,
    log_flags,
    server_flags,
    watch_flag,
)
from volsched.cli.inputs.volcano_flags import (
    OF_THE_CONTROLLERS,
    SETTINGS_OF_VOLCANO,
    VolcanoCommand,
    report_what_has_no_effect,
    volcano_flags,
)
from volsched.garbage import little_garbage
from volsched.model.pods.limits import KEPT_BYTES_OF_CONTROLLERS


@click.command(cls=VolcanoCommand, context_settings=SETTINGS_OF_VOLCANO)
@click.option(
    "--scheduler-name",
    "scheduler_names",
    multiple=True,
    default=("volsched",),
    metavar="NAME",
    help="Look after pods and Volcano Jobs of this scheduler; may be repeated. As given to `volsched run`.",
)
@click.option("--default-queue", default="default", metavar="NAME", help="The queue of what names none.")
@click.option(
    "--inherit-owner-annotations",
    type=bool,
    is_flag=False,
    flag_value="true",
    default=True,
    help="Copy annotations that begin with volcano.sh/ from a workload to the PodGroup of its pods.",
)
@click.option(
    "--controllers",
    "words",
    multiple=True,
    default=("*",),
    metavar="NAMES",
    help="Which of job-controller, pg-controller and queue-controller are at work, with commas between them: names, or "
    "`*` for all but those with a minus before them.",
)
@click.option("--workers", type=click.IntRange(1, 256), default=32, help="Objects that are worked on at once.")
@click.option(
    "--job-pods-at-once",
    type=click.IntRange(1, 10_000),
    default=500,
    help="Pods that are made or deleted for one Volcano Job before others have their turn.",
)
@kept_bytes_flag(KEPT_BYTES_OF_CONTROLLERS, "PodGroups, workloads and Volcano Jobs")
@click.option(
    "--job-bytes",
    type=click.IntRange(1024, 1_572_864),
    default=262_144,
    help="A Volcano Job whose spec is larger (as JSON) is not run, and says so.",
)
@click.option(
    "--queue-command-namespace",
    "queue_command_namespaces",
    multiple=True,
    default=(),
    metavar="NAME",
    help="Carry out Commands to Queues from this namespace, too, beside volsched's own; may be repeated. Users who "
    "may make Commands there may open and close every Queue.",
)
@click.option(
    "--volcano-grace",
    type=Duration(),
    default="60s",
    help="Take over once Volcano's own controllers were not seen for this long.",
)
@click.option(
    "--stand-aside",
    type=click.Choice(["auto", "never", "always"]),
    default="auto",
    help="Write nothing while Volcano's own controllers run (auto), do not ask whether they do (never), or write "
    "nothing at all (always).",
)
@click.option(
    "--volcano-namespace",
    "volcano_namespaces",
    multiple=True,
    default=("volcano-system",),
    metavar="NAME",
    help="Look for Volcano's own controllers here and nowhere else; may be repeated.",
)
@click.option(
    "--volcano-service-account",
    default="volcano-controllers",
    metavar="NAME",
    help="The ServiceAccount by which their pods are known there.",
)
@click.option(
    "--webhook-address",
    default="",
    metavar="ADDRESS",
    help="Answer admission reviews here, at /validate, on every replica; empty: do not.",
)
@click.option(
    "--webhook-certificate",
    default="/etc/volsched/webhooks/tls.crt",
    metavar="FILE",
    help="The certificate of that address, followed as it is replaced.",
)
@click.option(
    "--webhook-key",
    default="/etc/volsched/webhooks/tls.key",
    metavar="FILE",
    help="Its private key, followed as well.",
)
@click.option(
    "--webhook-reviews",
    type=click.IntRange(1, 64),
    default=4,
    help="Reviews that are judged at once; eight wait for each of them, and others are told to come again (429).",
)
@click.option(
    "--webhook-bytes",
    type=click.IntRange(65_536, 8_388_608),
    default=1_048_576,
    help="A review that is larger is not read (413): the API server lets its object in, and the scheduler looks at it.",
)
@click.option(
    "--webhook-client",
    "webhook_clients",
    type=Networks(),
    multiple=True,
    metavar="CIDR",
    show_default="none",
    help="From here API servers send reviews: the limit of 64 connections per address does not apply to them. May be "
    "repeated.",
)
@click.option(
    "--webhook-strict",
    type=bool,
    is_flag=False,
    flag_value="true",
    default=False,
    help="Refuse objects with an unknown field; without, warn of it.",
)
@leader_flags("volsched-controllers", "the pod's own, else volsched-system", "controllers processes")
@server_flags
@watch_flag
@log_flags
@volcano_flags(OF_THE_CONTROLLERS)
@click.pass_context
def controllers(context: click.Context, /, **flags: Any) -> None:
    """Look after Queues, PodGroups and Volcano Jobs where Volcano's own controllers do not run.

    Ends with status 0 after SIGTERM or SIGINT, 1 when the lease is lost or something fails, 2 when a flag is wrong.
    SIGUSR1 switches between log levels info and debug.
    """
    from volsched import logs  # noqa: PLC0415 - `volsched --help` needs none of this

    logs.setup(flags["log_level"], flags["log_format"])
    listeners = listening(context, flags)
    options = options_from(flags)
    report_what_has_no_effect(context, _absent(flags["words"]))
    with little_garbage():
        from volsched.operator.program import run  # noqa: PLC0415 - 0.5 s of imports

    context.exit(run(options, listeners))


def options_from(flags: dict[str, Any]) -> Any:
    """Return the flags as `volsched.operator.options.ControllerOptions`; raises click.UsageError for contradictions."""
    with little_garbage():
        from volsched.kube.client.credentials import Source, namespace_of_service_account  # noqa: PLC0415
        from volsched.operator.options import ControllerOptions  # noqa: PLC0415
        from volsched.operator.volcano import Signs  # noqa: PLC0415
        from volsched.operator.webhooks.listening import Listening  # noqa: PLC0415

    if flags["volcano_grace"] <= 0:
        raise click.UsageError("--volcano-grace must be positive")
    webhooks = None
    if flags["webhook_address"]:
        files = flags["webhook_certificate"], flags["webhook_key"]
        limits = flags["webhook_reviews"], flags["webhook_bytes"]
        clients = tuple(network for given in flags["webhook_clients"] for network in given)
        webhooks = Listening(flags["webhook_address"], *files, *limits, clients)
        if webhooks.problem():
            raise click.UsageError(f"--webhook-address: {webhooks.problem()}")
    return ControllerOptions(
        scheduler_names=tuple(dict.fromkeys(flags["scheduler_names"])),
        default_queue=flags["default_queue"],
        inherit_owner_annotations=flags["inherit_owner_annotations"],
        workers=flags["workers"],
        job_pods_at_once=flags["job_pods_at_once"],
        job_bytes=flags["job_bytes"],
        kept_bytes=flags["kept_bytes"],
        queue_command_namespaces=flags["queue_command_namespaces"],
        controllers=_controllers(flags["words"]),
        volcano_grace=flags["volcano_grace"],
        volcano=Signs(
            flags["stand_aside"], tuple(dict.fromkeys(flags["volcano_namespaces"])), flags["volcano_service_account"]
        ),
        leader_elect=flags["leader_elect"],
        lease=lease_from(flags, "volsched-controllers", namespace_of_service_account() or "volsched-system"),
        source=Source(flags["kubeconfig"], flags["kube_context"], flags["master"]),
        qps=flags["kube_api_qps"],
        burst=flags["kube_api_burst"],
        listen_address=flags["listen_address"],
        metrics_auth=flags["metrics_auth"],
        healthz_address=flags["healthz_address"],
        node_address=flags["node_address"],
        watch_silence=flags["watch_silence"],
        webhooks=webhooks,
        webhook_strict=flags["webhook_strict"],
    )


def _controllers(given: Sequence[str]) -> tuple[str, ...]:
    """Return the controllers that are switched on; raises click.UsageError for unknown names."""
    from volsched.operator.options import CONTROLLERS, ELSEWHERE, EVERY, is_on  # noqa: PLC0415

    words = _split(given)
    names = [word.removeprefix("+").removeprefix("-") for word in words]
    for name in names:
        if name not in (EVERY, *CONTROLLERS, *ELSEWHERE):
            known = ", ".join(CONTROLLERS)
            raise click.UsageError(f"--controllers: there is no controller {name!r}; there are {known}")
        if names.count(name) > 1:
            raise click.UsageError(f"--controllers: {name} stands there twice")
    return tuple(name for name in CONTROLLERS if is_on(name, words))


def _absent(given: Sequence[str]) -> list[str]:
    """Return the names in `--controllers` of controllers that volsched lacks."""
    from volsched.operator.options import ELSEWHERE  # noqa: PLC0415

    return [f"--controllers={word}" for word in _split(given) if word.lstrip("+-") in ELSEWHERE]


def _split(given: Sequence[str]) -> list[str]:
    return [word.strip() for text in given for word in text.split(",")]
