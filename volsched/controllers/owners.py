"""How objects say who controls them, and how that is believed.

Whoever may make an object may name any owner in it. So an owner is matched by all that tells it from others: its
namespace, which is the object's own, the group and kind, the name and the uid.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from volsched.controllers.objects import WORKLOADS
from volsched.model import api

_API_VERSIONS: Final[Mapping[type[api.ApiObject], tuple[str, str]]] = {
    **{kind: (version, name) for (version, name), kind in api.KINDS.items()},
    **WORKLOADS,
}


class Owner(NamedTuple):
    """Everything by which an owner is known."""

    namespace: str
    group: str
    kind: str
    name: str
    uid: str


def named_by(namespace: str, reference: api.OwnerReference) -> Owner:
    """Return the owner that an object of a namespace names."""
    return Owner(namespace, group_of(reference.api_version), reference.kind, reference.name, reference.uid)


def as_owner(found: api.ApiObject) -> Owner:
    """Return an object as the owner that it may be."""
    version, kind = _API_VERSIONS[type(found)]
    meta = found.metadata
    return Owner(meta.namespace, group_of(version), kind, meta.name, meta.uid)


def group_of(api_version: str) -> str:
    """Return the API group of `group/version`; empty for the core's."""
    return api_version.rpartition("/")[0]


def is_controlled_by(found: api.ApiObject, owner: Owner) -> bool:
    """Whether an object's controller is this one."""
    controller = found.metadata.controller
    return controller is not None and named_by(found.metadata.namespace, controller) == owner


def owner_reference(owner: api.ApiObject) -> api.OwnerReference:
    """Return the reference by which an object says who controls it."""
    version, kind = _API_VERSIONS[type(owner)]
    return api.OwnerReference(kind, owner.metadata.name, owner.metadata.uid, version, controller=True)


def controller_uid(found: api.ApiObject) -> str:
    """Return the uid of what controls an object, empty when nothing does."""
    controller = found.metadata.controller
    return controller.uid if controller is not None else ""
