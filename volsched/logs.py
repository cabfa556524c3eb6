"""One format for all log lines: JSON in a cluster, readable on a terminal, those of libraries included.

Keys are stable: `event` is the sentence, everything else has a name of its own (`pod`, `node`, `queue`, `job`, `error`,
`duration_ms`). The level can be changed while running; a line below it costs a comparison.
"""

from __future__ import annotations

import logging
import sys
from typing import Any, Final, TextIO

import structlog
from structlog.typing import Processor

LEVELS: Final = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
FORMATS: Final = ("auto", "json", "console")

_NOISY: Final = ("asyncio", "aiohttp.access", "kubernetes_asyncio")
"""Libraries of which only warnings are of interest, unless everything is wanted."""


def setup(level: str = "info", format_: str = "auto", stream: TextIO | None = None) -> None:
    """Send all log lines to a stream (standard error if None); `format_` "auto" asks whether it is a terminal.

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
    """Change which lines are written, while running; raises ValueError for a level that does not exist."""
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
    if as_json:
        return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(sort_keys=False)]
    return [structlog.dev.ConsoleRenderer(colors=colours, timestamp_key="time")]
