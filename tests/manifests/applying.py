"""Kustomizations put on a cluster and taken off again."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from volsched.testing.controlplane import ControlPlane


def apply(cluster: ControlPlane, folder: Path, *flags: str) -> dict[str, str]:
    """Apply a kustomization, in which the API server must find nothing to warn of; what was done to each object."""
    said = cluster.kubectl("apply", *flags, "--warnings-as-errors", "-k", str(folder))
    return dict(line.split(" ", 1) for line in said.splitlines())


@contextlib.contextmanager
def installed(cluster: ControlPlane, folder: Path, *flags: str) -> Iterator[dict[str, str]]:
    """Have a kustomization on the cluster within a ``with`` block; yields what was done to each object."""
    try:
        yield apply(cluster, folder, *flags)
    finally:
        cluster.kubectl("delete", "-k", str(folder), "--ignore-not-found", "--timeout=90s")


@contextlib.contextmanager
def applied(cluster: ControlPlane, file: Path) -> Iterator[None]:
    """Have the objects of a file on the cluster within a ``with`` block."""
    try:
        cluster.kubectl("apply", "--warnings-as-errors", "-f", str(file))
        yield
    finally:
        cluster.kubectl("delete", "-f", str(file), "--ignore-not-found", "--timeout=60s")
