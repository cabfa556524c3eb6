"""Cards: quota by card model, of the plugin capacity-card."""

from __future__ import annotations

from monitoring.grafana import Dashboard, Panel, Query, Row, Variable
from monitoring.overview import rate
from monitoring.queues import WHICH, WORKLOADS, parted

HERE = '{queue_name=~"$queue", card=~"$card"}'
QUEUE = '{queue=~"$queue"}'
CARD = '{card=~"$card"}'
NAME = "{{queue_name}} {{card}}"


def cards(kind: str) -> str:
    """One kind of number of the chosen queues and cards."""
    return f"max by (queue_name, card) (volcano_queue_card_{kind}{HERE})"


def elastic(kind: str) -> str:
    """One kind of number of what the chosen queues deserve, which Volcano's plugin has not."""
    return f"max by (queue_name, card) (volsched_queue_card_{kind}{HERE})"


QUOTAS = Row(
    "Quota by card",
    (
        Panel(
            "Queues",
            (
                Query(cards("capacity"), "quota"),
                Query(cards("deserved"), "deserved"),
                Query(elastic("guarantee"), "guaranteed"),
                Query(elastic("reclaimable"), "others could reclaim"),
                Query(cards("allocated"), "held"),
                Query(cards("request"), "held or wanted"),
                Query(cards("inqueue"), "reserved"),
            ),
            "Whole cards. Wanted and reserved may be for a list of cards, of which any will do.",
            kind="table",
            width=24,
            height=10,
        ),
        Panel(
            "Held",
            (Query(cards("allocated"), NAME),),
            "Cards that placed pods of the queue are charged for.",
            width=12,
            stacked=True,
        ),
        Panel(
            "Used of the quota",
            (Query(f"{cards('allocated')} / {cards('capacity')}", NAME),),
            "Held cards as a part of the quota.",
            unit="percentunit",
            width=12,
        ),
        Panel(
            "Wanted and not held",
            (Query(f"{cards('request')} - {cards('allocated')}", NAME),),
            "What pods that wait want; of a list of cards any will do.",
            width=12,
            stacked=True,
        ),
        Panel(
            "Reserved for jobs that were admitted",
            (Query(cards("inqueue"), NAME),),
            "What they may still take for their minimum.",
            width=12,
            stacked=True,
        ),
    ),
)

DUES = Row(
    "What queues deserve",
    (
        Panel(
            "Held, deserved, guaranteed",
            (
                Query(cards("allocated"), f"{NAME} held"),
                Query(cards("deserved"), f"{NAME} deserved"),
                Query(elastic("guarantee"), f"{NAME} guaranteed"),
            ),
            "A queue below what it deserves takes back from those above theirs, never below their guarantees.",
            width=12,
        ),
        Panel(
            "Could be reclaimed",
            (Query(elastic("reclaimable"), NAME),),
            "Cards that a queue holds beyond what it deserves, which others below theirs could take back.",
            width=12,
            stacked=True,
        ),
    ),
)

CLUSTER = Row(
    "The cluster's cards",
    (
        Panel(
            "There and idle",
            (
                Query(f"max by (card) (volsched_cluster_cards{CARD})", "{{card}} there"),
                Query(f"max by (card) (volsched_cluster_cards_idle{CARD})", "{{card}} idle"),
            ),
            "Cards of all nodes, and those of them that no pod takes.",
            width=12,
        ),
        Panel(
            "All quotas together",
            (
                Query(
                    f"sum by (card) (max by (queue_name, card) (volcano_queue_card_capacity{CARD}))",
                    "{{card}} promised",
                ),
                Query(f"max by (card) (volsched_cluster_cards{CARD})", "{{card}} there"),
            ),
            "More may be promised than there is; then queues compete.",
            width=12,
        ),
        Panel(
            "Promised of what is there",
            (
                Query(
                    f"sum by (card) (max by (queue_name, card) (volcano_queue_card_capacity{CARD})) "
                    f"/ max by (card) (volsched_cluster_cards{CARD})",
                    "{{card}}",
                ),
            ),
            "Above 100 % the card is over-committed.",
            unit="percentunit",
            width=12,
        ),
        Panel(
            "Refused by quota, a second",
            (Query(rate("volsched_queue_card_refusals_total", "queue, reason", QUEUE), "{{queue}}: {{reason}}"),),
            "Reasons are explained in docs/events.md.",
            unit="ops",
            width=12,
        ),
    ),
)

STRANDED = Row(
    "Cards that no pod can use, of the plugin fragmentation",
    (
        Panel(
            "Free",
            (
                Query("max by (model) (volsched_cards)", "{{model}} there"),
                Query("max by (model) (volsched_cards_free)", "{{model}} free"),
            ),
            "Cards of all nodes, and what of them is free; parts of cards are added up.",
            width=12,
        ),
        Panel(
            "Free, and of no use to any pod",
            (Query("sum by (cause) (max by (model, cause) (volsched_cards_stranded))", "{{cause}}"),),
            "Why: the node has no CPU or memory left, parts are too small, no pod that waits takes the model, or they "
            "are scattered over nodes.",
            width=12,
            stacked=True,
        ),
        Panel(
            "Of no use, as a part of all cards",
            (
                Query(
                    "sum by (model) (max by (model, cause) (volsched_cards_stranded)) "
                    "/ max by (model) (volsched_cards)",
                    "{{model}}",
                ),
            ),
            "What a better packing would bring; volsched cards --stranded says the same on the command line.",
            unit="percentunit",
            width=12,
        ),
    ),
)

ONLINE = Row(
    "Online and offline",
    (
        Panel(
            "Cards",
            (
                Query(f"max by (card) (volsched_cluster_cards{CARD})", "there"),
                Query(f"max by (card) (volsched_cluster_cards_idle{CARD})", "idle"),
                Query(f"sum by (card) (max by (queue_name, card) (volcano_queue_card_capacity{CARD}))", "quotas"),
                *(
                    Query(
                        f'max by (card) (volsched_cluster_workload_cards{{workload="{workload}", card=~"$card"}})',
                        f"held {workload}",
                    )
                    for workload in WORKLOADS
                ),
            ),
            f"Whole cards: what there is, what all queues may hold together, and what their pods hold. {WHICH}",
            kind="table",
            width=24,
            height=8,
        ),
        Panel(
            "Held in the cluster",
            parted("volsched_cluster_workload_cards", "card", 'card=~"$card"'),
            "What placed pods of all queues hold.",
            width=12,
            stacked=True,
        ),
        Panel(
            "Held by queues",
            parted("volsched_queue_workload_cards", "queue, card", 'queue=~"$queue", card=~"$card"'),
            "What placed pods of each queue hold.",
            width=12,
            stacked=True,
        ),
    ),
)

SHORT = '{queue=~"$queue", reason=~"Insufficient.*Quota|EmptyQueueCapability|GetTaskRequestResourceFailed"}'

SCALING = Row(
    "Scaling against the quota",
    (
        Panel(
            "Wanted, held, quota",
            (
                Query(cards("request"), f"{NAME} wanted"),
                Query(cards("allocated"), f"{NAME} held"),
                Query(cards("capacity"), f"{NAME} quota"),
            ),
            "Where an autoscaler takes what is wanted above the quota, new pods wait. What is scaled down is quota "
            "for others at once.",
            width=12,
        ),
        Panel(
            "Wanted beyond the quota",
            (Query(f"clamp_min({cards('request')} - {cards('capacity')}, 0)", NAME),),
            "So much quota is missing for everything that is asked for. What is wanted of a list of cards has no quota "
            "of its own and is not in here.",
            width=12,
            stacked=True,
        ),
        Panel(
            "Pods that wait for quota",
            (Query(f"sum by (queue, step, reason) (volsched_pending_pods{SHORT})", "{{queue}}: {{step}} {{reason}}"),),
            "At enqueue a whole job waits; at allocatable pods of a job that runs, such as those of a Deployment that "
            "was scaled up. Reasons are explained in docs/events.md.",
            width=24,
            stacked=True,
        ),
    ),
)

CARDS = Dashboard(
    "capacity-card",
    "volsched / Cards",
    "Quota by card model, of the plugin capacity-card, and cards that nobody can use. Metrics: docs/metrics.md.",
    (QUOTAS, DUES, ONLINE, SCALING, CLUSTER, STRANDED),
    (
        Variable("queue", "volcano_queue_card_capacity", "queue_name"),
        Variable("card", "volsched_cluster_cards", "card"),
    ),
)
