"""The search for a placement of one gang: proofs, then starts that displace members; of small gangs everything.

The first start takes the members with the fewest nodes first, and for each its best node. The second one prefers nodes
where the others lose least. The third one takes large members first. Each knows what the ones before have found out
about the cost of displacing members. They are made again and again, with more patience each time. The first complete
placement counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, TypeAlias

from actions.gang_search.board import Board, OutOfStepsError, Steps
from actions.gang_search.displacing import Displacing
from actions.gang_search.exhaustive import MOST_MEMBERS, Exhaustive
from actions.gang_search.members import Wanted, kinds_of, largest_first, most_constrained_first, wanted_of
from actions.gang_search.outcome import Outcome
from actions.gang_search.proofs import Proof, may_fit_within, proof_of
from actions.gang_search.teams import Domain, Team, domains_of, teams_of
from volsched.framework.native.topology import Topology
from volsched.framework.session import Session
from volsched.framework.statement import Statement
from volsched.model.job import JobInfo
from volsched.model.nodes.node import NodeInfo
from volsched.model.pods.task import TaskInfo
from volsched.model.queues.queue import QueueInfo

Order: TypeAlias = Callable[[Wanted], list[TaskInfo]]

_STARTS: Final[tuple[tuple[Order, bool], ...]] = (
    (most_constrained_first, False),
    (most_constrained_first, True),
    (largest_first, True),
)
"""In which order members are placed, and whether nodes that fewer others need come first."""
_PATIENCE: Final = (4, 16, 64, 256)
"""For each member a start takes so many steps at most: first all of them are tried quickly, then more patiently."""
_FEW: Final = 8
"""Small gangs have as many steps as if they had so many members more."""
_IN_DOMAIN: Final = 4
"""For each member of a team so many steps are spent at most to place the team alone in one domain."""


@dataclass(slots=True)
class Shortage:
    """How near a search came: ``most`` members had a node at a time, ``stuck`` is one that had none beside these.

    ``nodes`` are those where it could go if no other member were there.
    """

    most: int = 0
    stuck: TaskInfo | None = None
    nodes: Sequence[NodeInfo] = ()


class GangSearch:
    """The search for one gang, with so many steps at ``most``. ``offered`` is what all nodes offer of each amount.

    ``is_proof``: what was not found does not exist; ``proof`` states why if no search was needed to tell.
    """

    def __init__(
        self,
        session: Session,
        queue: QueueInfo,
        statement: Statement,
        job: JobInfo,
        most: int,
        offered: Sequence[int],
    ) -> None:
        self.shortage = Shortage()
        self.is_proof = False
        self.proof: Proof | None = None
        self._board = Board(session, queue, statement, Steps(most))
        self._job = job
        self._offered = offered
        self._wanted = Wanted([], [])
        self._costs: dict[TaskInfo, float] = {}

    @property
    def taken(self) -> int:
        """How many steps were taken."""
        return self._board.steps.taken

    def outcome(self, tasks: Sequence[TaskInfo]) -> Outcome:
        """Place the members that the gang needs, of these. Return what came of it."""
        try:
            if self._run_anywhere(tasks):
                return Outcome.FOUND
        except OutOfStepsError:
            return Outcome.EXHAUSTED
        return Outcome.IMPOSSIBLE if self.is_proof else Outcome.EXHAUSTED

    def _run_anywhere(self, tasks: Sequence[TaskInfo]) -> bool:
        native = self._job.spec.native
        topology = Topology.of(self._board.session) if native is not None and native.topology_key else None
        if topology is None or topology.is_settled(self._job):
            return self._run(tasks)
        return self._run_in_domains(topology, tasks)

    def _run_in_domains(self, topology: Topology, tasks: Sequence[TaskInfo]) -> bool:
        """Try the domains of a native group, the one that did best without a search first."""
        best, found, proofs = topology.domain(self._job), False, []
        values = sorted(topology.candidates(self._job), key=lambda value: value != best)
        for value in values:
            topology.pin(self._job, value)
            try:
                found = self._run(tasks)
            finally:
                if not found:
                    topology.pin(self._job, best)
            if found:
                return True
            proofs.append(self.is_proof)
        self.is_proof = all(proofs)
        return False

    def _run(self, tasks: Sequence[TaskInfo]) -> bool:
        board, job = self._board, self._job
        self._wanted = wanted = wanted_of(job, kinds_of(board, tasks, self._offered))
        self._costs.clear()
        self.proof = proof_of(board.session, wanted)
        self.is_proof = self.proof is not None
        if self.proof is not None or wanted.is_short:
            self.is_proof = True
            return False
        return any(self._round(patience) for patience in _PATIENCE)

    def _round(self, patience: int) -> bool:
        """Make all starts with so much patience; of a small gang everything is tried after the first round."""
        wanted, board = self._wanted, self._board
        most = patience * (len(wanted.needed) + _FEW)
        for order, by_need in _STARTS:
            if self.is_proof:
                return False
            if self._start(order(wanted), by_need, most):
                return True
            board.clear()
        if patience > _PATIENCE[0] or len(wanted.needed) + len(wanted.spares) > MOST_MEMBERS:
            return False
        every = Exhaustive(board, wanted, self._job, most_constrained_first(wanted))
        if self._soon_enough(board.steps.left // 2, every.run):
            return True
        self.is_proof = every.is_proof
        board.clear()
        return False

    def _is_ready(self) -> bool:
        return self._board.session.is_ready(self._job)

    @property
    def is_uniform(self) -> bool:
        """True if all members are equal."""
        return len(self._wanted.kinds) < 2

    # -- one start ----------------------------------------------------------------------------------------------------

    def _start(self, order: list[TaskInfo], by_need: bool, most: int) -> bool:
        teams = list(teams_of(self._board.session, self._wanted))
        return self._soon_enough(most, lambda: self._place_teams(teams, order, by_need)) and self._is_ready()

    def _soon_enough(self, most: int, place: Callable[[], bool]) -> bool:
        """True if members find their places within so many steps."""
        steps = self._board.steps
        kept = max(0, steps.left - most)
        steps.left -= kept
        try:
            return place()
        except OutOfStepsError:
            if not kept:
                raise
            return False
        finally:
            steps.left += kept

    def _place_teams(self, teams: Sequence[Team], order: Sequence[TaskInfo], by_need: bool) -> bool:
        """Have each team in one domain after the other; in each way place the teams first, and then all others."""
        if not teams:
            return self._place_alone(by_need) and self._repair(order, by_need)
        team, session = teams[0], self._board.session
        members = [task for task in order if team.has(self._wanted.kind_of[task])]
        for domain in domains_of(session, team):
            if may_fit_within(session, self._wanted, team.kinds, domain):
                with self._inside(team, members, domain):
                    if self._place_teams(teams[1:], order, by_need):
                        return True
                self._board.clear()
        return False

    @contextmanager
    def _inside(self, team: Team, members: Sequence[TaskInfo], domain: Domain) -> Iterator[None]:
        """Have the members of a team know no nodes but those of a domain."""
        homes = [kind.homes for kind in team.kinds]
        for kind in team.kinds:
            kind.homes = [node for node in kind.homes if node.row in domain.rows]
        self._board.within.update(dict.fromkeys(members, domain.rows))
        try:
            yield
        finally:
            for kind, before in zip(team.kinds, homes, strict=True):
                kind.homes = before
            for task in members:
                self._board.within.pop(task, None)

    def _place_alone(self, by_need: bool) -> bool:
        """True if the members of teams alone find their places in their domains, soon enough."""
        members = list(self._board.within)
        most = _IN_DOMAIN * (len(members) + 2 * _IN_DOMAIN)
        return not members or self._soon_enough(most, lambda: self._repair(members, by_need))

    def _repair(self, order: Sequence[TaskInfo], by_need: bool) -> bool:
        board = self._board
        left = [task for task in order if task not in board.placed and task not in board.replaced]
        displacing = Displacing(board, self._wanted, left, self._costs, by_need=by_need)
        try:
            return displacing.run()
        finally:
            if displacing.most > self.shortage.most or self.shortage.stuck is None:
                stuck = displacing.stuck or self.shortage.stuck
                nodes = self._wanted.homes(stuck) if stuck is not None else ()
                self.shortage = Shortage(max(displacing.most, self.shortage.most), stuck, nodes)
