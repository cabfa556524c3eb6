"""The ResourceClaims of a pod, or of a PodGroup of scheduling.k8s.io."""

from __future__ import annotations

import msgspec


class ResourceClaimUse(msgspec.Struct, frozen=True, gc=False, order=True):
    """An entry of `spec.resourceClaims`: the claim it names, or the template from which one is made for each pod."""

    name: str
    claim: str = ""
    template: str = ""
