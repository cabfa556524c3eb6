"""The common output of verbs: reports of faults, and the forms of an answer."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from volsched.cli import EXIT_INVALID
from volsched.cli.printing import FOR_PROGRAMS, WIDE, say, show
from volsched.framework.config.loading import ConfigurationError
from volsched.model.changes import Change
from volsched.model.errors import ConfigError, VolschedError
from volsched.model.values.visible import visible_lines
from volsched.simulation.documents import InputError
from volsched.text_page import Part, plain

WIDTH: Final = 140
"""Columns of a page where no terminal shows it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer, as a page for people and as a result for programs; only the wanted one is made."""

    page: Callable[[], Sequence[Part]]
    result: Callable[[], Any]


View = Callable[[Sequence[Change]], Answer]
"""Takes changes of a cluster in, and answers."""


def print_answer(answer: Answer, output: str) -> None:
    """Print an answer in the wanted form."""
    if is_for_people(output):
        print_page(answer.page(), output)
    else:
        print_result(answer.result(), output)


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


def is_for_people(output: str) -> bool:
    """True if a form is one for people, not for programs."""
    return output not in FOR_PROGRAMS


def print_page(parts: Iterable[Part], output: str) -> None:
    """Print a page for people: for a terminal fitted to it, elsewhere as plain text of a fixed width.

    With the ``output`` ``wide`` a terminal shortens no names.
    """
    if sys.stdout.isatty():
        from volsched.cli import terminal  # noqa: PLC0415 - for terminals alone: programs that read need none of it

        terminal.print_page(parts, wide=output == WIDE)
    else:
        show(plain(parts, WIDTH))


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
