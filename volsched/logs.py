"""One format for all log lines: JSON in a cluster, readable on a terminal, those of libraries included.

Keys are stable: `event` is the sentence, everything else has a name of its own (`pod`, `node`, `queue`, `job`, `error`,
`duration_ms`). The level can be changed while running; a line below it costs a comparison.

Input of users comes into lines by way of names and messages, and may be large or meant to deceive. So every text in a
line has a limit; an exception is shown by its place and its message, never by the values of variables, which may be
whole objects or tokens.
"""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Final, TextIO, TypeAlias

import structlog
from structlog.typing import EventDict, Processor

from volsched.model.errors import shortened
from volsched.model.values.visible import visible, visible_lines

LEVELS: Final = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
FORMATS: Final = ("auto", "json", "console")

LONGEST_TEXT: Final = 4096
"""Characters of one text in a line."""

MOST_FRAMES: Final = 24
"""The most frames of an exception, the last ones. Endless recursion has a thousand."""

MOST_CAUSES: Final = 4
"""Exceptions that led to one another."""

LONGEST_MESSAGE: Final = 1000
"""Characters of an exception's message."""

_OF_LINES: Final = ("exception", "stack")
"""Texts that have lines."""

_ExcInfo: TypeAlias = tuple[type[BaseException], BaseException, TracebackType | None]

_NOISY: Final = ("asyncio", "aiohttp.access", "kubernetes_asyncio")
"""Libraries of which only warnings are logged, except at the lowest level."""


def setup(level: str = "info", format_: str = "auto", stream: TextIO | None = None) -> None:
    """Send all log lines to a stream (standard error if None). `format_` "auto" asks whether it is a terminal.

    Raises ValueError for a level or format that does not exist.
    """
    if format_ not in FORMATS:
        raise ValueError(f"there is no log format {format_!r}; there are {', '.join(FORMATS)}")
    target = stream or sys.stderr
    as_json = format_ == "json" or (format_ == "auto" and not target.isatty())
    shared = _shared_processors()
    handler = logging.StreamHandler(target)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *_renderers(as_json=as_json, colours=target.isatty()),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    set_level(level)


def set_level(level: str) -> None:
    """Change which lines are written, while running. Raises ValueError for a level that does not exist."""
    number = LEVELS.get(level.lower())
    if number is None:
        raise ValueError(f"there is no log level {level!r}; there are {', '.join(LEVELS)}")
    logging.getLogger().setLevel(number)
    for name in _NOISY:
        logging.getLogger(name).setLevel(number if number == logging.DEBUG else max(number, logging.WARNING))


def level_name() -> str:
    """Return the level that is in force."""
    return logging.getLevelName(logging.getLogger().level).lower()


def _shared_processors() -> list[Processor]:
    return [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.PositionalArgumentsFormatter(),
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
        structlog.processors.StackInfoRenderer(),
    ]


def _renderers(*, as_json: bool, colours: bool) -> list[Any]:
    common = [structlog.processors.ExceptionRenderer(described), _bounded]
    if as_json:
        return [*common, structlog.processors.JSONRenderer(sort_keys=False)]
    return [*common, _visible, structlog.dev.ConsoleRenderer(colors=colours, timestamp_key="time")]


def _visible(_: Any, __: str, event: EventDict) -> EventDict:
    """Show what would act on a terminal as it is written in Python. JSON does so itself."""
    for key, value in event.items():
        if isinstance(value, str):
            event[key] = visible_lines(value) if key in _OF_LINES else visible(value)
    return event


def described(exc_info: _ExcInfo) -> str:
    """Return an exception as text: its causes, the last frames of each, its message; bounded, and without values."""
    chain = list(_chain(exc_info[1]))
    return "\n\n".join(_one(error) for error in reversed(chain))


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception, what caused it, and so on."""
    found: BaseException | None = error
    for _ in range(MOST_CAUSES):
        if found is None:
            return
        yield found
        found = found.__cause__ or (None if found.__suppress_context__ else found.__context__)


def _one(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__, limit=-MOST_FRAMES)
    places = [f'  File "{frame.filename}", line {frame.lineno}, in {frame.name}' for frame in frames]
    return "\n".join((*places, f"{type(error).__qualname__}: {shortened(_message_of(error), LONGEST_MESSAGE)}"))


def _message_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return "it cannot say what is wrong"


def _bounded(_: Any, __: str, event: EventDict) -> EventDict:
    """Shorten what is too long for a line. `exception` has limits of its own."""
    for key, value in event.items():
        if isinstance(value, str):
            if len(value) > LONGEST_TEXT and key != "exception":
                event[key] = shortened(value, LONGEST_TEXT)
        elif not isinstance(value, int | float | None):
            event[key] = _bounded_value(value)
    return event


def _bounded_value(value: Any) -> Any:
    """Return a value that is no text unchanged if it is short in a line."""
    text = repr(value)
    return value if len(text) <= LONGEST_TEXT else shortened(text, LONGEST_TEXT)
