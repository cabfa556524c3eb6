"""Tries a change on a simulated run: further sessions in a copy of the process, without a trace.

A copy is what ``fork`` makes: pages are shared until they are written, so a trial costs its sessions and not another
reading of the cluster. Call it from a process of one thread.
"""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from volsched.diagnose.explain import AskedAbout
from volsched.diagnose.queries import refusal_of_job
from volsched.model.verdict import Verdict
from volsched.simulation.result import waiting_refusal
from volsched.simulation.runner import Simulation, Stage

Change = Callable[[Simulation], None]
"""Makes the cluster another one."""

MORE_CYCLES: Final = 6
"""Sessions in which a change may show: victims leave, pods of an admitted Job are made, then they are placed."""

_FAILED: Final = 3
_LONGEST: Final = 4096
"""Bytes that a pipe takes at least, even if nothing reads."""


class WhatIfError(RuntimeError):
    """A trial ended without an answer."""


class OutOfTimeError(WhatIfError):
    """There is no time left to try anything."""

    def __init__(self) -> None:
        super().__init__("no time was left")


def nothing(_: Simulation) -> None:
    """Leave the cluster as it is."""


@dataclass(slots=True)
class WhatIf:
    """Tries changes for one job or pod. ``left`` states how many seconds there are; a trial that takes longer ends."""

    stage: Stage
    found: AskedAbout
    left: Callable[[], float]
    made: int = 0

    def starts(self, change: Change) -> bool:
        """True if sessions with the change start the job or pod. Raises WhatIfError when they do not end."""
        return not self.refusal(change)

    def refusal(self, change: Change) -> str:
        """Return why it still waits after sessions with the change, empty when it starts. Raises WhatIfError."""
        seconds = self.left()
        if seconds <= 0:
            raise OutOfTimeError
        if not self.made:
            gc.freeze()  # else the first collection in each copy would write to all pages, and so copy them
        self.made += 1
        answer, question = os.pipe()
        child = os.fork()
        if child == 0:
            self._try(change, seconds, question)
        os.close(question)
        with open(answer, "rb") as pipe:
            refusal = pipe.read().decode(errors="ignore")
        return _outcome(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), refusal)

    def _try(self, change: Change, seconds: float, pipe: int) -> None:
        """Answer into the pipe, within so many seconds. This is the copy, of which nothing may be left."""
        code = _FAILED
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, seconds)
            before = self.found.job.placed_count
            change(self.stage.simulation)
            self.stage.simulation.settled = False
            self.stage.run(more=MORE_CYCLES)
            os.write(pipe, self._why_not(before).encode()[:_LONGEST])
            code = 0
        finally:
            os._exit(code)

    def _why_not(self, before: int) -> str:
        """Return why it waits; ``before``: how many pods of the job had a node."""
        simulation, pod = self.stage.simulation, self.found.pod
        cluster = simulation.mirror.cluster
        if pod is not None:
            task = cluster.tasks.get(pod.uid)
            if task is None:
                return f"pod {pod.key} is gone"
            return "" if task.node is not None else _in_words(waiting_refusal(simulation, task))
        job = cluster.jobs.get(self.found.job.key)
        if job is None:
            return f"PodGroup {self.found.job.key} is gone"
        starts = job.is_ready and job.placed_count > before if job.tasks else job.phase not in ("", "Pending")
        return "" if starts else _in_words(refusal_of_job(simulation, job))

    def smallest(self, change: Callable[[int], Change], least: int, most: int) -> int:
        """Return the smallest amount from ``least`` to ``most`` with which it starts. ``most`` is known to do.

        More is taken to help at least as much. The answer is mostly small, so that is where the search begins. What is
        returned was tried itself, or is ``most``. Raises WhatIfError.
        """
        step = 0
        while least < most:
            amount = min(least + step, (least + most) // 2)
            if self.starts(change(amount)):
                most = amount
            else:
                least, step = amount + 1, max(1, 2 * step)
        return most


def _in_words(verdict: Verdict) -> str:
    return f'at step "{verdict.step.value}": {verdict.message}'


def _outcome(code: int, refusal: str) -> str:
    if code == -signal.SIGALRM:
        raise OutOfTimeError
    if code:
        raise WhatIfError(f"a session with the change ended with {code}")
    return refusal
