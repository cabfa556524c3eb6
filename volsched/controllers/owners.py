"""Owners of objects: as the owners that these name, and as the references to them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from volsched.controllers.objects import WORKLOADS
from volsched.model import api
from volsched.model.pods.owners import Owner, group_of

_API_VERSIONS: Final[Mapping[type[api.ApiObject], tuple[str, str]]] = {
    **{kind: (version, name) for (version, name), kind in api.KINDS.items()},
    **WORKLOADS,
}


def is_owner(found: api.ApiObject) -> bool:
    """True if an object is of a kind that may own others."""
    return type(found) in _API_VERSIONS


def as_owner(found: api.ApiObject) -> Owner:
    """Return an object as the owner that it may be."""
    version, kind = _API_VERSIONS[type(found)]
    meta = found.metadata
    return Owner(meta.namespace, group_of(version), kind, meta.name, meta.uid)


def owner_reference(owner: api.ApiObject) -> api.OwnerReference:
    """Return the reference by which an object states who controls it."""
    version, kind = _API_VERSIONS[type(owner)]
    return api.OwnerReference(kind, owner.metadata.name, owner.metadata.uid, version, controller=True)
