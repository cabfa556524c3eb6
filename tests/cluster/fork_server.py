"""A process that has imported volsched and forks for each command that a test starts.

Imports are nine tenths of the CPU time of a start; here each worker of pytest pays for them once. The process is
started like a command of the checkout: a fork inherits its user, its file system and its variables. A fork gets the
streams of the test, closes everything else, and goes on as the command. A fork shares the hash seed of this process,
which is new in each run.

Standard input is that of pytest. The only argument is the descriptor of a socket; `tests.cluster.forks` has its other
end. A message there is the words of a command, with files for its output and errors and a pipe for two lines: the pid
of the command, and, when the command has ended, its exit status. When the other end closes, all commands are killed.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import actions
import plugins
from volsched.cli import main

LONGEST_MESSAGE: Final = 65536

IMPORTED: Final = (
    *("volsched.operator.program", "volsched.operator.webhooks.admission", "volsched.run.runner"),
    *("volsched.kube.client.exec_plugin", "uvloop"),
)
"""What the commands import when they begin, beside plugins and actions."""


@dataclass(frozen=True)
class Command:
    """A fork that runs, and the pipe for what is told about it."""

    pid: int
    told: int

    def tell(self, number: int) -> None:
        """Write a line; the test may have gone meanwhile."""
        try:
            os.write(self.told, f"{number}\n".encode())
        except BrokenPipeError:
            return


def serve(asked: socket.socket) -> list[str]:
    """Fork for each message. Returns in a fork, with the words of its command."""
    commands: dict[int, Command] = {}
    ready = select.poll()
    ready.register(asked, select.POLLIN)
    while True:
        for descriptor, _ in ready.poll():
            if descriptor != asked.fileno():
                ready.unregister(descriptor)
                _end(descriptor, commands.pop(descriptor))
                continue
            message, descriptors, _, _ = socket.recv_fds(asked, LONGEST_MESSAGE, 3)
            if not message:
                _kill(commands)
                os._exit(0)  # nothing is left to be done, and an orderly end takes 0.3 CPU seconds
            *streams, told = descriptors
            pid = os.fork()
            if pid == 0:
                _take(asked, streams)
                return list(json.loads(message))
            for stream in streams:
                os.close(stream)
            command = Command(pid, told)
            command.tell(pid)
            process = os.pidfd_open(pid)
            commands[process] = command
            ready.register(process, select.POLLIN)


def _end(descriptor: int, command: Command) -> None:
    """Tell the exit status of a command that has ended."""
    _, status = os.waitpid(command.pid, 0)
    command.tell(os.waitstatus_to_exitcode(status))
    os.close(command.told)
    os.close(descriptor)


def _kill(commands: dict[int, Command]) -> None:
    for descriptor in commands:
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)


def _take(asked: socket.socket, streams: Sequence[int]) -> None:
    """Leave a fork nothing but its streams."""
    for number, stream in enumerate(streams, 1):
        os.dup2(stream, number)
    asked.close()
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))


def _import() -> None:
    """Import everything, and take back what imports do to the environment (HOME is set where there is none)."""
    variables = dict(os.environ)
    for name in IMPORTED:
        importlib.import_module(name)
    for package in (actions, plugins):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    for name in os.environ.keys() - variables.keys():
        del os.environ[name]


if __name__ == "__main__":
    _import()
    words = serve(socket.socket(fileno=int(sys.argv[1])))
    sys.argv = ["-c", *words]
    main()
