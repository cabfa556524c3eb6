"""Our kinds on a control plane: applied, and served."""

from __future__ import annotations

from functools import partial

from tests.cluster.control_plane import OURS
from tests.cluster.controlling import JOBS
from tests.cluster.scheduling import GROUPS, eventually
from tools.controlplane import ApiServerError, ControlPlane


def apply_manifests(control_plane: ControlPlane) -> ControlPlane:
    """Apply our kinds and rights to a control plane that began without, and return it once it has the kinds."""
    for arguments in OURS.arguments():
        control_plane.kubectl("apply", *arguments)
    return wait_served(control_plane)


def wait_served(control_plane: ControlPlane) -> ControlPlane:
    """Return the control plane once it has our kinds."""
    for path in (f"{GROUPS}/podgroups", f"{GROUPS}/queues", f"{JOBS}/jobs"):
        eventually(partial(_is_served, control_plane, path), what=path)
    return control_plane


def _is_served(control_plane: ControlPlane, path: str) -> bool:
    """A kind that is established is not served at once: its storage is made ready first, and answers 429 meanwhile."""
    try:
        control_plane.api.get(path)
    except ApiServerError:
        return False
    return True
