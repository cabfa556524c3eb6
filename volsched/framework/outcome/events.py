"""The Events that a session records, each once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from volsched.framework.redaction import within
from volsched.model.cluster import Cluster
from volsched.model.plan import RecordEvent


class SessionEvents:
    """The Events of one session.

    ``whole`` has Events from which names of other namespaces were taken, as they were before: the log has these.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.recorded: list[RecordEvent] = []
        self.whole: list[RecordEvent] = []
        self._cluster = cluster
        self._known: set[RecordEvent] = set()
        self._is_quiet = False

    def record(self, event: RecordEvent) -> None:
        """Record an Event, without names of objects in other namespaces. What was recorded before is left out."""
        if self._is_quiet:
            return
        whole, message = event, within(self._cluster, event.namespace, event.message)
        if message != event.message:
            event = msgspec.structs.replace(event, message=message)
        if event.each or event not in self._known:
            self._known.add(event)
            self.recorded.append(event)
            if event is not whole:
                self.whole.append(whole)

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Record nothing inside."""
        self._is_quiet = True
        try:
            yield
        finally:
            self._is_quiet = False
