"""How objects say who controls them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from volsched.model import api

_API_VERSIONS: Final[Mapping[type[api.ApiObject], tuple[str, str]]] = {
    kind: (version, name) for (version, name), kind in api.KINDS.items()
}


def owner_reference(owner: api.ApiObject) -> api.OwnerReference:
    """Return the reference by which an object says who controls it."""
    version, kind = _API_VERSIONS[type(owner)]
    return api.OwnerReference(kind, owner.metadata.name, owner.metadata.uid, version, controller=True)


def controller_uid(found: api.ApiObject) -> str:
    """Return the uid of what controls an object, empty when nothing does."""
    controller = found.metadata.controller
    return controller.uid if controller is not None else ""
