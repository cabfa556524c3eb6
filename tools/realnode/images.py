"""Images of a node, built with buildah from Dockerfiles as they are, kept as archives that containerd imports.

buildah runs in mounts of its own with `--isolation chroot`, which changes nothing outside its storage folder.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from tools.controlplane.binaries import Report, cache_root, locked
from tools.controlplane.errors import BuildError
from tools.realnode.parts import Parts

PROJECT: Final = Path(__file__).resolve().parents[2]
IMAGE: Final = "docker.io/library/volsched:0.1.0"
"""The image that the manifests name."""
BUSYBOX: Final = "docker.io/library/busybox:1.37"
"""The image that the examples name."""
PAUSE: Final = "localhost/pause:1"
BASE: Final = "localhost/python:3.11"

_SOURCES: Final = (
    "Dockerfile",
    "Makefile",
    "pyproject.toml",
    "README.md",
    "LICENSE",
    "requirements",
    "volsched",
    "actions",
    "plugins",
)
_TRUST: Final = '{"default":[{"type":"insecureAcceptAnything"}]}'


class Images:
    """Builds images into a folder of the cache. ``report`` hears of progress."""

    def __init__(self, parts: Parts, report: Report) -> None:
        self._parts = parts
        self._report = report
        self._folder = cache_root() / "realnode-images"

    def archives(self) -> list[Path]:
        """Return the archive of each image that a node needs, the project's of the sources as they are now."""
        with locked(cache_root() / ".realnode-images.lock", self._report):
            self._configure()
            return [self._pause(), self._busybox(), self._project()]

    # -- each image ---------------------------------------------------------------------------------------------------

    def _pause(self) -> Path:
        """Return what holds a pod's namespaces: busybox asleep."""
        lines = 'FROM scratch\nCOPY busybox /busybox\nENTRYPOINT ["/busybox", "sleep", "2147483647"]\n'
        return self._built(PAUSE, lines, self._parts.packages / "bin")

    def _busybox(self) -> Path:
        lines = 'FROM scratch\nCOPY busybox /bin/busybox\nRUN ["/bin/busybox", "--install", "-s", "/bin"]\n'
        lines += 'ENV PATH=/bin\nCMD ["sh"]\n'
        return self._built(BUSYBOX, lines, self._parts.packages / "bin")

    def _project(self) -> Path:
        self._built(BASE, "FROM scratch\nCOPY . /\nENV PATH=/usr/local/bin:/usr/bin:/bin\n", self._parts.base)
        digest = hashlib.sha256()
        for path in _files(PROJECT / name for name in _SOURCES):
            digest.update(f"{path.relative_to(PROJECT)}\0".encode() + path.read_bytes())
        return self._once(IMAGE, digest.hexdigest()[:16], self._make)

    # -- building -----------------------------------------------------------------------------------------------------

    def _built(self, name: str, lines: str, context: Path, digest: str = "") -> Path:
        """Build an image from these lines."""

        def build(archive: Path) -> None:
            how = ["build", *self._trust, "--isolation", "chroot", "--file", "-", "--tag", name]
            self._run([*self._buildah, *how, context], lines)
            self._run([*self._buildah, "push", *self._trust, name, f"docker-archive:{archive}:{name}"])

        return self._once(name, digest or hashlib.sha256(lines.encode()).hexdigest()[:16], build)

    def _make(self, archive: Path) -> None:
        """Build the image of the project as whoever releases it does."""
        trust = " ".join(self._trust)
        base = f"--isolation chroot --format docker --build-arg BASE={BASE}"
        name, _, version = IMAGE.rpartition(":")
        engine = [f"ENGINE={' '.join(self._buildah)}", f"BUILD_FLAGS={trust} {base}", f"SAVE_FLAGS={trust}"]
        self._run(
            ["make", "-C", PROJECT, "archive", *engine, f"IMAGE={name}", f"VERSION={version}", f"ARCHIVE={archive}"]
        )

    def _once(self, name: str, digest: str, build: Callable[[Path], None]) -> Path:
        """Have an archive written that was not written before of the same sources."""
        short = name.rsplit("/", 1)[-1].replace(":", "-")
        archive = self._folder / f"{short}-{digest}.tar"
        if not archive.is_file():
            self._report(f"building the image {name}")
            for older in self._folder.glob(f"{short}-*.tar"):
                older.unlink()
            unfinished = archive.with_suffix(".unfinished")
            build(unfinished)
            unfinished.rename(archive)
        return archive

    def _configure(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        storage = (
            f'[storage]\ndriver = "overlay"\ngraphroot = "{self._folder}/storage"\nrunroot = "{self._folder}/run"\n'
        )
        (self._folder / "storage.conf").write_text(storage)
        (self._folder / "policy.json").write_text(_TRUST)
        (self._folder / "registries.conf").write_text("")

    @property
    def _buildah(self) -> list[str]:
        return ["buildah", f"--registries-conf={self._folder}/registries.conf"]

    @property
    def _trust(self) -> list[str]:
        return [f"--signature-policy={self._folder}/policy.json"]

    def _run(self, command: Iterable[str | Path], lines: str = "") -> None:
        """Run a command with buildah as if it were installed."""
        environment = {"CONTAINERS_CONF": "/dev/null", "CONTAINERS_STORAGE_CONF": f"{self._folder}/storage.conf"}
        done = subprocess.run(  # noqa: S603 - our own command line
            self._parts.with_packages(list(command)),
            input=lines,
            env=os.environ | environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise BuildError(f"building failed with status {done.returncode}:\n{done.stdout}{done.stderr}"[-4000:])

    def forget(self) -> None:
        """Remove everything that was built."""
        shutil.rmtree(self._folder, ignore_errors=True)


def _files(places: Iterable[Path]) -> Iterator[Path]:
    for place in places:
        if place.is_file():
            yield place
        else:
            yield from sorted(path for path in place.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
