"""Orders of queues, jobs and tasks: the plugins' keys in tier order, then fallbacks that make each order total.

Plugins return sort keys, which are cheap to keep in heaps. A plugin that can only compare two things wraps its
comparison in ``functools.cmp_to_key``.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from functools import cmp_to_key
from operator import attrgetter, itemgetter
from typing import Any, Final, Generic, TypeVar

from volsched.framework.callbacks import QueueLevel, QueueLevelKeyFn, QueueWayFn
from volsched.model.job import JobInfo
from volsched.model.pods.task import TaskInfo, index_in_name
from volsched.model.queues.queue import QueueInfo

T = TypeVar("T")
_ORDER: Final = attrgetter("order")


def job_key(keys: Iterable[Callable[[JobInfo], Any]], job: JobInfo) -> tuple[Any, ...]:
    """Plugins' keys, then older first, then the job's id."""
    return (*[key(job) for key in keys], job.created, job.key)


def queue_key(keys: Iterable[Callable[[QueueInfo], Any]], queue: QueueInfo) -> tuple[Any, ...]:
    """Plugins' keys, then older first, then the name."""
    return (*[key(queue) for key in keys], queue.spec.created, queue.name)


def in_order(keys: Iterable[Callable[[TaskInfo], Any]], tasks: Iterable[TaskInfo]) -> list[TaskInfo]:
    """Sort the tasks of one job: plugins' keys, then Volcano's fallback.

    The fallback compares the numbers at the end of two names when both have one and they differ, else age, else uid.
    Where only some names have one it can go round in a circle; it then depends on ages alone which way it is cut.
    """
    listed = list(tasks)
    if len(listed) < 2:
        return listed
    for task in listed:
        if not task.order:
            task.order = (index_in_name(task.name), task.created, task.uid)
    numbered = sum(task.order[0] is not None for task in listed)
    chosen = list(keys)
    if numbered in (0, len(listed)):
        listed.sort(key=_ORDER)
        for key in reversed(chosen):  # each sort leaves equal ones as they were
            listed.sort(key=key)
    else:
        fallback = cmp_to_key(_compare)
        listed.sort(key=_by_age)
        listed.sort(key=lambda t: (*[key(t) for key in chosen], fallback(t)))
    return listed


def _compare(left: TaskInfo, right: TaskInfo) -> int:
    a, b = left.order[0], right.order[0]
    if isinstance(a, int) and isinstance(b, int) and a != b:
        return -1 if a < b else 1
    mine, theirs = _by_age(left), _by_age(right)
    return (mine > theirs) - (mine < theirs)


def _by_age(task: TaskInfo) -> tuple[float, str]:
    return task.created, task.uid


def reverse(left: tuple[Any, ...], right: tuple[Any, ...]) -> int:
    """Compare two keys the other way round."""
    return (left < right) - (left > right)


class Heap(Generic[T]):
    """A priority queue whose order is taken when something is pushed."""

    __slots__ = ("_heap", "_key")

    def __init__(self, key: Callable[[T], tuple[Any, ...]], items: Iterable[T] = ()) -> None:
        self._key = key
        self._heap: list[tuple[tuple[Any, ...], T]] = [(key(item), item) for item in items]
        heapq.heapify(self._heap)

    def push(self, item: T) -> None:
        """Put an item in, at the place that its key has now."""
        heapq.heappush(self._heap, (self._key(item), item))

    def pop(self) -> T:
        """Take the first item out."""
        return heapq.heappop(self._heap)[1]

    def pop_preferred(self, is_preferred: Callable[[T, T], bool]) -> T:
        """Take out the first item that is preferred to the first of all; if there is none, that one."""
        first = self._heap[0][1]
        found = [entry for entry in self._heap if is_preferred(entry[1], first)]
        if not found:
            return self.pop()
        best = min(found, key=itemgetter(0))
        self._heap.remove(best)
        heapq.heapify(self._heap)
        return best[1]

    def by(self, key: Callable[[T], tuple[Any, ...]]) -> Heap[T]:
        """Return a heap of the same items by another key, which is computed in the order of this heap."""
        return Heap(key, [item for _, item in sorted(self._heap, key=itemgetter(0))])

    def __len__(self) -> int:
        return len(self._heap)


class TreeHeap(Heap[QueueInfo]):
    """A priority queue of queues in a tree: the first at each level, from the top down.

    A push computes the keys of all levels on its way. A level whose key has changed since is moved when its turn comes:
    the level that was taken out last was first, so a smaller key is seen in time, too.
    """

    __slots__ = ("_count", "_level_key", "_root", "_way")

    def __init__(self, way: QueueWayFn, level_key: QueueLevelKeyFn, items: Iterable[QueueInfo] = ()) -> None:
        self._way = way
        self._level_key = level_key
        self._root = _Node()
        self._count = 0
        for item in items:
            self.push(item)

    def push(self, item: QueueInfo) -> None:
        """Put a queue in, at the place that it and those above it have now."""
        node = self._root
        for level in self._way(item):
            below = node.below.setdefault(level, _Node())
            node.put(level, self._level_key(level))
            node = below
        self._count += node.queue is None
        node.queue = item

    def pop(self) -> QueueInfo:
        """Take the first queue out."""
        node, way = self._root, list[tuple[_Node, QueueLevel]]()
        while node.queue is None:
            level = node.first(self._level_key)
            way.append((node, level))
            node = node.below[level]
        item, node.queue = node.queue, None
        for above, level in reversed(way):
            above.drop_if_empty(level)
        self._count -= 1
        return item

    def by(self, key: Callable[[QueueInfo], tuple[Any, ...]]) -> TreeHeap:
        """Return the same: no two queues have equal places, so that another key decides nothing."""
        return self

    def __len__(self) -> int:
        return self._count


class _Node:
    """A level of the tree: the levels right below it in order, and its own queue if it is waiting."""

    __slots__ = ("_heap", "_keys", "below", "queue")

    def __init__(self) -> None:
        self.below: dict[QueueLevel, _Node] = {}
        self.queue: QueueInfo | None = None
        self._keys: dict[QueueLevel, Any] = {}
        self._heap: list[tuple[Any, QueueLevel]] = []

    def put(self, level: QueueLevel, key: Any) -> None:
        """Put a level in its place. What is left of an earlier one does not count."""
        if level not in self._keys or self._keys[level] != key:
            self._keys[level] = key
            heapq.heappush(self._heap, (key, level))

    def first(self, key_of: QueueLevelKeyFn) -> QueueLevel:
        """Return the first level, by the keys that levels have now."""
        while True:
            key, level = self._heap[0]
            now = key_of(level) if level in self._keys and self._keys[level] == key else None
            if now == key:
                return level
            heapq.heappop(self._heap)
            if now is not None:
                self.put(level, now)

    def drop_if_empty(self, level: QueueLevel) -> None:
        """Forget a level with nothing in it."""
        node = self.below[level]
        if node.queue is None and not node.below:
            del self.below[level], self._keys[level]
