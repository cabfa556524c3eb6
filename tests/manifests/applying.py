"""Kustomizations put on a cluster and taken off again."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from volsched.testing.controlplane import ControlPlane, KubectlError
from volsched.testing.patience import looks

GONE_WITHIN_SECONDS = 300
"""Mostly it takes five. But a CRD whose storage is being initialised when the API server's finalizer comes by is looked
at again only a minute or two later (`InstanceDeletionFailed: storage is (re)initializing` in its conditions)."""


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
        delete(cluster, "-k", folder)


@contextlib.contextmanager
def applied(cluster: ControlPlane, file: Path) -> Iterator[None]:
    """Have the objects of a file on the cluster within a ``with`` block."""
    try:
        cluster.kubectl("apply", "--warnings-as-errors", "-f", str(file))
        yield
    finally:
        delete(cluster, "-f", file)


def wait_refused(act: Callable[[], object], words: str) -> None:
    """Wait until the API server refuses an act in these words.

    Policies take effect a moment after they were made, and roles are put together by a controller.
    """
    last = ""
    for _ in looks():
        try:
            act()
        except KubectlError as refused:
            last = str(refused)
            if words in last:
                return
    raise AssertionError(f"it is not refused with {words!r}: {last or 'it is let in'}")


def delete(cluster: ControlPlane, how: str, what: Path) -> None:
    """Delete what is in a kustomization (`-k`) or a file (`-f`), and wait until it is gone."""
    flags = ("--ignore-not-found", f"--timeout={GONE_WITHIN_SECONDS}s")
    cluster.kubectl("delete", how, str(what), *flags, timeout=GONE_WITHIN_SECONDS + 10)
