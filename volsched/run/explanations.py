"""Explanations of a running scheduler for users who may not list the cluster.

Each is made by ``volsched explain`` in a process of its own, on a snapshot: its sessions delay none here, and changes
are tried in copies of a process, which needs one without other threads. Two are made at a time, for two readers; others
take turns, and the explanation for a reader that has left is ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from typing import Final

import msgspec
import structlog

from volsched.diagnose.records import Explanation, document
from volsched.diagnose.redaction import redacted
from volsched.kube.asker_turns import AskerTurns, TooManyAskedError

HELP_SECONDS: Final = 5.0
MOST_SECONDS: Final = 60.0
AT_ONCE: Final = 2
MOST_WAITING: Final = 4
"""Explanations that one asker waits for."""

MOST_IN_ALL: Final = 64
_ANSWERED: Final = (0, 3)
_NOT_FOUND: Final = 4

_log = structlog.get_logger(__name__)


class Explanations:
    """Gives explanations. ``snapshot`` takes a snapshot of the cluster, or raises ApiError."""

    def __init__(self, snapshot: Callable[[], Awaitable[bytes]]) -> None:
        self._snapshot = snapshot
        self._turns = AskerTurns(AT_ONCE, 1, MOST_WAITING, MOST_IN_ALL)

    async def of(self, asker: str, kind: str, namespace: str, name: str) -> tuple[int, bytes]:
        """Return an HTTP status, and the JSON of the explanation or words. Raises ApiError."""
        try:
            async with self._turns.turn(asker):
                with _in_memory(await self._snapshot()) as file:
                    return await _explained(file, kind, namespace, name)
        except TooManyAskedError:
            return 429, b"you have asked much at once; ask again when that is answered\n"


@contextlib.contextmanager
def _in_memory(data: bytes) -> Iterator[int]:
    """Return a file in memory: a disk may be read-only, and it holds pods of all namespaces."""
    with open(os.memfd_create("asked.snapshot"), "wb", buffering=0) as file:
        file.write(data)
        yield file.fileno()


async def _explained(file: int, kind: str, namespace: str, name: str) -> tuple[int, bytes]:
    flags = [
        "-f",
        f"/proc/self/fd/{file}",
        "-o",
        "json",
        f"--help-seconds={HELP_SECONDS}",
        f"--namespace={namespace or 'default'}",
    ]
    command = [sys.executable, "-m", "volsched", "explain", *flags, "--", kind, name]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *command, stdout=pipe, stderr=pipe, pass_fds=[file], start_new_session=True
    )
    try:
        out, errors = await asyncio.wait_for(process.communicate(), MOST_SECONDS)
    except TimeoutError:
        return 504, f"it could not be worked out in {MOST_SECONDS:.0f} s\n".encode()
    finally:
        await _end(process)
    if process.returncode == _NOT_FOUND:
        return 404, f"the scheduler does not know {kind} {name}\n".encode()
    if process.returncode not in _ANSWERED:
        _log.error("an explanation failed", status=process.returncode, said=errors.decode(errors="replace")[-2000:])
        return 500, b"it could not be worked out; the scheduler's log says why\n"
    answer = redacted(msgspec.json.decode(out, type=Explanation))
    return 200, msgspec.json.encode(document("Explanation", answer))


async def _end(process: asyncio.subprocess.Process) -> None:
    """End a process with its copies: the reader has gone, or it took too long."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, 9)
        await process.wait()
