"""What pods want that wait or hold a node, kept as jobs change, and published as means when a session first asks.

Sums are exact integers, so they do not depend on the order in which pods came. A pod with more cards than any node has
does not count, and none counts for more CPU and memory per card than the richest node has, so that a few odd pods do
not move the means.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np

from plugins.fragmentation.card_requests import CardRequests, Group
from plugins.fragmentation.means import NOBODY, CardSums, Means, means_of
from plugins.fragmentation.offers import MILLI, Offers
from plugins.fragmentation.scarcity import Scarcity
from volsched.framework.accounts.card_lists import CardLists
from volsched.framework.columns.arrays import Floats, Mask
from volsched.model.cluster import Cluster
from volsched.model.job import JobInfo
from volsched.model.nodes.node import NodeInfo
from volsched.model.observers import Observer
from volsched.model.pods.task import TaskInfo
from volsched.model.pods.template import PodTemplate
from volsched.model.status import IS_FINISHED, TaskStatus


@dataclass(slots=True)
class Richest:
    """What the richest node has per card (thousandths of a core, bytes), and the most cards of one, in thousandths."""

    cpu: int = 0
    memory: int = 0
    cards: int = 0


@dataclass(slots=True)
class _Counted:
    """All that is counted of the present jobs."""

    sums: CardSums = field(default_factory=CardSums)
    groups: dict[Group, int] = field(default_factory=dict)
    jobs: dict[str, dict[PodTemplate, int]] = field(default_factory=dict)


class Demand(Observer):
    """The sums; ``version`` changes whenever means, scarcity or the resources that are cards are others."""

    def __init__(self, cluster: Cluster, offers: Offers, card_requests: CardRequests, lists: CardLists) -> None:
        self._cluster = cluster
        self._offers = offers
        self._card_requests = card_requests
        self._scarcity = Scarcity(cluster, offers, lists)
        self._changed: dict[str, JobInfo] = dict(cluster.jobs)
        self._counted = _Counted()
        self._seen: object = None
        self._is_due = True
        self.richest = Richest()
        self.means: Means = NOBODY
        self.scarce: Floats = np.zeros(0)
        self.version = 0

    # -- following jobs -----------------------------------------------------------------------------------------------

    def task_moved(self, task: TaskInfo, before: TaskStatus, node_before: NodeInfo | None) -> None:
        """Have the job counted anew when one of its pods ends."""
        if IS_FINISHED[before] != IS_FINISHED[task.status] and task.job is not None:
            self._changed[task.job.key] = task.job

    def run_allocated(self, tasks: Sequence[TaskInfo]) -> None:
        """Nothing: pods count while they wait, too."""

    def job_changed(self, job: JobInfo, *, gone: bool) -> None:
        """Have the job counted anew, or no longer."""
        self._changed[job.key] = job

    # -- publishing ---------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """A session begins: what it asks first is answered of the pods that there are then, as is all that follows."""
        self._is_due = True

    def refresh(self) -> None:
        """Publish, once in a session."""
        if not self._is_due:
            return
        self._is_due = False
        self._offers.refresh()
        seen = (self._cluster.node_ledger.facts_version, self._offers.version, self._card_requests.sources)
        if seen == self._seen and not self._changed:
            return
        if seen != self._seen:
            self._seen = seen
            self._begin_anew()
        self._count_changed()
        self._publish()

    def accepted_by(self, groups: Collection[Group]) -> Mask:
        """Mark the rows on which any of some groups of pods may go; all rows without a group."""
        return self._scarcity.accepted_by(groups)

    def _begin_anew(self) -> None:
        """Nodes have changed: what pods count for may be something else."""
        self.richest = self._find_richest()
        self._counted = _Counted()
        self._changed = dict(self._cluster.jobs)
        self.version += 1

    def _find_richest(self) -> Richest:
        found = Richest()
        for node in self._cluster.rows:
            cards = self._offers.cards(node)
            if cards:
                found.cards = max(found.cards, cards)
                found.cpu = max(found.cpu, MILLI * node.allocatable_of("cpu") // cards)
                found.memory = max(found.memory, MILLI * node.allocatable_of("memory") // cards)
        return found

    def _count_changed(self) -> None:
        jobs, changes = self._counted.jobs, Counter[PodTemplate]()
        for key in self._changed:
            job = self._cluster.jobs.get(key)
            now = _templates(job) if job is not None else {}
            changes.update(now)
            changes.subtract(jobs.pop(key, {}))
            if now:
                jobs[key] = now
        self._changed = {}
        for template, by in changes.items():
            if by:
                self._count(template, by)

    def _count(self, template: PodTemplate, by: int) -> None:
        card_request = self._card_requests.of(template)
        if not 0 < card_request.cards <= self.richest.cards or template.refusals:
            return
        self._counted.sums.add(card_request.sums(self.richest.cpu, self.richest.memory), by)
        groups = self._counted.groups
        groups[card_request.group] = groups.get(card_request.group, 0) + by * card_request.cards
        if not groups[card_request.group]:
            del groups[card_request.group]

    def _publish(self) -> None:
        means = means_of(self._counted.sums)
        scarce = self._scarcity.of(self._counted.groups, self._counted.sums.cards)
        if means != self.means or not np.array_equal(scarce, self.scarce):
            self.means, self.scarce = means, scarce
            self.version += 1


def _templates(job: JobInfo) -> dict[PodTemplate, int]:
    """Count the pods of a job that wait or hold a node, by template; those that may not use their queue do not wait."""
    found: dict[PodTemplate, int] = {}
    for task in job.tasks.values():
        if not IS_FINISHED[task.status] and (task.node is not None or not job.barred):
            found[task.template] = found.get(task.template, 0) + 1
    return found
