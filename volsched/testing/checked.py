"""The checked engine: for tests of the declarations of callbacks.

A callback reads what its annotations declare, and the fast engine reuses answers relying on that. This engine asks
every callback about every node again, each time. It raises ``Misdeclared`` if an answer changed although none of the
declared inputs did, for example a callback that reads an account; if a vector twin and its scalar form differ; and if a
plugin states that it has no opinion and has one. It also compares the fast engine's scores with the sum of the fresh
answers.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from volsched.framework.columns.arrays import Rows
from volsched.framework.columns.views import NodePropertiesView
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


@dataclass(slots=True)
class _AnswerSnapshot:
    """All answers about one template at its last question, and the positions of the logs then."""

    entry: Entry
    task: TaskInfo
    layout: int
    usage: int
    properties: int
    applies_to_task: list[bool]
    versions: list[Hashable]
    answers: list[list[Answer]] = field(default_factory=list)


class CheckedEngine(FastEngine):
    """A ``FastEngine`` that checks all that it relies on. Slow; the answers are those of the fast one."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._witnesses: dict[int, _AnswerSnapshot] = {}

    def open(self, callbacks: NodeCallbacks) -> None:
        """Use these callbacks from now on."""
        super().open(callbacks)
        kept = {id(entry) for entry in self.entries}
        self._witnesses = {key: witness for key, witness in self._witnesses.items() if key in kept}

    def places(self, tasks: Sequence[TaskInfo]) -> Iterator[NodeInfo]:
        """Yield the best nodes for a run of tasks, each compared with the node for the task alone."""
        for task, node in zip(tasks, super().places(tasks), strict=False):
            alone = next(super().places((task,)), None)
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
        callbacks = self._callbacks()
        answers = [self._ask(callback, task) for callback in callbacks]
        for callback, answered in zip(callbacks, answers, strict=True):
            self._check_silence(callback, task, answered)
            self._check_static(callback, task, answered)
            self._check_amounts(callback, answered)
            self._check_key(callback, task)
            self._check_twin(callback, task, answered)
        self._check_batches(task)
        entry = super()._entry(task)
        witness = self._witness(entry, task, answers)
        before = self._witnesses.get(id(entry))
        if before is not None and before.entry is entry and before.layout == witness.layout:
            self._check_reuse(before, witness)
        self._witnesses[id(entry)] = witness
        self._check_entry(entry, witness)
        return entry

    def _callbacks(self) -> list[Callback]:
        return [*self.callbacks.predicates, *self.callbacks.node_orders]

    def _witness(self, entry: Entry, task: TaskInfo, answers: list[list[Answer]]) -> _AnswerSnapshot:
        cluster, callbacks = self.cluster, self._callbacks()
        return _AnswerSnapshot(
            entry,
            task,
            cluster.generations.layout,
            cluster.node_cache.usage_log.end,
            cluster.node_cache.properties_log.end,
            [callback.applies_to_task(task) for callback in callbacks],
            [version_of(c, task, self.cluster) if c.scope == "domain" else None for c in callbacks],
            answers,
        )

    # -- asking ---------------------------------------------------------------------------------------------------

    def _ask(self, callback: Callback, task: TaskInfo) -> list[Answer]:
        """Ask the plain function about every node; nothing if the callback does not apply to the task."""
        if not callback.applies(task):
            return []
        return [_answer(callback, task, node) for node in self.cluster.rows]

    # -- what is promised whatever the scope ----------------------------------------------------------------------

    def _check_silence(self, callback: Callback, task: TaskInfo, answers: Sequence[Answer]) -> None:
        """A key of None states that the callback has no answer."""
        if callback.scope == "domain" and callback.key is not None and callback.key(task) is None:
            nothing: Answer = True if isinstance(callback, Predicate) else 0.0
            for node, answer in zip(self.cluster.rows, answers, strict=False):
                if answer != nothing:
                    raise _fault(callback, f"has the key None for {task.key} and something to say about {node.name}")

    def _check_twin(self, callback: Callback, task: TaskInfo, answers: list[Answer]) -> None:
        """Check that the vector twin returns the plain function's answers, for all rows and for some."""
        if callback.vector is None or not callback.applies_to_task(task):
            return
        self.nodes.columns.refresh()
        self.nodes.properties.refresh()
        every = np.arange(len(self.cluster.rows))
        for rows in (every, every[::2], every[1::3]):
            found = callback.vector(callback.pod(task), self.nodes.table(rows)).tolist()
            expected = [answers[row] for row in rows]
            if found != expected:
                raise self._twin_fault(_named(callback), rows, found, expected)

    def _check_batches(self, task: TaskInfo) -> None:
        """A batch order's twin and its uniform score agree with its plain function."""
        self.nodes.columns.refresh()
        self.nodes.properties.refresh()
        rows = np.arange(len(self.cluster.rows))
        for batch in self.callbacks.batch_orders:
            for chosen in (rows, rows[::2]):
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

    def _check_static(self, callback: Callback, task: TaskInfo, answers: list[Answer]) -> None:
        """Nodes that agree in what was read of them have one answer."""
        if callback.scope != "static" or not callback.applies_to_task(task):
            return
        view = NodePropertiesView()
        seen: dict[Hashable, tuple[str, Answer]] = {}
        self.nodes.properties.refresh()
        for node, answer in zip(self.cluster.rows, answers, strict=True):
            _answered(callback, callback.fn(callback.pod(task), view.show(node)))
            reads = tuple(sorted(view.reads))
            read = (reads, tuple(int(self.nodes.properties.ids(path)[node.row]) for path in reads))
            other, other_answer = seen.setdefault(read, (node.name, answer))
            if other_answer != answer:
                raise _fault(callback, f"tells {node.name} from {other}, which says the same in all that was read")

    def _check_amounts(self, callback: Callback, answers: list[Answer]) -> None:
        """Check that a callback that reads only amounts has one answer for nodes with equal amounts."""
        if callback.signature.node != "amounts":
            return
        seen: dict[tuple[int, ...], tuple[str, Answer]] = {}
        for node, answer in zip(self.cluster.rows, answers, strict=False):
            if not node.terminating_pods:
                other, other_answer = seen.setdefault((node.offer, *node.used), (node.name, answer))
                if other_answer != answer:
                    raise _fault(callback, f"is shown amounts and tells {node.name} from {other}, which has the same")

    def _check_key(self, callback: Callback, task: TaskInfo) -> None:
        """Check that a key made of template and queue is the same for equal pods of one queue."""
        if not callback.is_keyed_by_queue or callback.key is None:
            return
        key = callback.key(task)
        for other in self.cluster.tasks.values():
            alike = other is not task and other.template is task.template and other.queue == task.queue
            if alike and callback.key(other) != key:
                raise _fault(callback, f"is keyed by queue and tells {task.key} from {other.key}, which is equal to it")

    def _check_reuse(self, before: _AnswerSnapshot, now: _AnswerSnapshot) -> None:
        """An answer that changed must have been asked for again."""
        changed = set(self.cluster.node_cache.usage_log.since(before.usage) or ())
        facts_changed = before.properties != now.properties
        for place, callback in enumerate(self._callbacks()):
            if before.applies_to_task[place] != now.applies_to_task[place]:
                raise _fault(callback, "applies to some tasks of a template and not to others")
            if callback.scope == "pod" or facts_changed:
                continue
            if callback.scope == "domain" and before.versions[place] != now.versions[place]:
                continue
            allowed: set[int] = set() if callback.signature.node == "properties" else changed
            for row, (then, answer) in enumerate(zip(before.answers[place], now.answers[place], strict=True)):
                if then != answer and row not in allowed:
                    raise _fault(callback, self._reuse_fault(callback, before, now, self.cluster.rows[row], then))

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
        predicates = len(self.callbacks.predicates)
        lasting = [
            place for place, c in enumerate(self._callbacks()) if c.scope != "pod" and witness.applies_to_task[place]
        ]
        scores_last = not any(order.scope == "pod" for order in self.callbacks.node_orders)
        for row, node in enumerate(self.cluster.rows):
            ok = all(witness.answers[place][row] for place in lasting if place < predicates)
            fits = node.fits_idle(entry.charge)
            if (fits or node.terminating_pods) and bool(entry.ok[row]) != ok:
                raise Stale(f"{witness.task.key} on {node.name}: kept {bool(entry.ok[row])}, is {ok}")
            total = -np.inf
            if ok and fits and node.fits_future(entry.charge):
                total = 0.0
                for place in lasting:
                    total += float(witness.answers[place][row]) if place >= predicates else 0.0
            kept = float(entry.scores.total[row])
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
