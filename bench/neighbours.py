"""Constraints between pods for the clusters of the benches: affinity, anti-affinity and topology spread.

Each job selects its own pods by a label of its own, as users' templates do. So jobs share no template.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from bench.worlds import ZONE, Json
from volsched.testing.builders import GROUP_NAME, HOSTNAME

JOB: Final = "bench.volsched/job"


def with_affinity(objects: Iterable[Json]) -> Iterator[Json]:
    """Return the same objects with constraints between the pods of each gang.

    The pods of every second gang share a zone, and prefer nodes of their own. The pods of the other gangs require nodes
    of their own.
    """
    for item in objects:
        if item["kind"] == "Pod":
            job = _labelled(item)
            affinity = item["spec"].setdefault("affinity", {})
            apart = _term(job, HOSTNAME)
            if int(job.rpartition("-")[2]) % 2:
                affinity["podAntiAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}
            else:
                preferred = [{"weight": 10, "podAffinityTerm": apart}]
                affinity["podAntiAffinity"] = {"preferredDuringSchedulingIgnoredDuringExecution": preferred}
                affinity["podAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [_term(job, ZONE)]}
        yield item


def with_spreading(objects: Iterable[Json]) -> Iterator[Json]:
    """Return the same objects; the pods of each gang have to spread over zones, and should spread over nodes."""
    for item in objects:
        if item["kind"] == "Pod":
            job = _labelled(item)
            item["spec"]["topologySpreadConstraints"] = [
                {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **_term(job, ZONE)},
                {"maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway", **_term(job, HOSTNAME)},
            ]
        yield item


def _labelled(pod: Json) -> str:
    job: str = pod["metadata"]["annotations"][GROUP_NAME]
    pod["metadata"]["labels"] = {JOB: job}
    return job


def _term(job: str, topology: str) -> Json:
    return {"topologyKey": topology, "labelSelector": {"matchLabels": {JOB: job}}}
