"""The cpu, memory and cards of queues and jobs, followed move by move.

A task counts from the moment a node is chosen for it (room that is only promised included) until it is evicted,
finishes or is undone. Cards count by what its node offers. All that is charged is a function of where tasks stand and
of nodes' own properties, so accounts that are rebuilt are those that were followed. A task whose gate was lifted
counts without a node, of its list for the first card that has quota left then.

``CardUsage`` decides what each move is charged for; the sums are those of ``volsched.quota.usage``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final, TypeAlias

from plugins.capacity_card.cards.catalogue import NO_KIND, CardCatalogue
from plugins.capacity_card.quotas.limits import QueueLimit, QueueLimits
from plugins.capacity_card.requests.charges import Charge, ChargedCard, Charges, amounts_of
from plugins.capacity_card.requests.requests import CardRequest, Dimension
from volsched.plugin import (
    HOLDS_ROOM,
    IS_ALLOCATED,
    IS_CHOSEN,
    Cluster,
    JobInfo,
    NodeInfo,
    NodeProperties,
    NodePropertiesView,
    Observer,
    PodTemplate,
    QueueInfo,
    TaskInfo,
    TaskStatus,
)
from volsched.plugin.cards import UNMAPPED, CardMapping
from volsched.plugin.quota import JobCharges

Placed: TypeAlias = tuple[str, str]
"""A card, and the kind of workload that holds it (online or offline)."""


_NODE_AND_WORKLOAD: Final = attrgetter("node", "spec.workload")


class PlacedCards(JobCharges[Placed]):
    """The cards of tasks that stand allocated. ``changed`` are queues that hold others, for its reader to clear."""

    def __init__(self, levels: Callable[[str], Sequence[str]] | None) -> None:
        super().__init__(levels)
        self.changed: dict[str, None] = {}

    def add(self, queue: str, amounts: Mapping[Placed, int], by: int) -> None:
        """Note the queue, too."""
        self.changed[queue] = None
        super().add(queue, amounts, by)


class CardUsage(Observer):
    """Follows the cluster. ``catalogue`` and ``limits`` are kept up to date by it.

    ``held`` is what jobs and queues hold, ``placed`` which of these cards tasks hold that stand allocated: without
    promised room and lifted gates. ``changed_nodes`` is for its reader to clear.
    """

    def __init__(
        self,
        cluster: Cluster,
        mapping: CardMapping = UNMAPPED,
        *,
        spares_cpu: bool,
        is_strict: bool,
        is_hierarchical: bool,
    ) -> None:
        self._cluster = cluster
        self.catalogue = CardCatalogue(cluster, mapping)
        self.limits = QueueLimits(cluster, self.catalogue.totals, is_hierarchical=is_hierarchical)
        levels = self.limits.levels if is_hierarchical else None
        self.held = JobCharges[Dimension](levels)
        self.placed = PlacedCards(levels)
        self.charges = Charges(self.catalogue, spares_cpu=spares_cpu, is_strict=is_strict)
        self.changed_nodes: dict[str, NodeInfo] = dict(cluster.nodes)
        self._charged_cards: dict[str, ChargedCard] = {}
        self._lost: dict[str, TaskInfo] = {}
        self._tree = cluster.generations.queue_tree
        self._charge_all(cluster.tasks.values())

    # -- reading ------------------------------------------------------------------------------------------------------

    def charged(self, task: TaskInfo) -> ChargedCard | None:
        """Return the card that a task is charged for, or None when it is charged for none."""
        return self._charged_cards.get(task.uid)

    def offered(self, template: PodTemplate, node: NodePropertiesView) -> ChargedCard | None:
        """Return the card that a node offers to pods of a template.

        None when it offers none of those that they name.
        """
        return self.charges.offered(template, self.catalogue.kind_of(node))

    def offered_by_kinds(self, template: PodTemplate) -> Iterator[ChargedCard | None]:
        """Return the same for nodes of every kind, in order of the kinds' numbers."""
        return (self.charges.offered(template, kind) for kind in range(len(self.catalogue.kinds())))

    def blocking(self, chain: Sequence[QueueLimit], card: str, amount: int) -> QueueLimit | None:
        """Return the first limit that has not that much left of a card (milli-cards), or None when all have."""
        held, dimension = self.held.with_below.of, (card,)
        for limit in chain:
            if held(limit.queue).get(dimension, 0) + amount > limit.of(dimension):
                return limit
        return None

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
        if counted:
            charged = self._leave_card(task) if charge.names else None
            self._charge(job, charge, charged, -1, _placed(task, before))
        if counts:
            charged = self._take_card(task, charge) if charge.names else None
            self._charge(job, charge, charged, 1, _placed(task, status))

    def run_allocated(self, tasks: Sequence[TaskInfo]) -> None:
        """Charge equal tasks of one job, those on the same card together."""
        job, charge = tasks[0].job, self.charges.of(tasks[0].template)
        if job is None:
            return
        by_kind: dict[tuple[int, str], list[TaskInfo]] = {}
        for (node, workload), placed in groupby(tasks, _NODE_AND_WORKLOAD):
            self._note_node(node)
            by_kind.setdefault((self.catalogue.kind_of(node), workload), []).extend(placed)
        for (kind, workload), alike in by_kind.items():
            charged = self.charges.charged(alike[0].template, kind)
            self._note_charged(alike, charged)
            self._charge(job, charge, charged, len(alike), workload)

    def _charge(self, job: JobInfo, charge: Charge, charged: ChargedCard | None, by: int, workload: str) -> None:
        """Charge for equal tasks. ``workload`` is theirs if they stand allocated, else empty."""
        self.held.charge(job, amounts_of(charge, charged), by)
        if charged is not None and workload:
            self.placed.charge(job, {(charged.card, workload): charged.amount}, by)

    def _note_node(self, node: NodeInfo | None) -> None:
        """Remember a node of which other cards may be idle now."""
        if node is not None:
            self.changed_nodes[node.name] = node

    def task_ungated(self, task: TaskInfo, *, counts: bool) -> None:
        """Charge a task whose gate was lifted, and that has no node yet, and uncharge it."""
        job = task.job
        if job is None:
            return
        charge = self.charges.of(task.template)
        if counts:
            self._charge(job, charge, self._take_card(task, charge) if charge.names else None, 1, "")
        else:
            self._charge(job, charge, self._leave_card(task) if charge.names else None, -1, "")

    def _take_card(self, task: TaskInfo, charge: Charge) -> ChargedCard | None:
        charged = self._first_card_with_room(task) if task.status is TaskStatus.PENDING else None
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

    def _first_card_with_room(self, task: TaskInfo) -> ChargedCard | None:
        """Return the first card of a task's list of which its queue may have more, for a task without node and gate."""
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
        """Charge pods that were placed before this observer; equal tasks of a job on equal nodes together."""
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

    # -- jobs and queues ----------------------------------------------------------------------------------------------

    def job_changed(self, job: JobInfo, *, gone: bool) -> None:
        """Let what a job holds count for the queue that it is in now."""
        self.held.follow(job, gone=gone)
        self.placed.follow(job, gone=gone)

    def queue_changed(self, queue: QueueInfo, *, gone: bool) -> None:
        """Read a queue's limits. Where that has moved queues in the hierarchy, add up again what subtrees hold."""
        if gone:
            self.limits.remove(queue)
        else:
            self.limits.put(queue)
        if self._tree != self._cluster.generations.queue_tree:
            self._tree = self._cluster.generations.queue_tree
            self.held.add_up_again()
            self.placed.add_up_again()

    # -- nodes --------------------------------------------------------------------------------------------------------

    def node_changed(self, node: NodeInfo, before: NodeProperties | None) -> None:
        """Look at a node's cards again. Tasks there hold what it offers now."""
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


def _placed(task: TaskInfo, status: TaskStatus) -> str:
    """Return the workload of a task if it stands allocated with this status, else empty."""
    return task.spec.workload if IS_ALLOCATED[status] else ""


def _counts(task: TaskInfo) -> bool:
    return IS_CHOSEN[task.status] or (task.ungated and task.status is TaskStatus.PENDING)
