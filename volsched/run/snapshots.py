"""The snapshot of a running scheduler: it reads the cluster again, as `volsched snapshot` does.

The scheduler keeps only parts of objects, so they are listed again, one snapshot at a time.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import structlog

from volsched.diagnose import snapshot
from volsched.diagnose.cluster_snapshot import ClusterSnapshot
from volsched.kube.client.rest import Api
from volsched.kube.errors import ApiError
from volsched.kube.watch.listing import listed
from volsched.kube.watch.resources import Trim, trim_nothing, watched
from volsched.kube.watch.served_kinds import POD_GROUPS, WORKLOADS
from volsched.mirror.memory_bound import MemoryUse, holds_something
from volsched.model import api
from volsched.model.api import native_groups as native
from volsched.model.changes import Put
from volsched.model.pods.limits import KEPT_BYTES

_log = structlog.get_logger(__name__)


class _Sieve:
    """Keeps the same objects as the scheduler, but half the memory for those that hold nothing."""

    def __init__(self, trim: Trim, kept_bytes: int) -> None:
        self._trim = trim
        self._memory_use = MemoryUse(kept_bytes // 2)

    def keep(self, kind: str, found: Sequence[api.ApiObject]) -> Sequence[api.ApiObject]:
        """Return the objects of a page that are kept."""
        for each in found:
            self._trim(kind, each)
            if not holds_something(each):
                self._memory_use.of([Put(each)], kind)
        return [each for each in found if self._is_kept(kind, each)]

    def is_kept(self, found: api.ApiObject) -> bool:
        """True if an object was not dropped for later ones."""
        return self._is_kept(native.kind_of(found), found)

    def _is_kept(self, kind: str, found: api.ApiObject) -> bool:
        return (kind, found.metadata.namespace, found.metadata.name) not in self._memory_use.refused


class Snapshots:
    """Takes snapshots. ``configuration`` gives the text that is in force, and where it is from."""

    def __init__(
        self,
        api: Api,
        names: Sequence[str],
        default_queue: str,
        configuration: Callable[[], tuple[str, str]],
        trim: Trim = trim_nothing,
        kept_bytes: int = KEPT_BYTES,
    ) -> None:
        self._api = api
        self._names = tuple(names)
        self._default_queue = default_queue
        self._configuration = configuration
        self._trim = trim
        self._kept_bytes = kept_bytes
        self._turn = asyncio.Lock()

    async def take(self) -> bytes:
        """Return the file. Raises ApiError."""
        async with self._turn:
            sieve = _Sieve(self._trim, self._kept_bytes)
            listing = await listed(self._api, (*watched(need_groups=False), WORKLOADS, POD_GROUPS), sieve.keep)
            text, origin = self._configuration()
            objects = tuple(filter(sieve.is_kept, listing.objects))
            known = ClusterSnapshot(objects, text, origin, self._names, self._default_queue, time.time())
            return await asyncio.to_thread(snapshot.written, known)

    async def write(self, folder: str) -> None:
        """Write one into a folder, and its name to the log. A failure is logged."""
        path = Path(folder or tempfile.gettempdir()) / f"volsched-{time.strftime('%Y%m%dT%H%M%S')}.snapshot"
        try:
            path.write_bytes(await self.take())
        except (OSError, ApiError) as error:
            _log.error("the snapshot could not be written", folder=folder, error=str(error))
        else:
            _log.info("wrote a snapshot", path=str(path))
