"""What holds of quotas and accounts, whatever the cluster, the queues, the pods and the changes in between."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from plugins.capacity_card.allocated import PREFIX, as_resource
from plugins.capacity_card.refusals import NAME
from plugins.capacity_card.usage import CardUsage
from tests.plugins.capacity_card.worlds import QUOTA
from tests.properties.lives import Property, Reader
from volsched.model.cards.amounts import MILLI
from volsched.model.cluster import Cluster
from volsched.model.nodes.node import NodeInfo
from volsched.model.plan import PlanStep, WriteQueueStatus
from volsched.model.pods.task import TaskInfo
from volsched.model.queues.queue import levels
from volsched.model.status import IS_ALLOCATED
from volsched.quota.usage import JobCharges

Held = Counter[tuple[str, str]]
"""Milli-cards by queue and card."""


class WithinQuotas(Property):
    """A session exceeds no quota, counted by the labels of nodes: at most the quota, or what was held before."""

    def before(self) -> None:
        self.had = physically_held(self.cluster)

    def after(self, steps: list[PlanStep]) -> None:
        for (queue, card), amount in physically_held(self.cluster).items():
            most = max(quota_of(self.cluster, queue, card), self.had[queue, card])
            assert amount <= most, f"{queue} holds {amount} of {card}, {most} at most"

    def end(self) -> None:
        held = physically_held(self.cluster)
        self.reader.seen["held"] += bool(held)
        self.reader.seen["full"] += any(n and n == quota_of(self.cluster, *labels) for labels, n in held.items())
        for task in self.cluster.tasks.values():
            if task.refusal is not None and task.refusal.plugin == NAME:
                self.reader.seen[task.refusal.reason] += 1


class ChargesWhatIsUsed(Property):
    """Charges are what bound pods physically use, and accounts are those of a recount."""

    def after(self, steps: list[PlanStep]) -> None:
        usage = usage_of(self.reader)
        held: Held = Counter()
        for task in self.cluster.tasks.values():
            seat = usage.charged(task)
            if seat is not None and seat.is_offered and task.job is not None:
                held[task.job.queue, seat.card] += seat.amount
        assert held == physically_held(self.cluster)
        assert same_accounts(usage, recounted(self.reader, self.scenario.configuration))


class QueuesTell(Property):
    """The status of a queue tells what its placed pods are charged for."""

    def __init__(self, scenario: Any, reader: Reader) -> None:
        super().__init__(scenario, reader)
        self.told: dict[str, dict[str, str]] = {}

    def after(self, steps: list[PlanStep]) -> None:
        self.told |= {step.name: dict(step.allocated) for step in steps if isinstance(step, WriteQueueStatus)}
        held = charged(self.reader)
        for name in [queue.name for queue in self.cluster.queues.values() if queue.spec.uid]:
            as_resources = {key: text for key, text in self.told[name].items() if key.startswith(PREFIX)}
            expected = {card: count for (queue, card), count in held.items() if queue == name}
            assert as_resources == {as_resource(card): str(count) for card, count in expected.items()}
            assert all(self.told[name][card] == str(count) for card, count in expected.items())


class GivesAllBack(Property):
    """Every account is at zero when all pods are gone."""

    def end(self) -> None:
        for pod in self.scenario.of("Pod"):
            self.scenario.remove(pod)
        self.reader.cycle(self.scenario.changes())
        assert not any(accounts_of(usage_of(self.reader)))


# -- counting without the plugin --------------------------------------------------------------------------------------


def physically_held(cluster: Cluster) -> Held:
    held: Held = Counter()
    for task in cluster.tasks.values():
        if task.job is not None and task.node is not None and IS_ALLOCATED[task.status]:
            for card in named_cards(task):
                amount = task.template.request.get(resource_on(task.node, card), 0)
                if amount:
                    held[task.job.queue, card] += amount
                    break
    return held


def named_cards(task: TaskInfo) -> list[str]:
    return [name.strip() for name in task.spec.annotations.get("volcano.sh/card.name", "").split("|") if name.strip()]


def resource_on(node: NodeInfo, card: str) -> str:
    """The resource as which a node offers a card; the worlds here have cards of one vendor with full names."""
    labels = node.labels
    product = labels.get("nvidia.com/gpu.product", "") if labels.get("nvidia.com/gpu.memory") else ""
    share = re.fullmatch(r"(.+)/(?:mps-80g\*1/4|mig-(.+)-mixed)", card)
    resource = (
        f"nvidia.com/mig-{share[2]}" if share and share[2] else "nvidia.com/gpu.shared" if share else "nvidia.com/gpu"
    )
    offers = product == (share[1] if share else card) and node.allocatable_of(resource) > 0
    is_shared_in_four = resource != "nvidia.com/gpu.shared" or labels.get("nvidia.com/gpu.replicas") == "4"
    return resource if product and offers and is_shared_in_four else ""


def quota_of(cluster: Cluster, queue: str, card: str) -> int:
    found = cluster.queues.get(queue)
    amount: int
    try:
        amount = json.loads(found.spec.annotations.get(QUOTA) or "{}").get(card, 0) if found is not None else 0
    except ValueError:
        return 0
    return max(0, amount) * 1000


def usage_of(reader: Reader) -> CardUsage:
    return reader.scheduler._accounts.get(f"{NAME}.ledger", lambda cluster: None)  # type: ignore[return-value]


def recounted(reader: Reader, configuration: str) -> CardUsage:
    told = {key: f'"{key}": true' in configuration for key in ("cardUnlimitedCpuMemory", "checkAncestors")}
    return CardUsage(
        reader.cluster,
        spares_cpu=told["cardUnlimitedCpuMemory"],
        is_strict=False,
        is_hierarchical=told["checkAncestors"],
    )


def accounts_of(usage: CardUsage) -> Iterator[Any]:
    """Every account there is: of jobs, of queues, of subtrees."""
    charges: tuple[JobCharges[Any], ...] = (usage.held, usage.placed)
    for charged in charges:
        yield from (amounts for _, amounts in charged._jobs.values())
        yield from (amounts for sums in (charged.own, charged.with_below) for _, amounts in sums.items())


def same_accounts(usage: CardUsage, counted: CardUsage) -> bool:
    return queue_accounts(usage) == queue_accounts(counted)


def queue_accounts(usage: CardUsage) -> list[dict[str, Any]]:
    charges: tuple[JobCharges[Any], ...] = (usage.held, usage.placed)
    sums = [sums for charged in charges for sums in (charged.own, charged.with_below)]
    return [{name: dict(amounts) for name, amounts in each.items() if amounts} for each in sums]


def charged(reader: Reader) -> Counter[tuple[str, str]]:
    """Whole cards that placed pods are charged for by queue, those of queues below it too, pod by pod."""
    usage, held = usage_of(reader), Counter[tuple[str, str]]()
    for task in reader.cluster.tasks.values():
        seat = usage.charged(task) if IS_ALLOCATED[task.status] else None
        if seat is not None and task.queue in reader.cluster.queues:
            amount = seat.amount // MILLI
            held.update({(level, seat.card): amount for level in levels(reader.cluster.queues, task.queue)})
    return held
