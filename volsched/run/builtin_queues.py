"""Makes the built-in queues if they are missing, as Volcano's scheduler does at its start.

Only for a scheduler that replaces Volcano's; otherwise `volsched controllers`, or Volcano's scheduler, makes them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

import msgspec
import structlog

from volsched.controllers.queues import builtin_queue
from volsched.kube.client.backoff import Backoff
from volsched.kube.client.rest import JSON, Api
from volsched.kube.errors import ApiError, FenceError
from volsched.kube.fence import Fence
from volsched.kube.watch.resources import VOLCANO
from volsched.model.queues.queue import ROOT

WRITE_TIMEOUT_SECONDS: Final = 10.0
_PATH: Final = f"/apis/{VOLCANO}/queues"
_FINAL: Final = (400, 422)
"""Refused in a way that asking again does not change soon."""
_WAY_OUT: Final = (
    "add manifests/components/queues to the kustomization, which lets the scheduler make them, or make them yourself"
)

_log = structlog.get_logger(__name__)


async def make_builtin_queues(api: Api, fence: Fence, default_queue: str) -> None:
    """Make the root queue and the default queue where they are missing.

    A webhook that is not up yet is waited for, and so is the right to make queues: that it is missing is stated once.
    """
    backoff = Backoff(0.5, 30.0)
    lacks_right = False
    while True:
        try:
            for name in await _missing(api, (ROOT, default_queue)):
                await _make(api, fence, name)
        except ApiError as error:
            if error.status in _FINAL:
                _log.warning("a queue that has to exist is missing and cannot be made", error=str(error))
                return
            if error.status == 403 and not lacks_right:
                lacks_right = True
                _log.warning(
                    "queues that have to exist are missing and may not be made", way_out=_WAY_OUT, error=str(error)
                )
            await asyncio.sleep(max(backoff.next(), error.retry_after or 0.0))
        except FenceError:
            return
        else:
            return


async def _missing(api: Api, names: Iterable[str]) -> list[str]:
    found = await api.get(_PATH, "queues", verb="list")
    there = {item["metadata"]["name"] for item in found["items"]}
    return [name for name in dict.fromkeys(names) if name not in there]


async def _make(api: Api, fence: Fence, name: str) -> None:
    body = msgspec.json.encode(builtin_queue(name).body)
    try:
        await api.request(
            "POST", _PATH, "queues", body=body, content_type=JSON, within=WRITE_TIMEOUT_SECONDS, fence=fence
        )
    except ApiError as error:
        if error.status != 409:
            raise
    else:
        _log.info("made a queue that was missing", queue=name)
