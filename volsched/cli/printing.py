"""The one way by which all that verbs print goes out."""

from __future__ import annotations

import sys
from typing import Final

import click

from volsched.model.values.visible import visible, visible_lines

FOR_PROGRAMS: Final = ("json", "yaml")
"""The forms of an answer for programs."""

WIDE: Final = "wide"
"""The form for people in which a terminal shortens no names."""


def say(*lines: str, err: bool = False) -> None:
    """Print lines. Text of users in them shows as one line without effect on a terminal."""
    show("".join(f"{visible(line)}\n" for line in lines), err=err)


def show(text: str, *, err: bool = False) -> None:
    """Print a text that ends with a line end. All that verbs print passes here, so that all of it is visible.

    A character that the encoding of the stream does not have is escaped.
    """
    stream = sys.stderr if err else sys.stdout
    click.echo(encodable(visible_lines(text), stream.encoding), err=err, nl=False)


def encodable(text: str, encoding: str) -> str:
    r"""Return a text in which characters that an encoding does not have are escaped, as ``\u4e2d``."""
    return text.encode(encoding, "backslashreplace").decode(encoding)
