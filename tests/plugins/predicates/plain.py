"""The rules about neighbours in their plainest form: look at all pods, count, decide. The counters must agree."""

from __future__ import annotations

from volsched.model.cluster import Cluster
from volsched.model.nodes.node import NodeInfo
from volsched.model.pods.placement_rules import PodTerm
from volsched.model.pods.task import TaskInfo
from volsched.model.status import ON_NODE, TaskStatus


def placed(cluster: Cluster) -> list[tuple[TaskInfo, NodeInfo]]:
    return [(t, t.node) for t in cluster.tasks.values() if t.node is not None and ON_NODE[t.status]]


def means(cluster: Cluster, term: PodTerm, pod: TaskInfo) -> bool:
    namespace = cluster.queue_cache.namespaces.get(pod.namespace, {"kubernetes.io/metadata.name": pod.namespace})
    return term.matches(pod.namespace, pod.spec.labels, namespace)


def same_domain(key: str, one: NodeInfo, other: NodeInfo) -> bool:
    return key in one.labels and one.labels.get(key) == other.labels.get(key)


def affinity_admits(cluster: Cluster, task: TaskInfo, node: NodeInfo) -> bool:
    own = task.template
    if any(term.topology_key not in node.labels for term in own.affinity):
        return False
    meant = [(p, n) for p, n in placed(cluster) if own.affinity and all(means(cluster, t, p) for t in own.affinity)]
    near = all(any(same_domain(t.topology_key, node, n) for _, n in meant) for t in own.affinity)
    if not near:
        nobody = not any(term.topology_key in n.labels for _, n in meant for term in own.affinity)
        if not (nobody and all(means(cluster, term, task) for term in own.affinity)):
            return False
    for pod, where in placed(cluster):
        for term in own.anti_affinity:
            if means(cluster, term, pod) and same_domain(term.topology_key, node, where):
                return False
        for term in pod.template.anti_affinity:
            if means(cluster, term, task) and same_domain(term.topology_key, node, where):
                return False
    return True


def spread_admits(cluster: Cluster, task: TaskInfo, node: NodeInfo) -> bool:
    hard = [item for item in task.template.spread if item.hard]
    for item in hard:
        if item.topology_key not in node.labels:
            return False
        counts: dict[str, int] = {}
        for other in cluster.rows:
            if any(c.topology_key not in other.labels for c in hard):
                continue
            selector = task.template.required_nodes
            if item.honor_affinity and selector is not None and not selector.matches(other.name, other.labels):
                continue
            if item.honor_taints and any(
                t.effect in ("NoSchedule", "NoExecute") and not task.template.tolerates(t) for t in other.taints
            ):
                continue
            pods = [
                p
                for p, n in placed(cluster)
                if n is other
                and p.namespace == task.namespace
                and p.status is not TaskStatus.RELEASING
                and item.counts(p.spec.labels)
            ]
            value = other.labels[item.topology_key]
            counts[value] = counts.get(value, 0) + len(pods)
        least = 0 if len(counts) < item.min_domains else min(counts.values())
        if counts.get(node.labels[item.topology_key], 0) + item.counts_self - least > item.max_skew:
            return False
    return True
