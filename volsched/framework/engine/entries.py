"""The score cache: one entry for each template, and for each set of keys of callbacks."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Final

from volsched.framework.callbacks import KeyFn
from volsched.framework.engine.entry import Entry
from volsched.framework.engine.shared import SharedAnswers
from volsched.framework.rules import NodeCallbacks, NodeOrder, Predicate
from volsched.model.cluster import Cluster
from volsched.model.pods.task import TaskInfo

_ENTRY_BYTES: Final = 192 << 20
_FEWEST: Final = 64
_MOST: Final = 8_192


class Entries:
    """The entries of one engine. At most ``capacity`` are kept, those made last."""

    def __init__(self, cluster: Cluster) -> None:
        self.shared = SharedAnswers(cluster)
        self.capacity = _FEWEST
        self._cluster = cluster
        self._kept: dict[Hashable, Entry] = {}
        self._keys: list[tuple[Predicate | NodeOrder, KeyFn]] = []
        self._keys_of: dict[Hashable, list[KeyFn]] = {}
        self._made_for: tuple[tuple[object, ...], int] = ((), 0)
        self._layout = -1
        self._left_to_devices: frozenset[int] = frozenset()

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._kept.values())

    def __len__(self) -> int:
        return len(self._kept)

    def open(self, callbacks: NodeCallbacks) -> None:
        """Use these callbacks. Answers of the last session stay if the rules are the same."""
        made_for = (callbacks.identity(), self._cluster.generations.template)
        if made_for != self._made_for:
            self._forget()
            self._made_for = made_for
        every: list[Predicate | NodeOrder] = [*callbacks.predicates, *callbacks.node_orders]
        self._keys = [(callback, callback.key) for callback in every if callback.key is not None]
        self._keys_of.clear()
        self.shared.open(callbacks)

    def _forget(self) -> None:
        """Start with nothing."""
        self._kept.clear()
        self.shared.forget()

    def of(self, task: TaskInfo) -> Entry:
        """Return the answers for a task as things are now."""
        self.refresh()
        key = self.key_of(task)
        entry = self._kept.get(key)
        if entry is not None:
            entry.refresh(task)
            return entry
        entry = Entry(task, self.shared)
        if len(self._kept) >= self.capacity:
            del self._kept[next(iter(self._kept))]
        self._kept[key] = entry
        return entry

    def refresh(self) -> None:
        """Forget everything where rows or amounts mean something else now."""
        cluster = self._cluster
        if self._layout == cluster.generations.layout and self._left_to_devices is cluster.columns.left_to_devices:
            return
        self._forget()
        self._layout = cluster.generations.layout
        self._left_to_devices = cluster.columns.left_to_devices
        bytes_each = 20 * max(1, len(self._cluster.rows))
        self.capacity = max(_FEWEST, min(_MOST, _ENTRY_BYTES // bytes_each))

    def knows(self, task: TaskInfo) -> bool:
        """True if there is an entry for a task."""
        self.refresh()
        return self.key_of(task) in self._kept

    def is_of(self, entry: Entry, task: TaskInfo) -> bool:
        """True if this entry is the one for a task."""
        return self._kept.get(self.key_of(task)) is entry

    def key_of(self, task: TaskInfo) -> Hashable:
        """Return the cache key of a task: the id of its template, and the keys of callbacks."""
        key = task.template.id
        keys = self._keys_of.get(key)
        if keys is None:
            keys = self._keys_of[key] = [of for callback, of in self._keys if callback.applies(task)]
        return (key, *[of(task) for of in keys]) if keys else key
