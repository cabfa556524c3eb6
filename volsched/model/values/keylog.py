"""A log of changed keys, in order. Each reader remembers how far it has read."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import ClassVar, Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class KeyLog(Generic[K]):
    """A log that drops its older half when it is long; a reader that is behind must read all again."""

    __slots__ = ("_keys", "_start")

    KEPT: ClassVar[int] = 1 << 16

    def __init__(self) -> None:
        self._keys: list[K] = []
        self._start = 0

    @property
    def end(self) -> int:
        """The position after the newest entry."""
        return self._start + len(self._keys)

    def since(self, position: int) -> Iterable[K] | None:
        """Return the keys that changed since a position, each once; None when that was forgotten."""
        return None if position < self._start else dict.fromkeys(self._keys[position - self._start :])

    def append(self, key: K) -> None:
        """Note that something changed."""
        self._keys.append(key)
        if len(self._keys) > self.KEPT:
            cut = len(self._keys) // 2
            del self._keys[:cut]
            self._start += cut
