"""What the page shows of a cluster at one moment: as it is, and as a dry run of the sessions says of what waits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import msgspec

from volsched.asking.cards import NodeCards, cards_by_node
from volsched.asking.diff import diff
from volsched.asking.known import Known
from volsched.asking.lists import queue_tree, waiting_jobs
from volsched.asking.records import Difference, QueueState, WaitingJob
from volsched.model import api
from volsched.scheduler import Profile
from volsched.simulation.manifests import Inventory
from volsched.simulation.runner import Settings, Simulation, Stage


@dataclass(frozen=True, slots=True)
class Picture:
    """The lists of all views. ``known`` is what they were made from."""

    known: Known
    queues: tuple[QueueState, ...]
    cards: tuple[NodeCards, ...]
    waiting: tuple[WaitingJob, ...]

    def job(self, namespace: str, name: str) -> WaitingJob | None:
        """Return a job that waits; None when it does not, or is not there."""
        return next((job for job in self.waiting if (job.namespace, job.name) == (namespace, name)), None)

    def waiting_in(self, queue: str) -> tuple[WaitingJob, ...]:
        """Return who waits in a queue, longest first."""
        jobs = [job for job in self.waiting if job.queue == queue]
        return tuple(sorted(jobs, key=lambda job: (job.since is None, job.since, job.position)))


def picture_of(known: Known) -> Picture:
    """Look at a cluster, and run its sessions dry; raises ConfigError."""
    as_it_is = _looked_at(known)
    cards = cards_by_node(as_it_is.mirror.cluster, known.objects)
    return Picture(known, queue_tree(as_it_is), cards, waiting_jobs(known.stage().run()))


def _looked_at(known: Known) -> Simulation:
    """Open a session in which nobody acts."""
    profile = known.profile()
    settings = Settings(1, known.scheduler_names, known.default_queue)
    idle = Profile(profile.configuration, (), profile.plugins)
    return Stage(Inventory(objects=list(known.objects)), idle, settings).run()


def what_if(known: Known, queue: str, resource: str, quota: str, nodes: Mapping[str, int]) -> Difference:
    """Say what another quota of a queue, and so many more nodes like each of some, would change.

    Raises KeyError for a queue or node that is not there, and ConfigError.
    """
    objects = [*_with_quota(known, queue, resource, quota), *_more_nodes(known, nodes)]
    return diff(known.stage().run(), known.with_objects(objects).stage().run())


def _with_quota(known: Known, name: str, resource: str, quota: str) -> Iterator[api.ApiObject]:
    if name and resource and quota:
        found = {each.metadata.name: each for each in known.objects if isinstance(each, api.Queue)}[name]
        capability = {**(found.spec.capability or {}), resource: quota}
        yield msgspec.structs.replace(found, spec=msgspec.structs.replace(found.spec, capability=capability))


def _more_nodes(known: Known, wanted: Mapping[str, int]) -> Iterator[api.ApiObject]:
    by_name = {each.metadata.name: each for each in known.objects if isinstance(each, api.Node)}
    for name, count in wanted.items():
        like = by_name[name]
        for number in range(count):
            called = f"{name}-more-{number + 1}"
            labels = {**like.metadata.labels, "kubernetes.io/hostname": called}
            yield msgspec.structs.replace(
                like, metadata=msgspec.structs.replace(like.metadata, name=called, uid="", labels=labels)
            )
