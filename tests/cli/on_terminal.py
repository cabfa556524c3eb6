"""The command line in a process of its own, whose standard output, or all of it, is a real pseudo-terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.cells import cell_len

STYLE: Final = re.compile(r"\x1b\[([0-9;]*)m")


@dataclass(frozen=True)
class Shown:
    """The answer of a process: what came to the terminal, what came on a pipe of standard error, and its status."""

    raw: bytes
    stderr: str
    status: int
    encoding: str = "utf-8"

    @property
    def styled(self) -> str:
        return self.raw.decode(self.encoding).replace("\r\n", "\n")

    @property
    def text(self) -> str:
        return STYLE.sub("", self.styled)

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @property
    def widest(self) -> int:
        return max(map(cell_len, self.lines))

    @property
    def colours(self) -> set[str]:
        """The colours of the foreground."""
        return {code for codes in STYLE.findall(self.styled) for code in codes.split(";") if code in COLOURS}


COLOURS: Final = {str(number) for number in (*range(30, 38), *range(90, 98), 38)}


def environment(**changed: str) -> dict[str, str]:
    dropped = ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "KUBECONFIG", "TTY_COMPATIBLE", "TTY_INTERACTIVE")
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    return {**kept, "TERM": "xterm-256color", "PYTHONUTF8": "1", **changed}


def open_terminal(width: int) -> tuple[int, int]:
    """Return our side and the other side of a new terminal."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    return ours, theirs


def read_all(ours: int) -> bytes:
    """Return all that comes until no process has the other side open."""
    found = b""
    while True:
        try:
            came = os.read(ours, 1 << 16)
        except OSError:  # Linux says so when the other side is closed
            return found
        if not came:
            return found
        found += came


def command(*args: str | Path) -> list[str]:
    return [sys.executable, "-m", "volsched", *map(str, args)]


def on_terminal(
    *args: str | Path, width: int = 80, env: Mapping[str, str] | None = None, encoding: str = "utf-8"
) -> Shown:
    """Run a command whose standard output is a terminal."""
    ours, theirs = open_terminal(width)
    try:
        process = subprocess.Popen(
            command(*args),
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=subprocess.PIPE,
            env=environment(**(env or {})),
        )
        os.close(theirs)
        raw = read_all(ours)
        _, stderr = process.communicate()
        return Shown(raw, stderr.decode(encoding, "replace"), process.returncode, encoding)
    finally:
        os.close(ours)
