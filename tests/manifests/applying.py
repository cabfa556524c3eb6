"""Kustomizations put on a cluster and taken off again."""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tools.controlplane import ApiServerError, ControlPlane, KubectlError
from tools.patience import looks

_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


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
        except (ApiServerError, KubectlError) as refused:
            last = str(refused)
            if words in last:
                return
    raise AssertionError(f"it is not refused with {words!r}: {last or 'it is let in'}")


def delete(cluster: ControlPlane, how: str, what: Path) -> None:
    """Delete what is in a kustomization (`-k`) or a file (`-f`), and wait until it is gone."""
    with reminded_of_crds(cluster):
        cluster.kubectl("delete", how, str(what), "--ignore-not-found")


@contextlib.contextmanager
def reminded_of_crds(cluster: ControlPlane) -> Iterator[None]:
    """Have the API server's finalizer look every second at CRDs that are being deleted, within a ``with`` block.

    If the storage of a CRD is just being initialised (`InstanceDeletionFailed` in its conditions), the finalizer looks
    again by itself minutes later.
    """
    is_over = threading.Event()

    def remind() -> None:
        while not is_over.wait(1.0):
            _touch_deleted_crds(cluster)

    with ThreadPoolExecutor(1) as pool:
        reminding = pool.submit(remind)
        try:
            yield
        finally:
            is_over.set()
            reminding.result()


def _touch_deleted_crds(cluster: ControlPlane) -> None:
    for crd in cluster.api.items(_CRDS):
        if "deletionTimestamp" in crd["metadata"]:
            note = {"metadata": {"annotations": {"looked-at": uuid.uuid4().hex}}}
            with contextlib.suppress(ApiServerError):  # it may have gone
                cluster.api.patch(f"{_CRDS}/{crd['metadata']['name']}", note)
