"""Programs from Debian's packages, downloaded by ``apt-get`` and unpacked into the cache: nothing is installed.

Unpacking needs no root. Where the machine's package lists do not do, apt is given lists of its own.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tools.controlplane.binaries import Report, cache_root, go_arch, locked
from tools.controlplane.errors import BuildError

_OF_THE_MACHINE: Final = re.compile(r"(libc6|libc-bin|libgcc-s1|libstdc\+\+6|libcrypt1|libpam|libdebconf|libnewt)")
"""Libraries that every machine has, and that do not go together with another loader's."""

_LIBRARY: Final = re.compile(r"lib|chromium|fonts-liberation$|fontconfig-config$")


def unpacked(name: str, packages: Sequence[str], report: Report, *, with_libraries: bool = False) -> Path:
    """Return the folder that has what is in the packages, by the paths that they would be installed to.

    `with_libraries` adds the libraries that they depend on. The folder is named after `name` and the version of the
    first package; the newest that was made before will do. Raises BuildError, which states what to do.
    """
    with locked(cache_root() / f".{name}.lock", report) as told:
        made = sorted(cache_root().glob(f"{name}-[0-9]*-{go_arch()}"), key=lambda folder: folder.stat().st_mtime)
        return made[-1] if made else _fetch(name, packages, told, with_libraries=with_libraries)


def _fetch(name: str, packages: Sequence[str], report: Report, *, with_libraries: bool) -> Path:
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        raise BuildError(f"there is no apt-get and dpkg-deb to fetch Debian's {', '.join(packages)} with")
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix=f"{name}-", dir=cache_root()) as scratch:
        found = _download(Path(scratch), packages, report, with_libraries=with_libraries)
        version = output_of("dpkg-deb", "--field", found[packages[0]], "Version").replace("+", "-").replace(":", "-")
        folder = cache_root() / f"{name}-{version}-{go_arch()}"
        whole = Path(scratch) / "unpacked"
        for package in found.values():
            output_of("dpkg-deb", "--extract", package, whole)
        shutil.rmtree(folder, ignore_errors=True)
        whole.rename(folder)
    report(f"Debian's {packages[0]} {version} is in {folder} ({time.monotonic() - began:.0f} s)")
    return folder


def _download(folder: Path, packages: Sequence[str], report: Report, *, with_libraries: bool) -> dict[str, Path]:
    """Download by the machine's lists, else by lists made for this purpose; return the file of each package."""
    report(f"downloading Debian's {', '.join(packages)}")
    try:
        return _apt_download(folder, _with_libraries(packages) if with_libraries else packages)
    except BuildError:
        report("this machine's package lists do not do: reading lists into a folder of their own")
    for part in ("lists/partial", "archives/partial"):
        (folder / part).mkdir(parents=True)
    own = ("-o", f"Dir::State::lists={folder / 'lists'}", "-o", f"Dir::Cache={folder / 'archives'}")
    output_of("apt-get", *own, "--quiet", "update")
    return _apt_download(folder, _with_libraries(packages, *own) if with_libraries else packages, *own)


def _with_libraries(packages: Sequence[str], *options: str) -> list[str]:
    """Return packages with the libraries that they depend on, directly or not."""
    leave = ("recommends", "suggests", "conflicts", "breaks", "replaces", "enhances")
    flags = ("--recurse", *(f"--no-{relation}" for relation in leave))
    lines = output_of("apt-cache", *options, "depends", *flags, *packages).splitlines()
    found = {line for line in lines if _LIBRARY.match(line) and not _OF_THE_MACHINE.match(line)}
    return [*packages, *sorted(found - set(packages))]


def _apt_download(folder: Path, packages: Sequence[str], *options: str) -> dict[str, Path]:
    output_of("apt-get", *options, "--quiet", "download", *packages, folder=folder)
    return {package: next(folder.glob(f"{package}_*.deb")) for package in packages}


def output_of(*command: str | Path, folder: Path | None = None) -> str:
    """Run a command to its end and return what it prints; raises BuildError when it fails."""
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)  # noqa: S603 - our own lines
    if done.returncode != 0:
        raise BuildError(f"{' '.join(words)} failed with status {done.returncode}:\n{done.stdout}{done.stderr}"[-3000:])
    return done.stdout.strip()
