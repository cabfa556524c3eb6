"""Required pod affinity and anti-affinity: a pod's own terms, and those of pods that are placed already.

1. Own affinity: the node has every term's label, and in each of these domains is a pod that all terms together mean.
   While there is no such pod at all, a pod that its own terms mean may be the first.
2. Own anti-affinity: no pod that a term means is in that term's domain of the node.
3. Anti-affinity of placed pods: no pod that has a term which means this one is in that term's domain of the node.

Counts come from ``volsched.framework.engine.domains``; nothing here looks at pods.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from plugins.predicates.arguments import PredicatesArguments
from plugins.predicates.verdicts import node_refusal
from volsched.framework.engine.domains import Domains, Near, domains_of, has_label
from volsched.plugin import Mask, NodeInfo, NodeTable, Predicate, Registrar, Rule, TaskInfo, Verdict

NOT_NEAR = node_refusal("node(s) didn't match pod affinity rules", resolvable=False)
NOT_APART = node_refusal("node(s) didn't match pod anti-affinity rules")
KEPT_AWAY = node_refusal("node(s) didn't satisfy existing pods anti-affinity rules")


class Neighbours:
    """The rule."""

    def __init__(self, domains: Domains) -> None:
        self._domains = domains

    def key(self, task: TaskInfo) -> tuple[int, ...] | None:
        """Tell by which placed pods' terms the task is meant; None when neither they nor its own terms concern it."""
        template = task.template
        own = bool(template.affinity or template.anti_affinity)
        if own:
            self._domains.near(template)  # what its pods will claim once they are placed is known from here on
        claims = self._domains.keeping_away(task)
        if claims:
            return tuple(sorted(claim.number for claim in claims)) if len(claims) > 1 else (claims[0].number,)
        return () if own else None

    def version(self, task: TaskInfo) -> int:
        """Tell when any of the counts last changed in a way that matters to other nodes."""
        latest = max((claim.table.stamp for claim in self._domains.keeping_away(task)), default=0)
        template = task.template
        if template.affinity or template.anti_affinity:
            for table in self._domains.near(template).tables:
                latest = max(latest, table.stamp)
        return latest

    def refuse(self, task: TaskInfo, node: NodeInfo) -> Verdict | None:
        """Ask about one node."""
        labels = node.labels
        template = task.template
        if template.affinity or template.anti_affinity:
            near = self._domains.near(template)
            lonely = False
            for table in near.affinity:
                value = labels.get(table.key)
                if value is None:
                    return NOT_NEAR
                lonely = lonely or value not in table.counts
            if lonely and not self._may_be_first(task, near):
                return NOT_NEAR
            for table in near.anti_affinity:
                if labels.get(table.key) in table.counts:
                    return NOT_APART
        for claim in self._domains.keeping_away(task):
            if labels.get(claim.table.key) in claim.table.counts:
                return KEPT_AWAY
        return None

    def admit_rows(self, task: TaskInfo, nodes: NodeTable) -> Mask:
        """Answer as ``refuse``, for many nodes at once."""
        properties, rows = nodes.properties, nodes.rows
        template = task.template
        mask = np.ones(len(rows), dtype=np.bool_)
        if template.affinity or template.anti_affinity:
            near = self._domains.near(template)
            first = bool(near.affinity) and self._may_be_first(task, near)
            for table in near.affinity:
                mask &= has_label(table.key, properties, rows) if first else table.by_row(properties, rows) > 0
            for table in near.anti_affinity:
                if table.counts:
                    mask &= table.by_row(properties, rows) == 0
        for claim in self._domains.keeping_away(task):
            if claim.table.counts:
                mask &= claim.table.by_row(properties, rows) == 0
        return mask

    def _may_be_first(self, task: TaskInfo, near: Near) -> bool:
        """True if no pod that the terms mean is anywhere, and they mean this one."""
        if any(table.counts for table in near.affinity):
            return False
        namespace = self._domains.namespace_labels(task.namespace)
        return all(term.matches(task.namespace, task.spec.labels, namespace) for term in task.template.affinity)


def rules(registrar: Registrar, wanted: PredicatesArguments) -> Iterator[Rule]:
    """Refuse nodes by the affinity of the pod, and of pods that are there."""
    if wanted.pod_affinity:
        found = Neighbours(domains_of(registrar))
        yield Predicate(found.refuse, vector=found.admit_rows, key=found.key, version=found.version)
