"""What etcd holds when an API server has begun for the first time, kept so that later control planes begin with it.

A first start writes a hundred roles, priority levels and Services; it takes twice as much CPU time as a later one.
Manifests that a control plane is to have from the beginning are kept with that: they are applied once.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools.controlplane.binaries import Binaries, cache_folder

_STORING: Final = ("etcd", "kube-apiserver")
"""The programs that decide what a first start writes."""

_BLOCK: Final = 1 << 20
_ZEROS: Final = bytes(_BLOCK)
_UNUSED_SECONDS: Final = 7 * 24 * 3600.0
"""A beginning that was not used for so long is removed when another one is kept: manifests change often."""


@dataclass(frozen=True, slots=True)
class Manifests:
    """What a control plane has from the beginning: files, and folders with kustomizations, below one folder, in order.

    The kustomizations may use everything below the folder, and nothing else.
    """

    folder: Path
    parts: tuple[str, ...]

    def arguments(self) -> Iterator[tuple[str, str]]:
        """Yield what `kubectl apply` is told for each part."""
        for path in (self.folder / part for part in self.parts):
            yield ("-k" if path.is_dir() else "-f", str(path))

    def digest(self) -> str:
        """Return what changes with each file below the folder."""
        found = hashlib.sha256(json.dumps(self.parts).encode())
        for path in sorted(path for path in self.folder.rglob("*") if path.is_file()):
            found.update(json.dumps([str(path.relative_to(self.folder)), path.stat().st_size]).encode())
            found.update(path.read_bytes())
        return found.hexdigest()


def beginning_of(binaries: Binaries, flags: Sequence[str], manifests: Manifests | None = None) -> Path | None:
    """Return the folder for the first state of an API server with these flags and manifests; it may not exist yet.

    None where a flag names a file: that is another one each time, and what it does to the store is not known.
    """
    if any("=/" in flag for flag in flags):
        return None
    programs = [
        (str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in map(binaries.__getitem__, _STORING)
    ]
    applied = [manifests.digest()] if manifests else []
    digest = hashlib.sha256(json.dumps([programs, *flags, *applied]).encode()).hexdigest()
    return cache_folder() / "beginnings" / digest[:16]


def begin_with(beginning: Path, store: Path) -> None:
    """Make a store of a beginning that was kept, and note that it was used."""
    os.utime(beginning)
    copy_store(beginning, store)


def keep_as(beginning: Path, store: Path) -> None:
    """Copy a store there as a whole, unless another process did so meanwhile."""
    beginning.parent.mkdir(parents=True, exist_ok=True)
    _remove_unused(beginning.parent)
    with tempfile.TemporaryDirectory(dir=beginning.parent) as unfinished:
        copy_store(store, Path(unfinished, "store"))
        try:
            Path(unfinished, "store").rename(beginning)
        except OSError:
            if not beginning.is_dir():
                raise


def _remove_unused(folder: Path) -> None:
    for kept in folder.iterdir():
        with contextlib.suppress(FileNotFoundError):  # another process does the same
            if kept.stat().st_mtime < time.time() - _UNUSED_SECONDS:
                shutil.rmtree(kept, ignore_errors=True)


def copy_store(source: Path, target: Path) -> None:
    """Copy the folder of a store; what is empty in its files, as nearly all of a new log, takes no room."""
    shutil.copytree(source, target, copy_function=_copy_sparsely)


def _copy_sparsely(source: str, target: str) -> str:
    with Path(source).open("rb") as reader, Path(target).open("wb") as writer:
        while block := reader.read(_BLOCK):
            if block == _ZEROS[: len(block)]:
                writer.seek(len(block), os.SEEK_CUR)
            else:
                writer.write(block)
        writer.truncate()
    shutil.copystat(source, target)
    return target
