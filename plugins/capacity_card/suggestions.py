"""Changes that would let a job start: more quota of its cards, or another card."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial

from plugins.capacity_card.demands import CardDemands
from plugins.capacity_card.quotas.limits import QueueLimit
from plugins.capacity_card.quotas.quota import CARD_DESERVED, amounts_of
from plugins.capacity_card.requests.requests import (
    CARD_NAME,
    CARD_REQUEST,
    Names,
    card_names_of,
    job_request_of,
)
from plugins.capacity_card.usage import CardUsage
from volsched.model.values.quantity import UNLIMITED
from volsched.plugin import CPU, MEMORY, Cluster, JobInfo, TaskInfo
from volsched.plugin.cards import CARD_QUOTA, joined, whole
from volsched.plugin.objects import api
from volsched.plugin.quota import CARD, QUOTA, Suggestion, Target, asked_of, raises, with_annotation


class CardSuggestions:
    """Reads the accounts that the plugin decides by."""

    def __init__(self, cluster: Cluster, usage: CardUsage, demands: CardDemands) -> None:
        self._cluster = cluster
        self._usage = usage
        self._demands = demands

    def of(self, job: JobInfo) -> Iterator[Suggestion]:
        """Yield what would let a job have more of what it names, then cards that it could name beside."""
        cards = self._named(job)
        for limit in self._usage.limits.chain(job.queue):
            yield from self._of_queue(limit, job, cards)
        yield from self._other_cards(job, cards)

    def _named(self, job: JobInfo) -> Names:
        """Return the cards that a job's pods, or its PodGroup, name."""
        by_pods = (names for task in job.waiting.values() for names in self._usage.charges.of(task.template).names)
        by_group = (name for names in self._demands.request(job).lists for name in names)
        return tuple(dict.fromkeys((*by_pods, *by_group)))

    def _of_queue(self, limit: QueueLimit, job: JobInfo, cards: Names) -> Iterator[Suggestion]:
        queue = self._cluster.queues.get(limit.queue)
        if queue is None:
            return
        asked = asked_of(job)
        limited = (name for name in (CPU, MEMORY) if name in asked and limit.of(name) != UNLIMITED)
        yield from raises(queue, "capability", limited)
        for card in cards:
            if limit.of((card,)) != UNLIMITED:
                yield _raise(limit.queue, CARD_QUOTA, card)
        for card in self._usage.limits.card_quota(limit.queue).deserved or ():
            if card in cards:
                yield _raise(limit.queue, CARD_DESERVED, card)

    def _other_cards(self, job: JobInfo, named: Names) -> Iterator[Suggestion]:
        """Yield cards of the cluster that a job does not name, of resources that its pods ask for."""
        tasks = [task for task in job.waiting.values() if self._usage.charges.of(task.template).names]
        resources = self._usage.catalogue.resources
        for card in sorted(self._usage.catalogue.totals):
            able = [task for task in tasks if task.template.request.get(resources[card], 0)]
            if card not in named and able:
                yield _with_card(card, able, job)


def _raise(queue: str, annotation: str, card: str) -> Suggestion:
    def changed(found: api.Queue, size: int) -> api.Queue:
        amounts = amounts_of(found.metadata.annotations, annotation)[0]
        cards = {name: whole(amount) for name, amount in amounts.items()}
        return with_annotation(found, annotation, json.dumps({**cards, card: cards.get(card, 0) + size}))

    def text(size: int, _: Sequence[str]) -> str:
        return f"{card} of queue {queue} by {size} (annotation {annotation})"

    return Suggestion(QUOTA, ((api.Queue, queue),), changed, text)


def _with_card(card: str, tasks: Sequence[TaskInfo], job: JobInfo) -> Suggestion:
    sentence = f"Let its pods take {card}, too: add it to their list of cards (annotation {CARD_NAME})."
    pods: list[Target] = [(api.Pod, task.key) for task in tasks]
    changed = partial(_naming, card)
    return Suggestion(CARD, (*pods, (api.PodGroup, job.key)), changed, lambda *_: sentence, most=1, is_alternative=True)


def _naming(card: str, found: api.ApiObject, _: int) -> api.ApiObject:
    """Return a pod that names a card beside its own, or a PodGroup that requests it beside these."""
    annotations = found.metadata.annotations
    if isinstance(found, api.Pod):
        return with_annotation(found, CARD_NAME, joined((*card_names_of(annotations), card)))
    lists = {joined((*names, card)): whole(amount) for names, amount in job_request_of(annotations).lists.items()}
    return with_annotation(found, CARD_REQUEST, json.dumps(lists)) if lists else found
