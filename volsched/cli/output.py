"""The common output of verbs: reports of faults, and the forms of an answer."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterable
from typing import Any, NoReturn

from volsched.cli import EXIT_INVALID
from volsched.cli.printing import say, show
from volsched.framework.config.loading import ConfigurationError
from volsched.model.errors import ConfigError, VolschedError
from volsched.model.values.visible import visible_lines
from volsched.simulation.documents import InputError


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
