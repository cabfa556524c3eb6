"""What queues and jobs hold, move by move: cpu, memory and cards, exact after every undo and after a restart.

A task counts from the moment a node is chosen for it (room that is only promised included) until it is evicted,
finishes or is undone. Cards count by what its node offers. All that is charged is a function of where tasks stand and
of nodes' own properties, so accounts that are rebuilt are those that were followed. A task whose gate was lifted
counts without a node, of its list for the first card that has quota left then.

``CardQuotaLedger`` is one class: each move changes the sums of cpu, memory and cards together, and is undone together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias, TypeVar

from plugins.capacity_card.cards.catalogue import NO_KIND, CardCatalogue
from plugins.capacity_card.quotas.limits import QueueLimit, QueueLimits
from plugins.capacity_card.requests.charges import Charge, ChargedCard, Charges
from plugins.capacity_card.requests.requests import CardRequest
from volsched.framework.columns.views import NodeFacts
from volsched.model.cluster import Cluster
from volsched.model.job import JobInfo
from volsched.model.nodes.node import NodeInfo, NodeProperties
from volsched.model.observers import Observer
from volsched.model.pods.task import TaskInfo
from volsched.model.pods.template import PodTemplate
from volsched.model.queues.queue import QueueInfo
from volsched.model.status import HOLDS_ROOM, IS_ALLOCATED, IS_CHOSEN, TaskStatus
from volsched.model.values.resources import accumulate

K = TypeVar("K")
Placed: TypeAlias = tuple[str, str]
"""A card, and the workload of those who hold it."""


@dataclass(slots=True)
class QueueAccount:
    """Milli-cores, bytes, and milli-cards by name without zeros. ``version`` changes with any of them.

    ``placed`` are those of the cards that tasks hold which stand allocated, by card and workload (online or offline):
    without promised room and lifted gates.
    """

    cpu: int = 0
    memory: int = 0
    cards: dict[str, int] = field(default_factory=dict)
    placed: dict[Placed, int] = field(default_factory=dict)
    version: int = 0

    def charge(self, charge: Charge, charged: ChargedCard | None, by: int, placed: str) -> None:
        """Add what a task counts for, or take it off; ``placed`` is its workload if it stands allocated, else empty."""
        self.cpu += by * charge.cpu
        self.memory += by * charge.memory
        self.version += 1
        if charged is not None:
            _add(self.cards, charged.card, by * charged.amount)
            if placed:
                _add(self.placed, (charged.card, placed), by * charged.amount)

    def add(self, other: QueueAccount, by: int) -> None:
        """Add all of another account, or take it off."""
        self.cpu += by * other.cpu
        self.memory += by * other.memory
        self.version += 1
        accumulate(self.cards, other.cards, by)
        accumulate(self.placed, other.placed, by)

    @property
    def is_zero(self) -> bool:
        """Whether nothing is on it."""
        return not (self.cpu or self.memory or self.cards)


@dataclass(slots=True)
class JobCharge:
    """What one job holds, and the queue that it is charged to."""

    queue: str
    account: QueueAccount = field(default_factory=QueueAccount)


_NOTHING: Final = QueueAccount()


class CardQuotaLedger(Observer):
    """Follows the cluster. ``catalogue`` and ``limits`` are kept up to date by it.

    ``changed_jobs``, ``changed_nodes`` and ``changed_placed`` (queues whose placed tasks hold other cards) are for
    whoever reads them to clear.
    """

    def __init__(self, cluster: Cluster, *, spares_cpu: bool, is_strict: bool, is_hierarchical: bool) -> None:
        self._cluster = cluster
        self.catalogue = CardCatalogue(cluster)
        self.limits = QueueLimits(cluster, self.catalogue.totals, is_hierarchical=is_hierarchical)
        self.charges = Charges(self.catalogue, spares_cpu=spares_cpu, is_strict=is_strict)
        self.changed_jobs: dict[str, JobInfo] = dict(cluster.jobs)
        self.changed_nodes: dict[str, NodeInfo] = dict(cluster.nodes)
        self.changed_placed: dict[str, None] = {}
        self.version = 0
        self._own: dict[str, QueueAccount] = {}
        self._below: dict[str, QueueAccount] = {}
        self._holdings: dict[str, JobCharge] = {}
        self._charged_cards: dict[str, ChargedCard] = {}
        self._lost: dict[str, TaskInfo] = {}
        self._charge_all(cluster.tasks.values())

    # -- reading ------------------------------------------------------------------------------------------------------

    def account(self, queue: str) -> QueueAccount:
        """What counts against a queue's limit: what it holds; in a hierarchy, with all queues below it."""
        accounts = self._below if self.limits.is_hierarchical else self._own
        return accounts.get(queue, _NOTHING)

    def own(self, queue: str) -> QueueAccount:
        """What the jobs of a queue itself hold."""
        return self._own.get(queue, _NOTHING)

    def held(self, job: JobInfo) -> QueueAccount:
        """What a job holds."""
        holding = self._holdings.get(job.key)
        return holding.account if holding is not None else _NOTHING

    def charged(self, task: TaskInfo) -> ChargedCard | None:
        """The card that a task is charged for; None when it is charged for none."""
        return self._charged_cards.get(task.uid)

    def offered(self, template: PodTemplate, node: NodeFacts) -> ChargedCard | None:
        """The card that a node offers to pods of a template; None when it offers none of those that they name."""
        return self.charges.offered(template, self.catalogue.kind_of(node))

    def offered_by_kinds(self, template: PodTemplate) -> Iterator[ChargedCard | None]:
        """The same for nodes of every kind, in order of the kinds' numbers."""
        return (self.charges.offered(template, kind) for kind in range(len(self.catalogue.kinds())))

    def blocking(self, chain: Sequence[QueueLimit], card: str, amount: int) -> QueueLimit | None:
        """Return the first limit that has not that much left of a card (milli-cards); None when all have."""
        for limit in chain:
            if self.account(limit.queue).cards.get(card, 0) + amount > limit.card(card):
                return limit
        return None

    def left(self, chain: Sequence[QueueLimit], card: str) -> int:
        """Return how much more of a card all limits allow, in milli-cards; below zero when one is exceeded."""
        return min(limit.card(card) - self.account(limit.queue).cards.get(card, 0) for limit in chain)

    def levels(self, queue: str) -> tuple[str, ...]:
        """The queues in which a queue counts: itself, and in a hierarchy those above it."""
        return tuple(limit.queue for limit in self.limits.chain(queue)) or (queue,)

    def accounts(self) -> Iterator[QueueAccount]:
        """Every account there is: of jobs, of queues, of subtrees."""
        yield from (holding.account for holding in self._holdings.values())
        yield from self._own.values()
        yield from self._below.values()

    # -- moves --------------------------------------------------------------------------------------------------------

    def task_moved(self, task: TaskInfo, before: TaskStatus, node_before: NodeInfo | None) -> None:
        """Charge and uncharge."""
        job, node, status = task.job, task.node, task.status
        counted, counts = IS_CHOSEN[before], IS_CHOSEN[status]
        if counted and counts and node is node_before and HOLDS_ROOM[before] == HOLDS_ROOM[status]:
            return  # on its way from chosen to running
        charge = self.charges.of(task.template)
        if charge.devices:
            self._note_node(node_before)
            self._note_node(node)
        if job is None:
            return
        self.changed_jobs[job.key] = job
        if counted:
            self._charge(job, charge, self._leave_card(task) if charge.names else None, -1, _placed(task, before))
        if counts:
            charged = self._take_card(task, charge) if charge.names else None
            self._charge(job, charge, charged, 1, _placed(task, status))

    def run_allocated(self, tasks: Sequence[TaskInfo]) -> None:
        """Charge equal tasks of one job, those on the same card together."""
        job, charge = tasks[0].job, self.charges.of(tasks[0].template)
        if job is None:
            return
        self.changed_jobs[job.key] = job
        by_kind: dict[tuple[int, str], list[TaskInfo]] = {}
        node, workload, alike = None, "", list[TaskInfo]()
        for task in tasks:
            if (task.node is not node or task.workload != workload) and task.node is not None:
                node, workload = task.node, task.workload
                self._note_node(node)
                alike = by_kind.setdefault((self.catalogue.kind_of(node), workload), [])
            alike.append(task)
        for (kind, workload), alike in by_kind.items():
            charged = self.charges.charged(alike[0].template, kind)
            self._note_charged(alike, charged)
            self._charge(job, charge, charged, len(alike), workload)

    def _note_node(self, node: NodeInfo | None) -> None:
        """Remember a node of which other cards may be idle now."""
        if node is not None:
            self.changed_nodes[node.name] = node

    def task_ungated(self, task: TaskInfo, *, counts: bool) -> None:
        """Charge a task whose gate was lifted, and that has no node yet, and uncharge it."""
        job = task.job
        if job is None:
            return
        self.changed_jobs[job.key] = job
        charge = self.charges.of(task.template)
        if counts:
            self._charge(job, charge, self._take_card(task, charge) if charge.names else None, 1, "")
        else:
            self._charge(job, charge, self._leave_card(task) if charge.names else None, -1, "")

    def _take_card(self, task: TaskInfo, charge: Charge) -> ChargedCard | None:
        charged = self._open_card(task) if task.status is TaskStatus.PENDING else None
        charged = charged or self.charges.charged(task.template, self._kind(task))
        self._note_charged((task,), charged)
        return charged

    def _kind(self, task: TaskInfo) -> int:
        return self.catalogue.kind_of(task.node) if task.node is not None else NO_KIND

    def _note_charged(self, tasks: Sequence[TaskInfo], charged: ChargedCard | None) -> None:
        if charged is None:
            return
        for task in tasks:
            self._charged_cards[task.uid] = charged
        if not charged.is_offered:
            self._lost.update((task.uid, task) for task in tasks)

    def _open_card(self, task: TaskInfo) -> ChargedCard | None:
        """For a task that was let in and has no node: the first card of its list that its queue may hold more of."""
        asked = self.charges.card_request(task.template)
        if not isinstance(asked, CardRequest) or task.job is None:
            return None
        chain = self.limits.chain(task.job.queue)
        for name in asked.candidates:
            if self.blocking(chain, name, asked.amount) is None:
                return ChargedCard(name, asked.amount, is_offered=False)
        return None

    def _leave_card(self, task: TaskInfo) -> ChargedCard | None:
        self._lost.pop(task.uid, None)
        return self._charged_cards.pop(task.uid, None)

    def _charge_all(self, tasks: Iterable[TaskInfo]) -> None:
        """Charge what stood before anybody followed it, equal tasks of a job on nodes of a kind together."""
        groups: dict[tuple[str, int, int, str], list[TaskInfo]] = {}
        for task in tasks:
            if task.job is not None and IS_CHOSEN[task.status]:
                key = (task.job.key, task.template.id, self._kind(task), _placed(task, task.status))
                groups.setdefault(key, []).append(task)
            elif task.ungated and task.status is TaskStatus.PENDING:
                self.task_ungated(task, counts=True)
        for (_, _, kind, placed), alike in groups.items():
            first = alike[0]
            charged = self.charges.charged(first.template, kind)
            self._note_charged(alike, charged)
            if first.job is not None:
                self._charge(first.job, self.charges.of(first.template), charged, len(alike), placed)

    def _charge(self, job: JobInfo, charge: Charge, charged: ChargedCard | None, by: int, placed: str) -> None:
        holding = self._holdings.get(job.key)
        if holding is None:
            holding = self._holdings[job.key] = JobCharge(job.queue)
        holding.account.charge(charge, charged, by, placed)
        for account in self._charged(holding.queue):
            account.charge(charge, charged, by, placed)
        if charged is not None and placed:
            self.changed_placed[holding.queue] = None
        self.version += 1

    def _charged(self, queue: str) -> list[QueueAccount]:
        """The accounts of a queue and of those above it."""
        own = self._own.get(queue)
        if own is None:
            own = self._own[queue] = QueueAccount()
        if not self.limits.is_hierarchical:
            return [own]
        return [own, *(_of(self._below, name) for name in self._above(queue))]

    def _above(self, queue: str) -> tuple[str, ...]:
        return self.levels(queue) if self.limits.is_hierarchical else ()

    # -- jobs and queues ----------------------------------------------------------------------------------------------

    def job_changed(self, job: JobInfo, *, gone: bool) -> None:
        """Let what a job holds count for the queue that it is in now."""
        self.changed_jobs[job.key] = job
        holding = self._holdings.get(job.key)
        if holding is None:
            return
        if holding.queue != job.queue:
            self._shift(holding, -1)
            holding.queue = job.queue
            self._shift(holding, 1)
        if gone:
            del self._holdings[job.key]

    def _shift(self, holding: JobCharge, by: int) -> None:
        for account in self._charged(holding.queue):
            account.add(holding.account, by)
        if holding.account.placed:
            self.changed_placed[holding.queue] = None
        self.version += 1

    def queue_changed(self, queue: QueueInfo, *, gone: bool) -> None:
        """Read a queue's limits; where that has moved queues in the hierarchy, add up again what subtrees hold."""
        above = self._all_above()
        if gone:
            self.limits.remove(queue)
        else:
            self.limits.put(queue)
        if self._all_above() != above:
            self._below = {name: QueueAccount(version=account.version + 1) for name, account in self._below.items()}
            for name, held in self._own.items():
                for subtree in self._above(name):
                    _of(self._below, subtree).add(held, 1)
            self.version += 1

    def _all_above(self) -> dict[str, tuple[str, ...]]:
        return {name: self._above(name) for name in self._own}

    # -- nodes --------------------------------------------------------------------------------------------------------

    def node_changed(self, node: NodeInfo, before: NodeProperties | None) -> None:
        """Look at a node's cards again; tasks there hold what it offers now."""
        known = self.catalogue.version
        self.changed_nodes[node.name] = node
        if self.catalogue.put(node):
            self.limits.stock_changed()
            self._charge_again(node.tasks.values())
        self._card_lost(known)

    def node_removed(self, node: NodeInfo) -> None:
        """Forget a node."""
        known = self.catalogue.version
        self.changed_nodes[node.name] = node
        self.catalogue.remove(node)
        self.limits.stock_changed()
        self._card_lost(known)

    def _card_lost(self, known: int) -> None:
        """What a task holds on a node that does not offer it depends on which cards there are in the cluster."""
        if self.catalogue.version != known:
            self._charge_again(list(self._lost.values()))

    def _charge_again(self, tasks: Iterable[TaskInfo]) -> None:
        for task in list(tasks):
            job, charge = task.job, self.charges.of(task.template)
            if job is not None and charge.names and _counts(task):
                placed = _placed(task, task.status)
                self._charge(job, charge, self._leave_card(task), -1, placed)
                self._charge(job, charge, self._take_card(task, charge), 1, placed)


def _add(cards: dict[K, int], key: K, amount: int) -> None:
    left = cards.get(key, 0) + amount
    if left:
        cards[key] = left
    else:
        cards.pop(key, None)


def _placed(task: TaskInfo, status: TaskStatus) -> str:
    """The workload of a task if it stands allocated with this status, else empty."""
    return task.workload if IS_ALLOCATED[status] else ""


def _counts(task: TaskInfo) -> bool:
    return IS_CHOSEN[task.status] or (task.ungated and task.status is TaskStatus.PENDING)


def _of(accounts: dict[str, QueueAccount], name: str) -> QueueAccount:
    found = accounts.get(name)
    if found is None:
        found = accounts[name] = QueueAccount()
    return found
