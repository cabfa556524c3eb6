"""Devices: quotas by DeviceClass, of the plugin capacity-dra."""

from __future__ import annotations

from monitoring.grafana import Dashboard, Panel, Query, Row, Variable

HERE = '{queue_name=~"$queue", device_class=~"$class"}'
BOTH = "queue_name, device_class, dimension"
NAME = "{{queue_name}} {{device_class}} {{dimension}}"


def devices(kind: str) -> str:
    """One kind of amount of the chosen queues and classes."""
    return f"max by ({BOTH}) (volcano_queue_dra_{kind}{HERE})"


QUOTAS = Row(
    "Quota by DeviceClass",
    (
        Panel(
            "Queues",
            (
                Query(devices("capacity"), "quota"),
                Query(devices("allocated"), "held"),
                Query(devices("inqueue"), "reserved"),
                Query(devices("deserved"), "deserved"),
                Query(devices("guarantee"), "guarantee"),
                Query(f"max by ({BOTH}) (volsched_queue_dra_reclaimable{HERE})", "others could reclaim"),
            ),
            "Devices where the dimension is empty, else that dimension of their capacity. What a queue holds includes "
            "the queues below it; a claim that pods share counts once. Reclaimable is what queues "
            "below what they deserve could take.",
            kind="table",
            width=24,
            height=10,
        ),
        Panel(
            "Held",
            (Query(devices("allocated"), NAME),),
            "Devices, or their capacity, that claims of the queue's pods have.",
            width=12,
            stacked=True,
        ),
        Panel(
            "Used of the quota",
            (Query(f"{devices('allocated')} / ({devices('capacity')} > 0)", NAME),),
            "A quota of 0 forbids the class and is left out.",
            unit="percentunit",
            width=12,
        ),
        Panel(
            "Reserved for jobs that were admitted",
            (Query(devices("inqueue"), NAME),),
            "What they may still take for their minimum.",
            width=12,
            stacked=True,
        ),
        Panel(
            "Left of the quota",
            (Query(f"{devices('capacity')} - {devices('allocated')}", NAME),),
            "Below 0 the quota was cut, or devices were given out before it: nothing more is given out until it fits.",
            width=12,
        ),
    ),
)

DEVICES = Dashboard(
    "capacity-dra",
    "volsched / Devices",
    "Quota by DeviceClass, of the plugin capacity-dra. Metrics: docs/metrics.md.",
    (QUOTAS,),
    (
        Variable("queue", "volcano_queue_dra_capacity", "queue_name"),
        Variable("class", "volcano_queue_dra_capacity", "device_class"),
    ),
)
