"""CPU pods on GPU nodes: quota and usage of each node, of the plugin crossquota."""

from __future__ import annotations

from monitoring.grafana import Dashboard, Panel, Query, Row, Variable
from monitoring.overview import rate

HERE = '{node=~"$node", resource=~"$resource"}'
RESOURCE = '{resource=~"$resource"}'
NAME = "{{node}} {{resource}}"


def held(kind: str) -> str:
    """Quota or usage of the chosen nodes and resources; every replica says the same."""
    return f"max by (node, resource) (volsched_crossquota_{kind}{HERE})"


QUOTAS = Row(
    "Quotas",
    (
        Panel(
            "GPU nodes",
            (Query(held("used"), "used"), Query(held("quota"), "quota")),
            "Cores, bytes and whole devices that CPU pods hold, and may hold.",
            kind="table",
            width=24,
            height=10,
        ),
        Panel(
            "Used of the quota",
            (Query(f"{held('used')} / ({held('quota')} > 0)", NAME),),
            "A row for each node and resource. Consolidation fills rows one after the other, distribution colours all "
            "alike; above 100 % the quota was lowered, or another scheduler put pods there.",
            kind="heatmap",
            unit="percentunit",
            width=24,
            height=14,
        ),
    ),
)

TOGETHER = Row(
    "All GPU nodes",
    (
        Panel(
            "Used of all quotas",
            (Query(f"sum by (resource) ({held('used')}) / sum by (resource) ({held('quota')})", "{{resource}}"),),
            "What CPU pods hold on all GPU nodes together, as a part of all quotas.",
            unit="percentunit",
            width=8,
        ),
        Panel(
            "Refusals a second",
            (Query(rate("volsched_crossquota_refusals_total", "resource", RESOURCE), "{{resource}}"),),
            "Answers of nodes, not pods: what has not changed is not asked again.",
            unit="ops",
            width=8,
        ),
        Panel(
            "Settings that are passed over",
            (Query("max by (source) (volsched_crossquota_faults)", "{{source}}"),),
            "Patterns in the arguments, annotations of nodes. The Event InvalidCrossQuota on the Node says which.",
            kind="stat",
            width=8,
            thresholds=(1, 5),
        ),
    ),
)

CPU_PODS = Dashboard(
    "cpu-pods",
    "volsched / CPU pods on GPU nodes",
    "What CPU pods hold of their quotas on GPU nodes, of the plugin crossquota. Metrics: docs/metrics.md.",
    (QUOTAS, TOGETHER),
    (
        Variable("node", "volsched_crossquota_quota", "node"),
        Variable("resource", "volsched_crossquota_quota", "resource"),
    ),
)
