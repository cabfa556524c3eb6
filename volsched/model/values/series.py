"""Numbers that a plugin reports: one metric family, and its values.

The core only names and counts; the edge exposes the numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

Numbers: TypeAlias = Mapping[tuple[str, ...], float]
"""A number for each combination of label values, in the order of the series' labels."""


@dataclass(frozen=True, slots=True)
class Series:
    """A family of numbers: its name, label names and help text in Prometheus.

    Labels must be bounded: queues, resources, cards, reasons; never pods, and nodes only if they are few. A series that
    ``counts`` only ever grows, and its name is given without the ending ``_total``.
    """

    name: str
    help: str
    labels: tuple[str, ...] = ()
    counts: bool = False
