"""The snapshot that a running scheduler writes: the cluster is read again, as whoever runs `volsched snapshot` would.

What the scheduler keeps of objects is less than the objects, so they are listed again, one snapshot at a time.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import structlog

from volsched.asking import snapshot
from volsched.asking.known import KnownCluster
from volsched.kube.client.client import Api
from volsched.kube.errors import ApiError
from volsched.kube.watch.listing import listed
from volsched.kube.watch.resources import Trim, trim_nothing, watched
from volsched.kube.watch.served_kinds import POD_GROUPS, WORKLOADS

_log = structlog.get_logger(__name__)


class Snapshots:
    """Takes snapshots. ``configuration`` gives the text that is in force, and where it is from."""

    def __init__(
        self,
        api: Api,
        names: Sequence[str],
        default_queue: str,
        configuration: Callable[[], tuple[str, str]],
        trim: Trim = trim_nothing,
    ) -> None:
        self._api = api
        self._names = tuple(names)
        self._default_queue = default_queue
        self._configuration = configuration
        self._trim = trim
        self._turn = asyncio.Lock()

    async def take(self) -> bytes:
        """Return the file; raises ApiError."""
        async with self._turn:
            listing = await listed(self._api, (*watched(need_groups=False), WORKLOADS, POD_GROUPS), self._trim)
            text, origin = self._configuration()
            known = KnownCluster(tuple(listing.objects), text, origin, self._names, self._default_queue)
            return await asyncio.to_thread(snapshot.written, known)

    async def write(self, folder: str) -> None:
        """Write one into a folder, and its name to the log; a failure is logged."""
        path = Path(folder or tempfile.gettempdir()) / f"volsched-{time.strftime('%Y%m%dT%H%M%S')}.snapshot"
        try:
            path.write_bytes(await self.take())
        except (OSError, ApiError) as error:
            _log.error("the snapshot could not be written", folder=folder, error=str(error))
        else:
            _log.info("wrote a snapshot", path=str(path))
