"""What holds of quotas and accounts, whatever the cluster, the queues, the pods and the changes in between."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from functools import partial

import pytest
from hypothesis import given

from plugins.capacity_card.accounts import QueueAccount
from plugins.capacity_card.ledger import CardQuotaLedger
from plugins.capacity_card.refusals import NAME
from tests.plugins.capacity_card.worlds import QUOTA, card_stories
from tests.properties.stories import Reader, Story, World, difference, live, steps_with
from volsched.model.cluster import Cluster
from volsched.model.nodes.node import NodeInfo
from volsched.model.pods.task import TaskInfo
from volsched.model.status import IS_ALLOCATED
from volsched.testing.contract import engine_contract

pytestmark = pytest.mark.slow(reason="thousands of sessions on random clusters")

Held = Counter[tuple[str, str]]
"""Milli-cards by queue and card."""


@given(card_stories())
def test_the_fast_engine_agrees_with_the_naive_one(story: Story) -> None:
    engine_contract(partial(steps_with, story))


@given(card_stories(evicting=True))
def test_they_agree_about_victims_too(story: Story) -> None:
    engine_contract(partial(steps_with, story))


@given(card_stories(evicting=True))
def test_a_scheduler_that_was_restarted_decides_as_one_that_was_not(story: Story) -> None:
    keeps, restarts = Reader(story.configuration), Reader(story.configuration, forgets="accounts")

    live(story, keeps, restarts)

    assert difference(keeps.placements, restarts.placements) == ""


@given(card_stories())
def test_nothing_that_is_passed_over_could_have_been_placed(story: Story) -> None:
    patient, eager = Reader(story.configuration), Reader(story.configuration, forgets="everything")

    live(story, patient, eager)

    assert difference(patient.placements, eager.placements) == ""


@given(card_stories(evicting=True))
def test_no_quota_is_exceeded_by_what_a_session_does(story: Story) -> None:
    """Counted by the labels of nodes, not by the plugin: at most the quota, or what was held before the session."""
    reader, world = Reader(story.configuration), World(story)
    for chapter in [*story.chapters, []]:
        reader.mirror.apply(world.take())
        before = physically_held(reader.cluster)
        reader.cycle([])
        after = physically_held(reader.cluster)
        for (queue, card), amount in after.items():
            most = max(quota_of(reader.cluster, queue, card), before[queue, card])
            assert amount <= most, f"{queue} holds {amount} of {card}, {most} at most"
        world.do(reader.steps[-1], reader.clock.now())
        for happens in chapter:
            happens(world)


@given(card_stories(evicting=True))
def test_charges_are_what_bound_pods_physically_use(story: Story) -> None:
    reader, world = Reader(story.configuration), World(story)
    for chapter in [*story.chapters, []]:
        reader.cycle(world.take())
        ledger = ledger_of(reader)
        held: Held = Counter()
        for task in reader.cluster.tasks.values():
            seat = ledger.charged(task)
            if seat is not None and seat.is_offered and task.job is not None:
                held[task.job.queue, seat.card] += seat.amount
        assert held == physically_held(reader.cluster)
        assert same_accounts(ledger, recounted(reader, story))
        world.do(reader.steps[-1], reader.clock.now())
        for happens in chapter:
            happens(world)


@given(card_stories(evicting=True))
def test_what_is_given_back_leaves_every_account_at_zero(story: Story) -> None:
    reader = Reader(story.configuration)
    world = live(story, reader)
    for pod in world.of("Pod"):
        world.remove(pod)

    reader.cycle(world.take())

    assert all(account.is_zero for account in accounts_of(ledger_of(reader)))


def test_the_stories_are_worth_telling() -> None:
    """Guards the generators: cards are held, quotas are full, lists are placed on either card."""
    seen: Counter[str] = Counter()

    @given(card_stories())
    def look(story: Story) -> None:
        reader = Reader(story.configuration)
        live(story, reader)
        seen["stories"] += 1
        held = physically_held(reader.cluster)
        seen["held"] += bool(held)
        seen["full"] += any(n and n == quota_of(reader.cluster, *labels) for labels, n in held.items())
        for task in reader.cluster.tasks.values():
            if task.refusal is not None and task.refusal.plugin == NAME:
                seen[task.refusal.reason] += 1

    look()

    assert seen["held"] > seen["stories"] // 4, seen
    assert seen["full"] > seen["stories"] // 10, seen
    assert seen["InsufficientScalarQuota"] > 10, seen
    assert seen["GetTaskRequestResourceFailed"] > 5, seen
    assert seen["InsufficientCPUQuota"] > 5, seen


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
    return [name.strip() for name in task.annotations.get("volcano.sh/card.name", "").split("|") if name.strip()]


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
        amount = json.loads(found.annotations.get(QUOTA) or "{}").get(card, 0) if found is not None else 0
    except ValueError:
        return 0
    return max(0, amount) * 1000


def ledger_of(reader: Reader) -> CardQuotaLedger:
    return reader.scheduler._accounts.get(f"{NAME}.ledger", lambda cluster: None)  # type: ignore[return-value]


def recounted(reader: Reader, story: Story) -> CardQuotaLedger:
    told = {key: f'"{key}": true' in story.configuration for key in ("cardUnlimitedCpuMemory", "checkAncestors")}
    return CardQuotaLedger(
        reader.cluster,
        spares_cpu=told["cardUnlimitedCpuMemory"],
        is_strict=False,
        is_hierarchical=told["checkAncestors"],
    )


def accounts_of(ledger: CardQuotaLedger) -> Iterator[QueueAccount]:
    """Every account there is: of jobs, of queues, of subtrees."""
    accounts = ledger.accounts
    yield from (holding.account for holding in accounts._holdings.values())
    yield from (*accounts._own.values(), *accounts._below.values())


def same_accounts(ledger: CardQuotaLedger, counted: CardQuotaLedger) -> bool:
    one, other = ledger.accounts, counted.accounts
    names = [*one._own, *one._below, *other._own, *other._below]
    return all(
        (mine.cpu, mine.memory, mine.cards, mine.placed) == (theirs.cpu, theirs.memory, theirs.cards, theirs.placed)
        for name in names
        for mine, theirs in ((one.own(name), other.own(name)), (one.account(name), other.account(name)))
    )
