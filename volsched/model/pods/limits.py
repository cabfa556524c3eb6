"""Limits of one pod: above a limit it is refused with a message, and slows no other pod down.

A user may write 10,000 terms of affinity into one pod, or 2,500 names of resources; each would be checked on every
node. A pod above a limit is not placed. If it runs already, its request counts, and its terms, which serve only itself,
do not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import chain
from typing import TYPE_CHECKING, Final

import msgspec

from volsched.model.errors import FieldError

if TYPE_CHECKING:
    from volsched.model import api  # `volsched run --help` needs the defaults, and none of that


@dataclass(frozen=True, slots=True)
class PodLimits:
    """The limits of one pod.

    ``containers``: those of all kinds together; of a pod with more, images and requests by container are not kept.
    ``resources``: names of resources, of all containers together. ``node_terms``: terms of node affinity, preferred
    ones included. ``pod_terms``: terms of pod affinity and anti-affinity, and spread constraints. ``expressions``:
    conditions on labels in all of these and in the node selector; ``values``: values that these conditions list.
    """

    containers: int = 512
    resources: int = 128
    node_terms: int = 128
    pod_terms: int = 64
    expressions: int = 1000
    values: int = 10_000
    tolerations: int = 1000
    volumes: int = 512
    resource_claims: int = 64
    ports: int = 1000

    def by_name(self) -> dict[str, int]:
        """Return all limits by their names as arguments have them."""
        return {field.name.replace("_", "-"): getattr(self, field.name) for field in fields(self)}


DEFAULT: Final = PodLimits()

KEPT_BYTES: Final = 512 << 20
"""Memory for the objects of all namespaces together, by estimate, for 120,000 ordinary pods.

It is half of the scheduler's memory limit in the manifests. See ``mirror.memory_bound``.
"""

KEPT_BYTES_OF_CONTROLLERS: Final = 256 << 20
"""The same for the PodGroups, workloads and Volcano Jobs of the controllers: half of their memory limit."""


def exceeded(spec: api.PodSpec, limits: PodLimits) -> tuple[FieldError, ...]:
    """Return the exceeded limits of a pod, each with the argument that raises it."""
    found = []
    for field in fields(PodLimits):
        (path, what), most = _DESCRIBED[field.name], getattr(limits, field.name)
        count = _COUNTS[field.name](spec)
        if count > most:
            name = field.name.replace("_", "-")
            found.append(FieldError(path, f"has {count} {what}, more than the {most} of --pod-limit={name}"))
    return tuple(found)


def trimmed(spec: api.PodSpec) -> api.PodSpec:
    """Return the spec without the terms that have a limit."""
    return msgspec.structs.replace(
        spec, affinity=None, node_selector={}, topology_spread_constraints=(), tolerations=()
    )


def without_images(spec: api.PodSpec) -> api.PodSpec:
    """Return the spec without names of images, which an author may change while the pod runs."""
    containers, init_containers = (
        tuple(msgspec.structs.replace(container, image="") for container in listed)
        for listed in (spec.containers, spec.init_containers)
    )
    return msgspec.structs.replace(spec, containers=containers, init_containers=init_containers)


def _resources(spec: api.PodSpec) -> int:
    asked = [container.resources for container in _containers(spec)]
    if spec.resources is not None:
        asked.append(spec.resources)
    return len({*spec.overhead, *chain.from_iterable((*each.requests, *each.limits) for each in asked)})


def _containers(spec: api.PodSpec) -> Iterator[api.Container]:
    return chain(spec.containers, spec.init_containers, spec.ephemeral_containers)


def count_containers(spec: api.PodSpec) -> int:
    """Return how many containers of all kinds a pod has."""
    return len(spec.containers) + len(spec.init_containers) + len(spec.ephemeral_containers)


def _node_terms(spec: api.PodSpec) -> list[api.NodeSelectorTerm]:
    nodes = spec.affinity.node_affinity if spec.affinity is not None else None
    if nodes is None:
        return []
    required = nodes.required.node_selector_terms if nodes.required is not None else ()
    return [*required, *(preferred.preference for preferred in nodes.preferred)]


def _pod_terms(spec: api.PodSpec) -> list[api.PodAffinityTerm]:
    affinity = spec.affinity
    both = (affinity.pod_affinity, affinity.pod_anti_affinity) if affinity is not None else ()
    return [
        term
        for pods in both
        if pods is not None
        for term in (*pods.required, *(preferred.pod_affinity_term for preferred in pods.preferred))
    ]


def _expressions(spec: api.PodSpec) -> Iterator[Sequence[str]]:
    """Yield the values of each condition on labels, and of each list of names."""
    yield from ((value,) for value in spec.node_selector.values())
    for nodes in _node_terms(spec):
        yield from (condition.values for condition in (*nodes.match_expressions, *nodes.match_fields))
    for pods in _pod_terms(spec):
        yield from _of_selector(pods.label_selector)
        yield from _of_selector(pods.namespace_selector)
        yield from filter(None, (pods.namespaces, pods.match_label_keys, pods.mismatch_label_keys))
    for spread in spec.topology_spread_constraints:
        yield from _of_selector(spread.label_selector)
        yield from filter(None, (spread.match_label_keys,))


def _of_selector(selector: api.LabelSelector | None) -> Iterator[Sequence[str]]:
    if selector is not None:
        yield from ((value,) for value in selector.match_labels.values())
        yield from (condition.values for condition in selector.match_expressions)


_DESCRIBED: Final[Mapping[str, tuple[str, str]]] = {
    "containers": ("spec.containers", "containers"),
    "resources": ("spec.containers", "names of resources"),
    "node_terms": ("spec.affinity.nodeAffinity", "terms"),
    "pod_terms": ("spec.affinity", "terms of pod affinity and spread constraints"),
    "expressions": ("spec.affinity", "conditions on labels, those of spec.nodeSelector included"),
    "values": ("spec.affinity", "values in conditions on labels"),
    "tolerations": ("spec.tolerations", "tolerations"),
    "volumes": ("spec.volumes", "volumes"),
    "resource_claims": ("spec.resourceClaims", "claims"),
    "ports": ("spec.containers", "ports"),
}
_COUNTS: Final[Mapping[str, Callable[[api.PodSpec], int]]] = {
    "containers": count_containers,
    "resources": _resources,
    "node_terms": lambda spec: len(_node_terms(spec)),
    "pod_terms": lambda spec: len(_pod_terms(spec)) + len(spec.topology_spread_constraints),
    "expressions": lambda spec: sum(1 for _ in _expressions(spec)),
    "values": lambda spec: sum(map(len, _expressions(spec))),
    "tolerations": lambda spec: len(spec.tolerations),
    "volumes": lambda spec: len(spec.volumes),
    "resource_claims": lambda spec: len(spec.resource_claims),
    "ports": lambda spec: sum(len(container.ports) for container in _containers(spec)),
}
