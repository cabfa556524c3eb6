"""Follows kinds of objects by watches for those who only look: the page, and `--watch` of the command line."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from functools import partial

from volsched import registry
from volsched.kube.client.rest import Api
from volsched.kube.errors import ApiError
from volsched.kube.watch.informer import SILENCE_SECONDS, Informer, Trouble
from volsched.kube.watch.resources import watched
from volsched.kube.watch.served_kinds import POD_GROUPS, WORKLOADS, Discovery, ServedInformer
from volsched.mirror.kept import kept_annotations
from volsched.mirror.memory_bound import MemoryUse
from volsched.model.api import native_groups as native
from volsched.model.changes import Change
from volsched.run.process import look_again

OnTrouble = Callable[[ApiError | None], None]
"""Is called with the failure when the first watch fails, and with None when all are read again."""


class Following:
    """Call ``run`` as a task. ``complete`` is set when all kinds were listed; ``take`` returns what has changed."""

    def __init__(
        self,
        server: Api,
        on_changes: Callable[[], None],
        kinds: Collection[str] | None = None,
        on_trouble: OnTrouble = lambda _: None,
    ) -> None:
        """Follow ``kinds``; without any, all kinds that the scheduler follows."""
        self.complete = asyncio.Event()
        self._on_changes = on_changes
        self._on_trouble = on_trouble
        self._memory_use = MemoryUse()
        self._changes: list[Change] = []
        self._troubled: set[Informer] = set()
        self._informers = self._made(server, kinds)
        for informer in self._informers:
            informer.on_trouble = partial(self._note_trouble, informer)

    async def run(self) -> None:
        """Follow for ever."""
        async with asyncio.TaskGroup() as group:
            for informer in self._informers:
                group.create_task(informer.run())
            group.create_task(look_again(self._memory_use, self._informers))

    def take(self) -> Sequence[Change]:
        """Return the changes since the last call, in order."""
        changes, self._changes = self._changes, []
        return changes

    @property
    def trouble(self) -> Trouble | None:
        """Return why a kind cannot be followed at present: the failure that has lasted longest, or None."""
        found = [informer.trouble for informer in self._informers if informer.trouble is not None]
        return min(found, key=lambda trouble: trouble.since, default=None)

    def _made(self, server: Api, kinds: Collection[str] | None) -> list[Informer]:
        trim = kept_annotations(registry.installed_annotations()).trim
        followed: list[Informer] = [
            Informer(server, resource, self.add, on_listed=self._on_listed, trim=trim)
            for resource in watched(need_groups=False)
            if kinds is None or resource.kind in kinds
        ]
        discovery = Discovery(server, native.GROUP)
        return followed + [
            ServedInformer(
                server,
                discovery,
                served,
                self.add,
                silence=SILENCE_SECONDS,
                on_listed=self._on_listed,
                is_full=lambda: False,
                trim=trim,
            )
            for served in (POD_GROUPS, WORKLOADS)
            if kinds is None or served.kind in kinds
        ]

    def add(self, changes: Sequence[Change]) -> None:
        """Take changes in."""
        self._changes.extend(self._memory_use.of(changes))
        self._on_changes()

    def _on_listed(self) -> None:
        if all(informer.listed for informer in self._informers):
            self.complete.set()

    def _note_trouble(self, informer: Informer, error: ApiError | None) -> None:
        before = bool(self._troubled)
        if error is None:
            self._troubled.discard(informer)
        else:
            self._troubled.add(informer)
        if bool(self._troubled) != before:
            self._on_trouble(error)
