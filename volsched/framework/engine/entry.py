"""The cached scores and refusals of all nodes for one template of tasks.

An entry remembers its position in the log of changed rows, and refreshes these rows when it is used: a few by the plain
functions, many by their vector twins. Sums are made in the order of registration, row by row, so that the naive engine
gets the same floats to the bit.

An entry has many attributes: they are the columns of one table of nodes, and change together.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Final

import numpy as np

from volsched.framework.answers import as_scores, ask_predicate, check_scores
from volsched.framework.columns.arrays import Floats, Mask, Rows
from volsched.framework.engine.amount_classes import ClassScores
from volsched.framework.engine.questions import Questions
from volsched.framework.engine.scores import NEVER, UNKNOWN, NodeScores
from volsched.framework.engine.shared import SharedAnswers
from volsched.framework.rules import Predicate
from volsched.model.nodes.node import NodeInfo
from volsched.model.pods.task import TaskInfo
from volsched.model.verdict import NodeRefusals

_FEW: Final = 24
"""Up to so many changed rows the plain functions are quicker than NumPy."""
_REPEATS: Final = 8
"""A log with more rows than nodes divided by this names most rows many times."""


class Entry:
    """The answers about one template, and one key for each callback that has keys (see the module).

    * ``scores``: totals by row.
    * ``ok``: nodes with room, now or later, that no predicate refuses.
    * ``static_ok``: answers of the ``static`` predicates; ``properties_ok``: those that read only properties.
    * ``class_scores``: scores by class of nodes, of the callbacks that read amounts; None without any. Templates whose
      callbacks read only requests share them.
    * ``explained``: the last counted refusals by queue, and their inputs.
    """

    __slots__ = (
        "_cluster",
        "_nodes",
        "_session",
        "_shared",
        "charge",
        "class_scores",
        "explained",
        "ok",
        "position",
        "properties_ok",
        "properties_position",
        "questions",
        "scores",
        "static_ok",
        "task",
    )

    def __init__(self, task: TaskInfo, shared: SharedAnswers) -> None:
        self.task = task
        self._shared = shared
        self._nodes = shared.nodes
        self._cluster = cluster = shared.nodes.cluster
        self._session = shared.session
        self.charge = cluster.columns.request(task.template)[::-1]  # nodes run out of cards, which come last, first
        self.scores = NodeScores()
        self.questions = Questions(shared.callbacks, task, cluster)
        self.class_scores: ClassScores | None = None
        self.explained: tuple[Hashable, dict[str, NodeRefusals]] | None = None
        self.position = 0
        self.properties_position = 0
        self.static_ok: Mask
        self.properties_ok: Mask
        self.ok: Mask
        self._take_properties()
        self._score_all()

    # -- keeping it right ---------------------------------------------------------------------------------------------

    def refresh(self, task: TaskInfo) -> None:
        """Refresh the answers for a task of the template, in the open session."""
        self.task = task
        if self._session != self._shared.session:
            self._session = self._shared.session
            self.questions.renew(self._shared.callbacks)
            self._lay_out()
        cluster = self._cluster
        if self.properties_position != cluster.node_cache.properties_log.end:
            self._take_properties()
            self._score_all()
            return
        if self.questions.scoped and self.questions.is_outdated(task, cluster):
            self._ask_again(self.questions.node_views())
            return
        log = cluster.node_cache.usage_log
        end = log.end
        if self.position == end:
            return
        behind, self.position = end - self.position, end
        if behind > len(log.rows):
            self._score_all()
        elif behind == 1:
            self._score_row(log.rows[-1])
        elif behind <= _FEW:
            for row in dict.fromkeys(log.rows[-behind:]):
                self._score_row(row)
        else:
            self._score_changed(np.frombuffer(log.rows[-behind:], dtype=np.int64))

    def _ask_again(self, views: set[str]) -> None:
        """Ask all callbacks again which are shown this of nodes, as they have another version."""
        if self.class_scores is not None and "amounts" in views:
            self.class_scores.forget()
        if "properties" in views:
            self._take_properties()
        self._score_all()

    def _lay_out(self) -> None:
        """Prepare the questions about single nodes, and the table of scores by class."""
        questions = self.questions
        questions.gather(self.task)
        if not (questions.amounts_decide or questions.asked_of_classes()):
            self.class_scores = None
        elif self.class_scores is None or len(self.class_scores.lines) != max(1, len(questions.class_adds)):
            self.class_scores = self._scores_by_class()

    def _scores_by_class(self) -> ClassScores:
        """Return the scores by class; templates with equal requests share them if callbacks read no more."""
        asked = self.questions.asked_of_classes()
        if any(callback.scope != "node" or callback.signature.pod != "request" for _, callback in asked):
            return ClassScores(len(self.questions.class_adds))
        return self._shared.class_scores(self.task.template, asked)

    def _take_properties(self) -> None:
        """Ask everything that only depends on nodes' own properties."""
        nodes, static, questions, task = self._nodes, self._shared.static, self.questions, self.task
        nodes.properties.refresh()
        nodes.columns.refresh_allocatable()
        self.properties_position = self._cluster.node_cache.properties_log.end
        every = np.ones(len(self._cluster.rows), dtype=np.bool_)
        static.refresh()
        rows = nodes.columns.all_rows
        ok = every
        for place, predicate in questions.static_predicates:
            ok = ok & static.mask(task, place, predicate)
        self.static_ok = ok
        for _, predicate in questions.property_predicates:
            ok = ok & nodes.passed(predicate.pod(task), predicate, rows, every)
        self.properties_ok = ok
        for part in questions.parts:
            if part.order.scope == "static":
                part.fixed = static.scores(task, part.place, part.order)
            elif part.order.signature.node == "properties" and part.order.scope != "pod":
                part.fixed = nodes.scores(part.order.pod(task), part.order, rows)
        self._lay_out()

    # -- one node -----------------------------------------------------------------------------------------------------

    def _score_row(self, row: int) -> None:
        """Ask the plain functions about one node."""
        self.scores.put(row, self.total_of(row) if self.properties_ok[row] else NEVER)

    def total_of(self, row: int) -> float:
        """Return the score of one node that static rules admit. Minus infinity if it is refused now."""
        node = self._cluster.rows[row]
        kept = self.class_scores
        if kept is None or node.terminating_pods:
            return self._ask_total(row, node)
        node_classes, questions = self._shared.node_classes, self.questions
        node_class = node_classes.follow(node)
        if node_class >= kept.size or kept.epoch != node_classes.epoch:
            kept.make_room(node_classes)
        if math.isnan(kept.sums.item(0, node_class)):
            self._ask_class(kept, node_class, node)
        if kept.sums.item(0, node_class) == NEVER or (questions.whole and not self._is_admitted(node)):
            self.ok[row] = False
            return NEVER
        total = kept.sums.item(questions.leading - 1, node_class) if questions.leading else 0.0
        for other in questions.others:
            if isinstance(other, int):
                total += kept.lines.item(other, node_class)
            elif isinstance(other, np.ndarray):
                total += other.item(row)
            else:
                self._nodes.callbacks_asked += 1
                total += as_scores(other, [other.ask(self.task, node)], 1).item()
        self.ok[row] = total > NEVER
        return total

    def _is_admitted(self, node: NodeInfo) -> bool:
        """True if no predicate that reads a whole node refuses this one."""
        for predicate in self.questions.whole:
            self._nodes.callbacks_asked += 1
            if predicate.ask(self.task, node) is not None:
                return False
        return True

    def total_of_changed(self, row: int, task: TaskInfo) -> float | None:
        """The score of the one node that has changed, for the next of equal tasks; None if more has changed than that.

        It is not written down: ``note`` does that, or the next refresh.
        """
        log = self._cluster.node_cache.usage_log
        changed = log.end - self.position
        if changed > len(log.rows) or any(other != row for other in log.rows[len(log.rows) - changed :]):
            return None
        if self.questions.would_be_outdated(task, self._cluster):
            return None
        self.task = task
        return self.total_of(row)

    def note(self, row: int, total: float) -> None:
        """Write the score of the one node down that has changed."""
        self.position = self._cluster.node_cache.usage_log.end
        self.scores.put(row, total)

    def _ask_total(self, row: int, node: NodeInfo) -> float:
        charge, nodes = self.charge, self._nodes
        fits = node.fits_idle(charge)
        if not (fits or node.terminating_pods):
            self.ok[row] = False
            return NEVER
        nodes.rows_scored += 1
        task, amounts = self.task, node.amounts
        for check, pod, of_amounts in self.questions.checks:
            nodes.callbacks_asked += 1
            if check(task if pod is None else pod, amounts if of_amounts else node) is not None:
                self.ok[row] = False
                return NEVER
        self.ok[row] = True
        if not fits or (node.terminating_pods and not node.fits_future(charge)):
            return NEVER
        total = 0.0
        try:
            for (score, pod, of_amounts), fixed in self.questions.adds:
                if fixed is None:
                    nodes.callbacks_asked += 1
                    total += score(task if pod is None else pod, amounts if of_amounts else node)
                else:
                    total += fixed.item(row)
        except TypeError:
            check_scores(self._shared.callbacks.node_orders, task, node)
            raise
        if math.isnan(total):
            check_scores(self._shared.callbacks.node_orders, task, node)
        return total

    # -- classes of nodes ---------------------------------------------------------------------------------------------

    def _ask_class(self, kept: ClassScores, node_class: int, node: NodeInfo) -> None:
        """Ask about one node for all of its class."""
        nodes, checks, adds = self._nodes, self.questions.class_checks, self.questions.class_adds
        nodes.rows_scored += 1
        nodes.callbacks_asked += len(checks)
        task, amounts = self.task, node.amounts
        will_do = node.fits_idle(self.charge) and all(
            check(task if pod is None else pod, amounts) is None for check, pod, _ in checks
        )
        scores = [score(task if pod is None else pod, amounts) for score, pod, _ in (adds if will_do else ())]
        nodes.callbacks_asked += len(scores)
        if will_do:
            self._put(kept, node_class, scores, node)
        else:
            kept.close(node_class)

    def _put(self, kept: ClassScores, node_class: int, scores: list[float], node: NodeInfo) -> None:
        try:
            is_number = kept.put(node_class, scores)
        except TypeError:
            is_number = False
        if not is_number:
            check_scores(self._shared.callbacks.node_orders, self.task, node)

    def _ask_classes(self, kept: ClassScores, node_classes: Rows, rows: Rows) -> None:
        """Ask about many classes at once, each by the row of one of its nodes."""
        if len(node_classes) <= _FEW:
            for node_class, row in zip(node_classes.tolist(), rows.tolist(), strict=True):
                self._ask_class(kept, node_class, self._cluster.rows[row])
            return
        nodes, task = self._nodes, self.task
        nodes.columns.refresh()
        ok = nodes.columns.fits_idle(self.charge, rows)
        for _, predicate in self.questions.row_predicates:
            if predicate.reads_amounts:
                ok = ok & nodes.passed(predicate.pod(task), predicate, rows, ok)
        rows = rows[ok]
        nodes.rows_scored += len(rows)
        orders = [part.order for part in self.questions.parts if part.fixed is None and part.order.reads_amounts]
        scores = [nodes.scores(order.pod(task), order, rows) for order in orders]
        kept.close(node_classes)
        kept.put_all(node_classes[ok], scores)

    def _score_by_class(self, kept: ClassScores, rows: Rows) -> Rows:
        """Score nodes by their classes. Return rows with terminating pods, where the class does not decide."""
        node_classes, questions, nodes = self._shared.node_classes, self.questions, self._nodes
        node_classes.refresh()
        left = rows[:0]
        if freed := nodes.being_freed():
            are_left = np.isin(rows, freed)
            rows, left = rows[~are_left], rows[are_left]
        kept.make_room(node_classes)
        numbers = node_classes.numbers[rows]
        unknown = np.isnan(kept.sums[0].take(numbers)).nonzero()[0]
        if len(unknown):
            examples = np.full(kept.size, UNKNOWN)
            examples[numbers[unknown]] = rows[unknown]
            asked = (examples != UNKNOWN).nonzero()[0]
            self._ask_classes(kept, asked, examples[asked])
        totals = kept.sums[questions.leading - 1].take(numbers) if questions.leading else np.zeros(len(rows))
        if not questions.amounts_decide:
            nodes.columns.refresh()
            ok = kept.sums[0].take(numbers) > NEVER
            for predicate in questions.whole:
                ok = ok & nodes.passed(predicate.pod(self.task), predicate, rows, ok)
            totals[~ok] = NEVER
        for other in questions.others:
            if isinstance(other, int):
                totals += kept.lines[other].take(numbers)
            elif isinstance(other, np.ndarray):
                totals += other.take(rows)
            else:
                totals[ok] += nodes.scores(other.pod(self.task), other, rows[ok])
        self.scores.total[rows] = totals
        self.ok[rows] = totals > NEVER
        return left

    # -- many nodes ---------------------------------------------------------------------------------------------------

    def _score_all(self) -> None:
        self._nodes.sweeps += 1
        count = len(self._cluster.rows)
        self.scores.close_all(count)
        self.ok = np.zeros(count, dtype=np.bool_)
        rows = np.flatnonzero(self.properties_ok)
        if self.class_scores is not None:
            rows = self._score_by_class(self.class_scores, rows)
        if len(rows):
            self._score_rows(rows)
        self.scores.renew_blocks()
        self.position = self._cluster.node_cache.usage_log.end

    def _score_changed(self, rows: Rows) -> None:
        """Ask about many changed nodes. Some may be named twice."""
        rows = _possible(rows, self.properties_ok)
        if self.class_scores is not None:
            rows = self._score_by_class(self.class_scores, rows)
        total = self.scores.total
        total[rows] = NEVER
        self.ok[rows] = False
        worth = list(dict.fromkeys(self._worth_asking(rows).tolist())) if len(rows) else []
        if len(worth) > _FEW:
            self._score_rows(np.array(worth, dtype=np.intp))
        else:
            for row in worth:
                total[row] = self.total_of(row)
        self.scores.renew_blocks()

    def _worth_asking(self, rows: Rows) -> Rows:
        """Skip changed nodes that lack the scarcest resource, now and later."""
        if not self.charge:
            return rows
        columns = self._nodes.columns
        columns.refresh()
        column, least = self.charge[0]
        idle = columns.allocatable[column][rows] - columns.used[column][rows]
        worth = (idle >= least) | columns.left_to_devices(column, rows)
        if freed := self._nodes.being_freed():
            worth |= np.isin(rows, freed)
        kept: Rows = rows[worth]
        return kept

    def _score_rows(self, rows: Rows) -> None:
        """Ask about many refused nodes at once, by vector twins where callbacks have them."""
        nodes = self._nodes
        nodes.columns.refresh()
        fits = nodes.columns.fits_idle(self.charge, rows)
        if not self._cluster.node_cache.with_terminating_pods:
            rows, fits = rows[fits], fits[fits]
        nodes.rows_scored += len(rows)
        ok = np.ones(len(rows), dtype=np.bool_)
        for _, predicate in self.questions.row_predicates:
            ok = ok & nodes.passed(predicate.pod(self.task), predicate, rows, ok)
        self.ok[rows] = ok
        rows = rows[ok & fits]
        if len(rows):
            self.scores.total[rows] = self.sums(rows)

    def sums(self, rows: Rows) -> Floats:
        """Return the sums of all node orders for these rows, also for refused nodes."""
        totals = np.zeros(len(rows))
        self._nodes.columns.refresh()
        for part in self.questions.parts:
            order, fixed = part.order, part.fixed
            scores = fixed[rows] if fixed is not None else self._nodes.scores(order.pod(self.task), order, rows)
            totals = totals + scores
        return totals

    # -- nodes without room now ---------------------------------------------------------------------------------------

    def future_rows(self) -> Rows:
        """Rows without room now that will have it: only nodes where something is being released can."""
        freed = self._cluster.node_cache.with_terminating_pods.values()
        found = [node.row for node in freed if self.ok[node.row] and node.fits_future(self.charge)]
        return np.array(sorted(found), dtype=np.intp)

    def rows_if_others_left(self, asked_of_each: Sequence[Predicate]) -> Rows:
        """Rows where the task could go if others left: what refuses it there eviction can change."""
        columns = self._nodes.columns
        columns.refresh()
        large_enough = self.static_ok.copy()
        for column, amount in self.charge:
            enough = columns.allocatable[column] >= amount
            large_enough &= enough | columns.left_to_devices(column, columns.all_rows)
        nodes, questions = self._cluster.rows, self.questions
        asked = [p for _, p in (*questions.property_predicates, *questions.row_predicates)] + [*asked_of_each]
        refusing = np.flatnonzero(large_enough & ~self.ok)
        large_enough[[row for row in refusing if not could_go(self.task, nodes[row], asked)]] = False
        return np.flatnonzero(large_enough)


def could_go(task: TaskInfo, node: NodeInfo, asked: Sequence[Predicate]) -> bool:
    """True if eviction can change every refusal of a task on a node."""
    verdicts = (ask_predicate(predicate, task, node) for predicate in asked)
    return all(verdict is None or verdict.resolvable for verdict in verdicts)


def _possible(rows: Rows, ok: Mask) -> Rows:
    """Return the rows that are ok; of long lists each row once."""
    if len(rows) * _REPEATS < len(ok):
        return rows[ok[rows]]
    named = np.zeros(len(ok), dtype=np.bool_)
    named[rows] = True
    named &= ok
    return named.nonzero()[0]
