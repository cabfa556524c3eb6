"""The inbox: changes that wait for the scheduling thread.

Any thread may put changes in; one thread takes them out. Waking waits a little after the first change, so that a burst
(a gang being created, a node pool coming up) becomes one session and not fifty; the wait is bounded, so that a steady
stream does not delay sessions for ever.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final

from volsched.model.changes import Change
from volsched.model.values.bounded import Size

QUIET_SECONDS: Final = 0.003
"""A burst is over when nothing has come for this long."""

LONGEST_SECONDS: Final = 0.025
"""No change waits longer than this for others to join it."""

FULL: Final = 20_000
"""Changes. A first list can come in faster than it is taken in, and objects weigh ten times what is kept of them."""

FULL_KIB: Final = 64 << 10
"""The estimated KiB of waiting objects, above which senders should pause: some weigh as much as a thousand others."""


class Inbox:
    """Changes by their order of arrival, and a bell."""

    @classmethod
    def settling(cls, seconds: float) -> Inbox:
        """Return an inbox in which the first change waits this long for others; with 0 only until its burst is over."""
        return cls(seconds, seconds) if seconds > 0 else cls()

    def __init__(self, quiet: float = QUIET_SECONDS, longest: float = LONGEST_SECONDS) -> None:
        self._batches: deque[tuple[Sequence[Change], int]] = deque()
        self._wake_event = threading.Event()
        self._quiet = quiet
        self._longest = longest
        self.received = 0
        self.taken = 0
        self._kib_received = 0
        self._kib_taken = 0

    def put(self, changes: Sequence[Change], *, wake: bool = True, kib: int = 0) -> None:
        """Add changes, whose objects weigh so much; never blocks. The sequence must not be changed afterwards.

        With `wake` False they do not wake the scheduling thread, which takes them when it wakes for others.
        """
        if changes:
            self._batches.append((changes, kib))
            self.received += len(changes)
            self._kib_received += kib
            if wake:
                self._wake_event.set()

    def wake(self) -> None:
        """Let the waiting thread go on although nothing has changed."""
        self._wake_event.set()

    def wait(self, timeout: float) -> bool:
        """Wait for changes (and the end of their burst) or for `timeout` seconds. Return True if there are any."""
        if not self._wake_event.wait(max(0.0, timeout)):
            return False
        deadline = time.monotonic() + self._longest
        while time.monotonic() < deadline:
            before = self.received
            time.sleep(self._quiet)
            if self.received == before:
                break
        return True

    def take(self) -> list[Change]:
        """Return everything that has come since this was last called, in order."""
        self._wake_event.clear()
        taken: list[Change] = []
        while self._batches:
            changes, kib = self._batches.popleft()
            taken.extend(changes)
            self._kib_taken += kib
        self.taken += len(taken)
        return taken

    def tables(self) -> Mapping[str, Size]:
        """Return the sizes of what is kept here."""
        return {"inbox.changes": lambda: len(self)}

    @property
    def is_full(self) -> bool:
        """True if so many changes wait that senders should hold more back."""
        return self.received - self.taken > FULL or self._kib_received - self._kib_taken > FULL_KIB

    def __len__(self) -> int:
        """Return the rough number of waiting changes."""
        return self.received - self.taken
