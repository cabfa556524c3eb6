"""What pods want that wait or hold a node, kept as jobs change, and published as means when a session first asks.

Sums are exact integers, so they do not depend on the order in which pods came. A pod with more cards than any node has
does not count, and none counts for more CPU and memory per card than the richest node has, so that a few odd pods do
not move the means. A claim that pods of a job share counts once in it, for the first of them by uid.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from plugins.fragmentation.average_demand import NO_DEMAND, AverageDemand, CardSums, average_demand_of
from plugins.fragmentation.card_requests import CardRequests, Group
from plugins.fragmentation.claims import NOTHING, Claimed, Claims
from plugins.fragmentation.cluster_cards import ClusterCards
from plugins.fragmentation.device_cards import DeviceCards
from plugins.fragmentation.node_cards import NodeCards, Richest
from plugins.fragmentation.scarcity import Scarcity
from plugins.fragmentation.selections import Selections
from volsched.plugin import (
    IS_FINISHED,
    Cluster,
    Floats,
    JobInfo,
    Mask,
    NodeInfo,
    Observer,
    PodTemplate,
    TaskInfo,
    TaskStatus,
)
from volsched.plugin.cards import CardLists

Kind = tuple[PodTemplate, Claimed]
"""What equal pods with equal claims share."""


@dataclass(slots=True)
class _Counted:
    """All that is counted of the present jobs."""

    sums: CardSums = field(default_factory=CardSums)
    groups: dict[Group, int] = field(default_factory=dict)
    jobs: dict[str, dict[Kind, int]] = field(default_factory=dict)


class _ClaimUsers:
    """The jobs whose pods have claims, by the keys of these claims and of the templates that they are made from."""

    def __init__(self, cluster: Cluster, claims: Claims) -> None:
        self._devices = cluster.devices
        self._claims = claims
        self._jobs: dict[str, set[str]] = {}
        self._sources: dict[str, set[str]] = {}
        self._position = self._devices.log_end
        self._template_position = self._devices.template_log.end

    def note(self, key: str, tasks: Collection[TaskInfo]) -> None:
        """Note which pods of a job have claims now."""
        for source in self._sources.pop(key, ()):
            self._jobs[source].discard(key)
            if not self._jobs[source]:
                del self._jobs[source]
        if tasks:
            self._sources[key] = {source for task in tasks for source in self._claims.sources(task)}
            for source in self._sources[key]:
                self._jobs.setdefault(source, set()).add(key)

    def take_changed(self) -> set[str]:
        """Return the keys of the jobs of which claims or templates changed since this was last asked."""
        devices = self._devices
        claims, templates = devices.changed_since(self._position), devices.template_log.since(self._template_position)
        self._position, self._template_position = devices.log_end, devices.template_log.end
        if claims is None or templates is None:
            return set(self._sources)
        return {job for found in (claims, templates) for source in found for job in self._jobs.get(source, ())}


class KnownDevices(NamedTuple):
    """What is known of cards that are devices, and of claims."""

    cards: DeviceCards
    selections: Selections
    claims: Claims


class Demand(Observer):
    """The sums; ``version`` changes whenever means, scarcity or the resources that are cards are others."""

    def __init__(
        self,
        cluster: Cluster,
        cluster_cards: ClusterCards,
        card_requests: CardRequests,
        lists: CardLists,
        devices: KnownDevices,
    ) -> None:
        self._cluster = cluster
        self._cluster_cards = cluster_cards
        self._cards = NodeCards(cluster, cluster_cards, devices.cards)
        self._card_requests = card_requests
        self._devices = devices
        self._scarcity = Scarcity(cluster, self._cards, lists, devices.selections)
        self._users = _ClaimUsers(cluster, devices.claims)
        self._changed: dict[str, JobInfo] = dict(cluster.jobs)
        self._counted = _Counted()
        self._seen: object = None
        self._nodes_seen = -1
        self._is_due = True
        self.average_demand: AverageDemand = NO_DEMAND
        self.scarce: Floats = np.zeros(0)
        self.version = 0

    @property
    def richest(self) -> Richest:
        """Return what the richest node has."""
        return self._cards.richest

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
        self._cards.refresh()

    def refresh(self) -> None:
        """Publish, once in a session."""
        if not self._is_due:
            return
        self._is_due = False
        self._devices.selections.refresh()
        self._card_requests.refresh()
        versions = (
            self._cluster_cards.version,
            self._devices.selections.version,
            self._cluster.devices.classes_version,
        )
        seen = (self.richest, *versions, self._card_requests.sources)
        jobs = self._cluster.jobs
        self._changed |= {key: jobs[key] for key in self._users.take_changed() if key in jobs}
        if seen == self._seen and self._cards.version == self._nodes_seen and not self._changed:
            return
        self._nodes_seen = self._cards.version
        if seen != self._seen:
            self._seen = seen
            self._begin_anew()
        self._count_changed()
        self._publish()

    def accepted_by(self, groups: Collection[Group]) -> Mask:
        """Mark the rows on which any of some groups of pods may go; all rows without a group."""
        return self._scarcity.accepted_by(groups)

    def _begin_anew(self) -> None:
        """Cards are other ones, or more of a node: what pods count for may be something else."""
        self._counted = _Counted()
        self._users = _ClaimUsers(self._cluster, self._devices.claims)
        self._changed = dict(self._cluster.jobs)
        self.version += 1

    def _count_changed(self) -> None:
        jobs, changes = self._counted.jobs, Counter[Kind]()
        for key in self._changed:
            job = self._cluster.jobs.get(key)
            with_claims = list(_with_claims(job)) if job is not None else []
            now = self._kinds(job, with_claims) if job is not None else {}
            self._users.note(key, with_claims)
            changes.update(now)
            changes.subtract(jobs.pop(key, {}))
            if now:
                jobs[key] = now
        self._changed = {}
        for kind, by in changes.items():
            if by:
                self._count(kind, by)

    def _kinds(self, job: JobInfo, with_claims: list[TaskInfo]) -> dict[Kind, int]:
        """Count the pods of a job that wait or hold a node. Those that may not use their queue do not wait."""
        is_barred = job.blocked
        counted = [t for t in job.tasks.values() if not IS_FINISHED[t.status] and not (is_barred and t.node is None)]
        if not with_claims:
            return {(template, NOTHING): count for template, count in Counter(t.template for t in counted).items()}
        claimed = self._claimed(task for task in counted if task.template.has_resource_claims)
        return Counter((task.template, claimed.get(task.uid, NOTHING)) for task in counted)

    def _claimed(self, tasks: Iterable[TaskInfo]) -> dict[str, Claimed]:
        """Return what claims ask for by the pods that they count for."""
        seen: set[str] = set()
        found: dict[str, Claimed] = {}
        for task in sorted(tasks, key=lambda task: task.uid):
            own = {key: spec for key, spec in self._devices.claims.specs(task) if key not in seen}
            seen.update(own)
            found[task.uid] = self._devices.claims.asked(own.values())
        return found

    def _count(self, kind: Kind, by: int) -> None:
        template, card_request = kind[0], self._card_requests.of(*kind)
        if not 0 < card_request.cards <= self.richest.cards or template.refusals:
            return
        self._counted.sums.add(card_request.sums(self.richest.cpu, self.richest.memory), by)
        groups = self._counted.groups
        groups[card_request.group] = groups.get(card_request.group, 0) + by * card_request.cards
        if not groups[card_request.group]:
            del groups[card_request.group]

    def _publish(self) -> None:
        average_demand = average_demand_of(self._counted.sums)
        scarce = self._scarcity.of(self._counted.groups, self._counted.sums.cards)
        if average_demand != self.average_demand or not np.array_equal(scarce, self.scarce):
            self.average_demand, self.scarce = average_demand, scarce
            self.version += 1


def _with_claims(job: JobInfo) -> Iterator[TaskInfo]:
    return (task for task in job.tasks.values() if task.template.has_resource_claims)
