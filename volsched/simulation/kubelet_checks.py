"""Checks of a kubelet beside its amounts: whether its node is suitable for a pod at all.

After the kubelet's admission of Kubernetes 1.36 (its eviction manager, and ``pkg/kubelet/lifecycle``). Of these a
scheduler checks only declared features. The flags of kubelets are not known: AppArmor, and their managers of CPUs,
memory and topology.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from volsched.model import api
from volsched.model.pods.placement_rules import Toleration
from volsched.model.pods.requests import of_pod
from volsched.model.pods.rule_reading import features_of
from volsched.simulation.manifests import SYSTEM_CLASSES
from volsched.simulation.nodes import OS_LABEL, PRESSURES, operating_system

_CRITICAL: Final = 2_000_000_000
"""Pods of this priority and above start under any pressure of the node."""

SAFE_SYSCTLS: Final = frozenset(
    {
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.ip_local_reserved_ports",
        "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.ping_group_range",
        "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl",
        "net.ipv4.tcp_keepalive_probes",
        "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_rmem",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.tcp_wmem",
    }
)


class KubeletRefusal(NamedTuple):
    """The refusal of a kubelet, as it writes it into the pod's status."""

    reason: str
    message: str


def first_refusals(pod: api.Pod, node: api.Node) -> Iterator[KubeletRefusal]:
    """Yield the refusals of a kubelet before it checks amounts, in its order."""
    yield from _pressure(pod, node)
    mine = operating_system(node)
    if pod.metadata.labels.get(OS_LABEL, mine) != mine:
        message = f"Failed to admit pod as the `{OS_LABEL}` label doesn't match node label"
        yield KubeletRefusal("PodOSSelectorNodeLabelDoesNotMatch", message)
    if pod.spec.os is not None and pod.spec.os.name != mine:
        yield KubeletRefusal("PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS")
    security = pod.spec.security_context
    policy = security.supplemental_groups_policy if security is not None else ""
    if policy == "Strict" and not node.status.features.supplemental_groups_policy:
        message = f"SupplementalGroupsPolicy={policy} is not supported in this node"
        yield KubeletRefusal("SupplementalGroupsPolicyNotSupported", message)


def last_refusals(pod: api.Pod, node: api.Node) -> Iterator[KubeletRefusal]:
    """Yield why a kubelet refuses a pod that its node has room for, in its order."""
    if pod.spec.resources is not None and operating_system(node) == "windows":
        yield KubeletRefusal("PodLevelResourcesNotSupported", "pod-level resources are not supported on Windows")
    missing = ", ".join(sorted(features_of(pod.spec) - set(node.status.declared_features)))
    if missing:
        message = f"Pod requires node features that are not available: {missing}"
        yield KubeletRefusal("PodFeatureUnsupported", message)


def unsafe_sysctls(spec: api.PodSpec) -> list[str]:
    """Return the kernel parameters of a pod that a kubelet refuses without a flag."""
    security = spec.security_context
    found = [sysctl.name for sysctl in security.sysctls] if security is not None else []
    return [name for name in found if name.replace("/", ".") not in SAFE_SYSCTLS]


def _pressure(pod: api.Pod, node: api.Node) -> Iterator[KubeletRefusal]:
    """Yield the pressure of a node. Memory pressure concerns only pods without requests that do not tolerate it."""
    found = [c.type for c in node.status.conditions if c.type in PRESSURES and c.status == "True"]
    if not found or _is_critical(pod.spec):
        return
    if found == ["MemoryPressure"] and (_asks_for_something(pod) or _tolerates_memory_pressure(pod.spec)):
        return
    yield KubeletRefusal("Evicted", f"The node had condition: [{' '.join(found)}]. ")


def _is_critical(spec: api.PodSpec) -> bool:
    return (spec.priority or 0) >= _CRITICAL or spec.priority_class_name in SYSTEM_CLASSES


def _asks_for_something(pod: api.Pod) -> bool:
    """True if a pod is not of the QoS class BestEffort."""
    request = of_pod(pod).request
    return any(request.get(resource, 0) for resource in ("cpu", "memory"))


def _tolerates_memory_pressure(spec: api.PodSpec) -> bool:
    taint = api.Taint(key="node.kubernetes.io/memory-pressure", effect="NoSchedule")
    return any(Toleration(t.key, t.operator or "Equal", t.value, t.effect).tolerates(taint) for t in spec.tolerations)
