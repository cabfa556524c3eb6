"""The cluster, followed by watches; a picture of it is made when somebody looks and something has changed since."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from volsched.asking.known import Known
from volsched.kube.client.client import Api
from volsched.kube.watch.informer import Informer
from volsched.kube.watch.resources import watched
from volsched.model import api
from volsched.model.changes import Change, Gone, Put
from volsched.simulation.manifests import identity_of
from volsched.ui.picture import Picture, picture_of

PAUSE_SECONDS: Final = 0.3
"""How long changes wait for others before a picture is made of them."""

MOST_REASONS: Final = 20


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a job was seen to wait, since a moment in seconds since the epoch."""

    since: float
    step: str
    message: str


class Follower:
    """Call ``run`` as a task; ``picture`` and ``after`` wait for what they return."""

    def __init__(self, server: Api, configured: Known) -> None:
        self.reasons: dict[tuple[str, str], list[Reason]] = {}
        self._server = server
        self._configured = configured
        self._objects: dict[tuple[str, str, str], api.ApiObject] = {}
        self._informers: list[Informer] = []
        self._listed = asyncio.Event()
        self._bell = asyncio.Event()
        self._version = 0
        self._made: tuple[int, Picture] | None = None
        self._making = asyncio.Lock()

    async def run(self) -> None:
        """Follow the cluster for ever."""
        loop = asyncio.get_running_loop()

        def sink(changes: Sequence[Change]) -> None:
            loop.call_soon_threadsafe(self._take, changes)

        for resource in watched(need_groups=False):
            informer = Informer(self._server, resource, sink, on_listed=self._on_listed)
            self._informers.append(informer)
        async with asyncio.TaskGroup() as group:
            for informer in self._informers:
                group.create_task(informer.run())

    async def picture(self) -> tuple[int, Picture]:
        """Return the newest picture and its number; raises ConfigError."""
        await self._listed.wait()
        async with self._making:
            version = self._version
            if self._made is None or self._made[0] != version:
                known = replace(self._configured, objects=tuple(self._objects.values()))
                self._made = version, await asyncio.to_thread(picture_of, known)
                self._remember(self._made[1])
            return self._made

    async def after(self, version: int) -> tuple[int, Picture]:
        """Return the first picture that is newer than one of that number."""
        while self._version == version:
            await self._bell.wait()
        await asyncio.sleep(PAUSE_SECONDS)
        return await self.picture()

    def _take(self, changes: Sequence[Change]) -> None:
        for change in changes:
            if isinstance(change, Put):
                self._objects[identity_of(change.object)] = change.object
            elif isinstance(change, Gone):
                self._objects.pop((change.kind, change.namespace, change.name), None)
        self._version += 1
        self._bell.set()
        self._bell = asyncio.Event()

    def _on_listed(self) -> None:
        if not self._listed.is_set() and all(informer.listed for informer in self._informers):
            asyncio.get_running_loop().call_soon(self._begin)

    def _begin(self) -> None:
        """Let pictures be made; what was listed stays, so no collection of garbage needs to look at it."""
        gc.collect()
        gc.freeze()
        self._listed.set()

    def _remember(self, picture: Picture) -> None:
        """Note why each job waits, where that is another reason than before; those that do not wait are forgotten."""
        waiting = {(job.namespace, job.name): job for job in picture.waiting}
        self.reasons = {key: reasons for key, reasons in self.reasons.items() if key in waiting}
        for key, job in waiting.items():
            reasons = self.reasons.setdefault(key, [])
            if not reasons or (reasons[-1].step, reasons[-1].message) != (job.step, job.message):
                reasons.append(Reason(time.time(), job.step, job.message))
                del reasons[:-MOST_REASONS]
