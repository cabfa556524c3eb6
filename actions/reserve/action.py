"""reserve: hold nodes for large jobs that have waited long, and start them there before other jobs.

Session schedulers pass over what does not fit, so gangs of several nodes starve under a stream of small jobs. This
action reserves named nodes for such a job. Others may use these only if they declare that they end before the job
starts. Where pods do not declare when they end, the emptiest nodes are held until they are free. A reservation lasts
until the job starts, or ``reserve.drainFor`` is over.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any, ClassVar, Final

from actions.attempt import Attempt, last_first
from actions.domains import place_in_domain
from actions.reserve import shown, words
from actions.reserve.book import Book, DurationSettings, Reservation
from actions.reserve.long_waiting import LongWaitingJobs
from actions.reserve.planning import Planner, ReservationPlan, in_use, needed
from actions.reserve.quota import charged_beside, of_reservations, quota_lets
from actions.turns import closed_queue, considered, settle_minimum
from volsched.framework.config.arguments import Argument, ArgumentProblem
from volsched.framework.native.topology import Topology
from volsched.framework.quota_report import IS_PROMISED
from volsched.framework.registration import Registrar
from volsched.framework.reporter import about_group
from volsched.framework.reports import Report
from volsched.framework.rules import Predicate, PrePredicate, Wake, never
from volsched.framework.session import Session
from volsched.model.held_nodes import DEFAULT_DURATION as DURATION_OF_QUEUE
from volsched.model.held_nodes import (
    EXPECTED_DURATION,
    RESERVE_AFTER,
    RESERVED,
    condition_of,
    paused,
    stamp,
    without_reservation,
)
from volsched.model.job import JobInfo, with_condition
from volsched.model.pods.task import TaskInfo
from volsched.model.values.duration import seconds_of
from volsched.model.values.series import Series
from volsched.model.verdict import Scope, Step
from volsched.model.waiting_time import WAITING_TIME, WAITING_TIMES

AFTER: Final = "reserve.after"
DEFAULT_DURATION: Final = "reserve.defaultDuration"
JOBS: Final = "reserve.jobs"
DRAINS: Final = "reserve.drains"
MIN_NODES: Final = "reserve.minNodes"
OVERESTIMATE: Final = "reserve.overestimate"
OUTLIVED: Final = "reserve.outlived"
DRAIN_FOR: Final = "reserve.drainFor"
DRAIN_PAUSE: Final = "reserve.drainPause"
SHARE: Final = "reserve.share"

WORTH_SAYING: Final = 0.1
"""Of the time that is left: a start that moves by less is no news."""

RESERVATIONS: Final = Series("volsched_reservations", "Jobs for which nodes are held", ("queue_name",))
IDLE: Final = Series(
    "volsched_reserved_idle", "What is free on nodes that are held for a job, in the resource's unit", ("resource",)
)
OUTLIVED_PODS: Final = Series(
    "volsched_outlived_durations", "Pods that ran for longer than they declared, since the start", ("namespace",)
)
LATE: Final = Series(
    "volsched_reservation_late_seconds",
    "Of jobs that wait: how much later than first promised they start",
    ("queue_name",),
)


def check_arguments(values: Mapping[str, Any]) -> list[ArgumentProblem]:
    """Refuse what is no duration."""
    wrong = [key for key in (AFTER, DEFAULT_DURATION, DRAIN_FOR, DRAIN_PAUSE) if seconds_of(values[key]) is None]
    return [ArgumentProblem(k, f"must be a duration as 1h30m or 90s, not {values[k]!r}") for k in wrong]


class ReserveAction:
    """Hold nodes for large jobs."""

    name: ClassVar[str] = "reserve"
    TASK_ANNOTATIONS: ClassVar[tuple[str, ...]] = (EXPECTED_DURATION,)
    GROUP_ANNOTATIONS: ClassVar[tuple[str, ...]] = (EXPECTED_DURATION, RESERVE_AFTER, *WAITING_TIMES)
    QUEUE_ANNOTATIONS: ClassVar[tuple[str, ...]] = (DURATION_OF_QUEUE, RESERVE_AFTER)
    ARGUMENTS: ClassVar[tuple[Argument, ...]] = (
        Argument(AFTER, "str", "1h", "How long a job waits before nodes are held for it; 0s: at once."),
        Argument(JOBS, "int", 4, "For so many jobs at a time, one for each queue beyond the first.", minimum=1),
        Argument(DRAINS, "int", 1, "Of those, with an unknown start, as pods do not say how long they run.", minimum=0),
        Argument(
            MIN_NODES,
            "float",
            1.0,
            "Only jobs that need more nodes than this; 0.5: pods of over half a node, too.",
            minimum=0,
        ),
        Argument(OVERESTIMATE, "float", 1.0, "What durations are multiplied with that pods declare.", minimum=0.1),
        Argument(
            OUTLIVED,
            "int",
            10,
            "After so many pods that outlived what they declared a namespace or queue is not believed.",
            minimum=0,
        ),
        Argument(
            DRAIN_FOR,
            "str",
            "24h",
            "So long nodes are held past the start that a job was told, or if it was told none; 0s: for ever.",
        ),
        Argument(
            DRAIN_PAUSE,
            "str",
            "1h",
            "Then none are held for its namespace for so long, twice as long each time, 24h at most.",
        ),
        Argument(
            SHARE,
            "float",
            0.5,
            "Drains hold together at most this part of the nodes they could use; a single one may hold more.",
            minimum=0,
        ),
        Argument(DEFAULT_DURATION, "str", "0s", "How long pods are thought to run that say nothing; 0s: not known."),
    )

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self._after = seconds_of(arguments[AFTER]) or 0.0
        self._jobs, self._drains = arguments[JOBS], arguments[DRAINS]
        self._min_nodes = arguments[MIN_NODES]
        self._share = arguments[SHARE]
        self._settings = DurationSettings(
            arguments[OVERESTIMATE],
            seconds_of(arguments[DEFAULT_DURATION]) or 0.0,
            arguments[OUTLIVED],
            seconds_of(arguments[DRAIN_FOR]) or math.inf,
            seconds_of(arguments[DRAIN_PAUSE]) or 0.0,
        )

    def on_session_open(self, registrar: Registrar) -> None:
        """Close held nodes to others, and have a session when a job is due or a start is reached."""
        session = registrar.session
        book, long_waiting = self._book(session), self._due(session)
        book.begin(session.now)
        quota = of_reservations(session, book)
        registrar.register(
            Predicate(
                book.refusal,
                key=book.closed_to,
                version=lambda _: book.version,
                for_each_pod=never,
                is_temporary=True,
            ),
            Predicate(book.refusal_beside, key=book.closed_beside, version=book.moves, is_temporary=True),
            PrePredicate(quota.refusal, applies_to=quota.applies_to),
            Wake(long_waiting.next),
            Wake(book.next_start),
            Wake(book.next_deadline),
            Report(
                metrics={
                    RESERVATIONS: lambda: shown.by_queue(book, lambda _: 1.0),
                    LATE: lambda: shown.by_queue(book, shown.late),
                    IDLE: lambda: shown.idle(book),
                    OUTLIVED_PODS: lambda: {(space,): float(count) for space, count in book.trust.counts.items()},
                },
                table=lambda: shown.table(book),
                free_cards={IS_PROMISED: lambda: shown.held(book)},
            ),
        )

    def execute(self, session: Session) -> None:
        """Start jobs with reservations, in their order, and keep the other reservations; then make new ones."""
        book = self._book(session)
        for job in book.take_left_behind():
            session.set_conditions(job, without_reservation(job))
        for reservation in list(book.kept.values()):
            with session.about(reservation.job):
                self._go_on(session, book, reservation)
        self._promise(session, book)
        for reservation in book.kept.values():
            generation = session.generations.requeue
            reservation.job.unschedulable_at = generation
            reservation.tried_at = generation, reservation.is_settled(session.now)

    def _book(self, session: Session) -> Book:
        return session.account("reserve.book", lambda cluster: Book(cluster, self._settings))

    def _due(self, session: Session) -> LongWaitingJobs:
        tiers = session.configuration.tiers
        sla = [option.arguments.get(WAITING_TIME, "") for tier in tiers for option in tier if option.name == "sla"]
        agreed = min((seconds for text in sla if (seconds := seconds_of(text))), default=0.0)
        return session.account("reserve.due", lambda cluster: LongWaitingJobs(cluster, self._after, agreed))

    # -- who has a reservation ----------------------------------------------------------------------------------------

    def _go_on(self, session: Session, book: Book, reservation: Reservation) -> None:
        """Start a job that has a reservation, or keep that.

        The status of a native group does not state that its queue let it in, so after a restart it is let in again.
        """
        if reservation.restored:
            self._let_in(session, reservation.job)
        if _is_over(session, reservation):
            self._end(session, book, reservation, None)
        elif why := _lost(session, reservation):
            self._end(session, book, reservation, why)
        elif self._start(session, book, reservation):
            book.pauses.end(reservation.job.namespace)
            self._end(session, book, reservation, None)
        elif book.deadline(reservation) <= session.now:
            self._give_up(session, book, reservation)
        elif reservation.stale or (reservation.start is not None and reservation.start <= session.now):
            self._replan(session, book, reservation)
        if reservation.job.key in book.kept:
            self._report(session, book, reservation)

    def _start(self, session: Session, book: Book, reservation: Reservation) -> bool:
        """Try a job before the queues have their turns. Return True if it has what it needs."""
        is_settled = reservation.is_settled(session.now)
        if reservation.tried_at == (session.generations.requeue, is_settled) and not reservation.stale:
            return False
        job = reservation.job
        tasks = [task for task in job.schedulable() if not task.best_effort]
        attempt = Attempt(job, last_first(session, tasks))
        book.is_trying = True
        try:
            with session.shares_settled() if is_settled else nullcontext():
                statement = place_in_domain(session, session.queues[job.queue], attempt)
        finally:
            book.is_trying = False
        if statement is None:
            return False  # the reservation is what it waits for
        session.clear_refusal(job)
        for operation in statement.operations:
            book.task_moved(operation.task, operation.status, operation.node)
        statement.commit(job)
        return True

    def _end(self, session: Session, book: Book, reservation: Reservation, why: str | None) -> None:
        """Hold a job's nodes no longer: it starts, or lost them."""
        job = reservation.job
        book.drop(reservation)
        session.set_conditions(job, without_reservation(job))
        job.requeue()
        if why and job.key in session.jobs and job.spec.has_group:
            session.record_event(
                about_group(job, "Warning", "ReservationLost", f"nodes are held for it no longer: {why}")
            )

    def _give_up(self, session: Session, book: Book, reservation: Reservation) -> None:
        """End a reservation that lasted for long enough, and hold no nodes for the namespace for a while."""
        job = reservation.job
        pause = book.pauses.begin(job.namespace, session.now)
        held = words.written(self._settings.hold)
        self._end(
            session,
            book,
            reservation,
            f"it could not start within {held}, and waits for {words.written(pause.seconds)}",
        )
        if job.key in session.jobs and pause.seconds:
            session.set_conditions(job, paused(job, pause.until, pause.seconds))

    def _replan(self, session: Session, book: Book, reservation: Reservation) -> None:
        """Find the start anew. Other nodes are taken only if the job starts earlier there.

        What was read from a PodGroup stays on its nodes at first: others may be free only because the reservations
        that were made in the same session had not all been written.
        """
        job, nodes = reservation.job, reservation.nodes
        plan = None
        if reservation.restored:
            plan = self._plan_beside(session, book, job, nodes, book.taken_from(job), only=nodes)
            reservation.restored = False
        plan = plan or self._planned(session, book, job, nodes)
        if plan is None:
            self._end(session, book, reservation, "no nodes can take it any more, or its queue may not")
            return
        others = [other for other in book.kept.values() if other is not reservation]
        too_much = self._too_much(plan, others) if plan.start is None and reservation.start is not None else ""
        if too_much:
            self._end(session, book, reservation, f"its start is not known any more, and {too_much}")
            return
        if (plan.nodes, plan.start) != (reservation.nodes, reservation.start):
            reservation.nodes, reservation.start = plan.nodes, plan.start
            reservation.needs = plan.needs(session)
            book.changed()
        reservation.usable = plan.usable
        reservation.stale = False
        reservation.fullest = _fullest(session, plan)
        self._take_over(session, book, reservation)

    def _take_over(self, session: Session, book: Book, reservation: Reservation) -> None:
        """Have those look for other nodes that are less important than a job that has theirs now."""
        taken = set(reservation.nodes)
        for other in list(book.kept.values()):
            if other is not reservation and taken.intersection(other.nodes):
                with session.about(other.job):
                    self._replan(session, book, other)

    def _planned(self, session: Session, book: Book, job: JobInfo, held: tuple[str, ...]) -> ReservationPlan | None:
        """Plan a job: on nodes that are held for less important ones only if it starts earlier there."""
        priority = _priority(job)
        taken = book.taken_from(job)
        best = self._plan_beside(session, book, job, held, taken)
        needed_of_others = book.taken_from(job, above=priority)
        if needed_of_others != taken and (best is None or best.start is None or best.start > session.now):
            other = self._plan_beside(session, book, job, held, needed_of_others)
            if other is not None and (best is None or _starts(other) < _starts(best)):
                return other
        return best

    def _plan_beside(
        self,
        session: Session,
        book: Book,
        job: JobInfo,
        held: tuple[str, ...],
        taken: set[str],
        only: tuple[str, ...] | None = None,
    ) -> ReservationPlan | None:
        """Plan a job beside others; on the nodes that it holds unless it starts earlier elsewhere, or on some alone."""
        members = needed(session, job)
        if not members:
            return None
        Topology.of(session).release(job)
        book.is_trying = True
        try:
            planner = Planner(session, members, taken, held, book.end)
            best = planner.plan(only)
            if best is None:
                return None
            same = planner.plan(held) if held and best.start is not None else None
            if same is not None and same.start is not None and same.start <= (best.start or 0.0):
                best = same
            return best if _is_within_quota(session, book, job, best) else None
        finally:
            book.is_trying = False

    # -- who gets a reservation ---------------------------------------------------------------------------------------

    def _promise(self, session: Session, book: Book) -> None:
        """Make reservations for jobs that are due, the most important first."""
        long_waiting = self._due(session)
        found = [
            job
            for job in long_waiting.come(session.now)
            if job.key not in book.kept and self._is_large(session, long_waiting, job)
        ]
        for job in found:
            self._let_in(session, job)
        for job in sorted(considered(session, found), key=lambda job: _importance(session, job)):
            weaker = _weakest(book, job)
            if len(book.kept) >= self._jobs and weaker is None:
                break
            if not book.kept or weaker is not None or job.queue not in {r.job.queue for r in book.kept.values()}:
                with session.about(job):
                    self._promise_to(session, book, job)

    def _promise_to(self, session: Session, book: Book, job: JobInfo) -> None:
        members = needed(session, job)
        if not members or job.is_ready or book.pauses.is_paused(job.namespace, session.now):
            return
        plan = self._planned(session, book, job, ())
        if plan is None or (plan.start is not None and plan.start <= session.now):
            return  # it never has room, or has it now, and its turn comes in this session
        in_its_way = self._in_the_way(book, job, plan)
        if in_its_way is None:
            return
        for other in in_its_way:
            self._end(session, book, other, f"{job.key}, which is more important, is promised nodes in its place")
        made = Reservation(
            job, job.spec.group_uid, session.now, plan.nodes, plan.start, plan.start, priority=_priority(job)
        )
        made.signature, made.fullest, made.stale = _signature(job), _fullest(session, plan), False
        made.asked = _asked(session, job)
        made.needs, made.usable = plan.needs(session), plan.usable
        book.put(made)
        self._report(session, book, made)
        self._take_over(session, book, made)

    def _in_the_way(self, book: Book, job: JobInfo, plan: ReservationPlan) -> list[Reservation] | None:
        """Return less important reservations that have to end so that there are not too many; None: not enough."""
        ended: list[Reservation] = []
        while not self._has_place(job, plan, kept := [r for r in book.kept.values() if r not in ended]):
            weaker = [r for r in kept if r.priority < _priority(job)]
            if not weaker:
                return None
            ended.append(min(weaker, key=lambda r: (r.priority, -r.at)))
        return ended

    def _has_place(self, job: JobInfo, plan: ReservationPlan, kept: list[Reservation]) -> bool:
        """True if a job may get a reservation beside others."""
        if len(kept) >= self._jobs or (plan.start is None and self._too_much(plan, kept)):
            return False
        return not kept or job.queue not in {reservation.job.queue for reservation in kept}

    def _too_much(self, plan: ReservationPlan, others: list[Reservation]) -> str:
        """Return why a job may not drain nodes beside others; empty if it may."""
        if sum(1 for reservation in others if reservation.start is None) >= self._drains:
            return f"no more than {self._drains} jobs may drain nodes"
        if not self._is_within_share(plan, others):
            return f"drains would hold more than {self._share:g} of the nodes"
        return ""

    def _is_within_share(self, plan: ReservationPlan, others: list[Reservation]) -> bool:
        """True if drains hold no more than their part of the nodes that they could use. One alone may hold more."""
        drains = [reservation for reservation in others if reservation.start is None]
        held = {*plan.nodes, *(name for reservation in drains for name in reservation.nodes)}
        usable = plan.usable.union(*(reservation.usable for reservation in drains))
        return not drains or len(held) <= self._share * len(usable)

    def _is_large(self, session: Session, long_waiting: LongWaitingJobs, job: JobInfo) -> bool:
        """True if a job needs more nodes than jobs do that find a place by themselves. Others are looked at no more."""
        large: bool = _nodes_needed(session, job) > self._min_nodes
        if not large:
            long_waiting.leave(job.key)
        return large

    def _let_in(self, session: Session, job: JobInfo) -> None:
        """Admit a job that the cluster is too full for, as nodes are to be held for it. Its queue's quota counts."""
        cluster = session.cluster
        queue = cluster.queues.get(job.queue)
        if job.key not in cluster.queue_cache.unadmitted or not job.spec.has_group or job.blocked or queue is None:
            return
        if session.is_paused(job) or closed_queue(queue, Step.ENQUEUE) is not None:
            return
        if job.is_native and not settle_minimum(session, job):
            return
        with session.about(job):
            refusal = session.enqueue_refusal(job)
            if refusal is None or refusal.scope is Scope.JOB:
                session.clear_refusal(job)
                session.enqueued(job)

    # -- what is reported --------------------------------------------------------------------------------------------

    def _report(self, session: Session, book: Book, reservation: Reservation) -> None:
        """Tell a job its reservation, and write that down if it changed."""
        job, start = reservation.job, reservation.start
        names = [session.nodes[name] for name in reservation.nodes if name in session.nodes]
        silent = sum(1 for node in names for task in node.tasks.values() if book.end(task) == float("inf"))
        for task in job.waiting.values():
            session.refuse(task, words.waits(reservation, silent))
        is_new = not reservation.announced_nodes
        moved = _has_moved(reservation, session.now)
        if not (is_new or moved or reservation.nodes != reservation.announced_nodes):
            return
        if job.spec.has_group and (is_new or moved):
            session.record_event(_event(job, reservation, is_new=is_new))
        reservation.announced, reservation.announced_nodes = start, reservation.nodes
        condition = condition_of(reservation.at, start, reservation.nodes)
        session.set_conditions(job, with_condition(job.conditions, condition))


def _event(job: JobInfo, reservation: Reservation, *, is_new: bool) -> Any:
    start = reservation.start
    begins = "once these are free" if start is None else f"by {stamp(start)} (estimated)"
    listed = ", ".join(reservation.nodes[: words.NAMED])
    message = f"{'nodes are held for it' if is_new else 'its start has moved'}: it starts {begins} on {listed}"
    return about_group(job, "Normal", RESERVED, f"{message} ({len(reservation.nodes)} nodes in all)")


def _has_moved(reservation: Reservation, now: float) -> bool:
    announced, start = reservation.announced, reservation.start
    if announced is None or start is None:
        return announced is not start
    return abs(start - announced) > WORTH_SAYING * max(announced - now, 1.0)


def _is_over(session: Session, reservation: Reservation) -> bool:
    """True if a job is gone, is another one of the same name, or needs its reservation no more."""
    job, known = reservation.job, session.cluster.jobs
    return known.get(job.key) is not job or job.spec.group_uid != reservation.uid or not job.waiting or job.is_ready


def _lost(session: Session, reservation: Reservation) -> str:
    """Return why a reservation ends before its job starts; empty if it does not."""
    job = reservation.job
    if reservation.signature is None:
        reservation.signature = _signature(job)
        reservation.asked = _asked(session, job)
        reservation.priority = _priority(job)
    if _signature(job) != reservation.signature or _asks_for_more(session, reservation):
        return "the job asks for something else now"
    if not any(considered(session, [job])):
        return "its queue takes it no longer"
    return ""


def _is_within_quota(session: Session, book: Book, job: JobInfo, plan: ReservationPlan) -> bool:
    """True if a queue may hold a job beside what it and its reservations hold; a reservation settles its share."""
    beside = charged_beside(session, book, job)
    if job.key not in book.kept:
        return quota_lets(session, plan.placements, job.queue, beside)
    with session.shares_settled():
        return quota_lets(session, plan.placements, job.queue, beside)


def _priority(job: JobInfo) -> int:
    """With how much priority a job holds its nodes."""
    return min((task.eviction_priority for task in job.waiting.values()), default=job.priority)


def _weakest(book: Book, job: JobInfo) -> Reservation | None:
    """Return the least important of the reservations for jobs that are less important than this one."""
    weaker = (r for r in book.kept.values() if r.priority < _priority(job))
    return min(weaker, key=lambda r: r.priority, default=None)


def _starts(plan: ReservationPlan) -> float:
    return math.inf if plan.start is None else plan.start


def _signature(job: JobInfo) -> tuple[object, ...]:
    """Return what a reservation is made for."""
    templates = frozenset(task.template.id for task in job.waiting.values())
    return job.spec.min_available, tuple(sorted(job.spec.min_roles.items())), job.queue, templates


def _asked(session: Session, job: JobInfo) -> dict[str, int]:
    """Return the sum of what the members request that a job needs to start. Missing ones count as the largest."""
    members, total = needed(session, job), dict[str, int]()
    for task in members:
        total = _sum(total, task)
    missing = max(0, job.lacking - len(members))
    for name in total if missing else ():
        total[name] += missing * max(task.template.request.get(name, 0) for task in members)
    return total


def _asks_for_more(session: Session, reservation: Reservation) -> bool:
    """True if the members that are needed are larger: with a reservation the share of the queue is not asked again."""
    now = _asked(session, reservation.job)
    return any(amount > reservation.asked.get(name, 0) for name, amount in now.items())


def _importance(session: Session, job: JobInfo) -> tuple[Any, ...]:
    """Return the most important first: by priority, by the order of queues and of jobs, by age."""
    queue = session.queues[job.queue]
    return -job.priority, session.queue_key(queue), session.job_key(job), job.created, job.uid


def _nodes_needed(session: Session, job: JobInfo) -> float:
    """Return how many of the largest nodes a job fills with what its minimum asks for, in parts of a node."""
    cluster, wanted = session.cluster, dict(job.counted_minimum or {})
    for task in needed(session, job) if job.waiting else ():
        wanted = _sum(wanted, task) if job.counted_minimum is None else wanted
    most = 0.0
    for name, amount in wanted.items():
        largest = max((node.allocatable_of(name) for node in cluster.rows), default=0)
        most = max(most, amount / largest if largest else 0.0)
    return most


def _sum(amounts: dict[str, int], task: TaskInfo) -> dict[str, int]:
    for name, amount in task.template.request.items():
        amounts[name] = amounts.get(name, 0) + amount
    return amounts


def _fullest(session: Session, plan: ReservationPlan) -> int:
    return max((in_use(session, task, node) for task, node in plan.placements), default=0)
