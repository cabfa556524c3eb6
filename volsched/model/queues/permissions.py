"""The jobs that may not use their queue, with the reasons.

The rule of a queue counts, and that of every queue above it. Jobs of queues without rules are not even remembered, so a
cluster without rules pays nothing; of the others only those that a change concerns are checked again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from volsched.model.job import JobInfo
from volsched.model.queues.allowed_namespaces import ALLOWED_NAMESPACES, AllowedNamespaces
from volsched.model.queues.queue import ROOT, QueueInfo, QueueProperties, stated_levels

Labels = Mapping[str, str]


def refusal_of(namespace: str, labels: Labels | None, queue: str, rules: Mapping[str, AllowedNamespaces]) -> str:
    """Return why a namespace may not use a queue, empty if it may. ``rules`` are those of the queue and those above it.

    ``labels`` are those of the namespace, None if it is not known.
    """
    for name, rule in rules.items():
        if not rule.lets_in(namespace, labels):
            whose = "its annotation" if name == queue else f'of queue "{name}" above it the annotation'
            why, way_out = _why(rule)
            message = f'namespace "{namespace}" may not use queue "{queue}": {whose} {ALLOWED_NAMESPACES} {why}'
            return f"{message}; name another queue, or have whoever runs the cluster {way_out}"
    return ""


def _why(rule: AllowedNamespaces) -> tuple[str, str]:
    """Return why a queue does not admit a namespace, and what an administrator would have to change."""
    if rule.problem:
        return f"cannot be read, so nobody is let in ({rule.problem})", "correct it"
    return f"lets in {rule.who} only", "let the namespace in"


class Permissions:
    """Follows a cluster's queues and namespaces, which it reads.

    ``watched``: how many jobs are remembered, as their answer may change; ``judged``: how often one was looked at.
    """

    def __init__(self, queues: Mapping[str, QueueInfo], namespaces: Mapping[str, Labels]) -> None:
        self._queues = queues
        self._namespaces = namespaces
        self._rules: dict[str, AllowedNamespaces] = {}
        self._children: dict[str, dict[str, None]] = {}
        self._watched: dict[str, dict[str, JobInfo]] = {}
        self.watched = 0
        self.judged = 0

    # -- queues -------------------------------------------------------------------------------------------------------

    def put_queue(self, queue: QueueProperties, known: QueueProperties | None) -> bool:
        """Take in a queue. Return True if jobs of it, or of queues below it, must be checked again."""
        name, before = queue.name, self._rules.get(queue.name)
        moved = known is None or known.parent != queue.parent
        if known is not None and moved:
            self._children.get(known.parent, {}).pop(name, None)
        self._children.setdefault(queue.parent, {})[name] = None
        if queue.allowed is not None:
            self._rules[name] = queue.allowed
        else:
            self._rules.pop(name, None)
        return before != queue.allowed or (moved and bool(self._rules))

    def drop_queue(self, queue: QueueProperties) -> bool:
        """Forget a queue. Return True if others may have another answer now."""
        siblings = self._children.get(queue.parent, {})
        siblings.pop(queue.name, None)
        if not siblings:
            self._children.pop(queue.parent, None)
        had_rules = bool(self._rules)
        self._rules.pop(queue.name, None)
        return had_rules

    def below(self, name: str) -> set[str]:
        """Return a queue and all below it."""
        if name == ROOT:
            return {ROOT, *self._queues}
        found: set[str] = set()
        left = [name]
        while left:
            queue = left.pop()
            if queue not in found:
                found.add(queue)
                left.extend(self._children.get(queue, ()))
        return found

    # -- jobs ---------------------------------------------------------------------------------------------------------

    def judge(self, job: JobInfo) -> str:
        """Return why a job may not use its queue, empty if it may. Remember the job if its queue has a rule."""
        if not self._rules and not self.watched:
            return ""
        self.judged += 1
        rules = dict(self._rules_for(job.queue))
        self.forget(job)
        if rules:
            self._watched.setdefault(job.namespace, {})[job.key] = job
            self.watched += 1
        return refusal_of(job.namespace, self._namespaces.get(job.namespace), job.queue, rules)

    def lets(self, namespace: str, queue: str) -> bool:
        """Return whether a namespace may use a queue."""
        rules = dict(self._rules_for(queue)) if self._rules else {}
        return not refusal_of(namespace, self._namespaces.get(namespace), queue, rules)

    def forget(self, job: JobInfo) -> None:
        """Forget a job."""
        watched = self._watched.get(job.namespace, {})
        if watched.pop(job.key, None) is not None:
            self.watched -= 1
            if not watched:
                del self._watched[job.namespace]

    def watched_in(self, namespace: str) -> list[JobInfo]:
        """Return the jobs of a namespace whose answer depends on it."""
        return list(self._watched.get(namespace, {}).values())

    def _rules_for(self, queue: str) -> Iterator[tuple[str, AllowedNamespaces]]:
        """Yield the rules of a queue and each above it; in a circle, each queue once."""
        for name in stated_levels(self._queues, queue):
            if name in self._rules:
                yield name, self._rules[name]
