"""The namespaces that may use a queue, reported before the scheduler does, in the same words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from volsched.controllers.grouping import DEFAULT_QUEUE, QUEUE_NAME, admitted_queue
from volsched.controllers.queues import parent_of
from volsched.framework.validation import INVALID, QUEUE_NOT_ALLOWED, Fault, Faults, Surroundings, pods_in
from volsched.mirror.reading import GROUP_NAME
from volsched.model import api
from volsched.model.queues.allowed_namespaces import FIELD, AllowedNamespaces, allowed_in
from volsched.model.queues.permissions import refusal_of

Rules = Mapping[str, AllowedNamespaces]


def annotation_faults(queue: api.Queue) -> Faults:
    """Yield that the annotation of a queue cannot be read."""
    rule = allowed_in(queue.metadata.annotations)
    if rule is not None and rule.problem:
        yield Fault(FIELD, INVALID, f"{rule.problem}; nobody new may use the queue")


def use_faults(field: str, namespace: str, queue: str, beside: Surroundings) -> Faults:
    """Yield why a namespace may not put work into a queue; nothing if that is not known."""
    known = beside.namespaces.get(namespace)
    rules = {name: rule for name, rule in _rules_for(queue, beside) if known is not None or not _asks_labels(rule)}
    words = refusal_of(namespace, known.metadata.labels if known is not None else None, queue, rules)
    if words:
        yield Fault(field, QUEUE_NOT_ALLOWED, words)


def queue_of_job(job: api.Job, beside: Surroundings) -> str:
    """Return the queue of a Volcano Job: that of its namespace, if its own is only the default."""
    namespace = beside.namespaces.get(job.metadata.namespace)
    named = namespace.metadata.annotations.get(QUEUE_NAME, "") if namespace is not None else ""
    return admitted_queue(job.spec.queue or DEFAULT_QUEUE, named)


def pod_faults(found: api.ApiObject, beside: Surroundings) -> Faults:
    """Yield why pods may not use the queue that they name; those of a Volcano Job are in the Job's."""
    for pod in pods_in(found) if not isinstance(found, api.Job) else ():
        annotations = pod.metadata.annotations
        queue = annotations.get(QUEUE_NAME, "")
        if queue and (pod.spec.scheduling_group is not None or GROUP_NAME not in annotations):
            field = f"metadata.annotations[{QUEUE_NAME}]"
            yield from pod.under(use_faults(field, found.metadata.namespace, queue, beside))


def _rules_for(queue: str, beside: Surroundings) -> Iterator[tuple[str, AllowedNamespaces]]:
    """Yield the admitted namespaces of a queue and each above it, if they state any."""
    rules, queues = beside.derived(_rules), beside.queues
    seen: set[str] = set()
    name = queue
    while name in queues and name not in seen:
        seen.add(name)
        if name in rules:
            yield name, rules[name]
        name = parent_of(queues[name])


def _rules(beside: Surroundings) -> Rules:
    """Return the admitted namespaces of each queue that states any."""
    found = ((queue.metadata.name, allowed_in(queue.metadata.annotations)) for queue in beside.of(api.Queue))
    return {name: rule for name, rule in found if rule is not None}


def _asks_labels(rule: AllowedNamespaces) -> bool:
    return not rule.names and not rule.problem
