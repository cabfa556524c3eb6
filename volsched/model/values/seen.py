"""The versions of a cache's inputs. A change of any of them invalidates the cache.

Code that runs for every pod and node compares versions itself: a call costs ten opcodes.
"""

from __future__ import annotations


class Seen:
    """The version of something that a cache was refreshed at."""

    __slots__ = ("_version",)

    def __init__(self, version: object = None) -> None:
        self._version = version

    def differs(self, version: object) -> bool:
        """Return True if this is another version than the last one asked about, and remember it."""
        if version == self._version:
            return False
        self._version = version
        return True
