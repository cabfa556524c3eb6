"""Rules of Volcano that volsched does not know: hard ones refuse the job, others are ignored.

A job with a hard rule waits. Hard is a network topology without ``mode: soft`` (the default of Volcano's CRD), and a
`subGroupPolicy` whose subgroups have to start whole, or which has a minimum of subgroups. A subgroup of one pod is
whole as soon as it is placed.

Settings without effect cause warnings where they are read: node groups of queues, NUMA policies, revocable zones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from volsched.model import api
from volsched.model.verdict import Scope, Step, Verdict

NETWORK_TOPOLOGY: Final = "NetworkTopologyUnknown"
SUB_GROUPS: Final = "SubGroupsUnknown"
REASONS: Final = frozenset({NETWORK_TOPOLOGY, SUB_GROUPS})
"""The reasons of the refusals of jobs with such rules."""

NUMA_POLICY: Final = "volcano.sh/numa-topology-policy"
REVOCABLE_ZONE: Final = "volcano.sh/revocable-zone"

_SOFT: Final = "soft"
_NO_NODE_GROUPS: Final = "volsched knows no node groups; give the pods a nodeSelector or a node affinity"
_NO_ZONES: Final = "volsched knows no revocable zones; taint such nodes, and let pods tolerate the taint"
_NO_NUMA: Final = "volsched knows no NUMA nodes; have the kubelet align them, with its topologyManagerPolicy"


class UnservedRule(NamedTuple):
    """A hard rule that volsched cannot keep. ``message`` follows ``field``, a path in the object, and has a way out."""

    field: str
    reason: str
    message: str


def refusal_of(label: str, spec: api.PodGroupSpec) -> Verdict | None:
    """Return why the PodGroup of this ``namespace/name`` has to wait, or None if volsched keeps all of its rules."""
    rule = next(rules_of_group(spec), None)
    if rule is None:
        return None
    message = f'PodGroup "{label}": {rule.field} {rule.message}'
    return Verdict(Step.INVALID, "", Scope.JOB, rule.reason, message, resolvable=False)


def rules_of_group(spec: api.PodGroupSpec) -> Iterator[UnservedRule]:
    """Yield the rules of a PodGroup that volsched cannot keep."""
    yield from _topology("spec.networkTopology", spec.network_topology)
    for number, policy in enumerate(spec.sub_group_policy):
        at = f"spec.subGroupPolicy[{number}]"
        yield from _topology(f"{at}.networkTopology", policy.network_topology)
        yield from _minima(at, policy)


def rules_of_job(spec: api.JobSpec) -> Iterator[UnservedRule]:
    """Yield the rules of a Volcano Job, and so of its PodGroup, that volsched cannot keep."""
    yield from _topology("spec.networkTopology", spec.network_topology)
    for number, task in enumerate(spec.tasks):
        if task.partition_policy is not None:
            at = f"spec.tasks[{number}].partitionPolicy.networkTopology"
            yield from _topology(at, task.partition_policy.network_topology)


def is_hard(topology: api.NetworkTopology | None) -> bool:
    """True if pods may only be placed by a topology: there is one, and it is not soft."""
    return topology is not None and topology.mode != _SOFT


def _topology(field: str, topology: api.NetworkTopology | None) -> Iterator[UnservedRule]:
    if topology is None or not is_hard(topology):
        return
    what = "is hard" if topology.mode == "hard" else _odd(topology.mode)
    message = (
        f"{what}, and volsched knows no HyperNodes, so its pods wait; leave the field out, or set mode: soft, which "
        "has no effect"
    )
    yield UnservedRule(field, NETWORK_TOPOLOGY, message)


def _odd(mode: str) -> str:
    return "has a mode that is neither hard nor soft, which counts as hard" if mode else "has no mode, which means hard"


def _minima(field: str, policy: api.SubGroupPolicy) -> Iterator[UnservedRule]:
    if (policy.sub_group_size or 1) <= 1 and (policy.min_sub_groups or 0) <= 0:
        return
    message = (
        "has a subGroupSize or minSubGroups, and volsched does not count subgroups, so its pods wait; leave both out, "
        "or make a PodGroup with a minMember for each subgroup"
    )
    yield UnservedRule(field, SUB_GROUPS, message)


# -- what is ignored --------------------------------------------------------------------------------------------------


class IgnoredWish(NamedTuple):
    """A field that has no effect in volsched, a path in its object. ``message`` states why, and what does."""

    field: str
    message: str


def ignored_by(found: api.ApiObject) -> Iterator[IgnoredWish]:
    """Yield what an object states in vain, its pods aside."""
    if isinstance(found, api.Queue):
        yield from _of_queue(found.spec.affinity)
    elif isinstance(found, api.Node):
        yield from _zones("metadata.labels", found.metadata.labels)
    elif isinstance(found, api.PodGroup):
        yield from ignored_by_pod(found.metadata)
    elif isinstance(found, api.Job):
        yield from _of_job(found)


def ignored_by_pod(metadata: api.ObjectMeta) -> Iterator[IgnoredWish]:
    """Yield what a pod, a template of pods or their PodGroup states in vain."""
    yield from _zones("metadata.annotations", metadata.annotations)
    yield from _numa(f"metadata.annotations[{NUMA_POLICY}]", metadata.annotations.get(NUMA_POLICY, ""))


def _of_queue(affinity: api.QueueAffinity | None) -> Iterator[IgnoredWish]:
    if affinity is None:
        return
    near, away = affinity.node_group_affinity, affinity.node_group_anti_affinity
    for name, groups in (("nodeGroupAffinity", near), ("nodeGroupAntiAffinity", away)):
        if groups is not None and (groups.required or groups.preferred):
            yield IgnoredWish(f"spec.affinity.{name}", _NO_NODE_GROUPS)


def _of_job(job: api.Job) -> Iterator[IgnoredWish]:
    yield from _zones("metadata.annotations", job.metadata.annotations)
    yield from _zones("metadata.labels", job.metadata.labels)
    for number, task in enumerate(job.spec.tasks):
        yield from _numa(f"spec.tasks[{number}].topologyPolicy", task.topology_policy)


def _zones(field: str, texts: Mapping[str, str]) -> Iterator[IgnoredWish]:
    if REVOCABLE_ZONE in texts:
        yield IgnoredWish(f"{field}[{REVOCABLE_ZONE}]", _NO_ZONES)


def _numa(field: str, policy: str) -> Iterator[IgnoredWish]:
    if policy not in ("", "none"):
        yield IgnoredWish(field, _NO_NUMA)
