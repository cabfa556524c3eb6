"""Counts of pods by topology domain, and the selections of pods that are counted (``domains`` keeps them right)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from volsched.framework.columns.arrays import Rows
from volsched.framework.columns.tables import PropertyColumns
from volsched.model.nodes.node import NodeProperties
from volsched.model.pods.placement_rules import PodTerm, Toleration
from volsched.model.selectors import NodeSelector

HARD_EFFECTS = ("NoSchedule", "NoExecute")
MOST_ANSWERS = 50_000

Labels = Mapping[str, str]
Counts = npt.NDArray[np.int64]


class Selection(NamedTuple):
    """Pods that all of some terms mean. ``live`` leaves those out that are being deleted."""

    terms: tuple[PodTerm, ...]
    live: bool = False

    def matches(self, namespace: str, labels: Labels, namespace_labels: Labels) -> bool:
        """Return whether a pod is meant."""
        return all(term.matches(namespace, labels, namespace_labels) for term in self.terms)


class Sought(Protocol):
    """Something that means certain pods."""

    terms: tuple[PodTerm, ...]


S = TypeVar("S", bound=Sought)


class Finder(Generic[S]):
    """Finds those of many selections that mean a pod, without asking each of them.

    A selection that demands one value of a label is kept under it. Answers are remembered for pods that agree in
    their namespace and in those of their labels that any selection looks at.
    """

    def __init__(self) -> None:
        self._by_label: dict[tuple[str, str], dict[S, None]] = {}
        self._others: dict[S, None] = {}
        self._keys: dict[str, int] = {}
        self._answers: dict[tuple[str, frozenset[tuple[str, str]]], tuple[S, ...]] = {}
        self.size = 0

    def add(self, sought: S) -> None:
        """Find this one too from now on."""
        self._shelf(sought)[sought] = None
        self._count_keys(sought, 1)
        self.size += 1

    def remove(self, sought: S) -> None:
        """Do not find this one any more."""
        pair = _demanded(sought)
        shelf = self._shelf(sought)
        del shelf[sought]
        if pair is not None and not shelf:
            del self._by_label[pair]
        self._count_keys(sought, -1)
        self.size -= 1

    def forget_answers(self) -> None:
        """Ask again what was answered: namespaces have other labels now."""
        self._answers.clear()

    def find(self, namespace: str, labels: Labels, namespace_labels: Labels) -> tuple[S, ...]:
        """Return the selections of a pod with these labels, in the order in which they were added."""
        keys = self._keys
        key = (namespace, frozenset([pair for pair in labels.items() if pair[0] in keys]))
        found = self._answers.get(key)
        if found is None:
            if len(self._answers) > MOST_ANSWERS:
                self._answers.clear()
            candidates = [s for pair in labels.items() for s in self._by_label.get(pair, ())] + list(self._others)
            found = self._answers[key] = tuple(
                s for s in candidates if all(t.matches(namespace, labels, namespace_labels) for t in s.terms)
            )
        return found

    def _shelf(self, sought: S) -> dict[S, None]:
        pair = _demanded(sought)
        return self._others if pair is None else self._by_label.setdefault(pair, {})

    def _count_keys(self, sought: S, by: int) -> None:
        for term in sought.terms:
            for key in term.selector.keys():  # noqa: SIM118 - a selector is no mapping
                left = self._keys.get(key, 0) + by
                if left:
                    self._keys[key] = left
                else:
                    del self._keys[key]
        self._answers.clear()


def _demanded(sought: Sought) -> tuple[str, str] | None:
    """Return a label that all pods that are meant have, if there is such a label."""
    return next((pair for term in sought.terms for pair in term.selector.equal), None)


class EligibleNodes:
    """The eligible nodes of a spread constraint, and how many of them each domain has.

    A node is eligible if it has all of some labels and, if the constraint honours them, the pod's node affinity admits
    it and the pod tolerates its taints.
    """

    __slots__ = ("_keys", "_selector", "_tolerations", "domains", "names")

    def __init__(
        self, keys: tuple[str, ...], selector: NodeSelector | None, tolerations: tuple[Toleration, ...] | None
    ) -> None:
        self._keys = keys
        self._selector = selector
        self._tolerations = tolerations
        self.names: set[str] = set()
        self.domains: dict[str, dict[str, int]] = {key: {} for key in keys}

    def admits(self, properties: NodeProperties) -> bool:
        """Return whether a node counts."""
        labels = properties.labels
        if any(key not in labels for key in self._keys):
            return False
        if self._selector is not None and not self._selector.matches(properties.name, labels):
            return False
        if self._tolerations is None:
            return True
        return all(
            any(toleration.tolerates(taint) for toleration in self._tolerations)
            for taint in properties.taints
            if taint.effect in HARD_EFFECTS
        )

    def enter(self, properties: NodeProperties) -> None:
        """Take a node in, if it counts."""
        if self.admits(properties):
            self.names.add(properties.name)
            for key, domains in self.domains.items():
                value = properties.labels[key]
                domains[value] = domains.get(value, 0) + 1

    def leave(self, properties: NodeProperties) -> None:
        """Forget a node."""
        if properties.name in self.names:
            self.names.discard(properties.name)
            for key, domains in self.domains.items():
                add_to(domains, properties.labels[key], -1)


class DomainTable:
    """Pods by domain of one topology key: ``counts`` has the domains with pods.

    An empty key stands for the node itself, whatever its labels.
    """

    __slots__ = ("binds", "counts", "draws", "eligible", "key", "levels", "stamp")

    def __init__(self, key: str, eligible: EligibleNodes | None, stamp: int) -> None:
        self.key = key
        self.eligible = eligible
        self.counts: dict[str, int] = {}
        self.levels: dict[int, int] = {}
        self.stamp = stamp
        self.draws = False
        """True if pods wait for others to come into a domain (affinity)."""
        self.binds = False
        """True if the constraint is required and not only preferred."""

    def count(self, value: str, by: int) -> tuple[int, int]:
        """Add to a domain; the numbers before and after."""
        before = self.counts.get(value, 0)
        after = before + by
        if after:
            self.counts[value] = after
            self.levels[after] = self.levels.get(after, 0) + 1
        else:
            self.counts.pop(value, None)
        if before:
            add_to(self.levels, before, -1)
        return before, after

    def lowest(self, min_domains: int = 1) -> int:
        """Return the smallest count of any domain with eligible nodes; 0 if there are too few such domains."""
        assert self.eligible is not None  # noqa: S101 - only asked of spread constraints
        domains = len(self.eligible.domains[self.key])
        if domains < min_domains or len(self.counts) < domains:
            return 0
        return min(self.levels, default=0)

    def by_row(self, properties: PropertyColumns, rows: Rows) -> Counts:
        """Return the count in the domain of each of these rows; 0 for rows without a domain."""
        names = properties.names(("label", self.key))
        counts = np.zeros(len(names) + 1, dtype=np.int64)
        for value, count in self.counts.items():
            number = names.get(value)
            if number is not None:
                counts[number] = count
        return counts[properties.ids(("label", self.key))[rows]]


class Census:
    """The pods of a selection: how many on each node, and the tables made of them."""

    __slots__ = ("by_node", "selection", "tables", "terms")

    def __init__(self, selection: Selection) -> None:
        self.selection = selection
        self.terms = selection.terms
        self.by_node: dict[str, int] = {}
        self.tables: dict[tuple[str, int], DomainTable] = {}


class PlacedTerm:
    """A term of placed pods: ``table`` counts those pods (or adds up their weights) by domain."""

    __slots__ = ("number", "table", "term", "terms")

    def __init__(self, number: int, term: PodTerm, stamp: int) -> None:
        self.number = number
        self.term = term
        self.terms: tuple[PodTerm, ...] = (term,)
        self.table = DomainTable(term.topology_key, None, stamp)


K = TypeVar("K", str, int)


def add_to(counts: dict[K, int], key: K, by: int) -> None:
    """Add to a count, and keep no zeros."""
    left = counts.get(key, 0) + by
    if left:
        counts[key] = left
    else:
        counts.pop(key, None)
