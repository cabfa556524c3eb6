"""Waiting times before retries."""

from __future__ import annotations

import random


class Backoff:
    """Waits that double from `first` to `longest` seconds, each shortened at random by up to a half.

    The randomness keeps many clients that failed together from coming back together.
    """

    def __init__(self, first: float, longest: float) -> None:
        self._first = first
        self._longest = longest
        self.failures = 0

    def next(self) -> float:
        """Count a failure and return how many seconds to wait after it."""
        wait = min(self._longest, self._first * 2.0 ** min(self.failures, 30))
        self.failures += 1
        return wait * random.uniform(0.5, 1.0)  # noqa: S311 - not a secret

    def reset(self) -> None:
        """Begin with the first wait again."""
        self.failures = 0
