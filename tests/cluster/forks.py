"""Commands of volsched that are forked from a process with everything imported, as `tests.cluster.fork_server` says.

A test starts the command itself, without this, if its subject is memory, the start or signals. The second replica of a
pair is forked from another process, which has a hash seed of its own.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any, Final

from tools.patience import PATIENCE

_MODULE: Final = "tests.cluster.fork_server"

HAVE_FORKS: Final = hasattr(os, "pidfd_open")
"""Whether this system has all that is needed: Linux does."""


class Fork:
    """A command that runs, with the methods of `subprocess.Popen` that tests use."""

    def __init__(self, words: Sequence[str], told: IO[bytes]) -> None:
        self.args = words
        self.returncode: int | None = None
        self._told = told
        self.pid = self._number()

    def _number(self) -> int:
        line = self._told.readline()
        if not line:
            raise RuntimeError(f"the fork server is gone, see its log in the temporary folder of the run: {self.args}")
        return int(line)

    def poll(self) -> int | None:
        """Return the exit status, None while the command runs."""
        return self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit status once the command has ended; raises subprocess.TimeoutExpired."""
        status = self._ended(timeout)
        if status is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return status

    def _ended(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._told], [], [], timeout)[0]:
            self.returncode = self._number()
            self._told.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the command has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it ends just now
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)


class ForkServer:
    """The process with everything imported; `command_of` makes of its words the command by which it is started."""

    def __init__(self, log: Path, command_of: Callable[[list[str]], list[str]] = list) -> None:
        self._log, self._command_of = log, command_of
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        words = [sys.executable, "-m", _MODULE, str(theirs.fileno())]
        with theirs, log.open("wb") as output:
            self._process = subprocess.Popen(
                command_of(words), stdout=output, stderr=output, pass_fds=[theirs.fileno()]
            )

    def start(self, words: Sequence[str], stdout: IO[bytes], stderr: IO[bytes]) -> Fork:
        """Start a command of volsched."""
        sys.audit("subprocess.Popen", "volsched", words, None, None)  # for those who watch what a test starts
        told, theirs = os.pipe()
        try:
            files = [stdout.fileno(), stderr.fileno(), theirs]
            socket.send_fds(self._socket, [json.dumps(words).encode()], files)
        finally:
            os.close(theirs)
        return Fork(words, os.fdopen(told, "rb", 0))

    def run(self, words: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Run a command of volsched to its end."""
        with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
            status = self.start(words, stdout, stderr).wait(PATIENCE)
            return subprocess.CompletedProcess(words, status, _text(stdout), _text(stderr))

    @functools.cached_property
    def other(self) -> ForkServer:
        """Another such process, with another hash seed; it is started when it is first asked for."""
        return ForkServer(self._log.with_suffix(".other.log"), self._command_of)

    def of(self, number: int) -> ForkServer:
        """Return the process from which a test forks its first replica (0), and the other one for all further ones."""
        return self.other if number else self

    def close(self) -> None:
        """End the process, with all commands that are left."""
        if "other" in self.__dict__:
            self.other.close()
        self._socket.close()
        self._process.wait(PATIENCE)


def run_volsched(*words: str) -> subprocess.CompletedProcess[str]:
    """Run a command of volsched to its end, as the user, with the variables and in the folder of pytest."""
    if HAVE_FORKS:
        return _commands().run(words)
    return subprocess.run([sys.executable, "-m", "volsched", *words], capture_output=True, text=True, check=False)


@functools.cache
def _commands() -> ForkServer:
    """The process of which such commands are forked; it is there as long as pytest."""
    log = Path(tempfile.mkdtemp(prefix="volsched-forks-"), "log")
    server = ForkServer(log)
    atexit.register(shutil.rmtree, log.parent)
    atexit.register(server.close)
    return server


def _text(written: IO[Any]) -> str:
    written.seek(0)
    return str(written.read().decode())
