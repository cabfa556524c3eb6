"""Flags of Volcano's scheduler and controllers without an effect here.

The arguments of Volcano's manifests and of its chart are accepted as they are: all flags of v1.15, those that klog and
component-base add to them, with hyphens or underscores, and shell parts (`2>&1`). One warning at the start names those
without effect. An unknown flag is an error, as ever.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import click

from volsched.cli.inputs.flags import SETTINGS

Command = TypeVar("Command", bound=Callable[..., Any])

SETTINGS_OF_VOLCANO: Final = {**SETTINGS, "token_normalize_func": lambda word: word.replace("_", "-")}
"""Volcano's flags mean the same with underscores."""

_UNUSED: Final = "unused_"
_FOR_A_SHELL: Final = re.compile(r"(\d*|&)[<>]\S+")
_DROPPED: Final = "volsched.arguments-for-a-shell"


@dataclass(frozen=True, slots=True)
class Unused:
    """Flags without effect here: `switches` may stand alone, as `true`, `values` have something behind them."""

    switches: tuple[str, ...]
    values: tuple[str, ...]

    def __or__(self, other: Unused) -> Unused:
        return Unused(self.switches + other.switches, self.values + other.values)


_SHARED: Final = Unused(
    switches=(
        "add-dir-header",
        "alsologtostderr",
        "enable-healthz",
        "enable-metrics",
        "legacy-stderr-threshold-behavior",
        "logtostderr",
        "one-output",
        "skip-headers",
        "skip-log-headers",
    ),
    values=(
        "alsologtostderrthreshold",
        "ca-cert-file",
        "feature-gates",
        "leader-elect-resource-lock",
        "log-backtrace-at",
        "log-dir",
        "log-file",
        "log-file-max-size",
        "log-flush-frequency",
        "stderrthreshold",
        "tls-cert-file",
        "tls-private-key-file",
        "v",
        "vmodule",
    ),
)

OF_THE_SCHEDULER: Final = _SHARED | Unused(
    switches=(
        "cache-dumper",
        "csi-storage",
        "disable-default-scheduler-config",
        "enable-csi-storage",
        "enable-pprof",
        "priority-class",
    ),
    values=(
        "gate-removal-worker-num",
        "ignored-provisioners",
        "minimum-feasible-nodes",
        "minimum-percentage-nodes-to-find",
        "node-worker-threads",
        "percentage-nodes-to-find",
        "plugins-dir",
        "resource-sync-timeout",
        "resync-period",
        "scheduler-sharding-mode",
        "scheduler-sharding-name",
    ),
)

OF_THE_CONTROLLERS: Final = _SHARED | Unused(
    switches=("enable-node-event-trigger",),
    values=(
        "max-requeue-num",
        "scheduler-configs",
        "shard-sync-period",
        "sharding-configmap",
        "sharding-configmap-namespace",
        "worker-threads",
        "worker-threads-for-cronjob",
        "worker-threads-for-gc",
        "worker-threads-for-podgroup",
        "worker-threads-for-queue",
    ),
)


class VolcanoCommand(click.Command):
    """A command whose arguments may be Volcano's, those for a shell included."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take arguments for a shell out before any flag could take one for its value."""
        ctx.meta[_DROPPED] = [word for word in args if _FOR_A_SHELL.fullmatch(word)]
        return super().parse_args(ctx, [word for word in args if not _FOR_A_SHELL.fullmatch(word)])


def volcano_flags(unused: Unused) -> Callable[[Command], Command]:
    """Return the flags that only Volcano's manifests give, out of sight of `--help`."""

    def decorate(command: Command) -> Command:
        for name in sorted(unused.switches + unused.values):
            command = _unused(name, stands_alone=name in unused.switches)(command)
        command = click.option("--lock-object-namespace", default="", hidden=True)(command)
        return click.option(
            "--version",
            type=bool,
            is_flag=False,
            flag_value="true",
            hidden=True,
            is_eager=True,
            expose_value=False,
            callback=_show_version,
        )(command)

    return decorate


def _unused(name: str, *, stands_alone: bool) -> Callable[[Command], Command]:
    spellings = [f"-{name}", f"--{name}"] if len(name) == 1 else [f"--{name}"]
    destination = _UNUSED + name.replace("-", "_")
    alone: dict[str, Any] = {"is_flag": False, "flag_value": "true"} if stands_alone else {}
    return click.option(*spellings, destination, hidden=True, multiple=True, **alone)


def is_unused(option: click.Option) -> bool:
    """True if an option has no effect here."""
    return str(option.name).startswith(_UNUSED)


def _show_version(context: click.Context, _: click.Parameter, asked: bool | None) -> None:
    if asked:
        from volsched.cli.version import version  # noqa: PLC0415 - only for who asks

        context.invoke(version)
        context.exit()


def report_what_has_no_effect(context: click.Context, more: Sequence[str] = ()) -> None:
    """Warn, once, of the arguments that were given and change nothing, and of `more` of them."""
    import structlog  # noqa: PLC0415 - `volsched --help` needs none of this

    options = [option for option in context.command.params if isinstance(option, click.Option) and is_unused(option)]
    given = [option.opts[0] for option in options if context.params.get(str(option.name))]
    given = [*sorted(given), *more, *context.meta[_DROPPED]]
    if given:
        structlog.get_logger(__name__).warning("arguments of Volcano that have no effect here", arguments=given)
