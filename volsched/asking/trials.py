"""What-if on a run that was made: a change is tried by further sessions in a copy of the process, and nothing stays.

A copy is what ``fork`` makes: pages are shared until they are written, so a trial costs its sessions and not another
reading of the cluster. Call it from a process of one thread.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from volsched.asking.explain import Found
from volsched.simulation.runner import Simulation, Stage

Change = Callable[[Simulation], None]
"""Makes the cluster another one."""

MORE_CYCLES: Final = 6
"""Sessions in which a change may show: victims leave, pods of an admitted Job are made, then they are placed."""

_STARTS, _WAITS, _FAILED = 0, 1, 3


class TrialError(RuntimeError):
    """A trial ended without an answer."""


@dataclass(slots=True)
class Trials:
    """Tries changes for one job or pod. ``left`` says whether there is time for another."""

    stage: Stage
    found: Found
    left: Callable[[], bool]
    made: int = 0

    def starts(self, change: Change) -> bool:
        """Say whether sessions with the change start what is asked about; raises TrialError when they fail."""
        self.made += 1
        child = os.fork()
        if child == 0:
            self._try(change)
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        if code not in (_STARTS, _WAITS):
            raise TrialError(f"a session with the change ended with {code}")
        return code == _STARTS

    def _try(self, change: Change) -> None:
        """Answer by the exit code; this is the copy, of which nothing may be left."""
        code = _FAILED
        try:
            simulation = self.stage.simulation
            before = self.found.job.placed_count
            change(simulation)
            simulation.settled = False
            self.stage.run(more=MORE_CYCLES)
            code = _STARTS if self._has_started(simulation, before) else _WAITS
        finally:
            os._exit(code)

    def _has_started(self, simulation: Simulation, before: int) -> bool:
        cluster, pod = simulation.mirror.cluster, self.found.pod
        if pod is not None:
            task = next((task for task in cluster.tasks.values() if task.key == pod.key), None)
            return task is not None and task.node is not None
        job = cluster.jobs.get(self.found.job.key)
        if job is None:
            return False
        if not job.tasks:
            return job.phase not in ("", "Pending")
        return job.is_ready and job.placed_count > before

    def smallest(self, change: Callable[[int], Change], most: int, least: int = 0) -> int:
        """Return the smallest amount from ``least`` to ``most`` with which it starts; ``most`` is known to do.

        More is taken to help at least as much; what is returned was tried itself, or is ``most``.
        """
        while least < most and self.left():
            middle = (least + most) // 2
            if self.starts(change(middle)):
                most = middle
            else:
                least = middle + 1
        return most
