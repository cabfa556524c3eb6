"""Times as Go writes them, in flags and in objects: `15s`, `1m30s`, `500ms`."""

from __future__ import annotations

import re
from typing import Final

_UNITS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART: Final = re.compile(r"([0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(ns|us|µs|ms|s|m|h)")
_NUMBER: Final = re.compile(r"[0-9]+(\.[0-9]+)?")


def seconds_of(text: str) -> float | None:
    """Return a duration, or a bare number of seconds, as seconds, or None when the text is neither.

    Linear in the text.
    """
    text = text.strip()
    if text.isascii() and _NUMBER.fullmatch(text):
        return float(text)
    seconds, at = 0.0, 0
    while at < len(text):
        part = _PART.match(text, at)
        if part is None:
            return None
        seconds += float(part[1]) * _UNITS[part[2]]
        at = part.end()
    return seconds if at else None
