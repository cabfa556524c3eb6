"""The command line. A verb's module is imported when the verb is used, so that each pays only for what it needs.

A module for each verb, beside those that verbs share: so there are many, and each is small.
"""

from __future__ import annotations

import gc
import importlib
import io
import sys
import traceback
from typing import IO, Any, Final

import click
from click.shell_completion import CompletionItem

from volsched.garbage import little_garbage

_VERBS: Final = {
    "run": ("volsched.cli.run", "Schedule pods of a cluster."),
    "controllers": ("volsched.cli.controllers", "Look after Queues, PodGroups and Volcano Jobs of a cluster."),
    "certificates": ("volsched.cli.certificates", "Make or renew the certificate of the webhooks."),
    "simulate": ("volsched.cli.simulate", "Schedule pods of manifests, without a cluster."),
    "replay": ("volsched.cli.replay", "Schedule jobs of a trace in virtual time, and show how long each waits."),
    "cards": ("volsched.cli.cards", "Show which accelerator cards nodes offer, and their names."),
    "queue": ("volsched.cli.queue", "Show what queues may hold of which cards, and who holds them."),
    "explain": ("volsched.cli.explain", "Say why a pod, PodGroup, Job or queue waits, and what would help."),
    "snapshot": ("volsched.cli.snapshot", "Write everything that decides into one file, to replay and compare."),
    "diff": ("volsched.cli.diff", "Show what another configuration or other objects would change, pod by pod."),
    "validate": ("volsched.cli.validate", "Say what is wrong with a configuration or with objects."),
    "ui": ("volsched.cli.ui", "Serve a page: queues, cards, who waits and why, and what if."),
    "completion": ("volsched.cli.completion", "Print what a shell completes volsched's commands with."),
    "man": ("volsched.cli.man", "Print the manual page."),
    "version": ("volsched.cli.version", "Print the version."),
}
"""The module of each verb's command, and its description in one line."""

SETTINGS: Final = {"help_option_names": ["-h", "--help"], "max_content_width": 120}

EXIT_INVALID: Final = 2
"""The input or the configuration is invalid."""

EXIT_BUG: Final = 70
"""The exit status of an unforeseen failure (EX_SOFTWARE)."""


class _VisibleError(click.ClickException):
    """A fault as click tells it, in which names of files and objects may stand."""

    def __init__(self, error: click.ClickException) -> None:
        super().__init__(error.format_message())
        self.exit_code = error.exit_code  # type: ignore[misc]  # which click itself does
        self._error = error

    def show(self, file: IO[Any] | None = None) -> None:
        """Tell the fault on standard error."""
        from volsched.cli.printing import show  # noqa: PLC0415 - only for a fault

        text = io.StringIO()
        self._error.show(text)
        show(text.getvalue().expandtabs(), err=True)


class _Verbs(click.Group):
    """A group that imports a command when it is used."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a verb; a fault of its words is shown as all other output is."""
        try:
            return super().invoke(ctx)
        except click.ClickException as error:
            raise _VisibleError(error) from error

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _VERBS:
            return None
        with little_garbage():
            found = getattr(importlib.import_module(_VERBS[cmd_name][0]), cmd_name)
        return found if isinstance(found, click.Command) else None

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete verbs by the table, so that no verb's module is imported for it."""
        verbs = [CompletionItem(name, help=short) for name, (_, short) in _VERBS.items() if name.startswith(incomplete)]
        return [*verbs, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, short) for name, (_, short) in _VERBS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0] if args else ""
        if name and not name.startswith("-") and name not in _VERBS:
            import difflib  # noqa: PLC0415 - only for a slip of the pen

            meant = difflib.get_close_matches(name, _VERBS, n=1)
            ctx.fail(f"There is no command {name!r}." + (f" Did you mean {meant[0]!r}?" if meant else ""))
        return super().resolve_command(ctx, args)


@click.group(
    cls=_Verbs,
    context_settings=SETTINGS,
    epilog="Each command says more, with examples: volsched simulate -h",
)
def volsched() -> None:
    """A session scheduler for Kubernetes clusters with expensive, mixed accelerators.

    \b
    Try it without a cluster:
      volsched simulate -f manifests/examples
    """  # noqa: D301 - click reads the backspace as "do not wrap"


def main() -> None:
    """Run the command line; the entry point of ``volsched`` and ``kubectl-volsched``."""
    try:
        volsched.main(prog_name="volsched", standalone_mode=True)
    except Exception as error:
        from volsched.cli.printing import say  # noqa: PLC0415 - only for a bug
        from volsched.registry import added_by  # noqa: PLC0415 - only for a bug

        lines = traceback.format_exc().rstrip("\n").split("\n")
        whose = added_by(error)
        bug = f"this is a bug of {whose}; please report it there" if whose else "this is a bug; please report it"
        say(*lines, f"volsched: {bug} with the lines above", err=True)
        sys.exit(EXIT_BUG)
    finally:
        gc.freeze()  # what is left dies with the process; to look for garbage in it takes a fifth of a start's CPU time
