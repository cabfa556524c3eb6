"""Whole sessions about objects that somebody may have written, with every plugin, on a small cluster."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any, Final

import msgspec

from volsched.mirror.settings import MirrorSettings
from volsched.model import api
from volsched.model.changes import Change, Deleted, Put
from volsched.model.values.resources import Resources
from volsched.quota.demand import reserved_by
from volsched.testing.builders import ClusterBuilder, Rig, a_cluster, a_rig
from volsched.testing.recount import faults

MGPU: Final = "vke.volcengine.com/mgpu"
_LAST: Final = "- plugins: [{name: binpack}, {name: nodeorder}, {name: predicates}]"
_CONFIGURATIONS: Final = (
    f"""
actions: "enqueue, allocate, backfill, preempt, reclaim"
tiers:
- plugins: [{{name: priority}}, {{name: gang}}, {{name: conformance}}, {{name: sla}}]
- plugins:
  - name: capacity-card
  - {{name: mgpu, arguments: {{predicate.MGPUEnable: true}}}}
  - {{name: crossquota, arguments: {{gpu-resource-names: "nvidia.com/gpu", quota-resources: "cpu,memory"}}}}
{_LAST}
""",
    f"""
actions: "enqueue, allocate, backfill, preempt, reclaim"
tiers:
- plugins: [{{name: priority}}, {{name: gang}}, {{name: conformance}}, {{name: overcommit}}]
- plugins: [{{name: capacity}}, {{name: capacity-dra}}, {{name: drf}}]
{_LAST}
""",
    f"""
actions: "enqueue, reserve, allocate, backfill"
tiers:
- plugins: [{{name: priority}}, {{name: gang}}, {{name: overcommit}}]
- plugins: [{{name: proportion}}]
{_LAST}
configurations:
- name: reserve
  arguments: {{reserve.after: 0s, reserve.minNodes: 0}}
""",
)
"""Plugins that cannot run together are in different ones."""


def decide_about(found: list[Any]) -> None:
    """Take objects in, and run sessions until all are gone again; whatever a plugin raises is raised."""
    _decide(found, _puts(found))


def decide_as_they_change(found: list[Any]) -> None:
    """Decide about objects that change as their authors may change them; whatever a plugin raises is raised.

    PodGroups go and come back while their pods stay.
    """
    groups = [one for one in found if isinstance(one, api.PodGroup)]
    _decide(found, _puts(found), _puts(map(_changed, found)), _gone(groups), _puts(groups))


def _decide(found: list[Any], *steps: list[Change]) -> None:
    """Run a session after each step, and one when all objects are gone."""
    for rig in _rigs():
        for changes in steps:
            rig.cycle(*changes)
            _check(rig)
        rig.cycle(*_gone(found))
        for aside in rig.mirror.quarantine.take_errors():
            raise aside.error or AssertionError(aside.message)


def _check(rig: Rig) -> None:
    """Raise AssertionError if an account is not what it adds up to, or more is kept for a job than its pods request."""
    wrong = faults(rig.mirror.cluster)
    for job in rig.mirror.cluster.jobs.values():
        asked = Resources.sum_of(task.template.request for task in job.tasks.values())
        if job.tasks and len(job.tasks) >= job.spec.min_available:
            wrong += [f"{job}: {n}" for n, amount in reserved_by(job).items() if amount > asked.get(n, 0)]
        if job.queue and job.blocked and job.placed_count and not job.spec.has_group and not job.is_native:
            wrong.append(f"{job} counts in queue {job.queue}, which it may not use")
    if wrong:
        raise AssertionError(wrong)


def _puts(found: Iterable[Any]) -> list[Change]:
    return [Put(one) for one in found]


def _gone(found: Iterable[Any]) -> list[Change]:
    metas = [(type(one).__name__, one.metadata) for one in found]
    return [Deleted(kind, meta.namespace, meta.name, meta.uid) for kind, meta in metas]


def _changed(found: Any) -> Any:
    """Return an object as its author may change it each second: what protects it, its labels, minima and queue."""
    before = found.metadata
    notes = {**before.annotations, "volcano.sh/preemptable": "false", "volsched.io/expected-duration": "1s"}
    labels = {**before.labels, "team": "changed"}
    meta = msgspec.structs.replace(
        before, annotations=notes, labels=labels, resource_version=f"{before.resource_version}1"
    )
    found = msgspec.structs.replace(found, metadata=meta)
    if isinstance(found, api.PodGroup):
        spec = msgspec.structs.replace(found.spec, min_member=found.spec.min_member // 2, queue="team")
        found = msgspec.structs.replace(found, spec=spec)
    return found


@cache
def _configured() -> tuple[str, ...]:
    return _CONFIGURATIONS


def _rigs() -> list[Rig]:
    return [a_rig(_cluster(), text, settings=MirrorSettings(("volsched",), plain_pods=True)) for text in _configured()]


def _cluster() -> ClusterBuilder:
    """Return two nodes with cards, queues that stand, and a pod that waits."""
    cluster = a_cluster()
    offered: dict[str, Any] = {"nvidia.com/gpu": 8, f"{MGPU}-core": 200, f"{MGPU}-memory": 32768}
    labels = {"nvidia.com/gpu.product": "A", "nvidia.com/gpu.memory": "81920", "nvidia.com/gpu.count": "8", "team": "a"}
    for name in ("node-1", "node-2"):
        cluster.node(name, cpu="8", labels=labels, **offered)
    cluster.queue("default").queue("team")
    return cluster.job("etl", tasks=2, queue="team", cpu="1")
