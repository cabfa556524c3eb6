"""A bound for labels whose values users write: beyond it values are summed up as ``other``.

A user may write any queue into a PodGroup, and any resource into a pod; each name would be a series of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

MOST: Final[Mapping[str, int]] = {"queue": 1000, "queue_name": 1000, "resource": 200}
"""The most values by label name. Users do not choose the values of other labels."""

OTHER: Final = "other"

Labels = tuple[str, ...]
T = TypeVar("T")


@dataclass(slots=True)
class LabelBounds:
    """Sums up what is too much. ``known`` has the values of a label that come first: those of objects that exist."""

    most: Mapping[str, int] = field(default_factory=lambda: MOST)
    known: dict[str, Callable[[], Collection[str]]] = field(default_factory=dict)

    def bounded(self, names: Labels, values: Mapping[Labels, T], add: Callable[[Iterable[T]], T]) -> Mapping[Labels, T]:
        """Return values by labels of these names, none with more values than it may have; ``add`` sums up."""
        for place, name in enumerate(names):
            most = self.most.get(name)
            if most is not None and len(values) > most:
                values = self._bounded_at(place, name, most, dict(values), add)
        return values

    def _bounded_at(
        self, place: int, name: str, most: int, values: dict[Labels, T], add: Callable[[Iterable[T]], T]
    ) -> Mapping[Labels, T]:
        there = {labels[place] for labels in values}
        if len(there) <= most:
            return values
        known = self.known.get(name, tuple)()
        shown = {*sorted(there, key=lambda value: (value not in known, value))[:most]}
        sums: dict[Labels, list[T]] = {}
        for labels, value in values.items():
            label = labels[place] if labels[place] in shown else OTHER
            sums.setdefault((*labels[:place], label, *labels[place + 1 :]), []).append(value)
        return {labels: found[0] if len(found) == 1 else add(found) for labels, found in sums.items()}
