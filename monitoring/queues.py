"""Queues: who holds what, who waits for what."""

from __future__ import annotations

from monitoring.grafana import Dashboard, Panel, Query, Row, Variable
from monitoring.overview import quantile, rate

HERE = '{queue=~"$queue", resource=~"$resource"}'
QUEUE = '{queue=~"$queue"}'
OF_QUEUE = '{queue_name=~"$queue"}'
LACK_NODES = '{queue=~"$queue", condition="Unschedulable"}'
BOTH = "queue, resource"
NAME = "{{queue}} {{resource}}"


WORKLOADS = ("online", "offline")
WHICH = (
    "Online is what Deployments, ReplicaSets, StatefulSets and DaemonSets run, offline the rest; a pod's label "
    "volsched.io/workload comes before that."
)


def held(kind: str) -> str:
    """One kind of amount of the chosen queues; every replica says the same."""
    return f"max by ({BOTH}) (volsched_queue_{kind}{HERE})"


HOLDINGS = Row(
    "Who holds what",
    (
        Panel(
            "Queues",
            (
                Query(held("allocated"), "allocated"),
                Query(held("request"), "request"),
                Query(held("share"), "part of the cluster"),
                Query(held("guarantee"), "guarantee"),
                Query(held("deserved"), "deserved"),
                Query(held("fair_share"), "fair share"),
                Query(held("mean_use"), "over time"),
                Query(held("capability"), "capability"),
                Query(held("limit"), "limit"),
            ),
            "Cores, bytes and whole devices. The fair share is there where the plugin proportion is configured, "
            "what was held over time where usage.halfLife is, the "
            "limit where it is capacity: what the queue may have beside others' guarantees, and within queues above.",
            kind="table",
            width=24,
            height=10,
        ),
        Panel(
            "Allocated",
            (Query(held("allocated"), NAME),),
            "What placed pods of the queue use: cores, bytes and whole devices.",
            width=12,
            stacked=True,
        ),
        Panel(
            "Part of the cluster",
            (Query(held("share"), NAME),),
            "Of what all nodes have of the resource.",
            unit="percentunit",
            width=12,
            stacked=True,
        ),
        Panel(
            "Asked for and not placed",
            (Query(f"{held('request')} - {held('allocated')}", NAME),),
            "What pods of the queue that wait ask for.",
            width=12,
        ),
        Panel(
            "Used of what the queue may have",
            (
                Query(f"{held('allocated')} / {held('capability')}", f"{NAME} of its capability"),
                Query(f"{held('allocated')} / {held('limit')}", f"{NAME} of its limit"),
            ),
            "Of its capability, and of its limit where the plugin capacity is configured.",
            unit="percentunit",
            width=12,
        ),
        Panel(
            "Used of what the queue deserves",
            (
                Query(f"{held('allocated')} / {held('deserved')}", f"{NAME} of deserved"),
                Query(f"{held('allocated')} / {held('fair_share')}", f"{NAME} of its fair share"),
            ),
            "Of what its spec says, and of its fair share where the plugin proportion is configured.",
            unit="percentunit",
            width=12,
        ),
        Panel(
            "The cluster",
            (
                Query('max by (resource) (volsched_cluster_used{resource=~"$resource"})', "{{resource}} used"),
                Query('max by (resource) (volsched_cluster_allocatable{resource=~"$resource"})', "{{resource}} there"),
            ),
            "What pods of any scheduler take, and what there is.",
            width=12,
        ),
    ),
)


def parted(metric: str, labels: str, where: str) -> tuple[Query, ...]:
    """What online and what offline pods hold, by some labels."""
    legend = " ".join(f"{{{{{label.strip()}}}}}" for label in labels.split(","))
    return tuple(
        Query(f'max by ({labels}) ({metric}{{workload="{workload}", {where}}})', f"{legend} {workload}")
        for workload in WORKLOADS
    )


ONLINE = Row(
    "Online and offline",
    (
        Panel(
            "The cluster",
            (
                Query('max by (resource) (volsched_cluster_allocatable{resource=~"$resource"})', "there"),
                Query('max by (resource) (volsched_cluster_used{resource=~"$resource"})', "used"),
                *(
                    Query(
                        f'max by (resource) (volsched_cluster_workload_used{{workload="{workload}", '
                        'resource=~"$resource"})',
                        f"used {workload}",
                    )
                    for workload in WORKLOADS
                ),
            ),
            f"Cores, bytes and whole devices of all nodes, and what pods of any scheduler take of them. {WHICH}",
            kind="table",
            width=24,
            height=8,
        ),
        Panel(
            "Used in the cluster",
            parted("volsched_cluster_workload_used", "resource", 'resource=~"$resource"'),
            "What pods of any scheduler take on all nodes.",
            width=12,
            stacked=True,
        ),
        Panel(
            "Held by queues",
            parted("volsched_queue_workload_allocated", BOTH, 'queue=~"$queue", resource=~"$resource"'),
            "What placed pods of each queue hold.",
            width=12,
            stacked=True,
        ),
    ),
)

WAITING = Row(
    "Who waits",
    (
        Panel(
            "Pods by reason",
            (Query(f"sum by (queue, step, reason) (volsched_pending_pods{QUEUE})", "{{queue}}: {{step}} {{reason}}"),),
            "Steps and reasons are explained in docs/events.md.",
            width=12,
            stacked=True,
        ),
        Panel(
            "Pods that lack nodes",
            (Query(f"sum by (queue) (volsched_pending_pods{LACK_NODES})", "{{queue}}"),),
            "Their condition is Unschedulable: autoscalers make nodes for them.",
            width=12,
            stacked=True,
        ),
        Panel(
            "Longest wait now",
            (Query(f"max by (queue) (volsched_oldest_pending_pod_age_seconds{QUEUE})", "{{queue}}"),),
            "Since the pod of the queue was created that waits longest.",
            unit="s",
            width=12,
        ),
        Panel(
            "From creation to binding, 90 of 100",
            (Query(quantile(0.9, "volsched_pod_wait_seconds", "queue", QUEUE), "{{queue}}"),),
            "Nine of ten pods of the queue are bound within this time.",
            unit="s",
        ),
        Panel(
            "Pods bound a second",
            (Query(rate("volsched_pod_wait_seconds_count", "queue", QUEUE), "{{queue}}"),),
            "Pods of the queue that got a node.",
            unit="ops",
        ),
        Panel(
            "Evictions for the queue, a second",
            (
                Query(rate("volsched_preemption_attempts_total", "queue", QUEUE), "{{queue}} searches"),
                Query(rate("volsched_preemption_victims_total", "queue", QUEUE), "{{queue}} victims"),
            ),
            "Searches for pods that could make room for the queue's, and pods that had to.",
            unit="ops",
        ),
    ),
)

GROUPS = Row(
    "PodGroups",
    tuple(
        Panel(
            phase.capitalize(),
            (
                Query(
                    f'max by (queue_name) (volcano_queue_pod_group_{phase}_count{{queue_name=~"$queue"}})',
                    "{{queue_name}}",
                ),
            ),
            "Counted by the controllers.",
            width=8,
            stacked=True,
        )
        for phase in ("pending", "inqueue", "running", "unknown", "completed")
    ),
)

HELD_NODES = Row(
    "Nodes held for jobs, by the action reserve",
    (
        Panel(
            "Jobs with a promise",
            (Query(f"max by (queue_name) (volsched_reservations{OF_QUEUE})", "{{queue_name}}"),),
            "Jobs that were promised a start, and have not started. docs/reserve.md explains who is.",
            width=12,
            stacked=True,
        ),
        Panel(
            "Free on held nodes",
            (Query('max by (resource) (volsched_reserved_idle{resource=~"$resource"})', "{{resource}}"),),
            "What nodes that are held have free: the cost of promises.",
            width=12,
        ),
        Panel(
            "Later than first promised",
            (Query(f"max by (queue_name) (volsched_reservation_late_seconds{OF_QUEUE})", "{{queue_name}}"),),
            "Of the jobs with a promise together. It grows where pods run for longer than they declare.",
            unit="s",
            width=12,
        ),
        Panel(
            "Pods that ran for longer than they declared",
            (Query("max by (namespace) (volsched_outlived_durations)", "{{namespace}}"),),
            "Since the scheduler started. Durations of a namespace with many of them are not believed.",
            width=12,
        ),
    ),
)

QUEUES = Dashboard(
    "queues",
    "volsched / Queues",
    "Who holds what, who waits for what. Metrics: docs/metrics.md.",
    (HOLDINGS, ONLINE, WAITING, HELD_NODES, GROUPS),
    (
        Variable("queue", "volsched_queue_request", "queue"),
        Variable("resource", "volsched_cluster_allocatable", "resource"),
    ),
)
