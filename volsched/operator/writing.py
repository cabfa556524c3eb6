"""Carries out what controllers want written, in order where order matters, and takes the answers in."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from volsched.controllers.objects import ManagedPodGroup
from volsched.controllers.store import Store
from volsched.controllers.writes import GROUP, JOB, POD, QUEUE, ApiKind, Delete, Patch, Write
from volsched.kube.errors import ApiError, ElsewhereError, FenceError
from volsched.model import api
from volsched.model.changes import Deleted
from volsched.model.values import json_text
from volsched.operator.event_handlers import EventHandlers
from volsched.operator.writer import Writer

_STRUCTS: Final[dict[str, type[api.ApiObject]]] = {
    POD.name: api.Pod,
    GROUP.name: ManagedPodGroup,
    QUEUE.name: api.Queue,
}

_SHARE: Final = 4
"""The share of all writes at once that may be of one object: one in so many."""


class Writes:
    """Carries writes out, ``workers`` at a time at most."""

    def __init__(self, writer: Writer, store: Store, event_handlers: EventHandlers, workers: int) -> None:
        self._writer = writer
        self._store = store
        self._event_handlers = event_handlers
        self._workers = workers
        self._at_once = asyncio.Semaphore(workers)

    async def all(self, writes: Sequence[Write]) -> None:
        """Carry writes out in order. Successive ones of one kind go some at a time.

        The first refused one stops those that have not begun: the next would be refused, too. A name that belongs to
        others concerns only its own write. One object has a share of all writes at once: the two pods of a small Job do
        not stand in line behind the hundreds of a large one.
        """
        share = asyncio.Semaphore(max(1, self._workers // _SHARE))
        for _, alike in groupby(writes, key=lambda write: (type(write), getattr(write, "kind", None))):
            together = list(alike)
            if len(together) == 1:
                await self.one(together[0])
                continue
            refused = asyncio.Event()
            results = await asyncio.gather(
                *(self._write_some(write, refused, share) for write in together), return_exceptions=True
            )
            for failed in _errors(results):
                raise failed

    async def _write_some(self, write: Write, refused: asyncio.Event, share: asyncio.Semaphore) -> None:
        async with share, self._at_once:
            if refused.is_set():
                return
            try:
                await self.one(write)
            except ElsewhereError:
                raise
            except (ApiError, FenceError):
                refused.set()
                raise

    async def one(self, write: Write) -> bool:
        """Carry out a write. Return whether there was anything to write to."""
        if isinstance(write, Delete) and write.kind is POD:
            answer = await self._delete_pod(write)
        else:
            answer = await self._writer.write(write)
        if answer:
            self._take_in(write.kind, answer)
        elif answer is None and isinstance(write, Patch):
            self._lost(write)
        return answer is not None

    async def _delete_pod(self, write: Delete) -> bytes | None:
        """Delete a pod. The deletion is known before its watch shows it, and owed until it was requested."""
        pod_index = self._store.pod_index_of(write.uid)
        if pod_index is not None:
            pod_index.kill(write.uid)
        answer = await self._writer.write(write)
        pod_index = self._store.pod_index_of(write.uid)
        if pod_index is not None:
            pod_index.asked(write.uid)
        return answer

    def _take_in(self, kind: ApiKind, answer: bytes) -> None:
        """See at once what was written, and not only when the watch shows it."""
        struct = _STRUCTS.get(kind.name)
        if kind is JOB:
            self._event_handlers.see(JOB, True, json_text.decode(answer))
        elif struct is not None:
            self._store.put(api.decode_text(struct, answer))

    def _lost(self, write: Patch) -> None:
        """Forget objects that were deleted. Kopf does not report deletions that happened while it was away."""
        if write.kind is QUEUE and (queue := self._store.queues.get(write.name)) is not None:
            self._store.gone(Deleted(QUEUE.name, "", write.name, queue.metadata.uid))
        elif write.kind is JOB and (job := self._store.jobs.get(f"{write.namespace}/{write.name}")) is not None:
            self._event_handlers.drop_job(f"{write.namespace}/{write.name}", job.job.metadata.uid)


def _errors(results: Sequence[object]) -> Iterator[BaseException]:
    yield from (result for result in results if isinstance(result, BaseException))
