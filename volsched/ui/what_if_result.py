"""The result of a what-if question, job by job: what starts earlier or later, is evicted, moves, or waits otherwise."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from volsched.diagnose.cluster_snapshot import ClusterSnapshot
from volsched.diagnose.records import Difference, PodDifference
from volsched.diagnose.workload_names import workload_without_owner
from volsched.mirror.reading import owner_name
from volsched.model import api

TITLES: Final = {
    "starts": "Start earlier",
    "waits": "Start later",
    "evicted": "Are evicted",
    "spared": "Are no longer evicted",
    "moves": "Are on other nodes",
    "reason": "Wait for another reason",
}
"""The lists of the result, by the sorts of ``diff``, in their order."""

MOST_PLACES: Final = 3


class ChangedJob(NamedTuple):
    """A job with pods that a change treats otherwise. ``before`` and ``after`` are nodes, or words.

    ``workload`` is the name for people, as ``Kind/name``.
    """

    namespace: str
    name: str
    workload: str
    queue: str
    pods: int
    before: str
    after: str
    why: str


class ChangeList(NamedTuple):
    """The jobs of one sort."""

    sort: str
    title: str
    jobs: tuple[ChangedJob, ...]
    pods: int


def lists_of(difference: Difference, known: ClusterSnapshot) -> list[ChangeList]:
    """Return the lists of a difference that have jobs. Their workloads are read from the objects of the cluster."""
    names = {pod.gang for pod in difference.pods}
    groups = (each for each in known.objects if isinstance(each, api.PodGroup) and each.key in names)
    owners = {group.key: owner for group in groups if (owner := owner_name(group.metadata))}
    found: dict[str, dict[str, list[PodDifference]]] = {sort: {} for sort in TITLES}
    for pod in difference.pods:
        found[pod.sort].setdefault(pod.gang or pod.pod, []).append(pod)
    return [
        ChangeList(
            sort,
            title,
            tuple(_job(key, pods, owners.get(key, "")) for key, pods in jobs.items()),
            sum(map(len, jobs.values())),
        )
        for sort, title in TITLES.items()
        if (jobs := found[sort])
    ]


def _job(key: str, pods: Sequence[PodDifference], owner: str) -> ChangedJob:
    namespace, _, name = key.partition("/")
    why = next((pod.why for pod in pods if pod.why), "")
    before, after = _places(pod.before for pod in pods), _places(pod.after for pod in pods)
    return ChangedJob(
        namespace, name, owner or workload_without_owner(name), pods[0].queue, len(pods), before, after, why
    )


def _places(words: Iterable[str]) -> str:
    """Return the distinct words, a few at most."""
    found = list(dict.fromkeys(words))
    more = len(found) - MOST_PLACES
    return ", ".join([*found[:MOST_PLACES], *([f"{more} more"] if more > 0 else [])])
