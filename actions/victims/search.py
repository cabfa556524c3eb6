"""Making room: which pods would have to go for a task, tried on the live cluster and undone when it does not help.

Victims are tried as gone, so that rules which look at other pods (affinity, ports, spread, volumes) see the node as it
will be. Only as many stay victims as are needed, the least important first (*ours*: Volcano keeps all that it tried).
A task for which room was made is promised that room: it is pipelined, and nominated to the node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice

import msgspec

from actions.attempt import is_busy
from actions.promises import promised, weaker
from actions.turns import considered
from actions.victims.budgets import broken_by, by_budget, departures
from actions.victims.candidate_nodes import CandidateNodes, Found, Where
from actions.victims.cost import (
    FEWEST_COMPARED,
    SHARE_COMPARED,
    VictimPlan,
    least_cost_first,
    needed,
    none_matters_more,
    running_of,
    weights_of,
)
from actions.victims.searched import was_searched
from volsched.framework.config.arguments import Argument
from volsched.framework.engine.plain import Ranked
from volsched.framework.eviction_units import departing, unit_of
from volsched.framework.redaction import of_queue
from volsched.framework.session import Session
from volsched.framework.statement import Statement
from volsched.framework.terminating import all_left
from volsched.model.job import JobInfo
from volsched.model.nodes.columns import PODS
from volsched.model.nodes.node import NodeInfo
from volsched.model.pods.task import TaskInfo
from volsched.model.queues.queue import QueueInfo
from volsched.model.status import TaskStatus
from volsched.model.verdict import NodeRefusals, Verdict

KEEP_BUDGETS = "respectDisruptionBudgets"
LEAST_COST = "leastImportantVictims"
ARGUMENTS = (
    Argument(
        KEEP_BUDGETS,
        "bool",
        False,
        "Never evict a pod whose PodDisruptionBudget allows no more disruptions; otherwise such pods go last.",
    ),
    Argument(
        LEAST_COST,
        "bool",
        False,
        "Make room on the node whose victims matter least, as kube-scheduler does, and not on that of the best score.",
    ),
)
"""What both evicting actions can be told."""

NO_VICTIMS = "No preemption victims found for incoming pod"
PROTECTED = "pods that may not be evicted for it"
BUDGETS = "pods protected by disruption budgets"
TOO_SMALL = "too little room even without the pods that may be evicted"
NO_USE = "Preemption is not helpful for scheduling"

_BY_VOTE = (PROTECTED, TOO_SMALL)
"""Reasons for which it matters whom plugins protect."""
_PROTECT = ("protects", "protect")

_LABEL = {"preempt": "preemption"}
"""What an action is called in messages, when that is not its name."""
_LABELS = ("preemption: ", "reclaim: ")

_TOGETHER = ("without which its gang is below its minimum", "with which its group goes as a whole")
"""Why a pod goes with another one: in a gang that would break, and in a group that demands it."""

VictimVote = Callable[[TaskInfo, Sequence[TaskInfo]], list[TaskInfo]]
"""The plugins' votes on whom of the candidates a task may evict."""


@dataclass(slots=True)
class VictimSearch:
    """The search for room for one task.

    * ``is_candidate``: True for a task of a node that may be evicted for this one, before plugins are asked.
    * ``vote``: the plugins' choice among candidates.
    * ``fits_queue``: True if the task's queue could take it on now.
    * ``needs_candidates``: nodes without candidates are skipped.
    * ``keeps_budgets``: no pod goes whose PodDisruptionBudget allows no more; else such pods go last (as with
      kube-scheduler).
    * ``least_cost``: the node is chosen by its victims, and not by its score.
    * ``quiet``: an earlier search for the task has recorded why it did not help.
    * ``whole_gangs``: the fewest pods go, and a gang as a whole if it would be left with less than its minimum.
      Plugins are asked about each such gang again when its turn comes.
    * ``where``: the nodes that can have candidates, if there are ``candidate_nodes``; without, any node can.
    * ``failures``: why the nodes that were tried did not help.
    """

    session: Session
    statement: Statement
    task: TaskInfo
    is_candidate: Callable[[TaskInfo], bool]
    vote: VictimVote
    fits_queue: Callable[[], bool]
    needs_candidates: bool = False
    keeps_budgets: bool = False
    least_cost: bool = False
    quiet: bool = False
    whole_gangs: bool = False
    candidate_nodes: CandidateNodes | None = None
    where: Where = field(default_factory=dict)
    failures: NodeRefusals = field(default_factory=NodeRefusals)
    _keeping: bool = False
    _spares_all: bool = False
    _takes_pinned: bool = False
    _spares_pinned: bool = False

    def succeed(self) -> bool:
        """Make room on the best node; without success nothing changes, and the reason is recorded."""
        task, session = self.task, self.session
        if session.pre_refusal(task) is not None:
            return False
        if self._is_promised_again() or self.takes_free_slot():
            return True
        if _waits_on_terminating(session, task):
            return False
        self._spares_all = task.best_effort and _is_left_to_backfill(session, task)
        session.stats.victim_searches[session.action, task.queue] += 1
        nodes, worth_a_try = self._nodes()
        for takes_pinned, keeping in self._passes():
            self.failures, self._takes_pinned, self._keeping = NodeRefusals(), takes_pinned, keeping
            if self._make_room_on_one_of(worth_a_try):
                return True
            if len(worth_a_try) < len(nodes):
                self.failures.add(NO_VICTIMS, len(nodes) - len(worth_a_try))
        if len(nodes) < len(session.rows):
            self.failures.add(NO_USE, len(session.rows) - len(nodes))
        if not self.quiet and not self._spares_all:
            _explain(session, task, self.failures)
        return False

    def _passes(self) -> Iterator[tuple[bool, bool]]:
        """Whether pods that a DaemonSet pins may go, and whether budgets are kept: one after the other, until it helps.

        Others go first, even if that breaks a budget: room that a pinned pod leaves is asked for again at once.
        """
        passes = [True] if self.keeps_budgets or not self.session.budgets else [True, False]
        yield from ((False, keeping) for keeping in passes)
        if self._spares_pinned:
            yield from ((True, keeping) for keeping in passes)

    def takes_free_slot(self) -> bool:
        """Promise an idle member of a gang a node that has a slot, now or soon; evict no pod for it."""
        if is_busy(self.task) or self.task.best_effort or not self.fits_queue():
            return False
        nodes = (node for node, _ in self.session.engine.ranked(self.task))
        will_admit = partial(self.session.nominations.will_admit, self.task)
        node = self.session.engine.best(self.task) or next(filter(will_admit, nodes), None)
        return node is not None and self.statement.pipeline(self.task, node) is None

    def _is_promised_again(self) -> bool:
        """Take up a promise of which the task's gang let go in this session, since it could not have all of them."""
        node = self.session.nodes.get(self.task.nominated) if self.task.nominated else None
        if node is None or not (self.fits_queue() and self.session.nominations.will_admit(self.task, node)):
            return False
        return self.statement.pipeline(self.task, node) is None

    def _nodes(self) -> Found:
        """Nodes where the task could go if others left, best first, and those of them that are worth a try."""
        if self.candidate_nodes is None:
            nodes = self.session.engine.ranked(self.task)
            return nodes, nodes
        return self.candidate_nodes.once(self.task, self.where, self._look)

    def _look(self) -> Found:
        nodes = self.session.engine.ranked(self.task)
        return nodes, [(node, score) for node, score in nodes if self._is_worth_a_try(node)]

    def _is_worth_a_try(self, node: NodeInfo) -> bool:
        """True if there can be candidates on a node, or room without anybody going."""
        if node.name in self.where:
            return True
        if self.needs_candidates:
            return False
        return node.terminating_pods > 0 or self.session.has_room(self.task, node)

    def _in_order(self, plans: Iterator[VictimPlan]) -> Iterator[VictimPlan]:
        return least_cost_first(plans, self._most_compared) if self.least_cost else plans

    @property
    def _most_compared(self) -> int:
        return max(FEWEST_COMPARED, len(self.session.rows) // SHARE_COMPARED)

    def _plan(self, node: NodeInfo) -> VictimPlan:
        candidates = [t for t in node.tasks.values() if self.is_candidate(t)]
        eligible = self._without_pinned(candidates)
        victims = self._victims(eligible)
        within_budgets, broken = self._by_budget(victims)
        if self._keeping and broken:
            # plugins name only so many as a queue or a gang can lose: others, where those may not go
            within_budgets = self._by_budget(self._victims([other for other in eligible if other not in broken]))[0]
        ordered = within_budgets if self._keeping else [*within_budgets, *broken]
        ordered.sort(key=lambda victim: (victim.spec.pinned, len(departing(victim)) if self.whole_gangs else 0))
        request = self.session.request(self.task)
        lacking = needed(node, request, weaker(self.session, self.task, node), ordered)
        return VictimPlan(node, candidates, victims, ordered, lacking)

    def _by_budget(self, victims: list[TaskInfo]) -> tuple[list[TaskInfo], list[TaskInfo]]:
        return by_budget(self.session, self.session.in_order_of_victims(self.task, victims))

    def _without_pinned(self, candidates: list[TaskInfo]) -> list[TaskInfo]:
        """Return candidates without those that a DaemonSet pins to the node, unless these may go by now."""
        others = [candidate for candidate in candidates if not candidate.spec.pinned]
        if self._takes_pinned or len(others) == len(candidates):
            return candidates
        self._spares_pinned = True
        return others

    def _make_room_on_one_of(self, nodes: Ranked) -> bool:
        """Make room on the first of some nodes, best first, on which that can be done, or on one of its equals."""
        start = self.statement.checkpoint()
        plans = self._in_order(self._plan(node) for node, _ in nodes)
        plan = self._with_fewest(plans) if self.whole_gangs else next(filter(self._make_room, plans), None)
        if plan is None:
            return False
        if not self.least_cost:
            self._leave_running(plan, start, nodes)
        return True

    def _leave_running(self, plan: VictimPlan, start: int, nodes: Ranked) -> None:
        """Make the room that a plan has made on an equal node, if fewer running pods go there and none matters more."""
        victims = self._evicted_since(start)
        equals = self._equals(plan.node, nodes) if self._was_any_running(start) else []
        if not equals:
            return
        self.statement.rollback(start)
        best, least, weights = plan, running_of(victims), weights_of(self.session, victims)
        for other in (way for node in equals for way in self._ways(self._plan(node))):
            found = self._victims_by(other) if running_of(other.ordered) < len(other.ordered) else None
            if found is None or (self.whole_gangs and len(found) > len(victims)):
                continue
            if running_of(found) < least and none_matters_more(weights_of(self.session, found), weights):
                best, least = other, running_of(found)
            if not least:
                break
        self._make_room(best)

    def _was_any_running(self, start: int) -> bool:
        evictions = (operation for operation in self.statement.operations[start:] if operation.kind == "evict")
        return any(eviction.status is TaskStatus.RUNNING for eviction in evictions)

    def _equals(self, node: NodeInfo, nodes: Ranked) -> list[NodeInfo]:
        """Nodes of a node's score on which pods may go that do not run, so many as are compared at most."""
        not_running = {name for name, is_not_running in self.where.items() if is_not_running and name != node.name}
        if not not_running:
            return []
        score = next(score for other, score in nodes if other is node)
        equals = (other for other, total in nodes if total == score and other.name in not_running)
        return list(islice(equals, FEWEST_COMPARED))

    def _with_fewest(self, plans: Iterator[VictimPlan]) -> VictimPlan | None:
        """Make room where the fewest pods have to go for it, of equal ones in the first place; by which plan."""
        found: list[tuple[int, VictimPlan]] = []
        for plan in plans:
            for way in self._ways(plan):
                victims = self._victims_by(way)
                if victims is None:
                    break
                found.append((len(victims), way))
            if found and (found[-1][0] <= 1 or len(found) >= 2 * self._most_compared):
                break
        best = min(found, key=lambda one: one[0])[1] if found else None
        return best if best is not None and self._make_room(best) else None

    def _ways(self, plan: VictimPlan) -> Iterator[VictimPlan]:
        """Yield a plan, and with ``whole_gangs`` the one in which those come first who hold most of what is wanted.

        Fewer of them may do.
        """
        yield plan
        if self.whole_gangs:
            released = self.session.held_of_requested
            ordered = sorted(plan.ordered, key=lambda victim: (victim.spec.pinned, -released(self.task, victim)))
            yield replace(plan, ordered=ordered)

    def _victims_by(self, plan: VictimPlan) -> list[TaskInfo] | None:
        """Return who would go for the task by a plan, or None when it makes no room."""
        start = self.statement.checkpoint()
        if not self._make_room(plan):
            return None
        victims = self._evicted_since(start)
        self.statement.rollback(start)
        return victims

    def _evicted_since(self, start: int) -> list[TaskInfo]:
        return [operation.task for operation in self.statement.operations[start:] if operation.kind == "evict"]

    def _make_room(self, plan: VictimPlan) -> bool:
        node = plan.node
        if self.needs_candidates and not plan.candidates:
            return self._fail(NO_VICTIMS)
        if plan.needed is None:
            return self._fail(self._why_not(plan, enough=False))
        with all_left(self.session.cluster, node) if self._terminating_make_room(node) else nullcontext():
            return self._clear(node, plan.ordered) or self._fail(self._why_not(plan, enough=True))

    def _terminating_make_room(self, node: NodeInfo) -> bool:
        """True if those who are leaving count as gone: the slots of a full node are theirs until then."""
        return bool(promised(self.session, node)) or node.releasing[PODS] > 0

    def _clear(self, node: NodeInfo, ordered: Sequence[TaskInfo]) -> bool:
        """Have weaker promises and as many victims as needed off a node, and the task promised their room.

        Terminating pods count as gone; the pod that was promised their room counts instead.
        """
        before = self.statement.checkpoint()
        for other in weaker(self.session, self.task, node):
            self.statement.displace(other)
        start = self.statement.checkpoint()
        chosen = self._evict_until_enough(node, ordered)
        if not self._suffices(node):
            self.statement.rollback(before)
            return False
        self._spare(node, start, chosen)
        self.statement.settle_evictions(start)
        if self.statement.pipeline(self.task, node) is not None:
            self.statement.rollback(before)
            return False
        self._give_back(before, start, node)
        self.statement.makes_room = True
        return True

    def _fail(self, why: str) -> bool:
        self.failures.add(why)
        return False

    def _why_not(self, plan: VictimPlan, *, enough: bool) -> str:
        """Return why a node cannot be made to take the task, with the plugins that protect pods there."""
        why = _why_not(plan, enough=enough)
        protectors = self.session.protectors(self.task, plan.candidates) if why in _BY_VOTE else []
        plugins = sorted(frozenset().union(*protectors))
        if not plugins:
            return why
        named = f"{'plugin' if len(plugins) == 1 else 'plugins'} {', '.join(plugins)}"
        return f"pods protected by {named}" if all(protectors) else f"{why} ({named} {_PROTECT[len(plugins) > 1]} some)"

    def _evict_until_enough(self, node: NodeInfo, victims: Sequence[TaskInfo]) -> list[TaskInfo]:
        chosen: list[TaskInfo] = []
        for victim in victims:
            if self._suffices(node):
                break
            if self._evict(victim):
                chosen.append(victim)
        return chosen

    def _victims(self, candidates: list[TaskInfo]) -> list[TaskInfo]:
        """Return the candidates that the plugins vote for; none for a task without requests that backfill may place.

        Pods that do not run yet come first: some plugins name only as many as a queue has too much.
        """
        if self._spares_all or not candidates:
            return []
        return self.vote(self.task, sorted(candidates, key=lambda t: (t.status is TaskStatus.RUNNING, t.uid)))

    def _give_back(self, before: int, start: int, node: NodeInfo) -> None:
        """Let weaker tasks keep their promises where there is room for both, the most important first."""
        for other in [operation.task for operation in self.statement.operations[before:start]]:
            if self.session.nominations.will_admit(other, node):
                self.statement.undo(other)

    def _suffices(self, node: NodeInfo) -> bool:
        return self.fits_queue() and self.session.engine.admits(self.task, node)

    def _spare(self, node: NodeInfo, start: int, chosen: list[TaskInfo]) -> None:
        """Let go of victims that turn out not to be needed, the most important first."""
        for victim in reversed(chosen[:-1]):
            rest = [other for other in chosen if other is not victim]
            self.statement.rollback(start)
            self._evict_all(rest)
            if self._suffices(node):
                chosen[:] = rest
        self.statement.rollback(start)
        self._evict_all(chosen)

    def _evict_all(self, victims: Sequence[TaskInfo]) -> None:
        for victim in victims:
            self._evict(victim)

    def _evict(self, victim: TaskInfo) -> bool:
        """Evict a victim, with the pods that leave together with it. Return False if that is not allowed."""
        if victim.job is self.task.job:
            self._take_off(victim, f"{self._who(victim)} needs the room of this pod")
            return True
        is_unit = victim.job is not None and victim.job.spec.native is not None
        together = departing(victim) if self.whole_gangs else unit_of(victim)
        if (self.whole_gangs or is_unit) and not self._may_all_leave(together):
            return False
        mine = f"{self._who(victim)} needs the room of"
        self._take_off(victim, f"{mine} this pod")
        for member in together[1:]:
            self._take_off(member, f'{mine} pod "{victim.key}", {_TOGETHER[is_unit]}: this pod')
        return True

    def _who(self, victim: TaskInfo) -> str:
        """Return what a victim is told of the pod that needs its room: of another namespace its queue alone."""
        task = self.task
        if task.namespace == victim.namespace:
            return f'pod "{task.key}" ({_importance(task)})'
        return f"{of_queue(task.queue)} (priority {task.eviction_priority})"

    def _may_all_leave(self, together: list[TaskInfo]) -> bool:
        """True if all of these may go as things are now, those that went before counted as gone."""
        if not all(map(self.is_candidate, together)) or len(self.vote(self.task, together)) < len(together):
            return False
        return not self._keeping or not by_budget(self.session, together)[1]

    def _take_off(self, victim: TaskInfo, why: str) -> None:
        """Take a pod off, with the words for its user: who needs the room, and why it is this pod that goes."""
        reason = f"{self.session.action}: {why} ({_importance(victim)})"
        broken = broken_by(self.session, victim)
        if broken:
            reason += f"; this breaks the disruption budget {', '.join(broken)}"
        self.statement.evict(victim, reason)
        departures(self.session).note(victim)


def _why_not(plan: VictimPlan, *, enough: bool) -> str:
    """Return why a node cannot be made to take the task, in kube-scheduler's words where it has some."""
    if not plan.candidates:
        return NO_VICTIMS
    if not plan.victims:
        return PROTECTED
    if len(plan.ordered) < len(plan.victims):
        return BUDGETS
    return NO_USE if enough else TOO_SMALL


def _explain(session: Session, task: TaskInfo, failures: NodeRefusals) -> None:
    """Add to why a task waits that eviction cannot help, and why not."""
    refusal = task.refusal
    of_job = task.job.refusal if task.job is not None else None
    if of_job is not None and (refusal is None or refusal.step is of_job.step):
        refusal = of_job
    if refusal is None:
        return
    label = _LABEL.get(session.action, session.action)
    base = refusal.message.partition(f" {label}: ")[0].removesuffix(";")
    text = f"{base}{'' if base.endswith('.') else ';'} {label}: {failures.text(len(session.rows))}"
    session.refuse(task, msgspec.structs.replace(refusal, message=text))


def _importance(task: TaskInfo) -> str:
    priority = f"priority {task.eviction_priority}"
    return priority if task.job is None else f'queue "{task.job.queue}", {priority}'


def _waits_on_terminating(session: Session, task: TaskInfo) -> bool:
    """True if less important pods are leaving the node that the task is nominated to: then room is on its way."""
    node = session.nodes.get(task.nominated) if task.nominated else None
    if node is None:
        return False
    leaving = (other for other in node.tasks.values() if other.status is TaskStatus.RELEASING)
    return any(other.victim_priority < task.eviction_priority for other in leaving)


def _is_left_to_backfill(session: Session, task: TaskInfo) -> bool:
    """True if a task that asks for nothing has room, which backfill finds, or no action would place it anyway."""
    return "backfill" not in session.configuration.actions or session.engine.best(task) is not None


def starving(session: Session, lacks_more: Callable[[JobInfo], bool] = lambda _: False) -> list[JobInfo]:
    """Return the jobs that lack room, without those for which this action found no victims before the last change.

    One with a promise is not: allocate may have taken that back in this session, as its gang cannot start.
    ``lacks_more``: which of those that have their minimum are to get more.
    """
    cluster = session.cluster
    promised = {task.job for task in cluster.nominated.values()}
    not_searched = [
        job for job in cluster.queue_cache.waiting.values() if not was_searched(session, job) or job in promised
    ]
    _keep_explanations(session)
    jobs = considered(session, not_searched)
    return [job for job in jobs if session.is_starving(job) or lacks_more(job)]


def _keep_explanations(session: Session) -> None:
    """Note with tasks that were refused again why evicting does not help, if no victims are sought again."""
    for task, before in session.refused_again():
        job = task.job
        if job is None or before is None or not was_searched(session, job):
            continue
        if task.refusal is not None and _explains(before, task.refusal):
            session.refuse(task, before)


def _explains(before: Verdict, now: Verdict) -> bool:
    """True if a refusal is another one with what eviction added to it."""
    added = before.message.removeprefix(now.message).lstrip("; ")
    return added.startswith(_LABELS) and msgspec.structs.replace(before, message=now.message) == now


def preemptors(session: Session, job: JobInfo) -> list[TaskInfo]:
    """Return the waiting tasks of a job in the order in which they are tried, last first."""
    return session.in_order(list(job.schedulable()))[::-1]


def fits_in_queue(session: Session, queue: QueueInfo, task: TaskInfo) -> Callable[[], bool]:
    """Make a question to be asked again as victims go: whether the queue could take the task on now."""
    return lambda: session.allocatable_refusal(queue, task) is None
