"""conformance: pods of the system are never evicted (Volcano's plugin of that name)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from volsched.plugin import Preemptable, Reclaimable, Registrar, TaskInfo

CRITICAL = ("system-cluster-critical", "system-node-critical")


class ConformancePlugin:
    """Strikes pods in ``kube-system`` and of critical classes from the lists of victims."""

    name: ClassVar[str] = "conformance"

    def on_session_open(self, registrar: Registrar) -> None:
        """Register the filters of victims."""
        registrar.register(Preemptable(not_critical), Reclaimable(not_critical))


def not_critical(_: TaskInfo, candidates: Sequence[TaskInfo]) -> list[TaskInfo]:
    """Candidates that the cluster can do without."""
    return [v for v in candidates if v.namespace != "kube-system" and v.spec.priority_class not in CRITICAL]
