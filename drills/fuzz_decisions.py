"""Whole sessions about objects that somebody may have written, with every plugin, on a small cluster."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from volsched.mirror.settings import MirrorSettings
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
    for rig in _rigs():
        rig.cycle(*_puts(found))
        _check(rig)
        gone = [
            Deleted(type(one).__name__, one.metadata.namespace, one.metadata.name, one.metadata.uid) for one in found
        ]
        rig.cycle(*gone)
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


def _puts(found: list[Any]) -> list[Change]:
    return [Put(one) for one in found]


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
