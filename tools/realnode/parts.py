"""What a node is made of, found in the cache or made once: Debian's packages, a kubelet, a base image with Python."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools import debian
from tools.controlplane.binaries import (
    NODE_PROGRAMS,
    PROGRAMS,
    Binaries,
    GoModule,
    Report,
    cache_root,
    find_binaries,
    find_go,
    go_arch,
    go_build,
    locked,
    write_module,
)
from tools.controlplane.errors import BuildError

PACKAGES: Final = (
    *("runc", "containernetworking-plugins", "busybox-static"),
    *("buildah", "golang-github-containers-common", "golang-github-containers-image", "libgpgme11", "libsubid4"),
    "debootstrap",
)
CONTAINERD: Final = GoModule(
    name="containerd",
    requirement="github.com/containerd/containerd/v2",
    version="v2.3.7",
    commands={
        name: f"github.com/containerd/containerd/v2/cmd/{name}"
        for name in ("containerd", "containerd-shim-runc-v2", "ctr")
    },
    stamps={"github.com/containerd/containerd/v2/version.Version": "v2.3.7"},
)
"""Debian's is too old for devices of ResourceClaims, which come into containers by CDI."""

SUITE: Final = "bookworm"
"""Debian's release whose Python, 3.11, plays the pinned base image where no registry is at hand."""

_IN_BASE: Final = ("python3", "python3-venv", "python3-pip", "python-is-python3", "ca-certificates")
_CERTIFICATES: Final = Path("/etc/ssl/certs/ca-certificates.crt")


@dataclass(frozen=True)
class Parts:
    """Where everything is: Debian's packages unpacked, programs of Kubernetes, containerd's, a root file system."""

    packages: Path
    programs: Binaries
    containerd: Path
    """The folder of its programs."""
    base: Path

    def with_packages(self, command: Sequence[str | Path]) -> list[str]:
        """Return the command that runs another one, in mounts of its own, with the packages as if installed."""
        words = ["unshare", "--mount", "--propagation", "private", "/bin/sh", "-euc", f'{self.overlay}; exec "$@"', "-"]
        return [*words, *map(str, command)]

    @property
    def overlay(self) -> str:
        """Return a line of shell that puts the packages in place."""
        return f"mount -t overlay overlay -o ro,lowerdir={self.packages}/usr:/usr /usr"


def problems() -> list[str]:
    """Return what this machine lacks for a real node."""
    lacks = [f"the program {name}" for name in ("unshare", "nsenter", "ip", "mount") if not shutil.which(name)]
    if os.geteuid() != 0:
        lacks.append("root: a node mounts, makes networks and cgroups")
        return lacks
    try_it = ["unshare", "--mount", "--net", "--uts", "--pid", "--fork", "true"]
    tried = subprocess.run(try_it, capture_output=True, text=True, check=False)  # noqa: S603 - our own command line
    if tried.returncode != 0:
        lacks.append(f"the right to make namespaces: {tried.stderr.strip()}")
    if not any(Path("/sys/fs/cgroup").iterdir()):
        lacks.append("cgroups: nothing is mounted below /sys/fs/cgroup")
    return lacks


def find_parts(report: Report) -> Parts:
    """Return the parts; make those that the cache lacks. Raises BuildError."""
    packages = debian.unpacked("realnode", PACKAGES, report)
    programs = find_binaries((*PROGRAMS, *NODE_PROGRAMS), report=report)
    return Parts(packages, programs, _containerd(report), _base(packages, report))


def _containerd(report: Report) -> Path:
    folder = cache_root() / f"containerd-{CONTAINERD.version}-{go_arch()}"
    with locked(folder / ".lock", report) as told:
        missing = [name for name in CONTAINERD.commands if not (folder / "bin" / name).is_file()]
        for name in missing:
            go = find_go(told)
            source = write_module(CONTAINERD, folder / "src", go)
            step = f"{name} {CONTAINERD.version}"
            go_build(go, source, CONTAINERD.commands[name], folder / "bin" / name, CONTAINERD.stamps, step, told)
    return folder / "bin"


def _base(packages: Path, report: Report) -> Path:
    folder = cache_root() / f"realnode-base-{SUITE}-{go_arch()}"
    with locked(cache_root() / ".realnode-base.lock", report) as told:
        if not folder.is_dir():
            told(f"making a base image of Debian {SUITE} with its Python (a minute or two)")
            _debootstrap(packages, folder)
    return folder


def _debootstrap(packages: Path, folder: Path) -> None:
    unfinished = folder.with_name(f".{folder.name}")
    shutil.rmtree(unfinished, ignore_errors=True)
    command = [
        *("unshare", "--mount", "--propagation", "private", "env", f"DEBOOTSTRAP_DIR={packages}/usr/share/debootstrap"),
        *(f"{packages}/usr/sbin/debootstrap", "--variant=minbase", f"--include={','.join(_IN_BASE)}"),
        *(SUITE, str(unfinished), _mirror()),
    ]
    debian.output_of(*command)
    if _CERTIFICATES.is_file():  # who reaches the world through a proxy trusts its authority
        shutil.copy(_CERTIFICATES, unfinished / _CERTIFICATES.relative_to("/"))
    for waste in ("var/cache/apt", "var/lib/apt/lists"):
        shutil.rmtree(unfinished / waste, ignore_errors=True)
    unfinished.rename(folder)


def _mirror() -> str:
    """Return the mirror that this machine's apt uses, else Debian's own."""
    try:
        sites = debian.output_of("apt-get", "indextargets", "--format", "$(SITE)").splitlines()
    except BuildError:
        sites = []
    return sites[0] if sites else "http://deb.debian.org/debian"
