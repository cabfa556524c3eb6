"""NetworkPolicies evaluated as Kubernetes' documentation has them: may this source open a connection to that port?"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.manifests.rendering import Json

NAMESPACE_NAME = "kubernetes.io/metadata.name"
"""The label that each namespace has of itself."""


@dataclass(frozen=True)
class Source:
    """Who connects: an address, and of a pod its namespace and the labels of both; nodes and API servers have none."""

    address: str
    namespace: str = ""
    namespace_labels: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def labels_of_namespace(self) -> Mapping[str, str]:
        return {NAMESPACE_NAME: self.namespace, **self.namespace_labels}


def matches(selector: Json, labels: Mapping[str, str]) -> bool:
    """Whether a label selector takes these labels; an empty one takes all."""
    wanted = selector.get("matchLabels") or {}
    if any(labels.get(key) != value for key, value in wanted.items()):
        return False
    return all(_holds(term, labels) for term in selector.get("matchExpressions") or ())


def _holds(term: Json, labels: Mapping[str, str]) -> bool:
    value, values = labels.get(term["key"]), term.get("values") or ()
    return {
        "In": value in values,
        "NotIn": value not in values,
        "Exists": value is not None,
        "DoesNotExist": value is None,
    }[term["operator"]]


def admits(policies: Iterable[Json], pod: Json, source: Source, port: str) -> bool:
    """Whether a connection to a named TCP port of a pod is let in; ``pod`` has metadata and spec.

    A pod that no policy selects for Ingress takes all; otherwise one rule of one policy has to let the connection in.
    """
    namespace = pod["metadata"]["namespace"]
    own = [
        policy["spec"]
        for policy in policies
        if policy["metadata"]["namespace"] == namespace
        and "Ingress" in policy["spec"].get("policyTypes", ["Ingress"])
        and matches(policy["spec"]["podSelector"], pod["metadata"]["labels"])
    ]
    number = {entry["name"]: entry["containerPort"] for each in pod["spec"]["containers"] for entry in each["ports"]}[
        port
    ]
    return not own or any(
        _lets_in(rule, namespace, source, {port, number}) for spec in own for rule in spec.get("ingress") or ()
    )


def _lets_in(rule: Json, namespace: str, source: Source, port: set[Any]) -> bool:
    ports, peers = rule.get("ports"), rule.get("from")
    if ports and not any(
        entry.get("protocol", "TCP") == "TCP" and entry.get("port") in {*port, None} for entry in ports
    ):
        return False
    return not peers or any(_is(peer, namespace, source) for peer in peers)


def _is(peer: Json, namespace: str, source: Source) -> bool:
    if "ipBlock" in peer:
        address, block = ipaddress.ip_address(source.address), peer["ipBlock"]
        return address in ipaddress.ip_network(block["cidr"]) and not any(
            address in ipaddress.ip_network(part) for part in block.get("except") or ()
        )
    if not source.namespace:
        return False
    if "namespaceSelector" in peer:
        if not matches(peer["namespaceSelector"], source.labels_of_namespace):
            return False
    elif source.namespace != namespace:
        return False
    return matches(peer.get("podSelector") or {}, source.labels)
