"""Regular expressions on the names of resources: they select accelerators.

RE2 searches in linear time, and its syntax is Go's, so the expressions of Volcano's configurations mean the same here.
Each name is matched once; there are few.
"""

from __future__ import annotations

from collections.abc import Iterable

import re2

MOST_BYTES = 1 << 20
"""Memory that one compiled expression may take."""

LONGEST_PATTERN = 1000
"""Characters: compiling one of 200,000 takes seconds. A name of a resource has 317 at most."""


class DeviceNames:
    """Tells of a resource's name whether any of the patterns is found in it, anywhere.

    ``faults`` has the patterns that are no regular expression, and why; they are left out.
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        self._expressions = []
        self._known: dict[str, bool] = {}
        self.faults: dict[str, str] = {}
        options = re2.Options()
        options.log_errors = False
        options.max_mem = MOST_BYTES
        for pattern in patterns:
            if len(pattern) > LONGEST_PATTERN:
                self.faults[pattern] = f"it is longer than {LONGEST_PATTERN} characters"
                continue
            try:
                self._expressions.append(re2.compile(pattern, options))
            except re2.error as error:
                self.faults[pattern] = _words_of(error)

    def __bool__(self) -> bool:
        return bool(self._expressions)

    def include(self, resource: str) -> bool:
        """Return whether the resource of this name is an accelerator."""
        known = self._known.get(resource)
        if known is None:
            known = self._known[resource] = any(expression.search(resource) for expression in self._expressions)
        return known


def _words_of(error: Exception) -> str:
    words = error.args[0] if error.args else "it cannot be compiled"
    return words.decode(errors="replace") if isinstance(words, bytes) else str(words)
