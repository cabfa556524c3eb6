"""The one way by which all that verbs print goes out."""

from __future__ import annotations

import click

from volsched.model.values.visible import visible, visible_lines


def say(*lines: str, err: bool = False) -> None:
    """Print lines. Text of users in them shows as one line without effect on a terminal."""
    show("".join(f"{visible(line)}\n" for line in lines), err=err)


def show(text: str, *, err: bool = False) -> None:
    """Print a text that ends with a line end. All that verbs print passes here, so that all of it is visible."""
    click.echo(visible_lines(text), err=err, nl=False)
