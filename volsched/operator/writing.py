"""Carries out what controllers want written, in order where order matters, and takes the answers in."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

from volsched.controllers.objects import ManagedPodGroup
from volsched.controllers.store import Store
from volsched.controllers.writes import GROUP, JOB, POD, QUEUE, ApiKind, Delete, Patch, Write
from volsched.kube.errors import ApiError, ElsewhereError, FenceError
from volsched.model import api
from volsched.model.changes import Deleted
from volsched.model.values import json_text
from volsched.model.values.in_turns import InTurns
from volsched.operator.event_handlers import EventHandlers
from volsched.operator.writer import Writer

_STRUCTS: Final[dict[str, type[api.ApiObject]]] = {
    POD.name: api.Pod,
    GROUP.name: ManagedPodGroup,
    QUEUE.name: api.Queue,
}

_SHARE: Final = 4
"""The share of all writes at once that may be of one object, and that stays free of one namespace: one in so many."""


class _Slots:
    """The writes at once. Namespaces take turns, and none has all of them: the writes of one may be slow."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._most = max(1, count - count // _SHARE)
        self._busy: Counter[str] = Counter()
        self._waiting: InTurns[asyncio.Future[None]] = InTurns()

    async def take(self, namespace: str) -> None:
        """Wait for a slot; `give_back` ends its use."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.put(namespace, turn)
        self._grant()
        try:
            await turn
        except asyncio.CancelledError:
            self._waiting.drop(turn)
            if turn.done() and not turn.cancelled():
                self.give_back(namespace)
            raise

    def give_back(self, namespace: str) -> None:
        """Let another write have a slot."""
        self._free += 1
        self._busy[namespace] -= 1
        if not self._busy[namespace]:
            del self._busy[namespace]
        self._grant()

    def _grant(self) -> None:
        while self._free and (found := self._waiting.take_where(self._may_have_one)) is not None:
            namespace, turn = found
            if turn.done():
                continue  # its write was given up
            self._free -= 1
            self._busy[namespace] += 1
            turn.set_result(None)

    def _may_have_one(self, namespace: str) -> bool:
        return self._busy[namespace] < self._most


@dataclass(slots=True)
class _Series:
    """Writes of one kind that go some at a time. What failed is in `errors`, by its place."""

    rest: Iterator[tuple[int, Write]]
    errors: dict[int, Exception] = field(default_factory=dict)
    is_refused: bool = False


class Writes:
    """Carries writes out, ``workers`` at a time at most."""

    def __init__(self, writer: Writer, store: Store, event_handlers: EventHandlers, workers: int) -> None:
        self._writer = writer
        self._store = store
        self._event_handlers = event_handlers
        self._of_one = max(1, workers // _SHARE)
        self._slots = _Slots(workers)

    async def all(self, writes: Sequence[Write]) -> None:
        """Carry writes out in order. Successive ones of one kind go some at a time.

        The first refused one stops those that have not begun: the next would be refused, too. A name that belongs to
        others concerns only its own write. One object has a share of all writes at once: the two pods of a small Job do
        not stand in line behind the hundreds of a large one.
        """
        for _, alike in groupby(writes, key=lambda write: (type(write), getattr(write, "kind", None))):
            together = list(alike)
            if len(together) == 1:
                await self.one(together[0])
                continue
            series = _Series(iter(enumerate(together)))
            await asyncio.gather(*(self._work_through(series) for _ in together[: self._of_one]))
            if series.errors:
                raise series.errors[min(series.errors)]

    async def _work_through(self, series: _Series) -> None:
        for place, write in series.rest:
            await self._slots.take(write.namespace)
            try:
                if series.is_refused:
                    return
                await self.one(write)
            except Exception as error:
                series.errors[place] = error
                series.is_refused |= isinstance(error, ApiError | FenceError) and not isinstance(error, ElsewhereError)
            finally:
                self._slots.give_back(write.namespace)

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
