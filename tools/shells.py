"""Shells for the tests of completion: those of the machine, else Debian's, and what each completes a line with."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tools import debian
from tools.controlplane.binaries import Report
from tools.patience import PATIENCE
from tools.prometheus import print_progress

_PACKAGES: Final = {"bash": ("bash",), "zsh": ("zsh", "zsh-common"), "fish": ("fish", "fish-common")}
NAMES: Final = tuple(_PACKAGES)
_FOLDERS: Final = ("usr/bin", "bin")
_QUIET: Final = 0.5
"""Seconds after which a terminal is taken to print nothing more."""

_COMPLETED: Final = "(completed)"
_WIDGET: Final = (
    f"complete_and_tell() {{ zle expand-or-complete; zle -R; print -n '{_COMPLETED}' }}",
    "zle -N complete_and_tell",
    "bindkey '^I' complete_and_tell",
)
"""What TAB does in zsh: how long a completion takes depends on the machine."""


def find(name: str, report: Report = print_progress) -> tuple[str, Path | None]:
    """Return a shell's program, and the folder of Debian's packages if it comes from there; raises BuildError."""
    if found := shutil.which(name):
        return found, None
    folder = debian.unpacked(name, _PACKAGES[name], report, with_libraries=name == "fish")
    programs = (folder / place / name for place in _FOLDERS)
    return str(next(program for program in programs if program.exists())), folder


class Shell:
    """A shell to complete lines in, with the script of ``volsched completion`` and the variables of its user."""

    def __init__(self, name: str, script: Path, variables: Mapping[str, str], report: Report = print_progress) -> None:
        self.name = name
        self._script = script
        self._variables = {**variables, "TERM": "xterm", "ZDOTDIR": str(script.parent)}
        self._program, self._folder = find(name, report)
        if self._folder is not None:
            libraries = {str(path.parent) for path in self._folder.rglob("lib*.so*")}
            self._variables["LD_LIBRARY_PATH"] = ":".join(sorted(libraries))

    def completed(self, line: str) -> str:
        """Return what the shell offers, or makes, of a line when TAB is pressed at its end."""
        if self.name == "zsh":
            return self._typed(line)
        words = line.split(" ")
        ask = {
            "bash": f"COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _volsched_completion volsched; "
            'echo "${COMPREPLY[@]}"',
            "fish": f'complete -C "{line}"',
        }
        return self._output_of("-c", f"source {self._script}; {ask[self.name]}")

    def _output_of(self, *arguments: str) -> str:
        command = [self._program, *arguments]
        done = subprocess.run(  # noqa: S603 - a shell is what is meant
            command, env=self._variables, capture_output=True, text=True, check=True
        )
        return done.stdout

    def _typed(self, line: str) -> str:
        """Type a line into zsh on a terminal, press TAB, and return what stands there when nothing more comes."""
        (self._script.parent / ".zshrc").write_text("\n".join(self._settings()))
        child, terminal = pty.fork()
        if child == 0:
            os.execve(self._program, [self._program, "-i"], self._variables)  # noqa: S606 - a shell is what is meant
        try:
            _read(terminal, until="ready")
            os.write(terminal, f"{line}\t".encode())
            return _read(terminal, until=_COMPLETED)
        finally:
            os.close(terminal)
            os.kill(child, 9)
            os.waitpid(child, 0)

    def _settings(self) -> list[str]:
        """Return a .zshrc: where its own parts are, and the completion."""
        if self._folder is None:
            own = []
        else:
            modules = next(self._folder.rglob("zle.so")).parents[1]
            functions = {
                path.parent for path in (self._folder / "usr/share/zsh/functions").rglob("*") if path.is_file()
            }
            own = [f"module_path=({modules})", f"fpath=({' '.join(sorted(map(str, functions)))})"]
        completion = ("autoload -Uz compinit", "compinit -u -D", f"source {self._script}")
        return [*own, "PS1=", *completion, *_WIDGET, "echo ready", ""]


def _read(terminal: int, *, until: str) -> str:
    """Read until something stands there and nothing more comes."""
    output, end = b"", time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if select.select([terminal], [], [], _QUIET)[0]:
            output += os.read(terminal, 65536)
        elif until.encode() in output:
            return output.decode(errors="replace")
    raise TimeoutError(f"{until} did not come; the terminal says {output!r}")
