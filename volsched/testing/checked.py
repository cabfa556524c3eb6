"""The checked engine: for tests of the declarations of callbacks.

A callback reads what its annotations declare, and the fast engine reuses answers relying on that. This engine asks
every callback about every node again, each time. It raises ``Misdeclared`` if an answer changed although none of the
declared inputs did, for example a callback that reads an account; if a vector twin and its scalar form differ; and if a
plugin states that it has no opinion and has one. It also compares the fast engine's scores with the sum of the fresh
answers.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

from volsched.framework.columns.arrays import Rows
from volsched.framework.columns.tables import Path
from volsched.framework.columns.views import NodePropertiesView, node_view
from volsched.framework.engine.entry import Entry
from volsched.framework.engine.fast import FastEngine
from volsched.framework.engine.questions import version_of
from volsched.framework.rules import NodeCallbacks, NodeOrder, Predicate
from volsched.model.cluster import Cluster
from volsched.model.errors import VolschedError
from volsched.model.nodes.node import NodeAmounts, NodeInfo
from volsched.model.pods.task import TaskInfo
from volsched.model.verdict import Verdict

Callback: TypeAlias = Predicate | NodeOrder
Answer: TypeAlias = bool | float

_SOME_ROWS: Final = (slice(None), slice(None, None, 2), slice(1, None, 3))
"""Rows about which vector twins are asked: all of them, and some."""


class Misdeclared(VolschedError):  # noqa: N818 - reads as the verdict that it is
    """A callback does not keep what it promised: ``what`` states which promise."""

    def __init__(self, plugin: str, callback: str, what: str) -> None:
        super().__init__(plugin, callback, what)
        self.plugin = plugin
        self.callback = callback
        self.what = what

    def __str__(self) -> str:
        return f"{self.plugin}: {self.callback} {self.what}"


class Stale(VolschedError):  # noqa: N818 - as Misdeclared
    """The engine itself kept an answer that no longer holds."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """A callback, and its fresh answers about a task on every node; none if it does not apply to the task."""

    callback: Callback
    pod: Any
    """The part of the task that the callback reads; None if it does not apply."""
    applies_to_task: bool
    has_no_key: bool
    """Whether the callback has a key for tasks, and None for this one."""
    answers: list[Answer]


@dataclass(slots=True)
class _AnswerSnapshot:
    """All answers about one template at its last question, and the positions of the logs then."""

    entry: Entry
    task: TaskInfo
    layout: int
    usage: int
    properties: int
    asked: list[_Asked]
    versions: list[Hashable]


class CheckedEngine(FastEngine):
    """A ``FastEngine`` that checks all that it relies on. Slow; the answers are those of the fast one."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._witnesses: dict[int, _AnswerSnapshot] = {}
        self._just_checked: TaskInfo | None = None

    def open(self, callbacks: NodeCallbacks) -> None:
        """Use these callbacks from now on."""
        super().open(callbacks)
        kept = {id(entry) for entry in self.entries}
        self._witnesses = {key: witness for key, witness in self._witnesses.items() if key in kept}

    def places(self, tasks: Sequence[TaskInfo]) -> Iterator[NodeInfo]:
        """Yield the best nodes for a run of tasks, each compared with the node for the task alone."""
        for place, (task, node) in enumerate(zip(tasks, super().places(tasks), strict=False)):
            self._just_checked = task if place == 0 else None  # the first one was checked when the run began
            alone = next(super().places((task,)), None)
            self._just_checked = None
            if alone is not node:
                raise Stale(f"{task.key}: a run goes on to {node.name}, and the best node is {alone}")
            yield node

    def no_node_fits(self, task: TaskInfo) -> bool:
        """True if no node has room for a task, also checked without an entry for it."""
        is_full = self._is_full_for(task)
        if not is_full and not self._may_fit(task):
            raise Stale(f"{task.key}: it may go on a node that has not the amounts, or does not let it pass")
        return is_full

    def _entry(self, task: TaskInfo) -> Entry:
        if task is self._just_checked:
            return super()._entry(task)
        self.nodes.columns.refresh()
        self.nodes.properties.refresh()
        asked = self._ask_all(task)
        every = np.arange(len(self.cluster.rows))
        equal_nodes = self._nodes_with_equal_amounts()
        equal_tasks = self._equal_tasks(task)
        for each in asked:
            self._check_silence(each, task)
            self._check_static(each)
            self._check_amounts(each, equal_nodes)
            self._check_key(each.callback, task, equal_tasks)
            self._check_twin(each, every)
        self._check_batches(task, every)
        entry = super()._entry(task)
        witness = self._witness(entry, task, asked)
        before = self._witnesses.get(id(entry))
        if before is not None and before.entry is entry and before.layout == witness.layout:
            self._check_reuse(before, witness)
        self._witnesses[id(entry)] = witness
        self._check_entry(entry, witness)
        return entry

    def _callbacks(self) -> list[Callback]:
        return [*self.callbacks.predicates, *self.callbacks.node_orders]

    def _witness(self, entry: Entry, task: TaskInfo, asked: list[_Asked]) -> _AnswerSnapshot:
        cluster = self.cluster
        return _AnswerSnapshot(
            entry,
            task,
            cluster.generations.layout,
            cluster.node_cache.usage_log.end,
            cluster.node_cache.properties_log.end,
            asked,
            [version_of(each.callback, task, cluster) if each.callback.scope == "domain" else None for each in asked],
        )

    # -- asking ---------------------------------------------------------------------------------------------------

    def _ask_all(self, task: TaskInfo) -> list[_Asked]:
        """Ask the plain function of every callback about every node."""
        rows, shown = self.cluster.rows, dict[str, list[Any]]()
        found = []
        for callback in self._callbacks():
            if not callback.applies(task):
                found.append(_Asked(callback, None, applies_to_task=False, has_no_key=False, answers=[]))
                continue
            view, pod = callback.signature.node, callback.pod(task)
            if view not in shown:
                shown[view] = [node_view(view, node) for node in rows]
            answers = [_answered(callback, callback.fn(pod, node)) for node in shown[view]]
            has_no_key = callback.key is not None and callback.key(task) is None
            found.append(_Asked(callback, pod, not has_no_key, has_no_key, answers))
        return found

    def _nodes_with_equal_amounts(self) -> list[list[NodeInfo]]:
        """Group the nodes that offer and have used the same; nodes with terminating pods are left out."""
        found: dict[tuple[int, ...], list[NodeInfo]] = {}
        for node in self.cluster.rows:
            if not node.terminating_pods:
                found.setdefault((node.offer, *node.used), []).append(node)
        return [nodes for nodes in found.values() if len(nodes) > 1]

    def _equal_tasks(self, task: TaskInfo) -> list[TaskInfo]:
        """Return the other tasks with the template and the queue of this one."""
        template, queue = task.template, task.queue
        return [
            other
            for other in self.cluster.tasks.values()
            if other.template is template and other is not task and other.queue == queue
        ]

    # -- what is promised whatever the scope ----------------------------------------------------------------------

    def _check_silence(self, asked: _Asked, task: TaskInfo) -> None:
        """A key of None states that the callback has no answer."""
        callback = asked.callback
        if callback.scope == "domain" and asked.has_no_key:
            nothing: Answer = True if isinstance(callback, Predicate) else 0.0
            for node, answer in zip(self.cluster.rows, asked.answers, strict=True):
                if answer != nothing:
                    raise _fault(callback, f"has the key None for {task.key} and something to say about {node.name}")

    def _check_twin(self, asked: _Asked, every: Rows) -> None:
        """Check that the vector twin returns the plain function's answers, for all rows and for some."""
        callback = asked.callback
        if callback.vector is None or not asked.applies_to_task:
            return
        for some in _SOME_ROWS:
            found = callback.vector(asked.pod, self.nodes.table(every[some])).tolist()
            if found != asked.answers[some]:
                raise self._twin_fault(_named(callback), every[some], found, asked.answers[some])

    def _check_batches(self, task: TaskInfo, every: Rows) -> None:
        """A batch order's twin and its uniform score agree with its plain function."""
        for batch in self.callbacks.batch_orders:
            for chosen in (every, every[::2]):
                nodes = [self.cluster.rows[row] for row in chosen]
                answers = [float(score) for score in batch.fn(task, nodes)]
                name = (batch.plugin, _name(batch.fn))
                if batch.vector is not None:
                    found = batch.vector(task, self.nodes.table(chosen)).tolist()
                    if found != answers:
                        raise self._twin_fault(name, chosen, found, answers)
                uniform = batch.uniform(task) if batch.uniform is not None else None
                if uniform is not None and any(answer != uniform for answer in answers):
                    raise Misdeclared(*name, f"says {uniform} for every node and gives {answers}")

    def _twin_fault(
        self, name: tuple[str, str], rows: Rows, found: Sequence[Any], expected: Sequence[Any]
    ) -> Misdeclared:
        if len(found) != len(expected):
            return Misdeclared(*name, f"has a vector twin that answers {len(found)} times for {len(expected)} rows")
        place = next(i for i, (a, b) in enumerate(zip(found, expected, strict=True)) if a != b)
        node = self.cluster.rows[int(rows[place])].name
        return Misdeclared(
            *name, f"has a vector twin that differs on {node}: {found[place]!r} instead of {expected[place]!r}"
        )

    # -- what a scope promises ------------------------------------------------------------------------------------

    def _check_static(self, asked: _Asked) -> None:
        """Nodes that agree in what was read of them have one answer."""
        callback = asked.callback
        if callback.scope != "static" or not asked.applies_to_task:
            return
        view = NodePropertiesView()
        seen: dict[Hashable, tuple[str, Answer]] = {}
        ids: dict[Path, list[int]] = {}
        for row, (node, answer) in enumerate(zip(self.cluster.rows, asked.answers, strict=True)):
            callback.fn(asked.pod, view.show(node))
            for path in view.reads - ids.keys():
                ids[path] = self.nodes.properties.ids(path).tolist()
            read = frozenset((path, ids[path][row]) for path in view.reads)
            other, other_answer = seen.setdefault(read, (node.name, answer))
            if other_answer != answer:
                raise _fault(callback, f"tells {node.name} from {other}, which says the same in all that was read")

    def _check_amounts(self, asked: _Asked, equal_nodes: Sequence[Sequence[NodeInfo]]) -> None:
        """Check that a callback that reads only amounts has one answer for nodes with equal amounts."""
        callback, answers = asked.callback, asked.answers
        if callback.signature.node != "amounts" or not answers:
            return
        for other, *nodes in equal_nodes:
            for node in nodes:
                if answers[node.row] != answers[other.row]:
                    raise _fault(
                        callback, f"is shown amounts and tells {node.name} from {other.name}, which has the same"
                    )

    def _check_key(self, callback: Callback, task: TaskInfo, equal_tasks: Sequence[TaskInfo]) -> None:
        """Check that a key made of template and queue is the same for equal pods of one queue."""
        if not callback.is_keyed_by_queue or callback.key is None:
            return
        key = callback.key(task)
        for other in equal_tasks:
            if callback.key(other) != key:
                raise _fault(callback, f"is keyed by queue and tells {task.key} from {other.key}, which is equal to it")

    def _check_reuse(self, before: _AnswerSnapshot, now: _AnswerSnapshot) -> None:
        """An answer that changed must have been asked for again."""
        changed = set(self.cluster.node_cache.usage_log.since(before.usage) or ())
        facts_changed = before.properties != now.properties
        for place, (then, asked) in enumerate(zip(before.asked, now.asked, strict=True)):
            callback = asked.callback
            if then.applies_to_task != asked.applies_to_task:
                raise _fault(callback, "applies to some tasks of a template and not to others")
            if callback.scope == "pod" or facts_changed or then.answers == asked.answers:
                continue
            if callback.scope == "domain" and before.versions[place] != now.versions[place]:
                continue
            allowed: set[int] = set() if callback.signature.node == "properties" else changed
            for row, (was, answer) in enumerate(zip(then.answers, asked.answers, strict=True)):
                if was != answer and row not in allowed:
                    raise _fault(callback, self._reuse_fault(callback, before, now, self.cluster.rows[row], was))

    def _reuse_fault(
        self, callback: Callback, before: _AnswerSnapshot, now: _AnswerSnapshot, node: NodeInfo, then: Answer
    ) -> str:
        if before.task is not now.task and _answer(callback, before.task, node) == then:
            return f"tells {now.task.key} from {before.task.key}, which has the same template"
        view = {"properties": NodePropertiesView, "amounts": NodeAmounts, "node": NodeInfo}[
            callback.signature.node
        ].__name__
        changed = (
            "the node's own properties have not changed"
            if view == "NodePropertiesView"
            else "nothing changed on that node"
        )
        version = ", nor did the version of its key" if callback.scope == "domain" else ""
        return f"is shown {view} and changed its answer about {node.name}: {changed}{version}"

    # -- what the engine keeps ------------------------------------------------------------------------------------

    def _check_entry(self, entry: Entry, witness: _AnswerSnapshot) -> None:
        """The engine's sums are those of the fresh answers, to the bit."""
        asked = [each for each in witness.asked if each.callback.scope != "pod" and each.applies_to_task]
        verdicts = [each.answers for each in asked if isinstance(each.callback, Predicate)]
        scores = [each.answers for each in asked if not isinstance(each.callback, Predicate)]
        scores_last = not any(order.scope == "pod" for order in self.callbacks.node_orders)
        kept_ok, kept_totals = entry.ok.tolist(), entry.scores.total.tolist()
        for row, node in enumerate(self.cluster.rows):
            ok = all(answers[row] for answers in verdicts)
            fits = node.fits_idle(entry.charge)
            if (fits or node.terminating_pods) and kept_ok[row] != ok:
                raise Stale(f"{witness.task.key} on {node.name}: kept {kept_ok[row]}, is {ok}")
            total = -np.inf
            if ok and fits and node.fits_future(entry.charge):
                total = 0.0
                for answers in scores:
                    total += answers[row]
            kept = kept_totals[row]
            if (kept != total) if scores_last else ((kept == -np.inf) != (total == -np.inf)):
                raise Stale(f"{witness.task.key} on {node.name}: kept a score of {kept}, is {total}")


def _answer(callback: Callback, task: TaskInfo, node: NodeInfo) -> Answer:
    return _answered(callback, callback.ask(task, node))


def _answered(callback: Callback, found: Verdict | float | None) -> Answer:
    return found is None if isinstance(callback, Predicate) else float(found)  # type: ignore[arg-type]  # a score


def _named(callback: Callback) -> tuple[str, str]:
    return callback.plugin, _name(callback.fn)


def _name(fn: Any) -> str:
    return str(getattr(fn, "__qualname__", fn))


def _fault(callback: Callback, what: str) -> Misdeclared:
    return Misdeclared(*_named(callback), what)
