"""A Dockerfile followed by hand, for machines without a container engine.

Every stage gets a folder that stands for its root file system. What an engine would do to the root of a container is
done to that folder: absolute paths in the instructions are taken to be below it. The base image is played by the Python
that runs the tests, so nothing is known here about the base image itself. Containers are made of the result as
tests/container.py does it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pickle
import re
import shlex
import shutil
import string
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import IO

from tests.container import Mount
from tests.manifests.layers import Key, Layers, kept_layers
from tests.manifests.rendering import ROOT

_BASE_PATH = "/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin"
_ABSOLUTE = re.compile(r"(?<![\w./$}*-])/(?=[a-z])")
_PAIR = re.compile(r'([\w.]+)=("[^"]*"|\S+)')


@dataclass(frozen=True)
class Instruction:
    """One instruction: its word, and what stands behind it with continued lines joined."""

    word: str
    text: str


@dataclass
class Stage:
    """What begins with a FROM: the image below it, its name, and the instructions in order."""

    base: str
    name: str
    steps: list[Instruction] = field(default_factory=list)

    def of(self, word: str) -> list[str]:
        """What stands behind all instructions of one word."""
        return [step.text for step in self.steps if step.word == word]

    def the(self, word: str) -> str:
        """What stands behind the only instruction of a word."""
        [text] = self.of(word)
        return text

    @property
    def environment(self) -> dict[str, str]:
        """The variables of a container of it."""
        found = {"PATH": _BASE_PATH}
        for text in self.of("ENV"):
            found |= pairs(_filled(text, found))
        return found

    @property
    def user(self) -> str:
        """The user and the group of a container of it, as `uid:gid`."""
        return self.the("USER")

    def words(self, word: str) -> list[str]:
        """The items of an instruction in the form that needs no shell."""
        items = json.loads(self.the(word))
        assert isinstance(items, list), f"{word} should be written as a list, so that no shell is needed"
        return items


def read(text: str) -> list[Stage]:
    """The stages of a Dockerfile, with the ARGs before the first one put in."""
    known: dict[str, str] = {}
    stages: list[Stage] = []
    for step in _instructions(text):
        if step.word == "ARG" and not stages:
            known |= pairs(step.text)
        elif step.word == "FROM":
            base, *name = re.split(r"\s+AS\s+", _filled(step.text, known))
            stages.append(Stage(base, name[0] if name else ""))
        else:
            stages[-1].steps.append(step)
    return stages


def pairs(text: str) -> dict[str, str]:
    """The assignments of an ARG, ENV or LABEL."""
    return {name: value.strip('"') for name, value in _PAIR.findall(text)}


def _instructions(text: str) -> Iterator[Instruction]:
    lines = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    for line in re.sub(r"\\\n", " ", lines).splitlines():
        if line.strip():
            word, _, rest = line.strip().partition(" ")
            yield Instruction(word.upper(), rest.strip())


def _filled(text: str, values: Mapping[str, str]) -> str:
    return string.Template(text).safe_substitute(values)


def context(folder: Path) -> set[str]:
    """The files of a folder that its .dockerignore lets through; the last pattern that matches decides."""
    patterns = [line for line in (folder / ".dockerignore").read_text().splitlines() if line and line[0] != "#"]
    tops = {pattern[1:].split("/")[0] for pattern in patterns if pattern.startswith("!")}
    assert "*" in patterns, "what is not named must stay out"
    found = set()
    for top in tops:
        for path in [folder / top, *(folder / top).rglob("*")]:
            name = path.relative_to(folder).as_posix()
            if path.is_file() and _is_let_through(name, patterns):
                found.add(name)
    return found


def _is_let_through(name: str, patterns: Sequence[str]) -> bool:
    let = True
    for pattern in patterns:
        wanted = pattern.removeprefix("!")
        if wanted.startswith("**/"):
            hit = any(fnmatch(part, wanted[3:]) for part in name.split("/"))
        else:
            hit = any(fnmatch(prefix, wanted) for prefix in _prefixes(name))
        if hit:
            let = pattern.startswith("!")
    return let


def _prefixes(name: str) -> Iterator[str]:
    parts = name.split("/")
    yield from ("/".join(parts[: count + 1]) for count in range(len(parts)))


@dataclass(frozen=True)
class Image:
    """What was built: the last stage of the Dockerfile, and the folder with what it adds to its base."""

    stage: Stage
    root: Path

    @property
    def mounts(self) -> list[Mount]:
        """The image in a container's file system."""
        return [Mount(path, f"/{path.relative_to(self.root)}") for path in self.root.glob("*/*")]


def built_image(folder: Path) -> Image:
    """Return the image of the checkout's Dockerfile, built below an empty folder."""
    return Builder(ROOT, folder, kept_layers()).build(read((ROOT / "Dockerfile").read_text()))


def folder_of_run(own: Path) -> Path:
    """Return the folder that all workers of a test run share; `own` is the temporary folder of this worker."""
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@contextlib.contextmanager
def shared_image(run: Path, build: Callable[[Path], Image] = built_image) -> Iterator[Image]:
    """Have an image within a ``with`` block; `run` is a folder that all workers of a test run share.

    A build takes up to a minute of CPU time. So the first worker builds, the others wait, and the last one that leaves
    removes the image. The image is not in pytest's own folder, because the images of some runs would fill that one.
    """
    made = run / "image.pickle"
    with (run / "image.lock").open("w") as lock:
        folder, image = _joined(lock, made, build)
        try:
            yield image
        finally:
            with contextlib.suppress(BlockingIOError):  # another worker still uses the image
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                made.unlink()
                shutil.rmtree(folder)


def _joined(lock: IO[str], made: Path, build: Callable[[Path], Image]) -> tuple[Path, Image]:
    """Return the folder and the image that there is, or a new one; the lock is then held as one of its users."""
    while True:
        fcntl.flock(lock, fcntl.LOCK_SH)
        if made.exists():
            found: tuple[Path, Image] = pickle.loads(made.read_bytes())  # noqa: S301 - written below
            return found
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # another worker came here first and builds now, or has built
            time.sleep(0.05)
            continue
        if not made.exists():
            folder = Path(tempfile.mkdtemp(prefix="volsched-image-"))
            folder.chmod(0o755)
            made.write_bytes(pickle.dumps((folder, build(folder))))


class Builder:
    """Builds the stages one after the other, each below `folder`/root, from the files of a context."""

    def __init__(self, source: Path, folder: Path, layers: Layers) -> None:
        self._source, self._context = source, context(source)
        self._layers, self._key = layers, Key()
        self._folder = folder
        self._root = folder / "root"
        self._environment: dict[str, str] = {}
        self._finished: dict[str, Path] = {}

    def build(self, stages: Sequence[Stage]) -> Image:
        """Build all stages; the last one stays, and nothing of the others is there any more."""
        for stage in stages:
            self._root.mkdir(mode=0o755)
            self._stage(stage)
            if stage is not stages[-1]:
                self._finished[stage.name] = self._root.rename(self._folder / stage.name)
        for folder in self._finished.values():
            shutil.rmtree(folder)
        self._move_programs()
        return Image(stages[-1], self._root)

    def _move_programs(self) -> None:
        """Have programs name their interpreter where it is in a container, and not where it was while building."""
        for path in self._root.rglob("bin/*"):
            if path.is_file() and not path.is_symlink():
                path.write_bytes(path.read_bytes().replace(str(self._root).encode(), b""))

    def _stage(self, stage: Stage) -> None:
        self._environment = {"PATH": _BASE_PATH}
        here = self._root
        keys = list(self._keys(stage))
        done = next((n for n in reversed(range(len(keys))) if keys[n] and self._layers.restore(keys[n], here)), -1)
        for number, step in enumerate(stage.steps):
            if step.word == "WORKDIR":
                here = Path(self._below(step.text))
                here.mkdir(parents=True, exist_ok=True)
            elif step.word == "ENV":
                values = pairs(_filled(self._below(step.text), self._environment))
                self._environment |= values
            elif step.word == "COPY" and number > done:
                self._copy(step.text, here)
            elif step.word == "RUN" and number > done:
                self._run(step.text, here)
                self._layers.keep(keys[number], self._root)

    def _keys(self, stage: Stage) -> Iterator[str]:
        """Yield the key of the layer that each RUN makes, and an empty one for other steps."""
        for step in stage.steps:
            self._key.add_step(step.word, step.text)
            names = shlex.split(step.text)[:-1] if step.word == "COPY" and not step.text.startswith("--") else []
            for file in (file for name in names for file in self._files(name)):
                self._key.add_file(file, self._source / file)
            yield str(self._key) if step.word == "RUN" else ""

    def _files(self, name: str) -> list[str]:
        """Return the files that a COPY of a name takes from the context."""
        files = [file for file in sorted(self._context) if file == name or file.startswith(f"{name}/")]
        assert files, f"COPY {name}: .dockerignore lets nothing of it through"
        return files

    def _below(self, text: str) -> str:
        return _ABSOLUTE.sub(f"{self._root}/", text)

    def _copy(self, text: str, here: Path) -> None:
        *options, rest = re.split(r"(?<=^)(--\S+)\s+", text) if text.startswith("--") else [text]
        origin = next((option.partition("=")[2] for option in options if option.startswith("--from=")), None)
        *names, target = shlex.split(rest)
        into = here / self._below(target)
        for name in names:
            if origin is not None:
                shutil.copytree(self._finished[origin] / name.lstrip("/"), into, symlinks=True)
                continue
            for file in self._files(name):
                inside = file.removeprefix(name).lstrip("/")
                is_folder = target.endswith("/")
                place = into / inside if inside else into / Path(name).name if is_folder else into
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(self._source / file, place)

    def _run(self, text: str, here: Path) -> None:
        network = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
        base = Path(sys.executable).parent  # with pip, as the base image has it
        path = f"{base}{os.pathsep}{self._environment['PATH']}"
        done = subprocess.run(
            ["/bin/sh", "-ec", self._below(text)],
            cwd=here,
            env=network | self._environment | {"PATH": path, "HOME": str(self._folder)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"RUN {text}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
