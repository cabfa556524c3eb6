"""Which gangs of a session are searched for, with how many steps, and what came of it.

A gang has a budget of steps, and a session another one, which namespaces share: while several have gangs to search for,
none takes more than its part before the others had theirs. What is left of the budget goes round in turns at the end.
A gang for which nothing is left is searched for in the next session, before those that had a search already.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Any, Final

from actions.attempt import Attempt, tasks_of
from actions.domains import place_in_domain
from actions.gang_search.outcome import Outcome
from volsched.framework.config.arguments import Argument
from volsched.framework.session import Session
from volsched.framework.statement import Statement
from volsched.model.cluster import Cluster
from volsched.model.job import JobInfo
from volsched.model.nodes.node import NodeInfo
from volsched.model.pods.task import TaskInfo
from volsched.model.pods.template import PodTemplate
from volsched.model.queues.queue import QueueInfo

if TYPE_CHECKING:
    from actions.gang_search.proofs import Proof
    from actions.gang_search.search import GangSearch

STEPS: Final = "gang.searchSteps"
STEPS_PER_SESSION: Final = "gang.searchStepsPerSession"
ARGUMENTS: Final = (
    Argument(
        STEPS,
        "int",
        4_000,
        "How many steps a search for a placement of one gang may take, when its members find no nodes one by one; "
        "0: gangs are not searched for.",
        minimum=0,
    ),
    Argument(
        STEPS_PER_SESSION,
        "int",
        8_000,
        "How many steps all searches of one session may take; namespaces share them.",
        minimum=0,
    ),
)


class PutOff:
    """The gangs postponed to the next session, and the namespaces that had a search since."""

    def __init__(self, _: Cluster) -> None:
        self.jobs: dict[str, JobInfo] = {}
        self.served: set[str] = set()

    @classmethod
    def of(cls, session: Session) -> PutOff:
        """Return those of a session's cluster."""
        return session.account("allocate.put_off", cls)

    def take(self, session: Session, most: int) -> list[JobInfo]:
        """Take out gangs that were put off and still wait, namespaces in turns, so many of each at most."""
        known, taken = session.jobs, []
        for jobs in by_namespace(self.jobs.values()).values():
            taken += [job for job in jobs[:most] if known.get(job.key) is job and job.waiting]
            for job in jobs[:most]:
                del self.jobs[job.key]
        return taken

    def __len__(self) -> int:
        return len(self.jobs)


def by_namespace(jobs: Iterable[JobInfo]) -> dict[str, list[JobInfo]]:
    """Group jobs, each namespace's in their order."""
    found: dict[str, list[JobInfo]] = {}
    for job in jobs:
        found.setdefault(job.namespace, []).append(job)
    return found


class Searches:
    """Those of one session.

    ``most`` is how many steps a search may take, ``left`` how many all together may still take. ``jobs`` are those of
    the session. ``due`` are namespaces whose gangs were put off and that had no turn since. ``is_late``: what is left
    of the budget goes round. ``hopeless`` counts gangs with a member that no node takes.
    """

    jobs: Sequence[JobInfo] = ()
    due: Collection[str] = ()
    is_late = False
    hopeless = 0
    _share = -1
    _offered: list[int] | None = None

    def __init__(self, session: Session, arguments: Mapping[str, Any]) -> None:
        self.session = session
        self.put_off = PutOff.of(session)
        self.left: int = arguments[STEPS_PER_SESSION]
        self.most: int = min(arguments[STEPS], self.left)
        self._taken: dict[str, int] = {}

    def take_put_off(self) -> list[JobInfo]:
        """Take out the gangs that an earlier session has put off, as many as there may be steps for."""
        if not self.put_off.jobs:
            return []
        jobs = self.put_off.take(self.session, 1 + self.left // max(1, self.most))
        self.due = {job.namespace for job in jobs} - self.put_off.served
        return jobs

    # -- one gang -----------------------------------------------------------------------------------------------------

    def place(self, session: Session, queue: QueueInfo, attempt: Attempt) -> Statement | None:
        """Place tasks one by one. If a gang cannot start so, nor wait, search for a placement of all of it."""
        statement = place_in_domain(session, queue, attempt)
        if statement is not None or attempt.has_room or not self._may_help(attempt):
            return statement
        job = attempt.job
        tasks = [task for task in job.schedulable() if not (task.best_effort or task.spec.admission_gate)]
        found, attempt.ended = self.find(queue, job, session.in_order(tasks), attempt.placed)
        if found is not None:
            attempt.tasks = tasks_of(session, job)  # what is left is tried one by one again
            attempt.failed_roles, attempt.has_room = {}, True
        return found

    def _may_help(self, attempt: Attempt) -> bool:
        """True if a search may find what tasks one by one did not, and no member has a promise that it would take."""
        job, needed, nominations = attempt.job, attempt.needed, self.session.nominations
        if needed is not None and not attempt.placed:
            template = needed.template
            if not (template.affinity or template.spread):  # it has no node though no member is anywhere
                self.hopeless += len(job.tasks) > 1
                return False
        return not (nominations.held and any(nominations.is_kept(task) for task in job.tasks.values()))

    def find(
        self, queue: QueueInfo, job: JobInfo, tasks: Sequence[TaskInfo], placed: Sequence[TaskInfo]
    ) -> tuple[Statement | None, str]:
        """Search for a placement with which a gang starts; ``placed``: members that found nodes one by one.

        The text states why a search ended before it was through, and is empty if it did not.
        """
        self.put_off.jobs.pop(job.key, None)
        if not self.most or len(job.tasks) < 2 or job.lacking > len(tasks):
            return None, ""
        if _is_settled(self.session, tasks, placed):
            self._note(Outcome.IMPOSSIBLE)
            return None, ""
        if not self._may_begin(job.namespace):
            return self._skip(job)
        return self._search(queue, job, tasks, len(placed))

    def _search(
        self, queue: QueueInfo, job: JobInfo, tasks: Sequence[TaskInfo], could: int
    ) -> tuple[Statement | None, str]:
        from actions.gang_search.search import GangSearch  # noqa: PLC0415 - most sessions have nothing to search for

        session, most = self.session, min(self.most, self.left)
        statement = session.statement()
        with session.trying():
            search = GangSearch(session, queue, statement, job, most, self.offered())
            outcome = search.outcome(tasks)
            self._spend(job.namespace, search.taken)
            if outcome is not Outcome.FOUND:
                statement.discard()
        if outcome is Outcome.EXHAUSTED and most < self.most:
            return self._skip(job)
        self._note(outcome)
        if outcome is Outcome.FOUND:
            return statement, ""
        job.shortage = self._in_words(job, search, could)
        ended = f"no placement for all of it was found in {search.taken} steps ({STEPS})"
        return None, ended if outcome is Outcome.EXHAUSTED else ""

    def offered(self) -> list[int]:
        """Return what all nodes offer of each amount."""
        if self._offered is None:
            cluster = self.session.cluster
            nothing = [0] * len(cluster.columns)
            by_column = zip(nothing, *(node.allocatable for node in cluster.rows), strict=True)
            self._offered = [sum(amounts) for amounts in by_column]
        return self._offered

    def _note(self, outcome: Outcome) -> None:
        self.session.stats.gang_searches[(outcome.value,)] += 1

    # -- the budget ---------------------------------------------------------------------------------------------------

    def _may_begin(self, namespace: str) -> bool:
        """True if a namespace may begin another search."""
        if self.left <= 0:
            return False
        if self.is_late:
            return True
        if self.due and namespace not in self.due:
            return False
        if self._share < 0:
            self._share = self.left // max(1, len({job.namespace for job in self.jobs}))
        return self._taken.get(namespace, 0) <= self._share

    def _spend(self, namespace: str, steps: int) -> None:
        self.left -= steps
        self._taken[namespace] = self._taken.get(namespace, 0) + steps
        self.put_off.served.add(namespace)
        if namespace in self.due:
            self.due = {other for other in self.due if other != namespace}

    def _skip(self, job: JobInfo) -> tuple[None, str]:
        """Put a gang off. It is searched for later in this session, or in the next one."""
        self.put_off.jobs[job.key] = job
        return None, f"a placement for all of it is searched for in the next session ({STEPS_PER_SESSION})"

    def end(self, try_again: Callable[[JobInfo], None]) -> None:
        """Have gangs that were put off tried again, namespaces in turns, while steps are left. Count the others."""
        self.is_late = True
        turns = zip_longest(*by_namespace(self.put_off.jobs.values()).values())
        for job in chain.from_iterable(turns):
            if self.left <= 0:
                break
            if job is not None:
                del self.put_off.jobs[job.key]
                try_again(job)
        self._count_put_off()

    def _count_put_off(self) -> None:
        """Count what is put off to the next session, and have that come soon."""
        if self.hopeless and self.most:
            self.session.stats.gang_searches[(Outcome.IMPOSSIBLE.value,)] += self.hopeless
        if not self.put_off.jobs:
            self.put_off.served.clear()
            return
        self.session.stats.gang_searches[(Outcome.SKIPPED.value,)] += len(self.put_off.jobs)
        self.session.stats.is_unfinished = True

    # -- words --------------------------------------------------------------------------------------------------------

    def _in_words(self, job: JobInfo, search: GangSearch, could: int) -> str:
        """Describe what a gang as a whole lacks; of equal members there is nothing to tell."""
        if search.is_uniform:
            return ""
        if search.proof is not None:
            return self._of_proof(job, search.proof)
        shortage = search.shortage
        words = f"{job.ready_count + max(could, shortage.most)} of {job.spec.min_available} could start"
        if shortage.stuck is None or not shortage.nodes:
            return words
        return f'{words}; pod "{shortage.stuck.name}" needs {_named(shortage.nodes)}, which the others need too'

    def _of_proof(self, job: JobInfo, proof: Proof) -> str:
        columns, column = self.session.columns, proof.column
        names = columns.names_of(proof.members[0].template, column) if column is not None else ()
        amount = f" for want of {names[0]}" if names else ""
        named = [f'"{task.name}"' for task in proof.members[:_MOST_NAMES]]
        more = ["others"] if len(proof.members) > _MOST_NAMES else []
        pods = f"pod{'s' if len(proof.members) > 1 else ''} {' and '.join([', '.join(named), *more])}"
        words = f"at most {job.spec.min_available - proof.lacking} of {job.spec.min_available} could start; {pods}"
        if not proof.nodes:
            return f"{words} fit{'s' if len(proof.members) == 1 else ''} on no node"
        need = "need" if len(proof.members) > 1 else "needs"
        return f"{words} {need} {_named(proof.nodes)}, where {proof.fitting} of them fit{amount}"


_MOST_NAMES: Final = 3


def _named(nodes: Sequence[NodeInfo]) -> str:
    names = sorted(node.name for node in nodes)
    return " or ".join(names) if len(names) <= _MOST_NAMES else f"one of {len(names)} nodes"


def _is_settled(session: Session, tasks: Sequence[TaskInfo], placed: Sequence[TaskInfo]) -> bool:
    """True if no other way to place the members is better than one by one.

    That is so if the first member found no node and no member depends on where others are, or if all members are equal,
    share no volume and no claim, and their order does not matter.
    """
    first = tasks[0]
    if not placed:
        return not any(task.template.depends_on_pods for task in tasks)
    if not _is_free_of_order(first.template) or _share_claims(tasks):
        return False
    alike = session.engine.kind(first), first.spec.role, first.spec.labels
    return all((session.engine.kind(task), task.spec.role, task.spec.labels) == alike for task in tasks)


def _is_free_of_order(template: PodTemplate) -> bool:
    """True if as many equal pods find nodes in any order: at most one rule states how they stand to each other.

    One rule of anti-affinity, or one of spreading, leaves as many nodes whichever are taken first. Affinity does not:
    the first pod may choose a domain that is too small.
    """
    hard = sum(constraint.hard for constraint in template.spread)
    return not (template.affinity or template.claims) and len(template.anti_affinity) + hard <= 1


def _share_claims(tasks: Sequence[TaskInfo]) -> bool:
    """True if two members use one ResourceClaim: then they have to be on the nodes of its devices."""
    claims = [key for task in tasks for _, key in task.claims_by_entry() if key]
    return len(set(claims)) < len(claims)
