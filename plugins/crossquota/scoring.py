"""How good a GPU node is for a CPU pod: how much of the node's quotas would be used, or left.

    most-allocated    score = scale x sum(w x (used + request) / quota) / sum(w)
    least-allocated   score = scale x sum(w x (quota - used - request) / quota) / sum(w)

over the resources that the pod asks for, with their weights w; 0 when one of them would be above its quota, or when no
weight is left. The formulas are those of the design proposed for Volcano; that only what is asked for counts is
Volcano's. The first fills GPU nodes up one by one and keeps others empty for large jobs, the second spreads. A pod
chooses by its annotation.

Nodes that are no GPU nodes get one fixed score. At its default of 0 both strategies draw CPU pods onto GPU nodes, as in
that design; a score above ``scale`` keeps them away as long as there is room elsewhere.
"""

from __future__ import annotations

import numpy as np

from plugins.crossquota.arguments import CrossQuotaArguments
from plugins.crossquota.budget import NodeBudgets
from volsched.plugin import Floats, NodeInfo, NodeTable, PodTemplate, keep

STRATEGY = "volcano.sh/crossquota-scoring-strategy"
MOST_ALLOCATED = "most-allocated"
LEAST_ALLOCATED = "least-allocated"
STRATEGIES = (MOST_ALLOCATED, LEAST_ALLOCATED)

Part = tuple[int, int, float]
"""Place, requested amount and weight of one resource."""
Scored = tuple[PodTemplate, tuple[Part, ...], float, bool]
"""A template, what counts of it, the sum of the weights, and whether its pods spread."""


class QuotaScore:
    """Scores nodes for CPU pods. What it needs of a template is worked out once."""

    def __init__(self, arguments: CrossQuotaArguments, budgets: NodeBudgets) -> None:
        self._scale = arguments.scale
        self._weights = arguments.weights
        self._elsewhere = arguments.elsewhere
        self._budgets = budgets
        self._known: dict[int, Scored] = {}

    def score(self, template: PodTemplate, node: NodeInfo) -> float:
        """Score one node."""
        known = self._of(template)
        if known is None:
            return 0.0
        account = self._budgets.of(node)
        if account is None:
            return self._elsewhere
        _, parts, divisor, spreads = known
        used, quotas = account.used, account.amounts
        total = 0.0
        for place, request, weight in parts:
            after, quota = used[place] + request, quotas[place]
            if after > quota:
                return 0.0
            total += float(quota - after if spreads else after) / float(quota) * weight
        return total / divisor * self._scale if divisor else 0.0

    def scores(self, template: PodTemplate, nodes: NodeTable) -> Floats:
        """Answer as ``score``, for many nodes at once."""
        rows = nodes.rows
        known = self._of(template)
        if known is None:
            return np.zeros(len(rows))
        _, parts, divisor, spreads = known
        table = self._budgets.table()
        total = np.zeros(len(rows))
        fits = np.full(len(rows), divisor > 0)
        for place, request, weight in parts:
            quota = table.quotas[place][rows]
            after = table.used[place][rows] + request
            fits &= table.used[place][rows] <= quota - request
            total += (quota - after if spreads else after).astype(np.float64) / np.maximum(quota, 1) * weight
        gpu = np.where(fits, total / (divisor or 1.0) * self._scale, 0.0)
        found: Floats = np.where(table.is_gpu[rows], gpu, self._elsewhere)
        return found

    def _of(self, template: PodTemplate) -> Scored | None:
        """Return what counts of a template, or None when its pods are no CPU pods."""
        found = self._known.get(template.id)
        if found is None or found[0] is not template:
            request = self._budgets.pods.request(template)
            if request is None:
                return None
            parts = tuple(
                (place, amount, weight)
                for place, (amount, weight) in enumerate(zip(request, self._weights, strict=True))
                if amount
            )
            divisor = sum(weight for _, _, weight in parts)
            found = keep(self._known, template, (template, parts, divisor, spreads(template)))
        return found


def spreads(template: PodTemplate) -> bool:
    """True if a pod wants least-allocated. Any other value, or none, is most-allocated."""
    return template.annotations.get(STRATEGY) == LEAST_ALLOCATED
