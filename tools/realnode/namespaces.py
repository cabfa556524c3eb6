"""A process in namespaces of its own: it becomes the first process of them, and takes everything with it when it ends.

The first process has to reap whatever loses its parent (a container's shim does), which Python's `subprocess` cannot
do beside its own children. So the first one only starts the second, reaps, and ends with it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

_OWN: Final = ("--mount", "--net", "--uts", "--ipc", "--pid", "--propagation", "private")
_JOINED: Final = ("--mount", "--net", "--uts", "--ipc", "--pid")


def start(command: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
    """Start a command in new namespaces; killing what is returned kills all that came of it."""
    words = ["unshare", *_OWN, "--fork", "--kill-child", "--mount-proc", sys.executable, "-m", __name__, *command]
    with log.open("wb") as output:
        return subprocess.Popen(  # noqa: S603 - our own command line
            words, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )


def entering(pid: int, command: Sequence[str], folder: Path) -> list[str]:
    """Return the command that runs another one inside; `pid` is what `start` returned the process of."""
    return ["nsenter", "--target", str(first_process(pid)), *_JOINED, f"--wd={folder}", *command]


def first_process(pid: int) -> int:
    """Return the id, outside, of the first process inside; raises ProcessLookupError when there is none."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    if not children:
        raise ProcessLookupError(f"process {pid} has no namespaces")
    return int(children[0])


def main(command: Sequence[str]) -> int:
    """Run a command as the second process, reap all others, and return the command's exit status."""
    second = os.posix_spawnp(command[0], list(command), os.environ)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: os.kill(second, number))
    while True:
        pid, status = os.wait()
        if pid == second:
            return os.waitstatus_to_exitcode(status) & 0xFF


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
