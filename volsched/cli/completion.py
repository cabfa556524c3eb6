"""``volsched completion``: verbs, flags and names of the cluster, completed by the shell or by kubectl."""

from __future__ import annotations

import sys
from typing import Final

import click
from click.shell_completion import ShellComplete, get_completion_class

from volsched.cli import SETTINGS, volsched

SHELLS: Final = ("bash", "zsh", "fish")
_VARIABLE: Final = "_VOLSCHED_COMPLETE"

_NO_FILES: Final = 4
_FILES: Final = 0
"""The directives of cobra: whether kubectl completes file names as well."""


@click.command(context_settings=SETTINGS)
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print what makes a shell complete verbs, flags, and names of queues and contexts. Names are asked of the cluster
    that the command line names so far, for three seconds at most.

    `kubectl volsched` is completed by kubectl itself, which finds kubectl_complete-volsched on PATH.

    \b
    Examples:
      source <(volsched completion bash)                                   # put it into ~/.bashrc
      volsched completion zsh > "${fpath[1]}/_volsched"                    # then start a new shell
      volsched completion fish > ~/.config/fish/completions/volsched.fish
    """  # noqa: D205, D301 - laid out for click, which reads the backspace as "do not wrap"
    made = get_completion_class(shell)
    assert made is not None  # noqa: S101 - click has a class for each of the shells that it lets through
    click.echo(made(volsched, {}, "volsched", _VARIABLE).source())


def for_kubectl() -> None:
    """Answer kubectl, which calls ``kubectl_complete-volsched`` with the words that follow ``kubectl volsched``."""
    *words, incomplete = sys.argv[1:] or [""]
    found = ShellComplete(volsched, {}, "volsched", _VARIABLE).get_completions(words, incomplete)
    for item in found:
        if item.type == "plain":
            click.echo(f"{item.value}\t{item.help}" if item.help else item.value)
    click.echo(f":{_NO_FILES if all(item.type == 'plain' for item in found) else _FILES}")
