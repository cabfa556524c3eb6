"""What all verbs share: how faults are reported, and in which forms an answer comes."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterable
from typing import Any, NoReturn

import click

from volsched.cli import EXIT_INVALID
from volsched.framework.config.loading import ConfigurationError
from volsched.model.errors import ConfigError, VolschedError
from volsched.model.values.visible import visible, visible_lines
from volsched.simulation.documents import InputError


def say(*lines: str, err: bool = False) -> None:
    """Print lines. What users wrote may be in them, and shows there as one line without effect on a terminal."""
    show("".join(f"{visible(line)}\n" for line in lines), err=err)


def show(text: str, *, err: bool = False) -> None:
    """Print a text that ends with a line end. All that verbs print passes here, so that all of it is visible."""
    click.echo(visible_lines(text), err=err, nl=False)


def report(message: str, kind: str = "error") -> None:
    """Report one fault on standard error."""
    say(f"{kind}: {message}", err=True)


def refuse(error: VolschedError, source: str = "") -> NoReturn:
    """Report everything that is wrong with the input or the configuration, and stop."""
    for message in messages_of(error, source):
        report(message)
    sys.exit(EXIT_INVALID)


def messages_of(error: VolschedError, source: str = "") -> Iterable[str]:
    """Return a line for each fault, with where it stands."""
    where = f"{source}: " if source else ""
    if isinstance(error, InputError):
        return [str(problem) for problem in error.problems]
    if isinstance(error, ConfigurationError):
        return [f"{where}{problem}" for problem in error.problems]
    if isinstance(error, ConfigError):
        return [f"{where}{error}"]
    return [f"{where}{error}"]


def width() -> int:
    """Return how many columns a table may take: those of the terminal, a fixed number elsewhere."""
    return shutil.get_terminal_size((140, 24)).columns if sys.stdout.isatty() else 140


def print_result(result: Any, form: str) -> None:
    """Print a result for programs, as `json` or `yaml`, the same for the same result to the byte."""
    show(_as_json(result) if form == "json" else _as_yaml(result))


def _as_json(result: Any) -> str:
    return json.dumps(result, indent=2, sort_keys=True) + "\n"


def _as_yaml(result: Any) -> str:
    import yaml  # noqa: PLC0415 - only for this form

    text: str = yaml.safe_dump(result, sort_keys=True, allow_unicode=True, width=120)
    if visible_lines(text) == text:
        return text
    escaped: str = yaml.safe_dump(result, sort_keys=True, width=120)
    return escaped
