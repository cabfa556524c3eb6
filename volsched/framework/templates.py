"""Values that are computed once for each template, and kept."""

from __future__ import annotations

from typing import Final, TypeVar

from volsched.model.pods.template import PodTemplate

T = TypeVar("T")

MOST_KEPT: Final = 10_000
"""Something that is kept by template. Templates come and go without notice."""


def keep(known: dict[int, T], template: PodTemplate, found: T) -> T:
    """Keep a value of a template under its id, and return it. A full table is cleared first."""
    if len(known) >= MOST_KEPT:
        known.clear()
    known[template.id] = found
    return found
