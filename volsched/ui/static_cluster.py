"""A static cluster for the page: manifests after a simulation, or a snapshot."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Final

from volsched.diagnose.cluster_snapshot import ClusterSnapshot
from volsched.model.changes import Change
from volsched.ports import CycleReport
from volsched.ui.picture import Live, Picture
from volsched.ui.source import STILL, Answer, SourceState
from volsched.ui.waiting import GRACE_SECONDS, Reason

OnCycle = Callable[[int, CycleReport], None]

SCHEDULED: Final = (
    "Manifests, after they were scheduled in memory. No cluster is followed: nothing on this page changes."
)
SNAPSHOT: Final = "A snapshot, as the cluster was then. No cluster is followed: nothing on this page changes."

_NUMBER: Final = 1


class StaticCluster:
    """A ``PictureSource`` of one picture: nothing comes after it."""

    def __init__(
        self, known: ClusterSnapshot, *, schedules: bool, on_cycle: OnCycle | None = None, cluster: str = ""
    ) -> None:
        """Take the picture. ``schedules``: once sessions in memory have placed what they can. Raises ConfigError.

        ``cluster`` is the name of the files.
        """
        self.cluster = cluster
        self._turn = asyncio.Lock()
        self._schedules = schedules
        self._live = Live(known)
        self._live.take(_changes(known, on_cycle, schedules=schedules))
        self._now = now = known.taken_at or time.time()
        self._live.look(now - GRACE_SECONDS)  # a job that the next session starts is listed after a while
        self._picture = self._live.look(now)

    @property
    def state(self) -> SourceState:
        """Return that nothing is followed, and the time of the picture."""
        return SourceState(STILL, self._now)

    def now(self) -> float:
        """Return the time of the picture."""
        return self._now

    @property
    def notice(self) -> str:
        """Nothing: a configuration that does not hold is refused at the start."""
        return ""

    @property
    def about(self) -> str:
        """Return the source of the picture."""
        return SCHEDULED if self._schedules else SNAPSHOT

    async def picture(self) -> tuple[int, Picture]:
        """Return the picture."""
        return _NUMBER, self._picture

    async def after(self, number: int) -> tuple[int, Picture]:
        """Return the picture to a reader with another one. Others wait for ever."""
        while number == _NUMBER:
            await asyncio.Event().wait()
        return await self.picture()

    async def known(self) -> tuple[int, ClusterSnapshot]:
        """Return the cluster as it is on the picture."""
        return _NUMBER, self._live.known

    async def ask(self, question: Callable[[Live], Answer]) -> Answer:
        """Return the answer of the cluster."""
        async with self._turn:
            return await asyncio.to_thread(question, self._live)

    def reasons(self, namespace: str, name: str) -> Sequence[Reason]:
        """Return why a job waits."""
        return self._live.reasons(namespace, name)


def _changes(known: ClusterSnapshot, on_cycle: OnCycle | None, *, schedules: bool) -> list[Change]:
    """Return all changes that a scheduler would have got of a cluster, until sessions change nothing any more."""
    on_changes: list[Change] = []
    stage = known.stage(on_changes=on_changes.extend)
    if schedules:
        stage.run(on_cycle)
    return on_changes
