"""Explains waiting CPU pods: the consumers of quotas of GPU nodes, and nodes whose quota could be raised."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from plugins.crossquota.budget import NodeAccount, NodeBudgets
from plugins.crossquota.pods import Amounts
from plugins.crossquota.quota import ANNOTATION, has_annotations
from volsched.plugin import ON_NODE, Cluster, JobInfo, NodeInfo, TaskInfo, Verdict, format_amount
from volsched.plugin.objects import api
from volsched.plugin.quota import NODE_QUOTA, Consumer, Suggestion, step_of, with_annotation

_SHOWN = 3


class _Full(NamedTuple):
    """A GPU node that refuses a pod, and by how much each resource would exceed its quota; 0: not at all."""

    node: NodeInfo
    account: NodeAccount
    beyond: Amounts


class QuotaExplainer:
    """Reads the plugin's accounts for the first CPU pod of a job without a node."""

    def __init__(self, cluster: Cluster, budgets: NodeBudgets) -> None:
        self._cluster = cluster
        self._budgets = budgets

    def holders(self, job: JobInfo, _: Verdict) -> Iterator[Consumer]:
        """Yield the amounts of CPU pods, by job, on refusing GPU nodes, of the resources that are short there."""
        full = list(self._full(job))
        short = {place for found in full for place, amount in enumerate(found.beyond) if amount > 0}
        held: dict[tuple[str, str], list[Amounts]] = {}
        for task in (task for found in full for task in found.node.tasks.values()):
            request = self._budgets.pods.request(task.template)
            if request is not None and self._counts(task):
                key = (task.job.key, task.job.queue) if task.job is not None else (task.key, "")
                held.setdefault(key, []).append(request)
        for (name, queue), requests in held.items():
            for place in sorted(short):
                resource, amount = self._budgets.resources[place], sum(request[place] for request in requests)
                if amount:
                    yield Consumer(name, queue, resource, amount, format_amount(resource, amount), len(requests))

    def _counts(self, task: TaskInfo) -> bool:
        return ON_NODE[task.status] and self._budgets.pods.selects(task)

    def suggestions(self, job: JobInfo) -> Iterator[Suggestion]:
        """Yield for each short resource a larger quota of GPU nodes, those with the smallest shortage first."""
        full = list(self._full(job))
        for place, resource in enumerate(self._budgets.resources):
            short = sorted((f for f in full if f.beyond[place] > 0), key=lambda f: (f.beyond[place], f.node.name))
            if short and has_annotations(resource):
                yield _raise(resource, {found.node.name: found.account.amounts[place] for found in short})

    def _full(self, job: JobInfo) -> Iterator[_Full]:
        """Yield the GPU nodes that refuse the first CPU pod of a job that waits."""
        pods = self._budgets.pods
        task = min((t for t in job.waiting.values() if pods.selects(t)), key=lambda t: t.key, default=None)
        request = pods.request(task.template) if task is not None else None
        for node in self._cluster.rows if request is not None else ():
            account = self._budgets.of(node)
            if account is not None and any(beyond := _beyond(request or (), account)):
                yield _Full(node, account, beyond)


def _beyond(request: Amounts, account: NodeAccount) -> Amounts:
    """Return by how much each resource would exceed its quota; 0 if it would not."""
    amounts = zip(request, account.used, account.amounts, strict=True)
    return tuple(max(0, asked + used - quota) for asked, used, quota in amounts)


def _raise(resource: str, quotas: dict[str, int]) -> Suggestion:
    key, step = f"{ANNOTATION}{resource}", step_of(resource)

    def changed(found: api.Node, size: int) -> api.Node:
        return with_annotation(found, key, format_amount(resource, quotas[found.metadata.name] + size * step))

    def text(size: int, nodes: Sequence[str]) -> str:
        more = format_amount(resource, size * step)
        return f"the quota of {resource} for CPU pods on {_named(nodes)} by {more} (annotation {key})"

    targets = tuple((api.Node, name) for name in quotas)
    return Suggestion(NODE_QUOTA, targets, changed, text, is_each=True)


def _named(nodes: Iterable[str]) -> str:
    names = list(nodes)
    shown = ", ".join(names[:_SHOWN])
    return f"node {shown}" if len(names) == 1 else f"{len(names)} nodes ({shown}{', ...' * (len(names) > _SHOWN)})"
