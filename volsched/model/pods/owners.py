"""Controllers of objects, and the check of what objects state about them.

A user may name any owner in an object. So an owner is matched by everything that identifies it: its namespace, which is
the object's own, the group and kind, the name and the uid.
"""

from __future__ import annotations

from typing import NamedTuple

from volsched.model import api


class Owner(NamedTuple):
    """Everything by which an owner is known."""

    namespace: str
    group: str
    kind: str
    name: str
    uid: str

    @property
    def is_pod(self) -> bool:
        """True if it is a pod."""
        return (self.group, self.kind) == ("", "Pod")

    @property
    def is_group(self) -> bool:
        """True if it is a PodGroup of scheduling.k8s.io."""
        return (self.group, self.kind) == ("scheduling.k8s.io", "PodGroup")


def named_by(namespace: str, reference: api.OwnerReference) -> Owner:
    """Return the owner that an object of a namespace names."""
    return Owner(namespace, group_of(reference.api_version), reference.kind, reference.name, reference.uid)


def controller_of(meta: api.ObjectMeta) -> Owner | None:
    """Return the controller that an object states, or None without one."""
    controller = meta.controller
    return named_by(meta.namespace, controller) if controller is not None else None


def as_pod(namespace: str, name: str, uid: str) -> Owner:
    """Return a pod as the owner that it may be."""
    return Owner(namespace, "", "Pod", name, uid)


def group_of(api_version: str) -> str:
    """Return the API group of `group/version`; empty for the core's."""
    return api_version.rpartition("/")[0]
