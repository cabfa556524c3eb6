"""Everything that is done for a pod before it is bound, one thing after the other."""

from __future__ import annotations

from volsched.kube.write.pod_writer import Prebinder
from volsched.model.plan import Bind


class Preparations:
    """A `Prebinder` made of others, in order."""

    def __init__(self, *parts: Prebinder) -> None:
        self._parts = parts

    def is_needed(self, step: Bind) -> bool:
        """True if any of them has something to do."""
        return any(part.is_needed(step) for part in self._parts)

    async def prepare(self, step: Bind) -> None:
        """Let each do its part; raises PrebindError or FenceError."""
        for part in self._parts:
            if part.is_needed(step):
                await part.prepare(step)

    async def withdraw(self, step: Bind) -> None:
        """Take back what belongs to this pod alone."""
        for part in self._parts:
            if part.is_needed(step):
                await part.withdraw(step)
