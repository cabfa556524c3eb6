"""Where queues are in the hierarchy of `drf`, and what each weighs: by `spec.parent`, else by Volcano's annotations.

`volcano.sh/hierarchy: root/sci/dev` puts a queue below `sci`, below the root; the queue's own name may stand at the end
or be left out. A name in it that is that of a Queue is that Queue, wherever it is; others are queues without an object.
`volcano.sh/hierarchy-weights: 100/50/50` has a weight for each name. As in Volcano, `root` may be left out in both, and
a weight below 1 counts as 1.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from volsched.plugin import ROOT, Cluster, FieldError, Observer, QueueInfo, shortened
from volsched.plugin.quota import QueueTree

HIERARCHY: Final = "volcano.sh/hierarchy"
WEIGHTS: Final = "volcano.sh/hierarchy-weights"

_HIERARCHY_PATH: Final = f"metadata.annotations[{HIERARCHY}]"
_WEIGHTS_PATH: Final = f"metadata.annotations[{WEIGHTS}]"
_MOST_NAMES: Final = 100
_HEAVIEST: Final = 1 << 53


@dataclass(frozen=True, slots=True)
class Way:
    """What the annotations of a queue state: the names above it without the root, their weights, and its own.

    ``weight`` is None where none is stated.
    """

    above: tuple[str, ...] = ()
    weights: tuple[float, ...] = ()
    weight: float | None = None
    errors: tuple[FieldError, ...] = ()
    is_stated: bool = False


def way_of(name: str, annotations: Mapping[str, str]) -> Way:
    """Return what a queue's annotations state. What cannot be read is left out and named in ``errors``."""
    text = annotations.get(HIERARCHY, "").strip()
    if not text:
        stray = WEIGHTS in annotations
        return Way(errors=(FieldError(_WEIGHTS_PATH, f"stands without {HIERARCHY}, and counts for nothing"),) * stray)
    names = [part.strip() for part in text.split("/")]
    if not all(names) or len(names) > _MOST_NAMES:
        why = "has an empty name" if not all(names) else f"has more than {_MOST_NAMES} names"
        return Way(errors=(FieldError(_HIERARCHY_PATH, f"{shortened(text)} {why}; it counts for nothing"),))
    weights, errors = _weights(annotations.get(WEIGHTS, ""), len(names))
    if names[0] == ROOT:
        names, weights = names[1:], weights[1:]
    if names and names[-1] == name:
        return Way(tuple(names[:-1]), weights[:-1], weights[-1] if weights else None, errors, is_stated=True)
    return Way(tuple(names), weights, None, errors, is_stated=True)


def _weights(text: str, count: int) -> tuple[tuple[float, ...], tuple[FieldError, ...]]:
    if not text.strip():
        return (), ()
    parts = text.split("/")
    if len(parts) != count:
        message = f"has {len(parts)} weights for the {count} names of {HIERARCHY}; all of them count as 1"
        return (), (FieldError(_WEIGHTS_PATH, message),)
    errors = tuple(
        FieldError(_WEIGHTS_PATH, f"{part!r} is no weight of 1 or more; it counts as 1")
        for part in dict.fromkeys(parts)
        if not _number(part) >= 1
    )
    return tuple(max(1.0, _number(part)) for part in parts), errors


def _number(text: str) -> float:
    """Return a finite number, 0 for what is none."""
    try:
        value = float(text)
    except ValueError:
        return 0.0
    return value if math.isfinite(value) else 0.0


@dataclass(slots=True)
class Stated:
    """The parent and the weight of each queue, of those without an object, too, and what is wrong with that."""

    parents: dict[str, str] = field(default_factory=dict)
    weights: dict[str, float] = field(default_factory=dict)
    faults: dict[str, tuple[str, ...]] = field(default_factory=dict)


def stated_by(queues: Mapping[str, QueueInfo]) -> Stated:
    """Return where all queues state that they are.

    ``spec.parent`` counts, but the root there states nothing: Volcano's controllers write it into every queue.
    """
    found = Stated()
    for name, queue in sorted(queues.items()):
        way = way_of(name, queue.spec.annotations)
        faults = [str(error) for error in way.errors]
        if not way.is_stated or queue.spec.parent not in ("", ROOT):
            found.parents[name], found.weights[name] = queue.spec.parent, weight_of(queue)
            if way.is_stated:
                faults.extend(
                    map(str, differs(queue.spec.annotations[HIERARCHY], place_of(way, queues), queue.spec.parent))
                )
        else:
            faults.extend(_put(name, queue, way, place_of(way, queues), found))
        if faults:
            found.faults[name] = tuple(faults)
    return found


def weight_of(queue: QueueInfo) -> float:
    """Return the weight of a queue that has no annotation for it, 1 at least."""
    return float(min(max(1, queue.spec.weight), _HEAVIEST))


def place_of(way: Way, queues: Collection[str]) -> list[str]:
    """Return the queues above by an annotation, the highest first, those without an object by their whole way."""
    found: list[str] = []
    for name in way.above:
        found.append(name if name in queues else f"{found[-1] if found else ROOT}/{name}")
    return found


def differs(text: str, place: Sequence[str], parent: str) -> Iterator[FieldError]:
    """Yield what is wrong with an annotation that puts a queue below another one than its spec does."""
    above = place[-1] if place else ROOT
    if above != parent:
        message = f'{shortened(text)} puts the queue below "{above}"; spec.parent counts, which is "{parent}"'
        yield FieldError(_HIERARCHY_PATH, message)


def _put(name: str, queue: QueueInfo, way: Way, place: list[str], found: Stated) -> Iterator[str]:
    """Put a queue where its annotation says, with the queues above it that have no object. Yield what is wrong."""
    found.parents[name] = place[-1] if place else ROOT
    found.weights[name] = weight_of(queue) if way.weight is None else way.weight
    above = ROOT
    for level, weight in zip(place, way.weights or (1.0,) * len(place), strict=True):
        if "/" in level:
            found.parents.setdefault(level, above)
            if found.weights.setdefault(level, weight) != weight:
                counts = f"another queue gives it {found.weights[level]:g}, which counts"
                yield f'{_WEIGHTS_PATH}: gives "{level}" the weight {weight:g}; {counts}'
        above = level


class Places(QueueTree, Observer):
    """The tree of a cluster's queues, those without an object among them, and the weight of each."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._changes = 0
        self._found = Stated()

    def queue_changed(self, queue: QueueInfo, *, gone: bool) -> None:
        """Read all queues again when the tree is next asked for."""
        self._changes += 1

    @property
    def version(self) -> Hashable:
        """Changes with any queue: annotations count, too."""
        return self._changes

    @property
    def weights(self) -> Mapping[str, float]:
        """The weight of each queue, 1 at least."""
        self._refresh()
        return self._found.weights

    def faults(self) -> dict[str, tuple[str, ...]]:
        """Return what queues state that does not count, by queue, for people."""
        of_tree, stated = self.tree.faults(), self._found.faults
        return {
            name: (*of_tree.get(name, ()), *stated.get(name, ()))
            for name in self._cluster.queues
            if name in of_tree or name in stated
        }

    def _stated(self) -> Mapping[str, str]:
        self._found = stated_by(self._cluster.queues)
        return self._found.parents
