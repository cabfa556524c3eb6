"""What queues state that cannot be kept in a hierarchy, told once as an Event on the queue."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from volsched.framework.registration import Registrar
from volsched.framework.reporter import about_queue
from volsched.framework.session import Session

NO_PLACE: Final = "InvalidQueueHierarchy"
"""The reason of the Event."""

QUEUE_FAULTS: Final = "framework.queue_faults"
"""The name under which plugins share this account (``session.account(QUEUE_FAULTS, QueueFaults)``)."""

Faults = Mapping[str, tuple[str, ...]]


def report_faults(registrar: Registrar, plugin: str, faults: Faults) -> None:
    """Report what a plugin finds wrong in queues, unless another one has."""
    registrar.account(QUEUE_FAULTS, QueueFaults).report(registrar.session, plugin, faults)


class QueueFaults:
    """Faults of queues that were reported, by plugin. Faults that two plugins find are reported once."""

    def __init__(self, _: object) -> None:
        self._reported: dict[str, Faults] = {}

    def report(self, session: Session, plugin: str, faults: Faults) -> None:
        """Report the faults that a plugin finds now and that are not reported yet."""
        before = self._reported.get(plugin, {})
        if faults == before:
            return
        known = {
            (name, fault) for reported in self._reported.values() for name, found in reported.items() for fault in found
        }
        for name, found in faults.items():
            for fault in found:
                if (name, fault) not in known:
                    session.record_event(about_queue(session.cluster.queues[name], "Warning", NO_PLACE, fault))
        self._reported[plugin] = faults
