"""``volsched man``: the manual page, made of the same text as ``--help``."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

from volsched import __version__
from volsched.cli import SETTINGS, volsched


@click.command(context_settings=SETTINGS)
def man() -> None:
    """Print the manual page of all commands; what --help says, in one page.

    \b
    Examples:
      volsched man | man -l -
      volsched man > /usr/local/share/man/man1/volsched.1
    """  # noqa: D301 - click reads the backspace as "do not wrap"
    click.echo("\n".join(page(volsched)))


def page(root: click.Command) -> Iterator[str]:
    """Yield the lines of the page, in the macros of man(7)."""
    yield f'.TH VOLSCHED 1 "" "volsched {__version__}" "User Commands"'
    yield ".SH NAME"
    yield f"volsched \\- {_inline(_paragraphs(root)[0].rstrip('.'))}"
    yield ".SH SYNOPSIS"
    yield ".B volsched"
    yield "COMMAND [OPTIONS] [ARGUMENTS]"
    yield ".SH DESCRIPTION"
    yield from _text(_paragraphs(root)[1:])
    yield ".SH COMMANDS"
    for context in _commands(_context(root, "volsched")):
        yield from _command(context)


def _context(command: click.Command, name: str, parent: click.Context | None = None) -> click.Context:
    """Return the context in which a verb would run: it has the names of its help option."""
    return command.context_class(command, parent=parent, info_name=name, **command.context_settings)


def _commands(context: click.Context) -> Iterator[click.Context]:
    """Yield every command below one, as a context that knows its path."""
    if not isinstance(context.command, click.Group):
        yield context
        return
    for name in context.command.list_commands(context):
        command = context.command.get_command(context, name)
        if command is not None and not command.hidden:
            yield from _commands(_context(command, name, context))


def _command(context: click.Context) -> Iterator[str]:
    yield f".SS {_inline(context.command_path)} {_inline(' '.join(context.command.collect_usage_pieces(context)))}"
    yield from _text(_paragraphs(context.command))
    for parameter in context.command.get_params(context):
        if record := parameter.get_help_record(context):
            yield ".TP"
            yield f".B {_inline(record[0])}"
            yield _line(record[1])


def _paragraphs(command: click.Command) -> list[str]:
    """Return the paragraphs of a command's help; click's mark for unwrapped text stays in front."""
    return inspect.cleandoc(command.help or "").split("\n\n")


def _text(paragraphs: list[str]) -> Iterator[str]:
    for number, paragraph in enumerate(paragraphs):
        if number:
            yield ".PP"
        if paragraph.startswith("\b"):
            yield from (".nf", *map(_line, paragraph.removeprefix("\b").strip("\n").splitlines()), ".fi")
        else:
            yield _line(" ".join(paragraph.split()))


def _line(text: str) -> str:
    """Return a line of text, safe from roff macros."""
    escaped = _inline(text)
    return f"\\&{escaped}" if escaped[:1] in ".'" else escaped


def _inline(text: str) -> str:
    return text.replace("\\", "\\e").replace("-", "\\-")
