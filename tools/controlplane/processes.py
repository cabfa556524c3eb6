"""Start and end the control plane's processes, each with its log, none outliving its starter."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.controlplane.errors import StartError

_GUARD = Path(__file__).with_name("guard.py")


class ServerProcess:
    """One running program, its log file, and what its end looked like."""

    def __init__(self, name: str, command: Sequence[str], log: Path, popen: subprocess.Popen[bytes]) -> None:
        self.name = name
        self.command = tuple(command)
        self.log = log
        self._popen = popen

    @property
    def pid(self) -> int:
        """Return the process id."""
        return self._popen.pid

    @property
    def status(self) -> int | None:
        """Return the exit status, None while it runs; a signal's number is negative."""
        return self._popen.poll()

    @property
    def is_running(self) -> bool:
        """True if it has not ended."""
        return self.status is None

    def log_tail(self, size: int = 3000) -> str:
        """Return the last bytes of the log, as text."""
        try:
            with self.log.open("rb") as handle:
                handle.seek(max(0, handle.seek(0, os.SEEK_END) - size))
                return handle.read().decode(errors="replace")
        except OSError as error:
            return f"({error})"

    def check(self) -> None:
        """Raise StartError when it has ended."""
        if not self.is_running:
            raise StartError(f"{self.name} ended with status {self.status}; {self.log} ends:\n{self.log_tail()}")

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, if it still runs."""
        with contextlib.suppress(ProcessLookupError):
            self._popen.send_signal(number)

    def wait(self, timeout: float | None = None) -> int:
        """Return its exit status once it has ended; raises subprocess.TimeoutExpired after `timeout` seconds."""
        return self._popen.wait(timeout)


class ProcessSet:
    """The processes of one control plane, with the guard that ends them should this process be killed."""

    def __init__(self, log_folder: Path, scratch: Path, temporary: Sequence[Path]) -> None:
        """Take the folders for logs and data, and those that the guard removes should it have to act."""
        self._log_folder = log_folder
        self._scratch = scratch
        self._temporary = tuple(temporary)
        self._running: dict[str, ServerProcess] = {}
        self._guard: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def __contains__(self, name: str) -> bool:
        return name in self._running

    def __getitem__(self, name: str) -> ServerProcess:
        return self._running[name]

    def start(
        self, name: str, command: Sequence[str | Path], environment: Mapping[str, str] | None = None
    ) -> ServerProcess:
        """Start a program; its output is added to ``<name>.log``."""
        self._log_folder.mkdir(parents=True, exist_ok=True)
        log = self._log_folder / f"{name}.log"
        words = [str(word) for word in command]
        with self._lock:
            if name in self._running:
                raise StartError(f"{name} is running already")
            self._start_guard()
            with log.open("ab") as output:
                popen = subprocess.Popen(  # noqa: S603 - the control plane's own command lines
                    words,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    cwd=self._scratch,
                    env=os.environ | (environment or {}),
                    start_new_session=True,
                )
            self._notify_guard(f"add {popen.pid}")
            process = self._running[name] = ServerProcess(name, words, log, popen)
        return process

    def stop(self, name: str, *, grace: float = 0.0) -> None:
        """End a program: ask it to end, wait `grace` seconds, then kill it. With no grace it is killed at once."""
        with self._lock:
            process = self._running.pop(name, None)
        if process is None:
            return
        if grace > 0:
            process.signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(grace)
        process.signal(signal.SIGKILL)
        process.wait()
        self._notify_guard(f"remove {process.pid}")

    def stop_all(self) -> None:
        """Kill every program, last started first, and let the guard go."""
        for name in reversed(list(self._running)):
            self.stop(name)
        self._notify_guard("done")
        if self._guard and self._guard.stdin:
            self._guard.stdin.close()
            self._guard.wait()
        self._guard = None

    def check(self) -> None:
        """Raise StartError when a program has ended by itself."""
        for process in list(self._running.values()):
            process.check()

    def _start_guard(self) -> None:
        if self._guard is None:
            self._guard = subprocess.Popen(  # noqa: S603 - our own file
                [sys.executable, "-E", "-S", str(_GUARD)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
            for folder in self._temporary:
                self._notify_guard(f"scratch {folder}")

    def _notify_guard(self, line: str) -> None:
        if self._guard and self._guard.stdin:
            with contextlib.suppress(BrokenPipeError):
                self._guard.stdin.write(f"{line}\n".encode())
                self._guard.stdin.flush()
