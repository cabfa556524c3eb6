"""`volsched run`: the flags, in Volcano's names where Volcano has them."""

from __future__ import annotations

import sys
from typing import Any, Final

import click

from volsched.cli.flags import (
    SETTINGS,
    Duration,
    check_configmap,
    leader_flags,
    lease_from,
    log_flags,
    server_flags,
    watch_flag,
)

DEFAULT_SCHEDULER: Final = "default-scheduler"
"""Who answers to this name alone stands in kube-scheduler's place: its Lease, its plain pods, its preemption."""

VOLCANO: Final = "volcano"
"""Who answers to this name stands in the place of Volcano's scheduler, and makes the queues that have to exist."""

VOLCANO_PERIOD_SECONDS: Final = 1.0
"""Volcano's sessions are so far apart (its `--schedule-period`), and jobs that are made together share one."""

LONGEST_SETTLE_SECONDS: Final = 5.0
"""The scheduling thread sees nothing else meanwhile, neither signals nor the end of the program."""

_HARMLESS: Final = (
    "alsologtostderr",
    "ca-cert-file",
    "cache-dumper",
    "csi-storage",
    "disable-default-scheduler-config",
    "enable-csi-storage",
    "enable-healthz",
    "enable-metrics",
    "enable-pprof",
    "feature-gates",
    "gate-removal-worker-num",
    "ignored-provisioners",
    "leader-elect-resource-lock",
    "lock-object-namespace",
    "log-flush-frequency",
    "logtostderr",
    "minimum-feasible-nodes",
    "minimum-percentage-nodes-to-find",
    "node-worker-threads",
    "percentage-nodes-to-find",
    "priority-class",
    "resource-sync-timeout",
    "resync-period",
    "scheduler-sharding-mode",
    "scheduler-sharding-name",
    "stderrthreshold",
    "tls-cert-file",
    "tls-private-key-file",
    "v",
)
"""Flags of Volcano's scheduler that have nothing to switch here; they are taken, and said to have no effect."""


class _Harmless(click.ParamType[str]):
    name = "ignored"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return str(value)


def _take_harmless(command: Any) -> Any:
    """Add the flags that have no effect here, out of sight of `--help`."""
    for name in _HARMLESS:
        destination = "ignored_" + name.replace("-", "_")
        spellings = [f"-{name}", f"--{name}"] if len(name) == 1 else [f"--{name}"]
        option = click.option(
            *spellings, destination, type=_Harmless(), hidden=True, is_flag=False, flag_value="true", default=None
        )
        command = option(command)
    return command


@click.command(context_settings=SETTINGS)
@click.option(
    "--scheduler-name",
    "scheduler_names",
    multiple=True,
    default=("volsched",),
    metavar="NAME",
    help="Schedule pods that name this scheduler; may be repeated. `volcano` or `default-scheduler` put volsched in "
    "their place.",
)
@click.option(
    "--scheduler-conf",
    default="",
    metavar="FILE",
    help="The configuration: a file, followed as it changes. Without file and ConfigMap a built-in one is used.",
)
@click.option(
    "--scheduler-configmap",
    default="",
    metavar="NAMESPACE/NAME",
    help="The configuration: a ConfigMap object, watched.",
)
@click.option(
    "--schedule-period",
    type=Duration(),
    default="1s",
    help="The longest wait for a session after a change; most wait a few milliseconds.",
)
@click.option(
    "--settle",
    type=Duration(),
    default=None,
    show_default="1s with the scheduler name volcano, else 0",
    help="How long a change waits for others to join it before a session, at most 5s: jobs that are made together then "
    "share what there is, whoever's pods come first. 0: until a burst is over, 3 to 25 ms.",
)
@click.option("--default-queue", default="default", metavar="NAME", help="The queue of what names none.")
@click.option(
    "--plain-pods",
    type=click.Choice(["direct", "podgroup"]),
    default=None,
    show_default="direct with the scheduler name default-scheduler, else podgroup",
    help="A pod that names no PodGroup is scheduled by itself (direct) or waits until a controller makes one.",
)
@leader_flags(
    "volsched; in kube-scheduler's place kube-scheduler",
    "the pod's own, else volsched-system; in the place of Volcano's scheduler volcano-system; in kube-scheduler's "
    "place kube-system",
    "schedulers",
)
@server_flags
@click.option("--binds-in-flight", type=click.IntRange(1, 256), default=32, help="Bindings that are under way at once.")
@watch_flag
@click.option(
    "--cache-dump-dir", default="", metavar="FOLDER", help="Where SIGUSR2 leaves what the scheduler believes."
)
@log_flags
@_take_harmless
@click.pass_context
def run(context: click.Context, /, **flags: Any) -> None:
    """Schedule the pods of a cluster.

    Ends with status 0 after SIGTERM or SIGINT, 1 when the lease is lost or something fails, 2 when a flag or the
    configuration is wrong at the start. SIGUSR2 dumps what the scheduler believes, SIGUSR1 switches between log levels
    info and debug.
    """
    from volsched import logs  # noqa: PLC0415 - `volsched --help` needs none of this

    logs.setup(flags["log_level"], flags["log_format"])
    options = options_from(flags)
    _say_what_has_no_effect(flags)
    from volsched.runner import run as run_scheduler  # noqa: PLC0415 - 0.5 s of imports

    context.exit(run_scheduler(options))


def options_from(flags: dict[str, Any]) -> Any:
    """Return the flags as `volsched.runner.Options`; raises click.UsageError for contradictions."""
    from volsched.kube.credentials import Source  # noqa: PLC0415
    from volsched.runner import Options  # noqa: PLC0415

    if flags["scheduler_conf"] and flags["scheduler_configmap"]:
        raise click.UsageError("--scheduler-conf and --scheduler-configmap exclude each other")
    check_configmap(flags)
    if flags["schedule_period"] <= 0:
        raise click.UsageError("--schedule-period must be positive")
    if flags["settle"] is not None and not 0 <= flags["settle"] <= LONGEST_SETTLE_SECONDS:
        raise click.UsageError(f"--settle must be 0 to {LONGEST_SETTLE_SECONDS:g}s")
    names = tuple(dict.fromkeys(flags["scheduler_names"]))
    alone = names == (DEFAULT_SCHEDULER,)
    lease = lease_from(flags, "kube-scheduler" if alone else "volsched", _lease_namespace(names))
    return Options(
        scheduler_names=names,
        scheduler_conf=flags["scheduler_conf"],
        scheduler_configmap=flags["scheduler_configmap"],
        schedule_period=flags["schedule_period"],
        settle=_settle(flags["settle"], names),
        default_queue=flags["default_queue"],
        plain_pods=flags["plain_pods"] or ("direct" if DEFAULT_SCHEDULER in names else "podgroup"),
        leader_elect=flags["leader_elect"],
        lease=lease,
        source=Source(flags["kubeconfig"], flags["kube_context"], flags["master"]),
        qps=flags["kube_api_qps"],
        burst=flags["kube_api_burst"],
        listen_address=flags["listen_address"],
        healthz_address=flags["healthz_address"],
        dump_dir=flags["cache_dump_dir"],
        binds_in_flight=flags["binds_in_flight"],
        watch_silence=flags["watch_silence"],
    )


def _settle(given: float | None, names: tuple[str, ...]) -> float:
    """How long changes wait for others, in seconds; in the place of Volcano's scheduler its sessions are apart."""
    if given is not None:
        return given
    return VOLCANO_PERIOD_SECONDS if names == (VOLCANO,) else 0.0


def _lease_namespace(names: tuple[str, ...]) -> str:
    """Where the Lease is: a namespace that there is wherever a scheduler of these names runs."""
    from volsched.kube.credentials import namespace_of_service_account  # noqa: PLC0415

    if names == (DEFAULT_SCHEDULER,):
        return "kube-system"
    return namespace_of_service_account() or ("volcano-system" if names == (VOLCANO,) else "volsched-system")


def _say_what_has_no_effect(flags: dict[str, Any]) -> None:
    import structlog  # noqa: PLC0415 - as above

    given = [name for name in _HARMLESS if flags.get("ignored_" + name.replace("-", "_")) is not None]
    if given:
        structlog.get_logger(__name__).info("flags of Volcano that have no effect here", flags=given)


if __name__ == "__main__":
    sys.exit(run())
