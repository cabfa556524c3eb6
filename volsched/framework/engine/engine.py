"""Where can this task go, and where best? Answered for equal tasks once, and again only about nodes that changed.

An ``Entry`` belongs to a task template (and to the keys that ``domain`` and ``queue`` callbacks add): for every node
the total score, or minus infinity where the task cannot go. It remembers its place in the cluster's log of changed rows
and catches up with them when it is next asked; a few rows by the plain functions, many by their vector twins.
Equal scores fall to the first row, which is the first name.

Sums are made in the order of registration, row by row, so that the naive engine gets the same floats to the bit.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from typing import Any, Protocol
from weakref import WeakValueDictionary

import numpy as np

from volsched.framework.callbacks import KeyFn
from volsched.framework.columns.arrays import Floats, Mask, Rows
from volsched.framework.columns.columns import FactColumns, NodeColumns
from volsched.framework.columns.views import NodeTable, RequestReader, shown
from volsched.framework.engine.diagnosis import Diagnosis
from volsched.framework.engine.entry import BLOCK, NEVER, UNKNOWN, Entry, Part, Question, Scoped
from volsched.framework.engine.node_shapes import KindScores, NodeKinds
from volsched.framework.engine.plain import kind_keys, kind_of, scores_of, speaks_for_queue
from volsched.framework.engine.static import StaticAnswers
from volsched.framework.rules import BatchNodeOrder, NodeCallbacks, NodeOrder, Predicate
from volsched.model.cluster import Cluster
from volsched.model.node import NodeInfo
from volsched.model.pods.task import TaskInfo
from volsched.model.verdict import NodeRefusals

_FEW = 24
"""Up to so many changed rows the plain functions are quicker than NumPy."""
_REPEATS = 8
"""A list of changed rows longer than the nodes through this names most of them many times."""
_ENTRY_BYTES = 192 << 20
_MOST_ENTRIES = 8_192


class Engine(Protocol):
    """Answers about tasks and nodes; the fast one and the naive one agree bit for bit."""

    cluster: Cluster

    def open(self, callbacks: NodeCallbacks) -> None:
        """Use these callbacks from now on."""

    def afresh(self) -> Engine:
        """An engine of the same kind that knows nothing yet: one over which a callback failed may know it half."""

    def best(self, task: TaskInfo) -> NodeInfo | None:
        """The best node with room now; else the best that will have room; None when no node will do."""

    def run(self, tasks: Sequence[TaskInfo]) -> Iterator[NodeInfo]:
        """The best node for each of some tasks of one job and template, as long as the nodes' amounts alone tell.

        Whoever takes a node puts the task there before asking for the next, and changes nothing else meanwhile.
        """

    def admits(self, task: TaskInfo, node: NodeInfo) -> bool:
        """Whether the task may go on this node, now or once it has room."""

    def kind(self, task: TaskInfo) -> Hashable:
        """What decides, beside the nodes, to which of them a task can go, as far as pods share answers."""

    def speaks_for_queue(self, task: TaskInfo) -> bool:
        """Whether all pods of the task's queue that are equal to it are of its kind, too."""

    def hopeless(self, task: TaskInfo) -> bool:
        """Whether no node has room, now or later, for any task of this kind, as far as that can be told."""

    def ranked(self, task: TaskInfo) -> list[NodeInfo]:
        """Nodes where the task could go if others left, best first: what refuses it there eviction can change."""

    def refusals(self, task: TaskInfo) -> NodeRefusals:
        """Why nodes refuse the task, counted."""

    def scores(self, task: TaskInfo) -> dict[str, dict[str, float]]:
        """For each node the task could go on (of the group that is chosen from): each plugin's score."""


class FastEngine:
    """The engine of ``volsched run`` and ``simulate``.

    It counts what it does: ``callbacks_asked``, ``rows_scored`` (nodes, or kinds of them, about which callbacks were
    asked), ``sweeps`` (how often all nodes were looked through for an entry).
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.columns = NodeColumns(cluster)
        self.facts = FactColumns(cluster)
        self.kinds = NodeKinds(cluster)
        self.callbacks = NodeCallbacks()
        self.callbacks_asked = 0
        self.rows_scored = 0
        self.sweeps = 0
        self._shape: tuple[object, ...] = ()
        self._era = 0
        self._layout = -1
        self._left_to_devices: frozenset[int] = frozenset()
        self._session = 0
        self._all: list[Predicate | NodeOrder] = []
        self._entries: dict[Hashable, Entry] = {}
        self._capacity = 64
        self._keys: list[tuple[Predicate | NodeOrder, KeyFn]] = []
        self._keys_of: dict[Hashable, list[KeyFn]] = {}
        self._pod_predicates: list[Predicate] = []
        self._with_care = False
        self._kind_keys: tuple[KeyFn, ...] = ()
        self._starts: Rows = np.arange(0)
        self._kind_scores: WeakValueDictionary[Hashable, KindScores] = WeakValueDictionary()
        self.static = StaticAnswers(self)
        self._diagnosis = Diagnosis(self)

    # -- opening ------------------------------------------------------------------------------------------------------

    def afresh(self) -> Engine:
        """An engine of the same kind that knows nothing yet."""
        return type(self)(self.cluster)

    def open(self, callbacks: NodeCallbacks) -> None:
        """Use these callbacks; answers of the last session stay when the callbacks are the same in kind."""
        shape = callbacks.shape()
        if (shape, self.cluster.clocks.era) != (self._shape, self._era):
            self._forget()
            self._shape, self._era = shape, self.cluster.clocks.era
        self.callbacks = callbacks
        self._session += 1
        self._all = [*callbacks.predicates, *callbacks.node_orders]
        self._keys = [(callback, callback.key) for callback in self._all if callback.key is not None]
        self._keys_of.clear()
        self._pod_predicates = [p for p in callbacks.predicates if p.scope == "pod"]
        pod_orders = any(order.scope == "pod" for order in callbacks.node_orders)
        self._with_care = bool(self._pod_predicates or pod_orders or callbacks.best_nodes)
        self._kind_keys = kind_keys(callbacks)
        self.static.open()
        self.columns.refresh_offers()
        self.kinds.refresh()

    def _forget(self) -> None:
        """Start with nothing."""
        self._entries.clear()
        self._kind_scores = WeakValueDictionary()
        self.static.forget()

    def _renew(self, entry: Entry) -> None:
        """Let an entry of an earlier session ask this session's functions, which stand in the same places."""
        predicates, orders = self.callbacks.predicates, self.callbacks.node_orders
        entry.facts_predicates = [(place, predicates[place]) for place, _ in entry.facts_predicates]
        entry.row_predicates = [(place, predicates[place]) for place, _ in entry.row_predicates]
        for part in entry.parts:
            part.order = orders[part.place]
        for scoped in entry.scoped:
            scoped.callback = self._all[scoped.place]
        self._gather(entry)

    def _gather(self, entry: Entry) -> None:
        """Lay out what is to be asked about single nodes; vectors that add nothing anywhere are left out."""
        entry.session = self._session
        entry.checks = [Question.of(predicate) for _, predicate in entry.row_predicates]
        counting = [part for part in entry.parts if part.fixed is None or part.fixed.any()]
        entry.adds = [(Question.of(part.order), part.fixed) for part in counting]
        asked = entry.asked()
        if any(callback.signature.node == "node" for _, callback in asked):
            entry.kinds = None
            return
        if entry.kinds is None or len(entry.kinds.lines) != max(1, sum(fixed is None for _, fixed in entry.adds)):
            entry.kinds = self._kind_scores_of(entry)
        entry.arrange()

    def _kind_scores_of(self, entry: Entry) -> KindScores:
        """The scores by kind for an entry; templates of equal requests share them, as long as no more is read."""
        asked = entry.asked()
        scored = sum(isinstance(callback, NodeOrder) for _, callback in asked)
        entry.reader = None
        if any(callback.scope != "node" for _, callback in asked):
            return KindScores(scored)
        entry.reader = RequestReader(entry.task.template)
        charge = self.cluster.columns.charge(entry.task.template)
        key = (charge, *[(place, isinstance(callback, NodeOrder)) for place, callback in asked])
        found = self._kind_scores.get(key)
        if found is None:
            found = self._kind_scores[key] = KindScores(scored)
        return found

    def _part_ways(self, entry: Entry) -> KindScores:
        """Give an entry scores by kind of its own: more was read than what the templates that share them agree in."""
        assert entry.kinds is not None  # noqa: S101 - for the type checker: who asks about kinds has them
        entry.reader = None
        entry.kinds = entry.kinds.copy()
        return entry.kinds

    # -- the question -------------------------------------------------------------------------------------------------

    def best(self, task: TaskInfo) -> NodeInfo | None:
        """The best node with room now; else the best that will have room; None when no node will do."""
        entry = self._entry(task)
        if self._with_care:
            return self._best_with_care(task, entry)
        batches = self._batches(task)
        if not batches:
            row = entry.first_best()
            return self.cluster.rows[row] if row >= 0 else self._best_of(task, entry, self._future_rows(entry), [])
        rows = np.flatnonzero(entry.total > NEVER)
        if len(rows):
            return self._best_of(task, entry, rows, batches, known=True)
        return self._best_of(task, entry, self._future_rows(entry), batches)

    def run(self, tasks: Sequence[TaskInfo]) -> Iterator[NodeInfo]:
        """The best node for each of some tasks of one job and template, as long as the nodes' amounts alone tell."""
        first = tasks[0]
        entry = self._entry(first)
        if entry.kinds is None or self._with_care or self._batches(first):
            return
        log, labels, position = self.cluster.node_ledger.usage_log, first.labels, entry.position
        node: NodeInfo | None = None
        for task in tasks:
            if task.labels is not labels and task.labels != labels and not self._is_alike(task, entry):
                return
            if node is None:
                row = entry.first_best()
                if row < 0:
                    return
                node, top = self.cluster.rows[row], entry.top
            yield node
            position += 1
            if log.end != position:
                return
            total = self._total(entry, row)
            if total >= top:  # none of the other nodes has changed, so this one is the best still
                top = total
            else:
                entry.position = position
                entry.put(row, total)
                node = None

    def _is_alike(self, task: TaskInfo, entry: Entry) -> bool:
        """Whether an entry's answers hold for a task of its template that has other labels."""
        return self._entries.get(self._entry_key(task)) is entry and not self._batches(task)

    def _best_of(
        self, task: TaskInfo, entry: Entry, rows: Rows, batches: Sequence[BatchNodeOrder], known: bool = False
    ) -> NodeInfo | None:
        """The best of some rows; ``known``: the entry's totals hold for them, so that only batches are to be added."""
        if not len(rows):
            return None
        if len(rows) == 1:
            return self.cluster.rows[int(rows[0])]
        totals = self._sums(task, entry, rows, batches, known)
        if self.callbacks.best_nodes:
            named = {self.cluster.rows[int(row)].name: float(total) for row, total in zip(rows, totals, strict=True)}
            for choose in self.callbacks.best_nodes:
                chosen = choose(task, named)
                if chosen is not None and chosen in named:
                    return self.cluster.nodes[chosen]
        return self.cluster.rows[int(rows[int(totals.argmax())])]

    def _best_with_care(self, task: TaskInfo, entry: Entry) -> NodeInfo | None:
        """As ``best`` where some callbacks must be asked for this very task."""
        rows = self._asked(task, np.flatnonzero(entry.total > NEVER))
        if not len(rows):
            rows = self._asked(task, self._future_rows(entry))
        return self._best_of(task, entry, rows, self._batches(task))

    def _asked(self, task: TaskInfo, rows: Rows) -> Rows:
        for predicate in self._pod_predicates:
            if not predicate.applies(task):
                continue
            if predicate.vector is not None:
                self.columns.refresh()
                rows = rows[predicate.vector(predicate.pod(task), self.table(rows))]
            else:
                nodes = self.cluster.rows
                rows = rows[[predicate.ask(task, nodes[row]) is None for row in rows]]
        return rows

    def _future_rows(self, entry: Entry) -> Rows:
        """Rows without room now that will have it: only nodes where something is being released can."""
        charge = entry.charge
        found = [
            node.row
            for node in self.cluster.node_ledger.with_terminating_pods.values()
            if entry.ok[node.row] and node.fits_future(charge)
        ]
        return np.array(sorted(found), dtype=np.intp)

    def _batches(self, task: TaskInfo) -> list[BatchNodeOrder]:
        """The batch orders that tell nodes apart for this task; the others give all nodes the same."""
        return [b for b in self.callbacks.batch_orders if b.uniform is None or b.uniform(task) is None]

    def _sums(
        self, task: TaskInfo, entry: Entry, rows: Rows, batches: Sequence[BatchNodeOrder], known: bool = False
    ) -> Floats:
        totals = entry.total[rows] if known else np.zeros(len(rows))
        self.columns.refresh()
        for part in () if known else entry.parts:
            order, fixed = part.order, part.fixed
            totals = totals + (fixed[rows] if fixed is not None else self._order_vector(order.pod(task), order, rows))
        for batch in batches:
            totals = totals + self._batch_vector(task, batch, rows)
        return totals

    def _batch_vector(self, task: TaskInfo, batch: BatchNodeOrder, rows: Rows) -> Floats:
        if batch.vector is not None:
            return batch.vector(task, self.table(rows))
        nodes = self.cluster.rows
        return np.array(batch.fn(task, [nodes[row] for row in rows]), dtype=np.float64)

    def admits(self, task: TaskInfo, node: NodeInfo) -> bool:
        """Whether the task may go on this node, now or once it has room."""
        if not node.fits_future(self.cluster.columns.request(task.template)):
            return False
        predicates = self.callbacks.predicates
        return all(predicate.ask(task, node) is None for predicate in predicates if predicate.applies(task))

    def ranked(self, task: TaskInfo) -> list[NodeInfo]:
        """Nodes where the task could go if others left, best first; of equals the first in order of names."""
        entry = self._entry(task)
        self.columns.refresh()
        large_enough = entry.static_ok.copy()
        for column, amount in entry.charge:
            enough = self.columns.allocatable[column] >= amount
            large_enough &= enough | self.columns.left_to_devices(column, self.columns.all_rows)
        nodes = self.cluster.rows
        hopeless = [
            row for row in np.flatnonzero(large_enough & ~entry.ok) if not self._could_go(task, entry, nodes[row])
        ]
        large_enough[hopeless] = False
        rows = np.flatnonzero(large_enough)
        totals = self._sums(task, entry, rows, self._batches(task))
        return [nodes[rows[place]] for place in np.argsort(-totals, kind="stable")]

    def _could_go(self, task: TaskInfo, entry: Entry, node: NodeInfo) -> bool:
        placed = (predicate for _, predicate in (*entry.facts_predicates, *entry.row_predicates))
        verdicts = (predicate.ask(task, node) for predicate in (*placed, *self._pod_predicates))
        return all(verdict is None or verdict.resolvable for verdict in verdicts)

    # -- entries ------------------------------------------------------------------------------------------------------

    def _entry(self, task: TaskInfo) -> Entry:
        if (
            self._layout != self.cluster.clocks.layout
            or self._left_to_devices is not self.cluster.columns.left_to_devices
        ):
            self._forget()
            self._layout = self.cluster.clocks.layout
            self._left_to_devices = self.cluster.columns.left_to_devices
            bytes_each = 20 * max(1, len(self.cluster.rows))
            self._capacity = max(64, min(_MOST_ENTRIES, _ENTRY_BYTES // bytes_each))
        key = self._entry_key(task)
        entry = self._entries.get(key)
        if entry is None:
            entry = self._build(task)
            if len(self._entries) >= self._capacity:
                del self._entries[next(iter(self._entries))]
            self._entries[key] = entry
            return entry
        entry.task = task
        if entry.session != self._session:
            self._renew(entry)
        self._catch_up(entry)
        return entry

    def _entry_key(self, task: TaskInfo) -> Hashable:
        key = task.template.id
        keys = self._keys_of.get(key)
        if keys is None:
            keys = self._keys_of[key] = [of for callback, of in self._keys if callback.applies(task)]
        return (key, *[of(task) for of in keys]) if keys else key

    def _scope_version(self, callback: Predicate | NodeOrder, task: TaskInfo) -> Hashable:
        return callback.version(task) if callback.version is not None else self.cluster.clocks.standing

    def _build(self, task: TaskInfo) -> Entry:
        cluster = self.cluster
        entry = Entry(task, cluster.columns.request(task.template))
        predicates = [(place, p) for place, p in enumerate(self.callbacks.predicates) if p.speaks(task)]
        lasting = [(place, p) for place, p in predicates if p.scope not in ("static", "pod")]
        entry.facts_predicates = [(place, p) for place, p in lasting if p.signature.node == "facts"]
        entry.row_predicates = [(place, p) for place, p in lasting if p.signature.node != "facts"]
        orders = enumerate(self.callbacks.node_orders)
        entry.parts = [Part(place, order, None) for place, order in orders if order.speaks(task)]
        for place, callback in enumerate(self._all):
            if callback.scope == "domain" and callback.speaks(task):
                entry.scoped.append(Scoped(place, callback, self._scope_version(callback, task)))
        self._take_facts(entry)
        self._score_all(entry)
        return entry

    def _take_facts(self, entry: Entry) -> None:
        """Ask everything that only depends on what nodes say of themselves."""
        self.facts.refresh()
        self.columns.refresh_offers()
        entry.facts_position = self.cluster.node_ledger.facts_log.end
        count = len(self.cluster.rows)
        ok = np.ones(count, dtype=np.bool_)
        self.static.refresh()
        task = entry.task
        constraints = task.template.constraints
        for place, predicate in enumerate(self.callbacks.predicates):
            if predicate.scope == "static" and predicate.speaks(task):
                ok = ok & self.static.mask(task, place, predicate, constraints)
        entry.static_ok = entry.facts_ok = ok
        for _, predicate in entry.facts_predicates:
            every, rows = np.ones(count, dtype=np.bool_), self.columns.all_rows
            entry.facts_ok = entry.facts_ok & self._predicate_vector(predicate.pod(task), predicate, rows, every)
        for part in entry.parts:
            if part.order.scope == "static":
                part.fixed = self.static.scores(task, part.place, part.order, constraints)
            elif part.order.signature.node == "facts" and part.order.scope != "pod":
                part.fixed = self._order_vector(part.order.pod(task), part.order, self.columns.all_rows)
        self._gather(entry)

    def _catch_up(self, entry: Entry) -> None:
        cluster = self.cluster
        if entry.facts_position != cluster.node_ledger.facts_log.end:
            self._take_facts(entry)
            self._score_all(entry)
            return
        for scoped in entry.scoped:
            if scoped.version != self._scope_version(scoped.callback, entry.task):
                for other in entry.scoped:
                    other.version = self._scope_version(other.callback, entry.task)
                shown_of_nodes = {other.callback.signature.node for other in entry.scoped}
                if entry.kinds is not None and "amounts" in shown_of_nodes:
                    entry.kinds.forget()
                if "facts" in shown_of_nodes:
                    self._take_facts(entry)
                self._score_all(entry)
                return
        log = cluster.node_ledger.usage_log
        end = log.end
        if entry.position == end:
            return
        behind, entry.position = end - entry.position, end
        if behind > len(log.rows):
            self._score_all(entry)
        elif behind == 1:
            self._score_row(entry, log.rows[-1])
        elif behind <= _FEW:
            for row in dict.fromkeys(log.rows[-behind:]):
                self._score_row(entry, row)
        else:
            self._score_changed(entry, np.frombuffer(log.rows[-behind:], dtype=np.int64))

    def _score_row(self, entry: Entry, row: int) -> None:
        """Ask the plain functions about one node."""
        entry.put(row, self._total(entry, row) if entry.facts_ok[row] else NEVER)

    def _total(self, entry: Entry, row: int) -> float:
        """The score of one node that says the right things of itself; minus infinity when it will not do now."""
        node = self.cluster.rows[row]
        if entry.kinds is None or node.terminating_pods:
            return self._ask_total(entry, row, node)
        kinds = entry.kinds
        kind = self.kinds.follow(node)
        if kind >= kinds.size or kinds.epoch != self.kinds.epoch:
            kinds.make_room(self.kinds)
        if math.isnan(kinds.sums.item(0, kind)):
            kinds = self._ask_kind(entry, kinds, kind, node)
        total = kinds.sums.item(entry.leading - 1, kind) if entry.leading else 0.0
        for other in entry.others:
            total += kinds.lines.item(other, kind) if isinstance(other, int) else other.item(row)
        entry.ok[row] = total > NEVER
        return total

    def _ask_kinds(self, entry: Entry, kinds: KindScores, numbers: Rows, rows: Rows) -> KindScores:
        """Ask about kinds of these numbers, each by the row of one of its nodes; about many at once.

        Return the scores in which the answers are, which may be others than the entry had.
        """
        if len(numbers) <= _FEW:
            for kind, row in zip(numbers.tolist(), rows.tolist(), strict=True):
                kinds = self._ask_kind(entry, kinds, kind, self.cluster.rows[row])
            return kinds
        self.columns.refresh()
        ok = self.columns.fits_idle(entry.charge, rows)
        task, template = entry.task, entry.template
        for _, predicate in entry.row_predicates:
            ok = ok & self._predicate_vector(template if predicate.of_template else task, predicate, rows, ok)
        rows = rows[ok]
        self.rows_scored += len(rows)
        scored = [part.order for part in entry.parts if part.fixed is None]
        scores = [self._order_vector(template if order.of_template else task, order, rows) for order in scored]
        if entry.has_read_more:
            kinds = self._part_ways(entry)
        kinds.close(numbers)
        kinds.put_all(numbers[ok], scores)
        return kinds

    def _ask_kind(self, entry: Entry, kinds: KindScores, kind: int, node: NodeInfo) -> KindScores:
        """Ask about one node for all of its kind; return the scores in which the answer is."""
        self.rows_scored += 1
        self.callbacks_asked += len(entry.checks)
        task, template, amounts = entry.task, entry.template, node.amounts
        will_do = node.fits_idle(entry.charge) and all(
            check(template if of_template else task, amounts) is None for check, of_template, _ in entry.checks
        )
        scores = [
            score(template if of_template else task, amounts)
            for (score, of_template, _), fixed in (entry.adds if will_do else ())
            if fixed is None
        ]
        self.callbacks_asked += len(scores)
        if entry.has_read_more:
            kinds = self._part_ways(entry)
        if will_do:
            kinds.put(kind, scores)
        else:
            kinds.close(kind)
        return kinds

    def _ask_total(self, entry: Entry, row: int, node: NodeInfo) -> float:
        charge = entry.charge
        fits = node.fits_idle(charge)
        if not (fits or node.terminating_pods):
            entry.ok[row] = False
            return NEVER
        self.rows_scored += 1
        task, template, amounts = entry.task, entry.task.template, node.amounts
        for check, of_template, of_amounts in entry.checks:
            self.callbacks_asked += 1
            if check(template if of_template else task, amounts if of_amounts else node) is not None:
                entry.ok[row] = False
                return NEVER
        entry.ok[row] = True
        if not fits or (node.terminating_pods and not node.fits_future(charge)):
            return NEVER
        total = 0.0
        for (score, of_template, of_amounts), fixed in entry.adds:
            if fixed is None:
                self.callbacks_asked += 1
                total += score(template if of_template else task, amounts if of_amounts else node)
            else:
                total += fixed.item(row)
        return total

    def _score_changed(self, entry: Entry, rows: Rows) -> None:
        """Ask about many changed nodes, of which some may be named twice."""
        rows = _possible(rows, entry.facts_ok)
        if entry.kinds is not None:
            rows = self._score_by_kind(entry, entry.kinds, rows)
        entry.total[rows] = NEVER
        entry.ok[rows] = False
        worth = list(dict.fromkeys(self._worth_asking(entry, rows).tolist())) if len(rows) else []
        if len(worth) > _FEW:
            self._score_rows(entry, np.array(worth, dtype=np.intp))
        else:
            for row in worth:
                entry.total[row] = self._total(entry, row)
        entry.renew_blocks(self._block_starts(entry))

    def _score_by_kind(self, entry: Entry, kinds: KindScores, rows: Rows) -> Rows:
        """Score nodes by their kinds; return those where room is being freed, of which that does not tell all."""
        unsettled = self.cluster.node_ledger.with_terminating_pods
        self.kinds.refresh()
        left = rows[:0]
        if unsettled:
            are_left = np.isin(rows, [node.row for node in unsettled.values()])
            rows, left = rows[~are_left], rows[are_left]
        kinds.make_room(self.kinds)
        numbers = self.kinds.numbers[rows]
        unknown = np.isnan(kinds.sums[0].take(numbers)).nonzero()[0]
        if len(unknown):
            examples = np.full(kinds.size, UNKNOWN)
            examples[numbers[unknown]] = rows[unknown]
            asked = (examples != UNKNOWN).nonzero()[0]
            kinds = self._ask_kinds(entry, kinds, asked, examples[asked])
        totals = kinds.sums[entry.leading - 1].take(numbers) if entry.leading else np.zeros(len(rows))
        for other in entry.others:
            totals += kinds.lines[other].take(numbers) if isinstance(other, int) else other.take(rows)
        entry.total[rows] = totals
        entry.ok[rows] = totals > NEVER
        return left

    def _worth_asking(self, entry: Entry, rows: Rows) -> Rows:
        """Most changed nodes are of no use to it, or full with nobody leaving: the scarcest amount tells."""
        if not entry.charge:
            return rows
        self.columns.refresh()
        column, least = entry.charge[0]
        idle = self.columns.allocatable[column][rows] - self.columns.used[column][rows]
        worth = (idle >= least) | self.columns.left_to_devices(column, rows)
        if self.cluster.node_ledger.with_terminating_pods:
            worth |= np.isin(rows, [node.row for node in self.cluster.node_ledger.with_terminating_pods.values()])
        kept: Rows = rows[worth]
        return kept

    def _score_all(self, entry: Entry) -> None:
        self.sweeps += 1
        count = len(self.cluster.rows)
        entry.total = np.full(count, NEVER)
        entry.ok = np.zeros(count, dtype=np.bool_)
        rows = np.flatnonzero(entry.facts_ok)
        if entry.kinds is not None:
            rows = self._score_by_kind(entry, entry.kinds, rows)
        if len(rows):
            self._score_rows(entry, rows)
        entry.renew_blocks(self._block_starts(entry))
        entry.position = self.cluster.node_ledger.usage_log.end

    def _score_rows(self, entry: Entry, rows: Rows) -> None:
        """Ask about many nodes at once, by vector twins where callbacks have them; before, they were no good."""
        self.columns.refresh()
        fits = self.columns.fits_idle(entry.charge, rows)
        if not self.cluster.node_ledger.with_terminating_pods:
            rows, fits = rows[fits], fits[fits]
        self.rows_scored += len(rows)
        task = entry.task
        ok = np.ones(len(rows), dtype=np.bool_)
        for _, predicate in entry.row_predicates:
            ok = ok & self._predicate_vector(predicate.pod(task), predicate, rows, ok)
        entry.ok[rows] = ok
        rows = rows[ok & fits]
        if len(rows):
            entry.total[rows] = self._sums(task, entry, rows, ())

    def _block_starts(self, entry: Entry) -> Rows:
        count = len(entry.total)
        if len(self._starts) != -(-count // BLOCK):
            self._starts = np.arange(0, count, BLOCK)
        return self._starts

    def all_nodes(self) -> NodeTable:
        """All nodes, for vector twins."""
        return self.table(self.columns.all_rows)

    def table(self, rows: Rows) -> NodeTable:
        """Some nodes, for vector twins."""
        return NodeTable(self.columns, self.facts, rows)

    def _predicate_vector(self, pod: Any, predicate: Predicate, rows: Rows, undecided: Mask) -> Mask:
        if predicate.vector is not None:
            found: Mask = predicate.vector(pod, self.table(rows))
            return found
        nodes, fn, view = self.cluster.rows, predicate.fn, predicate.signature.node
        asked = rows[undecided].tolist()
        self.callbacks_asked += len(asked)
        passed = undecided.copy()
        passed[undecided] = [fn(pod, shown(view, nodes[row])) is None for row in asked]
        return passed

    def _order_vector(self, pod: Any, order: NodeOrder, rows: Rows) -> Floats:
        if order.vector is not None:
            found: Floats = order.vector(pod, self.table(rows))
            return found
        nodes, fn, view = self.cluster.rows, order.fn, order.signature.node
        self.callbacks_asked += len(rows)
        return np.array([fn(pod, shown(view, nodes[row])) for row in rows.tolist()], dtype=np.float64)

    # -- diagnosis ----------------------------------------------------------------------------------------------------

    def kind(self, task: TaskInfo) -> Hashable:
        """What decides, beside the nodes, to which of them a task can go, as far as pods share answers."""
        return kind_of(self._kind_keys, task)

    def speaks_for_queue(self, task: TaskInfo) -> bool:
        """Whether all pods of the task's queue that are equal to it are of its kind, too."""
        return speaks_for_queue(self.callbacks, task)

    def hopeless(self, task: TaskInfo) -> bool:
        """Whether no node has room, now or later, for any task of this kind; cheap once it was asked."""
        entry = self._entry(task)
        return entry.first_best() < 0 and not len(self._future_rows(entry))

    def refusals(self, task: TaskInfo) -> NodeRefusals:
        """Why nodes refuse the task, counted; a node counts once for each of its reasons, which may name the queue."""
        entry, queue = self._entry(task), task.queue
        state = (entry.position, entry.facts_position, [scoped.version for scoped in entry.scoped])
        if entry.explained is None or entry.explained[0] != state or self._pod_predicates:
            entry.explained = (state, {})
        known = entry.explained[1]
        if queue not in known:
            known[queue] = self._diagnosis.count(task)
        return known[queue]

    def scores(self, task: TaskInfo) -> dict[str, dict[str, float]]:
        """For each node the task could go on (of the group that is chosen from): each plugin's score."""
        return scores_of(self.cluster, self.callbacks, task)


def _possible(rows: Rows, ok: Mask) -> Rows:
    """Those of some rows that are ok; of long lists, in which most are named many times, each once."""
    if len(rows) * _REPEATS < len(ok):
        return rows[ok[rows]]
    named = np.zeros(len(ok), dtype=np.bool_)
    named[rows] = True
    named &= ok
    return named.nonzero()[0]
