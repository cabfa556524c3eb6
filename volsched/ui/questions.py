"""Questions that take sessions of their own: why, what would help, and what if.

Each is answered by a process of its own, on a snapshot: the followed cluster is not delayed, and changes are tried in
copies of a process, which needs one without other threads. Two run at a time, one for each reader, and readers take
turns; equal questions are asked once. A question without waiting readers is ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from volsched.diagnose import snapshot
from volsched.diagnose.cluster_snapshot import ClusterSnapshot
from volsched.diagnose.records import Difference, Explanation
from volsched.kube.asker_turns import AskerTurns, TooManyAskedError
from volsched.kube.tasks import Tasks
from volsched.model.job import LONE
from volsched.model.values.bounded import Bounded
from volsched.ui.changes import changed
from volsched.ui.source import PictureSource

HELP_SECONDS: Final = 5
MOST_SECONDS: Final = 120.0
AT_ONCE: Final = 2
MOST_KEPT: Final = 64
MOST_WAITING: Final = 8
"""Questions of one person that wait for their turn."""

MOST_IN_ALL: Final = 64

_ANSWERED: Final = (0, 3)
_NOT_FOUND: Final = 4


class QuestionError(Exception):
    """There is no answer. The text states why."""


class ClusterQuestions:
    """Asks them about the cluster of a source."""

    def __init__(self, source: PictureSource) -> None:
        self._source = source
        self._turns = AskerTurns(AT_ONCE, 1, MOST_WAITING, MOST_IN_ALL)
        self._work = Tasks()
        self._answers: Bounded[tuple[object, ...], asyncio.Task[bytes | None]] = Bounded(MOST_KEPT)
        self._askers: Counter[asyncio.Task[bytes | None]] = Counter()
        self._is_stopping = False

    async def explanation(self, asker: str, namespace: str, name: str) -> Explanation | None:
        """Explain a job, with what would help; None when it is not there. Raises QuestionError."""
        number, known = await self._source.known()
        flags = ["--help-seconds", str(HELP_SECONDS), "-o", "json", "--nodes", "-n", namespace]
        kind = "pod" if name.startswith(LONE) else "podgroup"
        command = ["volsched", "explain", *flags, "-f", "{0}", "--", kind, name.removeprefix(LONE)]
        answer = await self._once(asker, (number, namespace, name), command, [known])
        return msgspec.json.decode(answer, type=Explanation) if answer else None

    async def difference(
        self, asker: str, queue: str, amounts: Mapping[str, int], nodes: Mapping[str, int]
    ) -> Difference:
        """Return what other quotas and nodes would change (see ``changed``). Raises ChangeError and QuestionError."""
        number, known = await self._source.known()
        after = await asyncio.to_thread(changed, known, queue, amounts, nodes)
        key = (number, queue, *sorted(amounts.items()), *sorted(nodes.items()))
        answer = await self._once(asker, key, ["volsched.ui.compare", "{0}", "{1}"], [known, after])
        return msgspec.json.decode(answer, type=Difference)

    async def stop(self) -> None:
        """End what is being worked out."""
        self._is_stopping = True
        await self._work.stop()

    async def _once(
        self, asker: str, key: tuple[object, ...], command: Sequence[str], worlds: Sequence[ClusterSnapshot]
    ) -> bytes:
        """Return the output of a command. Equal questions meanwhile, or before a change, share it."""
        known = self._answers.recall(key)
        if known is None or known.cancelled() or (known.done() and not known.exception() and known.result() is None):
            known = self._work.start(self._asked(asker, command, worlds), "a question of the page")
            self._answers[key] = known
        self._askers[known] += 1
        try:
            answer = await asyncio.shield(known)
        finally:
            self._leave(known)
        if answer is None:
            raise QuestionError("You have asked much at once; ask again when that is answered.")
        return answer

    def _leave(self, known: asyncio.Task[bytes | None]) -> None:
        """End the questions without waiting readers."""
        self._askers[known] -= 1
        if not self._askers[known]:
            del self._askers[known]
            known.cancel()

    async def _asked(self, asker: str, command: Sequence[str], worlds: Sequence[ClusterSnapshot]) -> bytes | None:
        """Return the output of a command, or None if there are too many questions, or no reader waits any more."""
        try:
            return await self._in_turn(asker, command, worlds)
        except TooManyAskedError:
            return None
        except asyncio.CancelledError:
            if self._is_stopping:
                raise
            return None

    async def _in_turn(self, asker: str, command: Sequence[str], worlds: Sequence[ClusterSnapshot]) -> bytes:
        async with self._turns.turn(asker):
            with contextlib.ExitStack() as files:
                written = [await asyncio.to_thread(snapshot.written, api_server) for api_server in worlds]
                fds = [files.enter_context(_in_memory(data)) for data in written]
                return await _answer_of(command, fds)


@contextlib.contextmanager
def _in_memory(data: bytes) -> Iterator[int]:
    """Give a file that is on no disk: it holds the pods of all namespaces."""
    with open(os.memfd_create("page.snapshot"), "wb", buffering=0) as file:
        file.write(data)
        yield file.fileno()


async def _answer_of(command: Sequence[str], fds: Sequence[int]) -> bytes:
    """Run a module with these files in place of ``{0}``, ``{1}``. Return its output, empty if it found nothing."""
    paths = [f"/proc/self/fd/{fd}" for fd in fds]
    words = [word.format(*paths) if word in ("{0}", "{1}") else word for word in command]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", *words, stdout=pipe, stderr=pipe, pass_fds=list(fds), start_new_session=True
    )
    try:
        answer, problem = await asyncio.wait_for(process.communicate(), MOST_SECONDS)
    except TimeoutError:
        raise QuestionError(f"It could not be worked out in {MOST_SECONDS:.0f} s.") from None
    finally:
        await _end(process)
    if process.returncode == _NOT_FOUND:
        return b""
    if process.returncode not in _ANSWERED:
        raise QuestionError(problem.decode(errors="replace").strip()[-2000:] or "It could not be worked out.")
    return answer


async def _end(process: asyncio.subprocess.Process) -> None:
    """End a process that runs on, with its trials."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, 9)
        await process.wait()
