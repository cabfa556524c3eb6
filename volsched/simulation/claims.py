"""ResourceClaims in the in-memory cluster: what Kubernetes' resourceclaim controller and a binding do with them.

Pure functions over objects. A claim that is made for a pod is named `<pod>-<entry>`, without a random end, so that two
runs agree.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from volsched.controllers.owners import as_owner, owner_reference
from volsched.model import api
from volsched.model.dra import api as dra
from volsched.model.plan import ClaimWrite, ExtendedClaim
from volsched.model.pods.owners import controller_of
from volsched.simulation.manifests import completed

ENTRY = "resource.kubernetes.io/pod-claim-name"


def with_claims(
    pod: api.Pod, templates: Mapping[str, dra.ResourceClaimTemplate], known: Mapping[str, dra.ResourceClaim]
) -> tuple[api.Pod, list[dra.ResourceClaim]]:
    """Return a pod whose status names the claims made from its templates, and the new ones.

    A missing template is waited for.
    """
    namespace, made, names = pod.metadata.namespace, [], list(pod.status.resource_claim_statuses)
    named = {status.name for status in names}
    for use in pod.spec.resource_claims:
        template = templates.get(f"{namespace}/{use.resource_claim_template_name or ''}")
        if use.resource_claim_name or template is None or use.name in named:
            continue
        claim = _made(pod, use.name, template.spec)
        if claim.key not in known:
            made.append(claim)
        names.append(api.PodResourceClaimStatus(use.name, claim.metadata.name))
    if len(names) == len(named):
        return pod, []
    status = msgspec.structs.replace(pod.status, resource_claim_statuses=tuple(names))
    return msgspec.structs.replace(pod, status=status), made


def _made(pod: api.Pod, entry: str, template: Any) -> dra.ResourceClaim:
    inner = template.get("metadata") if isinstance(template, Mapping) else None
    own = inner if isinstance(inner, Mapping) else {}
    meta = api.ObjectMeta(
        name=f"{pod.metadata.name}-{entry}",
        namespace=pod.metadata.namespace,
        labels=dict(own.get("labels") or {}),
        annotations={**(own.get("annotations") or {}), ENTRY: entry},
        owner_references=(owner_reference(pod),),
    )
    return completed(
        dra.ResourceClaim(metadata=meta, spec=template.get("spec") if isinstance(template, Mapping) else None)
    )


def made_for_extended_resources(pod: api.Pod, made: ExtendedClaim) -> dra.ResourceClaim:
    """Return the claim by which a pod has extended resources from devices."""
    meta = api.ObjectMeta(
        name=made.name,
        namespace=pod.metadata.namespace,
        annotations={dra.EXTENDED_CLAIM: "true"},
        owner_references=(owner_reference(pod),),
    )
    requests = msgspec.to_builtins(made.requests)
    return completed(dra.ResourceClaim(metadata=meta, spec={"devices": {"requests": requests}}))


def reserved(claim: dra.ResourceClaim, write: ClaimWrite, pod: api.Pod) -> dra.ResourceClaim:
    """Return a claim with its finalizer, its allocation and the reservation for a pod."""
    status, meta = claim.status, claim.metadata
    if dra.FINALIZER not in meta.finalizers:
        meta = msgspec.structs.replace(meta, finalizers=(*meta.finalizers, dra.FINALIZER))
    consumers = status.reserved_for
    if all(consumer.uid != pod.metadata.uid for consumer in consumers):
        consumers = (*consumers, dra.Consumer(resource="pods", name=pod.metadata.name, uid=pod.metadata.uid))
    allocation = status.allocation or write.allocation
    status = msgspec.structs.replace(status, allocation=allocation, reserved_for=consumers)
    return msgspec.structs.replace(claim, metadata=meta, status=status)


def released(claim: dra.ResourceClaim, pod: str) -> dra.ResourceClaim:
    """Return a claim that is no longer reserved for a pod (a uid); without any consumer it loses its allocation."""
    rest = tuple(consumer for consumer in claim.status.reserved_for if consumer.uid != pod)
    if len(rest) == len(claim.status.reserved_for):
        return claim
    return _with_consumers(claim, rest)


def deallocated(claim: dra.ResourceClaim) -> dra.ResourceClaim:
    """Return a claim without an allocation and reservations."""
    return _with_consumers(claim, ())


def _with_consumers(claim: dra.ResourceClaim, consumers: tuple[dra.Consumer, ...]) -> dra.ResourceClaim:
    if consumers:
        status = msgspec.structs.replace(claim.status, reserved_for=consumers)
        return msgspec.structs.replace(claim, status=status)
    finalizers = tuple(name for name in claim.metadata.finalizers if name != dra.FINALIZER)
    meta = msgspec.structs.replace(claim.metadata, finalizers=finalizers)
    return msgspec.structs.replace(claim, metadata=meta, status=dra.ResourceClaimStatus())


def belongs_to(claim: dra.ResourceClaim, pod: api.Pod) -> bool:
    """Return whether a claim was made for a pod and goes with it."""
    return controller_of(claim.metadata) == as_owner(pod)
