"""The tree of queues, built again only when a queue came, went, or got another parent.

There is one tree for all plugins. A queue states which one it is below (`spec.parent`). A queue that states none is
right below the root. So are one whose parent does not exist, and each of those that are below themselves.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence

from volsched.model.cluster import Cluster
from volsched.model.queues.queue import ROOT


class Tree:
    """A tree of queues by their names. ``stated`` has the parent that each queue states, empty for none.

    ``missing`` has the parents that do not exist by the queues that state them, ``circular`` the queues that are below
    themselves.
    """

    def __init__(self, stated: Mapping[str, str]) -> None:
        self.missing = {name: above for name, above in stated.items() if _is_missing(stated, name, above)}
        self.circular = frozenset(_circular(stated))
        self._parents = {
            name: ROOT if not above or name in self.missing or name in self.circular else above
            for name, above in stated.items()
            if name != ROOT
        }
        below: dict[str, list[str]] = {}
        for name, above in self._parents.items():
            below.setdefault(above, []).append(name)
        self._below = {name: tuple(found) for name, found in below.items()}
        self._levels: dict[str, tuple[str, ...]] = {}

    def below(self, name: str) -> tuple[str, ...]:
        """Return the queues right below one, in the order in which they were stated."""
        return self._below.get(name, ())

    def levels(self, name: str) -> tuple[str, ...]:
        """Return a queue and those above it, the root last; of a queue that is not there the root alone."""
        found = self._levels.get(name)
        if found is None:
            found = self._levels[name] = tuple(self._way_up(name))
        return found

    def _way_up(self, name: str) -> Iterator[str]:
        while name in self._parents:
            yield name
            name = self._parents[name]
        yield ROOT

    def way_down(self, name: str) -> tuple[str, ...]:
        """Return the queues above one and the queue itself, the highest first, without the root."""
        return self.levels(name)[-2::-1]

    def top_down(self) -> Sequence[str]:
        """Return all queues, the root first, each after the one above it."""
        found = [ROOT]
        for name in found:  # it grows meanwhile
            found.extend(self.below(name))
        return found

    def subtree(self, name: str) -> Sequence[str]:
        """Return a queue and all queues below it."""
        found = [name]
        for each in found:  # it grows meanwhile
            found.extend(self.below(each))
        return found

    def apart(self, name: str, other: str) -> tuple[str, ...]:
        """Return the levels of a queue that are not levels of another one, the queue itself first."""
        theirs = frozenset(self.levels(other))
        return tuple(level for level in self.levels(name) if level not in theirs)

    def distance(self, name: str, other: str) -> int:
        """Return a number that is the smaller the lower the ways up from two queues meet."""
        return -sum(level in self.levels(other)[1:] for level in self.levels(name)[1:])

    def faults(self) -> dict[str, tuple[str, ...]]:
        """Return why queues are right below the root that state another place, by queue, for people."""
        found = {name: f'its parent "{above}" does not exist' for name, above in self.missing.items()}
        found.update(dict.fromkeys(sorted(self.circular), "it is below itself"))
        return {name: (f"{why}; it counts as right below the root",) for name, why in found.items()}


def _is_missing(stated: Mapping[str, str], name: str, above: str) -> bool:
    return name != ROOT and above not in ("", ROOT) and above not in stated


def _circular(stated: Mapping[str, str]) -> Iterator[str]:
    seen: set[str] = set()
    for start in stated:
        way: dict[str, None] = {}
        name = start
        while name in stated and name != ROOT and name not in seen and name not in way:
            way[name] = None
            name = stated[name]
        if name in way:
            yield from list(way)[list(way).index(name) :]
        seen.update(way)


class QueueTree:
    """The tree of a cluster's queues, as ``Cluster.generations.queue_tree`` counts its versions.

    A subclass may find other places for queues (``_stated``), of which it counts the versions.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._version: Hashable = None
        self._named: frozenset[str] = frozenset()
        self._tree = Tree({})

    @property
    def version(self) -> Hashable:
        """Changes with the tree."""
        return self._cluster.generations.queue_tree

    @property
    def tree(self) -> Tree:
        """The tree as it is now. Another one when it has changed."""
        self._refresh()
        return self._tree

    def way_down(self, name: str) -> tuple[str, ...]:
        """Return the queues above one and the queue itself as they are now, as ``Tree.way_down``."""
        return self.tree.way_down(name)

    def is_parent(self, name: str) -> bool:
        """True if any queue states that it is below this one."""
        self._refresh()
        return name in self._named

    def below(self, name: str) -> tuple[str, ...]:
        """Return the queues right below this one. Those that are below no other are below the root."""
        return self.tree.below(name)

    def _refresh(self) -> None:
        if self._version == self.version:
            return
        self._version = self.version
        stated = self._stated()
        self._named = frozenset(stated.values())
        self._tree = Tree(stated)

    def _stated(self) -> Mapping[str, str]:
        """Return the parent that each queue states, empty for none."""
        return {name: queue.spec.parent for name, queue in self._cluster.queues.items()}
