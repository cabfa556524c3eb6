"""`volsched run`: the flags, in Volcano's names where Volcano has them."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any, Final

import click

from volsched.cli.inputs.flags import (
    Duration,
    PodLimit,
    check_configmap,
    kept_bytes_flag,
    leader_flags,
    lease_from,
    listening,
    log_flags,
    server_flags,
    watch_flag,
)
from volsched.cli.inputs.volcano_flags import (
    OF_THE_SCHEDULER,
    SETTINGS_OF_VOLCANO,
    VolcanoCommand,
    report_what_has_no_effect,
    volcano_flags,
)
from volsched.garbage import little_garbage
from volsched.model.pods.limits import DEFAULT as DEFAULT_POD_LIMITS
from volsched.model.pods.limits import KEPT_BYTES

DEFAULT_SCHEDULER: Final = "default-scheduler"
"""The name that alone makes volsched replace kube-scheduler: its Lease, its plain pods, its preemption."""

VOLCANO: Final = "volcano"
"""The name that makes volsched replace Volcano's scheduler, and make the built-in queues."""

VOLCANO_PERIOD_SECONDS: Final = 1.0
"""Volcano's sessions are so far apart (its `--schedule-period`), and jobs that are made together share one."""

LONGEST_SETTLE_SECONDS: Final = 5.0
"""The scheduling thread sees nothing else meanwhile, neither signals nor the end of the program."""


class Labels(click.ParamType[tuple[tuple[str, str], ...]]):
    """Labels as Volcano's scheduler takes them: `label:value`, with commas between several."""

    name = "labels"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[tuple[str, str], ...]:
        """Return pairs of a label and its value."""
        pairs = [tuple(part.strip() for part in word.split(":", 1)) for word in str(value).split(",")]
        if not all(len(pair) == 2 and all(pair) for pair in pairs):
            self.fail(f"{value!r} is no label and value; write it as volcano.sh/role:train", param, ctx)
        return tuple((label, wanted) for label, wanted in pairs)


@click.command(cls=VolcanoCommand, context_settings=SETTINGS_OF_VOLCANO)
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
    "share what there is, regardless of whose pods come first. 0: until a burst is over, 3 to 25 ms.",
)
@click.option(
    "--session-budget",
    type=Duration(),
    default="5s",
    show_default=True,
    help="CPU time after which a session ends: what was decided stands, the rest comes in the next one, and what took "
    "most of it waits for a while.",
)
@click.option(
    "--admission-timeout",
    type=Duration(),
    default="10m",
    show_default=True,
    help="A PodGroup that was admitted and has fewer pods than it starts with for so long is Pending again, and no "
    "room is kept for it. 0: never.",
)
@click.option(
    "--pod-limit",
    "pod_limits",
    type=PodLimit(),
    multiple=True,
    metavar="NAME=NUMBER",
    show_default=", ".join(f"{name}={number}" for name, number in DEFAULT_POD_LIMITS.by_name().items()),
    help="How much one pod may say; a pod that says more is not placed. May be repeated.",
)
@kept_bytes_flag(KEPT_BYTES, "objects")
@click.option("--default-queue", default="default", metavar="NAME", help="The queue of what names none.")
@click.option(
    "--node-selector",
    "node_selectors",
    type=Labels(),
    multiple=True,
    metavar="LABEL:VALUE",
    show_default="all nodes",
    help="Use nodes with this label only; of several, repeated or with commas between them, a node needs one.",
)
@click.option(
    "--plain-pods",
    type=click.Choice(["direct", "podgroup"]),
    default=None,
    show_default="direct with the scheduler name default-scheduler, else podgroup",
    help="A pod that names no PodGroup is scheduled by itself (direct) or waits until a controller makes one.",
)
@click.option(
    "--pod-condition-reason",
    type=click.Choice(["by-cause", "unschedulable"]),
    default="by-cause",
    help="The reason of the condition PodScheduled=False of pods that wait. Autoscalers make nodes for Unschedulable, "
    "so by cause that is said only where nodes are lacking, else QuotaExceeded, NotAdmitted and so on; unschedulable "
    "says it whatever the cause.",
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
@volcano_flags(OF_THE_SCHEDULER)
@click.pass_context
def run(context: click.Context, /, **flags: Any) -> None:
    """Schedule the pods of a cluster.

    Ends with status 0 after SIGTERM or SIGINT, 1 when the lease is lost or something fails, 2 when a flag or the
    configuration is wrong at the start. SIGUSR2 dumps what the scheduler believes, SIGUSR1 switches between log levels
    info and debug.
    """
    from volsched import logs  # noqa: PLC0415 - `volsched --help` needs none of this

    logs.setup(flags["log_level"], flags["log_format"])
    listeners = listening(context, flags)
    options = options_from(flags)
    report_what_has_no_effect(context)
    from volsched.run.runner import run as run_scheduler  # noqa: PLC0415 - with the options

    context.exit(run_scheduler(options, listeners))


def options_from(flags: dict[str, Any]) -> Any:
    """Return the flags as `volsched.run.runner.SchedulerOptions`; raises click.UsageError for contradictions."""
    with little_garbage():
        from volsched.kube.client.credentials import Source  # noqa: PLC0415
        from volsched.run.runner import SchedulerOptions  # noqa: PLC0415 - 0.5 s of imports

    if flags["scheduler_conf"] and flags["scheduler_configmap"]:
        raise click.UsageError("--scheduler-conf and --scheduler-configmap exclude each other")
    check_configmap(flags)
    if flags["schedule_period"] <= 0:
        raise click.UsageError("--schedule-period must be positive")
    if flags["session_budget"] <= 0:
        raise click.UsageError("--session-budget must be positive")
    if flags["settle"] is not None and not 0 <= flags["settle"] <= LONGEST_SETTLE_SECONDS:
        raise click.UsageError(f"--settle must be 0 to {LONGEST_SETTLE_SECONDS:g}s")
    names = tuple(dict.fromkeys(flags["scheduler_names"]))
    alone = names == (DEFAULT_SCHEDULER,)
    lease = lease_from(flags, "kube-scheduler" if alone else "volsched", _lease_namespace(names))
    return SchedulerOptions(
        scheduler_names=names,
        scheduler_conf=flags["scheduler_conf"],
        scheduler_configmap=flags["scheduler_configmap"],
        schedule_period=flags["schedule_period"],
        settle=_settle(flags["settle"], names),
        default_queue=flags["default_queue"],
        node_selector=tuple(label for labels in flags["node_selectors"] for label in labels),
        plain_pods=flags["plain_pods"] or ("direct" if DEFAULT_SCHEDULER in names else "podgroup"),
        kept_bytes=flags["kept_bytes"],
        pod_limits=replace(DEFAULT_POD_LIMITS, **dict(flags["pod_limits"])),
        always_unschedulable=flags["pod_condition_reason"] == "unschedulable",
        session_budget=flags["session_budget"],
        admission_timeout=flags["admission_timeout"],
        leader_elect=flags["leader_elect"],
        lease=lease,
        source=Source(flags["kubeconfig"], flags["kube_context"], flags["master"]),
        qps=flags["kube_api_qps"],
        burst=flags["kube_api_burst"],
        listen_address=flags["listen_address"],
        metrics_auth=flags["metrics_auth"],
        healthz_address=flags["healthz_address"],
        node_address=flags["node_address"],
        dump_dir=flags["cache_dump_dir"],
        binds_in_flight=flags["binds_in_flight"],
        watch_silence=flags["watch_silence"],
    )


def _settle(given: float | None, names: tuple[str, ...]) -> float:
    """Return the time in which changes wait for others, in seconds; in Volcano's place sessions have its period."""
    if given is not None:
        return given
    return VOLCANO_PERIOD_SECONDS if names == (VOLCANO,) else 0.0


def _lease_namespace(names: tuple[str, ...]) -> str:
    """Return where the Lease is: a namespace that there is wherever a scheduler of these names runs."""
    from volsched.kube.client.credentials import namespace_of_service_account  # noqa: PLC0415

    if names == (DEFAULT_SCHEDULER,):
        return "kube-system"
    return namespace_of_service_account() or ("volcano-system" if names == (VOLCANO,) else "volsched-system")


if __name__ == "__main__":
    sys.exit(run())
