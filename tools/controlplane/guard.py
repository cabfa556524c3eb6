"""Ends the control plane's processes when the process that started them dies, however it dies.

A test run that is killed cannot clean up after itself, and etcd on a memory file system would keep its memory. So each
control plane has this small process beside it, which holds one end of a pipe whose other end only the starter has: when
the starter is gone the pipe ends, and what is still running is ended here. (Linux' PR_SET_PDEATHSIG would not do: it
follows the *thread* that started a process, and asynchronous tests start things from threads that come and go.)

It is run as a file and imports nothing of the project, so that it is there in milliseconds. Lines on standard input:
``add PID``, ``remove PID``, ``scratch FOLDER`` (removed in the end), ``done`` (leave quietly).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys


class Guarded:
    """The processes to end; where the system has process descriptors a recycled pid cannot be hit by mistake."""

    def __init__(self) -> None:
        self._descriptors: dict[int, int | None] = {}

    def add(self, pid: int) -> None:
        """Remember a running process."""
        opener = getattr(os, "pidfd_open", None)
        with contextlib.suppress(ProcessLookupError):
            self._descriptors[pid] = opener(pid) if opener else None

    def remove(self, pid: int) -> None:
        """Forget a process that its starter has seen ending."""
        descriptor = self._descriptors.pop(pid, None)
        if descriptor is not None:
            os.close(descriptor)

    def kill(self) -> None:
        """End what is left, last started first."""
        for pid, descriptor in reversed(self._descriptors.items()):
            with contextlib.suppress(ProcessLookupError):
                if descriptor is None:
                    os.kill(pid, signal.SIGKILL)
                else:
                    signal.pidfd_send_signal(descriptor, signal.SIGKILL)


def main() -> None:
    """Follow the starter's lines until it is gone."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    guarded, scratch = Guarded(), list[str]()
    for line in sys.stdin:
        word, _, rest = line.rstrip("\n").partition(" ")
        if word == "add":
            guarded.add(int(rest))
        elif word == "remove":
            guarded.remove(int(rest))
        elif word == "scratch":
            scratch.append(rest)
        elif word == "done":
            return
    guarded.kill()
    for folder in scratch:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
