"""Shared cards: what is given away of each card, as a heat map, of the plugin mgpu."""

from __future__ import annotations

from monitoring.grafana import Dashboard, Panel, Query, Row, Variable
from monitoring.overview import rate

HERE = '{node=~"$node"}'
NAME = "{{node}} {{card}}"


def cards(metric: str) -> str:
    """A number of the cards of the chosen nodes."""
    return f"max by (node, card) (volsched_mgpu_card_{metric}{HERE})"


MAPS = Row(
    "Cards",
    (
        Panel(
            "Core of each card",
            (Query(cards("core_used_ratio"), NAME),),
            "A row for each card, dark where all of it is given away. Binpack fills rows one after the other, spread "
            "colours all alike.",
            kind="heatmap",
            unit="percentunit",
            width=12,
            height=14,
        ),
        Panel(
            "Memory of each card",
            (Query(f"{cards('memory_used_bytes')} / {cards('memory_bytes')}", NAME),),
            "Part of each card's memory that is given away.",
            kind="heatmap",
            unit="percentunit",
            width=12,
            height=14,
        ),
        Panel(
            "Containers on each card",
            (Query(cards("instances"), NAME),),
            "At predicate.MGPUMaxContainersPerCard a card takes no more, whatever of it is free.",
            kind="heatmap",
            width=24,
            height=10,
        ),
    ),
)

NODES = Row(
    "Nodes",
    (
        Panel(
            "Given away of all cards",
            (
                Query(f"avg({cards('core_used_ratio')})", "core"),
                Query(f"sum({cards('memory_used_bytes')}) / sum({cards('memory_bytes')})", "memory"),
            ),
            "Core and memory of all cards together that are given away.",
            unit="percentunit",
            width=12,
        ),
        Panel(
            "Free core on cards in use",
            (Query(f"max by (node) (volsched_mgpu_fragmentation_ratio{HERE})", "{{node}}"),),
            "Of no use to pods that want whole cards. At 100 % no card of the node is idle.",
            unit="percentunit",
            width=12,
        ),
        Panel(
            "Nodes of whose cards too little is known",
            (Query(f"sum(max by (node) (volsched_mgpu_card_state_unknown{HERE}))", "nodes"),),
            "They take no more pods with cards. The Event CardStateUnknown on the Node says which pod it is.",
            kind="stat",
            width=12,
            thresholds=(1, 2),
        ),
        Panel(
            "Searches a second",
            (
                Query(rate("volsched_mgpu_searches_total", "job"), "searched"),
                Query(rate("volsched_mgpu_search_truncated_total", "job"), "given up"),
            ),
            "What is given up at the limit is placed by the largest containers first.",
            unit="ops",
            width=12,
        ),
    ),
)

SHARED_CARDS = Dashboard(
    "shared-cards",
    "volsched / Shared cards",
    "Cards that containers share, of the plugin mgpu. Metrics: docs/metrics.md.",
    (MAPS, NODES),
    (Variable("node", "volsched_mgpu_card_memory_bytes", "node"),),
)
