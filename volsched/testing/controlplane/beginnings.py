"""What etcd holds when an API server has begun for the first time, kept so that later control planes begin with it.

A first start writes a hundred roles, priority levels and Services; it takes twice as much CPU time as a later one.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from volsched.testing.controlplane.binaries import Binaries, cache_folder

_STORING: Final = ("etcd", "kube-apiserver")
"""The programs that decide what a first start writes."""

_BLOCK: Final = 1 << 20
_ZEROS: Final = bytes(_BLOCK)


def beginning_of(binaries: Binaries, flags: Sequence[str]) -> Path | None:
    """Return the folder for the first state of an API server with these flags; it may not exist yet.

    None where a flag names a file: that is another one each time, and what it does to the store is not known.
    """
    if any("=/" in flag for flag in flags):
        return None
    programs = [
        (str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in map(binaries.__getitem__, _STORING)
    ]
    digest = hashlib.sha256(json.dumps([programs, *flags]).encode()).hexdigest()
    return cache_folder() / "beginnings" / digest[:16]


def keep_as(beginning: Path, store: Path) -> None:
    """Copy a store there as a whole, unless another process did so meanwhile."""
    beginning.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=beginning.parent) as unfinished:
        copy_store(store, Path(unfinished, "store"))
        try:
            Path(unfinished, "store").rename(beginning)
        except OSError:
            if not beginning.is_dir():
                raise


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
