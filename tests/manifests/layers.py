"""Layers of an image that are kept, as an engine keeps them: a step runs again only after a change before it."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

from tools.controlplane.binaries import cache_root

_KEPT: Final = 6
"""Layers at most: those of a Dockerfile, and those of the source before."""
_ROOT: Final = "root"
_WHERE: Final = "where"


def kept_layers() -> Layers:
    """Return the layers that all checkouts share."""
    return Layers(cache_root() / "image-layers")


class Layers:
    """Root file systems by a key for everything that they were made of.

    Programs in a layer name the folder in which they were built, so another folder gets its own name in them.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._folder.mkdir(parents=True, exist_ok=True)

    def restore(self, key: str, root: Path) -> bool:
        """Make a root file system what it was after a step; False if no layer has the key."""
        kept = self._folder / key
        if not kept.is_dir():
            return False
        restored = root.with_name(f"{root.name}.restored")
        try:
            shutil.copytree(kept / _ROOT, restored, symlinks=True)
            before = (kept / _WHERE).read_text()
            os.utime(kept)
        except OSError:  # another run has made room meanwhile
            shutil.rmtree(restored, ignore_errors=True)
            return False
        shutil.rmtree(root)
        restored.rename(root)
        _move(root, before)
        return True

    def keep(self, key: str, root: Path) -> None:
        """Keep a root file system as it is after a step, and remove the layers that were not used for longest."""
        made = Path(tempfile.mkdtemp(dir=self._folder, prefix=".new-"))
        shutil.copytree(root, made / _ROOT, symlinks=True)
        (made / _WHERE).write_text(str(root))
        try:
            made.rename(self._folder / key)
        except OSError:  # another run was first
            shutil.rmtree(made)
        layers = sorted(
            (path for path in self._folder.iterdir() if path.name[0] != "."), key=lambda p: p.stat().st_mtime
        )
        for layer in layers[:-_KEPT]:
            shutil.rmtree(layer, ignore_errors=True)


class Key:
    """The key of a layer: what the steps so far say, the files that they copy, and the base that is played."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256(f"{sys.version} {sys.base_prefix}".encode())

    def add_step(self, word: str, text: str) -> None:
        """Add what a step says."""
        self._digest.update(f"{word} {text}\n".encode())

    def add_file(self, name: str, file: Path) -> None:
        """Add a file that a step copies."""
        content = file.read_bytes()
        self._digest.update(f"{name} {file.stat().st_mode:o} {len(content)}\n".encode() + content)

    def __str__(self) -> str:
        return self._digest.hexdigest()[:32]


def _move(root: Path, before: str) -> None:
    """Have programs and virtual environments name this folder and not the one before."""
    for path in [*root.rglob("bin/*"), *root.rglob("pyvenv.cfg")]:
        if path.is_file() and not path.is_symlink():
            path.write_bytes(path.read_bytes().replace(before.encode(), str(root).encode()))
