"""Topology spreading that is a must (DoNotSchedule).

For each constraint: matching pods in the node's domain, plus the pod itself if it matches, minus the matching pods of
the domain that has fewest, is at most maxSkew. Only nodes that have all constraints' labels and that the constraint's
policies include make domains and have their pods counted; with fewer domains than minDomains the fewest counts as 0.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from plugins.predicates.arguments import PredicatesArguments
from plugins.predicates.verdicts import node_refusal
from volsched.framework.engine.domains import Domains, domains_of, has_label
from volsched.plugin import Mask, NodeInfo, NodeTable, PodTemplate, Predicate, Registrar, Rule, TaskInfo, Verdict

UNEVEN = node_refusal("node(s) didn't match pod topology spread constraints")
LACKS_LABEL = node_refusal(f"{UNEVEN.message} (missing required label)", resolvable=False)


class Spreading:
    """The rule."""

    def __init__(self, domains: Domains) -> None:
        self._domains = domains

    @staticmethod
    def applies(template: PodTemplate) -> bool:
        """True if pods of a template have such a constraint."""
        return any(item.hard for item in template.spread)

    def key(self, task: TaskInfo) -> tuple[int, ...] | None:
        """Return a key that adds nothing to the template, or None without such a constraint."""
        return () if self.applies(task.template) else None

    def version(self, task: TaskInfo) -> int:
        """Tell when any of the counts last changed in a way that matters to other nodes."""
        return max((table.stamp for _, table in self._domains.must_spread(task.template).constraints), default=0)

    def refuse(self, template: PodTemplate, node: NodeInfo) -> Verdict | None:
        """Ask about one node."""
        if not template.spread:
            return None
        labels = node.labels
        for item, table in self._domains.must_spread(template).constraints:
            value = labels.get(item.topology_key)
            if value is None:
                return LACKS_LABEL
            if table.counts.get(value, 0) + item.counts_self - table.lowest(item.min_domains) > item.max_skew:
                return UNEVEN
        return None

    def admit_rows(self, template: PodTemplate, nodes: NodeTable) -> Mask:
        """Answer as ``refuse``, for many nodes at once."""
        properties, rows = nodes.properties, nodes.rows
        mask = np.ones(len(rows), dtype=np.bool_)
        for item, table in self._domains.must_spread(template).constraints:
            most = item.max_skew + table.lowest(item.min_domains) - item.counts_self
            mask &= has_label(item.topology_key, properties, rows) & (table.by_row(properties, rows) <= most)
        return mask


def rules(registrar: Registrar, wanted: PredicatesArguments) -> Iterator[Rule]:
    """Refuse nodes that a hard constraint rules out."""
    if wanted.pod_topology_spread:
        found = Spreading(domains_of(registrar))
        yield Predicate(
            found.refuse, vector=found.admit_rows, applies_to=found.applies, key=found.key, version=found.version
        )
