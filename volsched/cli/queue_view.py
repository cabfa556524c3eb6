"""The accounts of queues as tables for people and as plain values for programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from plugins.capacity_card.amounts import joined, whole
from plugins.capacity_card.series import by_list
from plugins.capacity_card.usage import CardUse, Dimension, JobUse, QueueUse, Usage
from plugins.capacity_card.validation import validate
from volsched.cache.reading import GROUP_NAME
from volsched.framework.validation import Surroundings
from volsched.model import api
from volsched.model.quantity import format_amount
from volsched.model.resources import CPU, MEMORY
from volsched.simulation.manifests import subject_of
from volsched.simulation.table import section

Json = dict[str, Any]
Row = Sequence[str]

API_VERSION: Final = "volsched.io/v1alpha1"
KIND: Final = "QueueUsage"

_MOST_NODES: Final = 4
_NONE: Final = "-"


# --- for programs ---------------------------------------------------------------------------------------------------


def listed(usage: Usage, arguments: Mapping[str, Any]) -> Json:
    """Return all queues and cards; cards are whole cards, cpu and memory quantities."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "arguments": dict(arguments),
        "cards": {name: _card(use) for name, use in usage.cards.items()},
        "queues": {name: _queue(use) for name, use in usage.queues.items()},
    }


def described(usage: Usage, arguments: Mapping[str, Any], problems: Mapping[str, Sequence[str]]) -> Json:
    """Return some queues with their jobs and problems, and all cards."""
    found = listed(usage, arguments)
    found["queues"] = {
        name: {
            **_queue(usage.queues[name]),
            "jobs": {job.name: _job(job) for job in usage.queues[name].jobs},
            "problems": list(problems[name]),
        }
        for name in problems
    }
    return found


def _card(use: CardUse) -> Json:
    return {"total": whole(use.total), "idle": whole(use.idle), "quota": whole(use.quota), "used": whole(use.used)}


def _queue(use: QueueUse) -> Json:
    return {
        "state": use.queue.state or "Open",
        "parent": use.queue.parent,
        CPU: _dimension(CPU, use.cpu),
        MEMORY: _dimension(MEMORY, use.memory),
        "cards": {card: _dimension("", dimension) for card, dimension in use.cards.items()},
        "reservedLists": _whole(by_list(use.lists)),
    }


def _dimension(resource: str, dimension: Dimension) -> Json:
    return {
        "quota": _value(resource, dimension.quota),
        "used": _value(resource, dimension.used),
        "reserved": _value(resource, dimension.reserved),
        "headroom": _value(resource, dimension.headroom),
    }


def _value(resource: str, amount: int) -> str | int:
    return format_amount(resource, amount) if resource in (CPU, MEMORY) else whole(amount)


def _job(job: JobUse) -> Json:
    return {
        "phase": job.phase,
        "used": {**_pairs(job.held.cpu, job.held.memory), **_whole(job.held.cards)},
        "reserved": {
            **_pairs(job.reserved.cpu, job.reserved.memory),
            **_whole(by_list(job.reserved.cards)),
        },
        "waitsFor": _whole(by_list(job.pending)),
        "waitingPods": job.waiting,
        "pods": [
            {"pod": use.pod, "node": use.node, "card": use.card or None, "cards": whole(use.amount)} for use in job.pods
        ],
    }


def _pairs(cpu: int, memory: int) -> Json:
    return {name: format_amount(name, amount) for name, amount in ((CPU, cpu), (MEMORY, memory)) if amount}


def _whole(cards: Mapping[str, int]) -> Json:
    return {name: whole(amount) for name, amount in sorted(cards.items()) if amount}


# --- for people -----------------------------------------------------------------------------------------------------


def list_page(usage: Usage, origin: str, width: int) -> str:
    """Return the page of ``queue list``; ``origin`` is where the configuration is from, empty for none."""
    parts = [
        *section("Queues", _queue_rows(usage), width),
        *section("Cards", _card_rows(usage), width),
    ]
    if not origin:
        parts += [
            "",
            "Counted with the defaults of capacity-card; --config or --scheduler-configmap names others.",
        ]
    return "\n".join(parts[1:]) + "\n"


def page(usage: Usage, name: str, problems: Sequence[str], width: int) -> str:
    """Return the page of one queue."""
    use = usage.queues[name]
    head = [f"Name:    {name}", f"State:   {use.queue.state or 'Open'}", f"Parent:  {use.queue.parent or _NONE}"]
    parts = [
        *head,
        *section("Quota", _quota_rows(usage, use), width),
        *section("Jobs", _job_rows(use), width),
        *section("Problems", (("WHAT IS WRONG",), *((said,) for said in problems)), width),
    ]
    if not use.jobs:
        parts += ["", "No job holds or waits for anything."]
    return "\n".join(parts) + "\n"


def _queue_rows(usage: Usage) -> Iterator[Row]:
    yield "QUEUE", "STATE", "RESOURCE", "QUOTA", "USED", "RESERVED", "HEADROOM"
    for name, use in usage.queues.items():
        state = use.queue.state or "Open"
        rows = list(_lines(use)) or [(_NONE,) * 5]
        yield from ((name, state, *row) for row in rows)


def _quota_rows(usage: Usage, use: QueueUse) -> Iterator[Row]:
    yield "RESOURCE", "QUOTA", "USED", "RESERVED", "HEADROOM", "CLUSTER", "IDLE"
    for row in _lines(use):
        card = usage.cards.get(row[0])
        yield (*row, *((str(whole(card.total)), str(whole(card.idle))) if card is not None else (_NONE, _NONE)))


def _lines(use: QueueUse) -> Iterator[tuple[str, str, str, str, str]]:
    """Yield what a queue may hold, cards first, then lists that have something reserved, then cpu and memory."""
    for card, dimension in use.cards.items():
        yield _line(card, "", dimension)
    for names, amount in use.lists.items():
        yield joined(names), _NONE, _NONE, str(whole(amount)), _NONE
    for resource, dimension in ((CPU, use.cpu), (MEMORY, use.memory)):
        if not dimension.is_empty:
            yield _line(resource, resource, dimension)


def _line(name: str, resource: str, dimension: Dimension) -> tuple[str, str, str, str, str]:
    quota, used, reserved, headroom = (str(value) for value in _dimension(resource, dimension).values())
    return name, quota, used, reserved, headroom


def _card_rows(usage: Usage) -> Iterator[Row]:
    yield "CARD", "CLUSTER", "IDLE", "USED BY QUEUES", "SUM OF QUOTAS", ""
    for name, use in usage.cards.items():
        numbers = (str(whole(amount)) for amount in (use.total, use.idle, use.used, use.quota))
        yield name, *numbers, _remark(use)


def _remark(use: CardUse) -> str:
    if not use.total:
        return "no node offers it"
    return f"over-committed by {whole(use.quota - use.total)}" if use.quota > use.total else ""


def _job_rows(use: QueueUse) -> Iterator[Row]:
    yield "JOB", "PHASE", "HOLDS", "RESERVED", "WAITS FOR", "PODS"
    for job in use.jobs:
        yield (
            job.name,
            job.phase or "Pending",
            _said(job.held.cpu, job.held.memory, job.held.cards),
            _said(job.reserved.cpu, job.reserved.memory, by_list(job.reserved.cards)),
            _said(0, 0, by_list(job.pending)),
            _pods(job),
        )


def _said(cpu: int, memory: int, cards: Mapping[str, int]) -> str:
    held = [f"{count} {card}" for card, count in _whole(cards).items()]
    return ", ".join([*held, *(f"{name} {amount}" for name, amount in _pairs(cpu, memory).items())]) or _NONE


def _pods(job: JobUse) -> str:
    """Say how many pods are where, and how many wait."""
    nodes = list(dict.fromkeys(use.node for use in job.pods))
    more = [f"{len(nodes) - _MOST_NODES} more"] if len(nodes) > _MOST_NODES else []
    placed = [f"{len(job.pods)} on {', '.join([*nodes[:_MOST_NODES], *more])}"] if job.pods else []
    waiting = [f"{job.waiting} waiting"] if job.waiting else []
    return "; ".join([*placed, *waiting]) or _NONE


# --- what is wrong --------------------------------------------------------------------------------------------------


def problems_of(use: QueueUse, objects: Sequence[api.ApiObject], beside: Surroundings) -> list[str]:
    """Return what is wrong in annotations of cards of a queue, its PodGroups and their pods, a line for each."""
    jobs = {job.name for job in use.jobs}
    mine = [found for found in objects if _is_of(found, use.queue.name, jobs)]
    return [
        f"{subject_of(found)}: {fault.field}: {fault.message}" for found in mine for fault in validate(found, beside)
    ]


def _is_of(found: api.ApiObject, queue: str, jobs: set[str]) -> bool:
    if isinstance(found, api.Queue):
        return found.metadata.name == queue
    if isinstance(found, api.Pod):
        group = found.metadata.annotations.get(GROUP_NAME, found.metadata.name)
        return f"{found.metadata.namespace}/{group}" in jobs
    return isinstance(found, api.PodGroup) and found.key in jobs
