"""How many examples a property test tries: the profile decides, and more where each example is cheap."""

from __future__ import annotations

from hypothesis import settings


def at_least(count: int) -> settings:
    """So many examples, or as many as the profile has when these are more."""
    return settings(max_examples=max(count, settings.default.max_examples))
