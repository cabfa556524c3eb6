"""Follows the cluster by watches: changes are taken in, and sessions are run while a reader looks."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable, Sequence
from typing import Final

from volsched import registry
from volsched.diagnose.cluster_snapshot import ClusterSnapshot
from volsched.framework.config.loading import find_in_data
from volsched.kube.client.rest import Api
from volsched.kube.watch.config_source import ConfigMapSource, ConfigReports
from volsched.kube.watch.config_state import ConfigState
from volsched.model.changes import Change
from volsched.model.errors import ConfigError
from volsched.model.plan import RecordEvent
from volsched.run.following import Following
from volsched.run.loop import GC_THRESHOLDS, GC_THRESHOLDS_LISTING
from volsched.ui.picture import Live, Picture
from volsched.ui.source import LISTING, LIVE, LOST, Answer, SourceState
from volsched.ui.waiting import Reason

PAUSE_SECONDS: Final = 0.3
"""The time that changes wait for others before a session."""

REST: Final = 4.0
"""The pause after a session, as a multiple of its duration, so that sessions use a fifth of a core at most."""

KEEP_UP_SECONDS: Final = 1.0
"""The time between two updates while no reader looks."""

CONFIG_MAP: Final = "ConfigMap/"


class Follower:
    """Call ``run`` as a task. ``picture`` and ``after`` wait for what they return.

    ``notice`` states what is wrong with the scheduler's configuration as it is written; empty while it holds.
    """

    def __init__(self, server: Api, configured: ClusterSnapshot, cluster: str = "") -> None:
        """Begin with the name of the cluster, for people. Raises ConfigError."""
        self.cluster = cluster
        self._server = server
        self._live = Live(configured)
        self._source = configured.origin
        self._state = ConfigState(configured.origin)
        self._following = Following(server, self._ring)
        self._listed = asyncio.Event()
        self._wake_event = asyncio.Event()
        self._number = 1
        self._made: tuple[int, Picture] = (0, Picture())
        self._took = 0.0
        self._turn = asyncio.Lock()
        self._changed_at = 0.0

    @property
    def state(self) -> SourceState:
        """Return whether the pictures follow the cluster: if not, since when and why."""
        trouble = self._following.trouble
        if trouble is not None:
            return SourceState(LOST, trouble.since, trouble.message)
        return SourceState(LIVE if self._listed.is_set() else LISTING, self._changed_at)

    def now(self) -> float:
        """Return the present."""
        return time.time()

    @property
    def notice(self) -> str:
        """Return the problem of the written configuration; empty while it is in force."""
        return self._state.problem

    @property
    def about(self) -> str:
        """Nothing: it is a live cluster."""
        return ""

    async def run(self) -> None:
        """Follow the cluster for ever."""
        gc.set_threshold(*GC_THRESHOLDS_LISTING)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._following.run())
            if self._source.startswith(CONFIG_MAP):
                group.create_task(self._follow_configuration(self._source.removeprefix(CONFIG_MAP)))
            group.create_task(self._keep_up())

    # -- what is looked at --------------------------------------------------------------------------------------------

    async def picture(self) -> tuple[int, Picture]:
        """Return the newest picture, and a number that is another one when more has come."""
        await self._listed.wait()
        async with self._turn:
            number = self._number
            if self._made[0] != number:
                self._made = number, await asyncio.to_thread(self._look, self._following.take())
            return self._made

    async def after(self, number: int) -> tuple[int, Picture]:
        """Return the first picture of another number."""
        while self._number == number:
            await self._wake_event.wait()
        await asyncio.sleep(max(PAUSE_SECONDS, REST * self._took))
        return await self.picture()

    async def known(self) -> tuple[int, ClusterSnapshot]:
        """Return the cluster of the newest picture, and the number of that."""
        number, _ = await self.picture()
        async with self._turn:
            return number, self._live.known

    async def ask(self, question: Callable[[Live], Answer]) -> Answer:
        """Return the answer of the cluster of the newest picture."""
        await self.picture()
        async with self._turn:
            return await asyncio.to_thread(question, self._live)

    def reasons(self, namespace: str, name: str) -> tuple[Reason, ...]:
        """Return why a job has waited so far."""
        return self._live.reasons(namespace, name)

    def _look(self, changes: Sequence[Change]) -> Picture:
        began = time.thread_time()
        self._live.take(changes)
        picture = self._live.look(time.time())
        self._took = time.thread_time() - began
        return picture

    async def _keep_up(self) -> None:
        await self._begin()
        while True:
            await self.picture()
            await asyncio.sleep(max(KEEP_UP_SECONDS, REST * self._took))
            due = self._live.due()
            if due is not None and due <= time.time():
                self._ring()

    # -- what comes ---------------------------------------------------------------------------------------------------

    def _ring(self) -> None:
        self._changed_at = time.time()
        self._number += 1
        self._wake_event.set()
        self._wake_event = asyncio.Event()

    async def _begin(self) -> None:
        """Start making pictures. Listed objects stay, so the garbage collector may ignore them."""
        await self._following.complete.wait()
        number, changes = self._number, self._following.take()
        self._made = number, await asyncio.to_thread(self._look, changes)
        self._took = 0.0  # the first look is at everything, and says nothing about those that follow
        gc.collect()
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLDS)
        self._listed.set()

    # -- the scheduler's configuration --------------------------------------------------------------------------------

    async def _follow_configuration(self, config_map: str) -> None:
        """Use the ConfigMap's content from now on, as the scheduler does. An invalid one is only reported."""
        namespace, _, name = config_map.partition("/")
        verdicts = ConfigReports(_parsed, self._reconfigure, self._state, _unrecorded)
        source = ConfigMapSource(self._server, namespace, name, find_in_data, verdicts)
        try:
            await source.first()
        except ConfigError:
            self._ring()  # the notice is to be shown
        await source.follow()

    def _reconfigure(self, text: str) -> None:
        self._live.use(text)
        self._ring()


def _parsed(text: str) -> tuple[str, Sequence[str]]:
    registry.load_profile(text)
    return text, ()


def _unrecorded(event: RecordEvent) -> None:
    """Record nothing: Events on the ConfigMap are the scheduler's."""
