"""The accounts of queues as tables for people and as plain values for programs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from volsched.cli.inputs.in_force import CAPACITY_CARD
from volsched.cli.inputs.look import Look
from volsched.cli.views.quotas import by_name, sections
from volsched.diagnose.workload_names import WorkloadName, distinguished, workload_of
from volsched.framework.quota_report import CardUse, Dimension, JobUse, QueueUse, Usage
from volsched.framework.validation import Surroundings, Validator
from volsched.mirror.reading import GROUP_NAME
from volsched.model import api
from volsched.model.cards.amounts import joined, whole
from volsched.model.queues.allowed_namespaces import ALLOWED_NAMESPACES, AllowedNamespaces
from volsched.model.queues.queue import levels
from volsched.model.values.quantity import format_amount
from volsched.model.values.resources import CPU, MEMORY
from volsched.registry import VALIDATORS
from volsched.simulation.manifests import subject_of
from volsched.text_page import Paragraph, Part, Row, section

Json = dict[str, Any]

API_VERSION: Final = "volsched.io/v1alpha1"
KIND: Final = "QueueUsage"

_MOST_NODES: Final = 4
_NONE: Final = "-"

_FIGURES: Final = ("quota", "deserved", "guarantee", "used", "reserved", "reclaimable", "headroom")
"""Columns of a queue's amounts, in their order."""
_OPTIONAL: Final = ("deserved", "guarantee", "reclaimable")
"""Those that are there only where a queue has such an amount."""


@dataclass(frozen=True, slots=True)
class About:
    """Where the configuration is from, empty for none, and the arguments of capacity-card, empty without it."""

    origin: str
    arguments: Mapping[str, Any]


# --- for programs ---------------------------------------------------------------------------------------------------


def listed(seen: Look, about: About) -> Json:
    """Return all queues, cards and other quotas; cards are whole cards, resources quantities, null is no limit."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "configuration": about.origin or None,
        "arguments": dict(about.arguments),
        "cards": {name: _card(use) for name, use in seen.cards.items()},
        "queues": {name: _queue(use) for name, use in seen.usage.queues.items()},
        **by_name(seen.tables),
    }


def described(seen: Look, about: About, problems: Mapping[str, Sequence[str]]) -> Json:
    """Return some queues with their jobs and problems, and all cards and other quotas.

    ``allowedNamespaces`` is null where every namespace may use the queue, else what it and queues above it state.
    """
    found, usage = listed(seen, about), seen.usage
    found["queues"] = {
        name: {
            **_queue(usage.queues[name]),
            "allowedNamespaces": [_rule(level, rule) for level, rule in _rules(usage, name)] or None,
            "jobs": {job.name: _job_row(seen, job) for job in usage.queues[name].jobs},
            "problems": list(problems[name]),
        }
        for name in problems
    }
    return found


def _rules(usage: Usage, name: str) -> Iterator[tuple[str, AllowedNamespaces]]:
    """Yield the admitted namespaces of a queue and those above it, if they state any."""
    queues = {name: use.queue for name, use in usage.queues.items()}
    for level in levels(queues, name):
        rule = queues[level].spec.allowed if level in queues else None
        if rule is not None:
            yield level, rule


def _rule(queue: str, rule: AllowedNamespaces) -> Json:
    """Return the admitted namespaces of a queue: the names, or the selector; none if the annotation has a problem."""
    selector = None if rule.selector.matches_nothing else str(rule.selector)
    return {"queue": queue, "names": sorted(rule.names), "selector": selector, "problem": rule.problem or None}


def _card(use: CardUse) -> Json:
    quota = None if use.quota is None else whole(use.quota)
    return {"total": whole(use.total), "idle": whole(use.idle), "quota": quota, "used": whole(use.used)}


def _queue(use: QueueUse) -> Json:
    others = {name: _dimension(name, dimension) for name, dimension in use.others.items()}
    return {
        "state": use.queue.spec.reported_state or "Open",
        "parent": use.queue.spec.parent,
        CPU: _dimension(CPU, use.cpu),
        MEMORY: _dimension(MEMORY, use.memory),
        "cards": {card: _dimension("", dimension) for card, dimension in use.cards.items()},
        "reservedLists": {joined(names): whole(amount) for names, amount in sorted(use.lists.items())},
        **({"resources": others} if others else {}),
    }


def _dimension(resource: str, dimension: Dimension) -> Json:
    """Return the amounts of a resource, of cards without its name; amounts that only some have if it has them."""
    amounts = {name: getattr(dimension, name) for name in _FIGURES}
    return {
        name: _value(resource, amount)
        for name, amount in amounts.items()
        if amount is not None or name not in _OPTIONAL
    }


def _value(resource: str, amount: int | None) -> str | int | None:
    if amount is None:
        return None
    return format_amount(resource, amount) if resource else whole(amount)


def _job_row(seen: Look, job: JobUse) -> Json:
    by_card = seen.usage.by_card
    return {
        "workload": _workload(seen, job).name,
        "phase": job.phase,
        "used": _amounts(job.held, by_card=by_card),
        "reserved": _amounts(job.reserved, by_card=by_card),
        "waitsFor": _amounts(job.pending, by_card=by_card),
        "waitingPods": job.waiting,
        "pods": [
            {"pod": use.pod, "node": use.node, "card": use.card or None, "cards": whole(use.amount)} for use in job.pods
        ],
    }


def _amounts(amounts: Mapping[str, int], *, by_card: bool) -> Json:
    """Return amounts as they are shown: cards first, as whole cards, then resources as quantities."""
    resources = {name for name in amounts if not by_card or name in (CPU, MEMORY)}
    order = sorted(amounts, key=lambda name: (name in resources, name in (CPU, MEMORY), name))
    return {name: _value(name if name in resources else "", amounts[name]) for name in order}


# --- for people -----------------------------------------------------------------------------------------------------


def list_page(seen: Look, footer: str) -> list[Part]:
    """Return the page of ``queue list``; ``footer`` is a word on what was counted with, empty for none."""
    parts = [
        *section("Queues", _queue_rows(seen.usage)),
        *sections(seen.tables),
        *section("Cards", _card_rows(seen)),
    ]
    return [*parts[1:], *(("", Paragraph(footer, wraps=False)) if footer else ())]


def page(seen: Look, name: str, problems: Sequence[str]) -> list[Part]:
    """Return the page of one queue."""
    use = seen.usage.queues[name]
    head = [
        f"Name:    {name}",
        f"State:   {use.queue.spec.reported_state or 'Open'}",
        f"Parent:  {use.queue.spec.parent or _NONE}",
    ]
    parts: list[Part] = [
        *head,
        *_whom_it_lets_in(seen.usage, name),
        *section("Quota", _quota_rows(seen, use)),
        *sections(seen.tables, queue=name),
        *section("Jobs", _job_rows(seen, use)),
        *section("Problems", (("WHAT IS WRONG",), *((problem,) for problem in problems))),
    ]
    if not use.jobs:
        parts += ["", "No job holds or waits for anything."]
    return parts


def _whom_it_lets_in(usage: Usage, name: str) -> Iterator[Part]:
    """Yield who may use a queue."""
    rules = [_rule_text(level, rule, name) for level, rule in _rules(usage, name)]
    first, *more = rules or [f"every namespace (no annotation {ALLOWED_NAMESPACES})"]
    head = "Used by: "
    yield Paragraph(f"{head}{first}", hang=len(head))
    yield from (Paragraph(text, indent=len(head)) for text in more)


def _rule_text(level: str, rule: AllowedNamespaces, name: str) -> str:
    who = rule.who if not rule.problem else f"nobody, as {ALLOWED_NAMESPACES} cannot be read: {rule.problem}"
    return who if level == name else f'and, by queue "{level}" above it: {who}'


def _queue_rows(usage: Usage) -> Iterator[Row]:
    figures = _figures(usage.queues.values())
    yield "QUEUE", "STATE", "RESOURCE", *map(str.upper, figures)
    for name, use in usage.queues.items():
        state = use.queue.spec.reported_state or "Open"
        rows = list(_lines(use, figures)) or [(_NONE,) * (1 + len(figures))]
        yield from ((name, state, *row) for row in rows)


def _quota_rows(seen: Look, use: QueueUse) -> Iterator[Row]:
    figures = _figures((use,))
    yield "RESOURCE", *map(str.upper, figures), "CLUSTER", "IDLE"
    for row in _lines(use, figures):
        card = seen.cards.get(row[0])
        yield (*row, *((str(whole(card.total)), str(whole(card.idle))) if card is not None else (_NONE, _NONE)))


def _figures(uses: Iterable[QueueUse]) -> tuple[str, ...]:
    """Return the columns that these queues need."""
    dimensions = [dimension for use in uses for _, dimension in use.dimensions]
    return tuple(
        name
        for name in _FIGURES
        if name not in _OPTIONAL or any(getattr(dimension, name) is not None for dimension in dimensions)
    )


def _lines(use: QueueUse, figures: Sequence[str]) -> Iterator[Row]:
    """Yield the limits of a queue, cards first, then lists with reserved cards, then resources."""
    for card, dimension in use.cards.items():
        yield _line(card, "", dimension, figures)
    for names, amount in use.lists.items():
        yield joined(names), *(str(whole(amount)) if name == "reserved" else _NONE for name in figures)
    for resource, dimension in (*use.others.items(), (CPU, use.cpu), (MEMORY, use.memory)):
        if not dimension.is_empty:
            yield _line(resource, resource, dimension, figures)


def _line(name: str, resource: str, dimension: Dimension, figures: Sequence[str]) -> Row:
    amounts = _dimension(resource, dimension)
    return name, *(_NONE if amounts.get(figure) is None else str(amounts[figure]) for figure in figures)


def _card_rows(seen: Look) -> Iterator[Row]:
    by_card = seen.usage.by_card
    yield "CARD", "CLUSTER", "IDLE", "USED BY QUEUES", *(("SUM OF QUOTAS", "") if by_card else ())
    for name, use in seen.cards.items():
        numbers = (str(whole(amount)) for amount in (use.total, use.idle, use.used))
        yield name, *numbers, *((str(whole(use.quota or 0)), _remark(use)) if by_card else ())


def _remark(use: CardUse) -> str:
    if not use.total:
        return "no node offers it"
    quota = use.quota or 0
    return f"over-committed by {whole(quota - use.total)}" if quota > use.total else ""


def _job_rows(seen: Look, use: QueueUse) -> Iterator[Row]:
    yield "NAMESPACE", "WORKLOAD", "PHASE", "HOLDS", "RESERVED", "WAITS FOR", "PODS"
    workloads = distinguished(use.jobs, _namespace, lambda job: _workload(seen, job))
    for job, workload in zip(use.jobs, workloads, strict=True):
        found = (job.held, job.reserved, job.pending)
        amounts = (_text(each, by_card=seen.usage.by_card) for each in found)
        yield _namespace(job), workload, job.phase or "Pending", *amounts, _pods(job)


def _namespace(job: JobUse) -> str:
    return job.name.partition("/")[0]


def _workload(seen: Look, job: JobUse) -> WorkloadName:
    return workload_of(seen.jobs[job.name])


def _text(amounts: Mapping[str, int], *, by_card: bool) -> str:
    shown = _amounts(amounts, by_card=by_card).items()
    return (
        ", ".join(f"{value} {name}" if isinstance(value, int) else f"{name} {value}" for name, value in shown) or _NONE
    )


def _pods(job: JobUse) -> str:
    """Return how many pods are where, and how many wait."""
    nodes = list(dict.fromkeys(use.node for use in job.pods))
    more = [f"{len(nodes) - _MOST_NODES} more"] if len(nodes) > _MOST_NODES else []
    placed = [f"{len(job.pods)} on {', '.join([*nodes[:_MOST_NODES], *more])}"] if job.pods else []
    waiting = [f"{job.waiting} waiting"] if job.waiting else []
    return "; ".join([*placed, *waiting]) or _NONE


# --- what is wrong --------------------------------------------------------------------------------------------------


def problems_of(use: QueueUse, objects: Sequence[api.ApiObject], beside: Surroundings) -> list[str]:
    """Return the faults of card annotations of a queue, its PodGroups and their pods, a line for each."""
    faults_of: Validator = VALIDATORS.load(CAPACITY_CARD)
    jobs = {job.name for job in use.jobs}
    mine = [found for found in objects if _is_of(found, use.queue.name, jobs)]
    return [
        f"{subject_of(found)}: {fault.field}: {fault.message}" for found in mine for fault in faults_of(found, beside)
    ]


def _is_of(found: api.ApiObject, queue: str, jobs: set[str]) -> bool:
    if isinstance(found, api.Queue):
        return found.metadata.name == queue
    if isinstance(found, api.Pod):
        group = found.metadata.annotations.get(GROUP_NAME, found.metadata.name)
        return f"{found.metadata.namespace}/{group}" in jobs
    return isinstance(found, api.PodGroup) and found.key in jobs
