"""Devices of the node, which has none: a device plugin and a DRA driver, over the kubelet's own sockets.

The program is in ``program/``. It is built before the node is there, since nothing can be fetched inside it:
``python -m tests.realnode.devices``.
"""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.controlplane.binaries import (
    STAGING_VERSION,
    GoModule,
    Report,
    build_program,
    cache_root,
    go_arch,
    print_progress,
)
from tools.realnode import node

SOURCES = Path(__file__).with_name("program")
DRIVER = "gpu.example.com"

MODULE = GoModule(
    name="devices",
    requirement="k8s.io/dynamic-resource-allocation",
    version=STAGING_VERSION,
    commands={},
    stamps={},
)


def build(report: Report = print_progress) -> Path:
    """Return the program, which is built first when these sources have not been."""
    sources = sorted(SOURCES.glob("*.go"))
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:12]
    program = cache_root() / f"devices-{STAGING_VERSION}-{digest}-{go_arch()}" / "devices"
    return build_program(MODULE, ".", program, "the devices of the real node", report, sources=sources)


@contextmanager
def plugin(resource: str, count: int, log: Path, *words: str) -> Iterator[None]:
    """Offer so many devices of an extended resource within a ``with`` block."""
    with _running(["plugin", "-resource", resource, "-count", str(count), *words], log):
        yield


@contextmanager
def driver(count: int, log: Path) -> Iterator[None]:
    """Offer so many devices of `DRIVER` to claims within a ``with`` block."""
    with _running(["driver", "-name", DRIVER, "-node", node.NAME, "-count", str(count)], log):
        yield


@contextmanager
def _running(words: list[str], log: Path) -> Iterator[None]:
    with log.open("wb") as output:
        process = subprocess.Popen([build(), *words], stdout=output, stderr=output)
    try:
        yield
        assert process.poll() is None, log.read_text()
    finally:
        process.terminate()
        process.wait(10)


if __name__ == "__main__":
    build()
