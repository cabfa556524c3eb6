"""The state of a process's configuration: the one in force, and the result of the newest text."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

LOADED: Final = "loaded"
REFUSED: Final = "refused"
MISSING: Final = "missing"
"""There is no text where one should be."""

VERDICTS: Final = (LOADED, REFUSED, MISSING)


@dataclass(slots=True)
class ConfigState:
    """`newest`, `verdict`, `judged_at` and `problem` are about the newest text, the rest about the one in force.

    Times are in seconds since the epoch, hashes those of `config_source.text_hash`; `verdicts` counts.
    """

    source: str = ""
    hash: str = ""
    loaded_at: float = 0.0
    newest: str = ""
    verdict: str = ""
    judged_at: float = 0.0
    problem: str = ""
    verdicts: Counter[str] = field(default_factory=Counter)

    @property
    def valid(self) -> bool:
        """True if the newest configuration is the one in force."""
        return self.verdict == LOADED

    def judge(self, verdict: str, newest: str, problem: str = "") -> None:
        """Note the verdict on the newest text, whose hash is given (empty when there is none)."""
        self.verdict, self.newest, self.problem, self.judged_at = verdict, newest, problem, time.time()
        self.verdicts[verdict] += 1
        if verdict == LOADED:
            self.hash, self.loaded_at = newest, self.judged_at
