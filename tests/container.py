"""A container as an engine starts it, by hand, for machines without one.

Its process has a root file system of its own that is read-only but for the mounts that are not, the user and the group
that it is told, no other groups, no capabilities and no way to get any, and of variables only those that it is given.
Nobody but root has an entry in its /etc/passwd. The base image is played by this machine's /usr and by the Python that
runs the tests, so nothing is known here about the base image itself.

It takes root and the right to make mount namespaces; `why_not` says so where that is missing.
"""

from __future__ import annotations

import functools
import os
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

_NAMESPACES: Final = ("unshare", "--mount", "--uts", "--propagation=private")
_TOOLS: Final = "/usr/sbin:/usr/bin:/sbin:/bin"
_DEVICES: Final = ("null", "zero", "full", "random", "urandom")
_FILES: Final = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\n",
    "etc/group": "root:x:0:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
    "etc/hosts": "127.0.0.1 localhost\n::1 localhost\n",
}


@functools.cache
def why_not() -> str:
    """Say why this machine can have no such containers; empty when it can."""
    if os.geteuid() != 0:
        return "only root can give a process another user and file system"
    tried = subprocess.run([*_NAMESPACES, "--net", "true"], capture_output=True, text=True, check=False)
    return tried.stderr.strip()


@dataclass(frozen=True)
class Mount:
    """A file or folder of this machine, and where the container sees it; at the same place when that is not said."""

    source: Path
    target: str = ""
    writable: bool = False

    @property
    def place(self) -> str:
        """Where it is below the container's root, without the first slash."""
        return (self.target or str(self.source)).lstrip("/")


@dataclass(frozen=True)
class Container:
    """What a container is made of; `keeping` names capabilities that its process keeps."""

    words: Sequence[str]
    environment: Mapping[str, str]
    user: str
    mounts: Sequence[Mount] = ()
    hostname: str = "container"
    keeping: Sequence[str] = field(default=())

    def command(self, root: Path) -> list[str]:
        """The command that becomes its process, with the same id; `root` is a new folder for its root file system."""
        mounts = [*_base(), *self.mounts]
        _lay_out(root, mounts)
        script = "\n".join(shlex.join(step) for step in self._steps(root, mounts))
        return ["env", "-i", f"PATH={_TOOLS}", *_NAMESPACES, "/bin/sh", "-euc", script]

    def run(self, root: Path, seconds: float = 600) -> subprocess.CompletedProcess[str]:
        """Run it to its end."""
        return subprocess.run(self.command(root), capture_output=True, text=True, timeout=seconds, check=False)

    def _steps(self, root: Path, mounts: Sequence[Mount]) -> Iterator[list[str]]:
        yield ["hostname", self.hostname]
        yield ["mount", "--bind", str(root), str(root)]
        for mount in mounts:
            options = "bind" if mount.writable else "bind,ro"
            yield ["mount", "-o", options, str(mount.source), f"{root}/{mount.place}"]
        yield ["mount", "-o", "remount,bind,ro", str(root)]
        variables = [f"{name}={value}" for name, value in self.environment.items()]
        yield ["exec", "chroot", str(root), *self._drop(), "env", "-i", *variables, *self.words]

    def _drop(self) -> list[str]:
        """The command that gives every right away."""
        user, _, group = self.user.partition(":")
        rights = ",".join(["-all", *(f"+{name}" for name in self.keeping)])
        return [
            *("setpriv", f"--reuid={user}", f"--regid={group}", "--clear-groups", "--no-new-privs"),
            *(f"--inh-caps={rights}", f"--ambient-caps={rights}", f"--bounding-set={rights}"),
        ]


def _base() -> Iterator[Mount]:
    """What the base image brings: a system, and the Python that runs here."""
    for name in ("usr", "lib", "lib32", "lib64", "bin", "sbin"):
        path = Path("/", name)
        if path.is_dir() and not path.is_symlink():
            yield Mount(path)
    python = Path(sys.base_prefix).resolve()
    if not python.is_relative_to("/usr"):
        yield Mount(python)
    cache = Path("/etc/ld.so.cache")
    if cache.exists():
        yield Mount(cache)
    yield Mount(Path("/proc"))
    yield from (Mount(Path("/dev", name)) for name in _DEVICES)


def _lay_out(root: Path, mounts: Iterable[Mount]) -> None:
    """Make the root file system: the places where something is mounted, links, and some files."""
    for name in ("etc", "tmp", "var/tmp"):
        (root / name).mkdir(parents=True)
    root.chmod(0o755)
    for name, text in _FILES.items():
        (root / name).write_text(text)
    for name in ("lib", "lib32", "lib64", "bin", "sbin"):
        path = Path("/", name)
        if path.is_symlink():
            (root / name).symlink_to(path.readlink())
    for mount in mounts:
        place = root / mount.place
        if mount.source.is_dir():
            place.mkdir(parents=True, exist_ok=True)
        else:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.touch()
