"""Decides which objects of an input are read, which are left out, and which are misspelt.

Teams keep all their manifests in one folder. Objects that do not matter for placement are left out and counted; an
object that may be a misspelt important one is a fault.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from itertools import islice
from pathlib import PurePath
from typing import Any, Final, TypeAlias

from volsched.framework.config.arguments import hint
from volsched.framework.config.loading import is_of_scheduler
from volsched.framework.validation import UNKNOWN_KIND, Fault
from volsched.model import api
from volsched.model.api import native_groups as native
from volsched.model.dra import api as dra
from volsched.model.errors import nearest, shortened
from volsched.simulation import at_max
from volsched.simulation.documents import Document
from volsched.validation.fields import schemas

_OF_VOLCANO: Final = frozenset(
    {"ColocationConfiguration", "Command", "HyperNode", "JobFlow", "JobTemplate", "NodeShard", "Numatopology"}
)
"""Kinds of Volcano's that do not concern the scheduler, or that volsched does not know (see docs/cli.md)."""

_GROUPS_OF_VOLCANO: Final = frozenset(
    f"{name}.volcano.sh" for name in ("batch", "bus", "config", "flow", "nodeinfo", "scheduling", "shard", "topology")
)
"""The groups of Volcano itself. Others below its domain belong to projects beside it, as kthena."""

_COMMUNITY: Final = (".x-k8s.io", ".sigs.k8s.io", ".incubator.k8s.io")
"""The ends of groups that are never Kubernetes' own, however similar: `scheduling.x-k8s.io` has PodGroups."""

_REMOVED: Final = {
    "extensions": frozenset({"Ingress", "NetworkPolicy", "PodSecurityPolicy"}),
    "policy": frozenset({"PodSecurityPolicy"}),
}
"""Kinds of Kubernetes that are still in folders and that its API server knows no more."""

_MAKES_PODS: Final = frozenset({"JobFlow", "ReplicationController"})
"""Kinds of Kubernetes and Volcano that make pods, or what makes them, and are not played."""

_OPERATED: Final[Mapping[str, frozenset[str]]] = {
    group: frozenset(kinds.split())
    for group, kinds in {
        "apps.kruise.io": "AdvancedCronJob BroadcastJob CloneSet DaemonSet StatefulSet UnitedDeployment",
        "argoproj.io": "CronWorkflow Rollout Workflow",
        "batch.paddlepaddle.org": "PaddleJob",
        "elasticsearch.k8s.elastic.co": "Elasticsearch",
        "flink.apache.org": "FlinkBlueGreenDeployment FlinkDeployment",
        "flinkoperator.k8s.io": "FlinkCluster",
        "grove.io": "PodClique PodCliqueSet PodGangSet",
        "jobset.x-k8s.io": "JobSet",
        "kubeflow.org": "Experiment JAXJob MPIJob MXJob Notebook PaddleJob PyTorchJob TFJob XGBoostJob",
        "kubernetes.dask.org": "DaskAutoscaler DaskCluster DaskJob DaskWorkerGroup",
        "leaderworkerset.x-k8s.io": "DisaggregatedSet LeaderWorkerSet",
        "nvidia.com": "DynamoComponentDeployment DynamoGraphDeployment",
        "ray.io": "RayCluster RayCronJob RayJob RayService",
        "serving.knative.dev": "Configuration Revision Service",
        "serving.kserve.io": "InferenceService LLMInferenceService",
        "slinky.slurm.net": "Controller LoginSet NodeSet",
        "spark.apache.org": "SparkApplication SparkCluster",
        "sparkoperator.k8s.io": "ScheduledSparkApplication SparkApplication SparkConnect",
        "tekton.dev": "PipelineRun TaskRun",
        "trainer.kubeflow.org": "TrainJob",
        "workload.codeflare.dev": "AppWrapper",
        "workload.serving.volcano.sh": "ModelBooster ModelServing",
    }.items()
}
"""Kinds of which an operator makes pods, by their groups, as most do not describe pods in a recognisable way."""

_LIKE: Final = 0.8
"""The similarity of two group names above which one is a misspelling."""

_MOST_PARTS: Final = 10_000
"""Parts of an object that are searched for containers."""

_MOST_FILES: Final = 5
"""Files without objects that are named."""


class Why(StrEnum):
    """The reason to leave an object out."""

    NO_PART = "no part in scheduling"
    AT_MAX = "played by `simulate --at-max`"
    FOREIGN = "of other groups, not known here"
    FOREIGN_PODS = "not known here; their pods are missing"
    NO_OBJECT = "no objects"


HOW_TO_OBTAIN: Final = (
    "add the pods from a cluster where their controllers run: kubectl get pods,podgroups -A -o yaml; or write a "
    "workload in their place"
)
"""The message where pods are missing."""


@dataclass(slots=True)
class LeftOut:
    """The left-out objects: how many of each kind, and the files without objects."""

    counts: dict[Why, dict[str, int]] = field(default_factory=dict)

    def add(self, why: Why, document: Document) -> None:
        """Count a document."""
        what = PurePath(document.source).name if why is Why.NO_OBJECT else _label(document.raw)
        counted = self.counts.setdefault(why, {})
        counted[what] = counted.get(what, 0) + 1

    def __bool__(self) -> bool:
        return bool(self.counts)

    @property
    def has_pods(self) -> bool:
        """True if pods are missing without a decision to leave them out."""
        return Why.FOREIGN_PODS in self.counts

    def __str__(self) -> str:
        return "left out: " + "; ".join(self._parts())

    def _parts(self) -> Iterator[str]:
        for why in Why:
            counted = self.counts.get(why)
            if counted and why is Why.NO_OBJECT:
                more = f" and {len(counted) - _MOST_FILES} more" if len(counted) > _MOST_FILES else ""
                yield f"{', '.join(sorted(counted)[:_MOST_FILES])}{more} ({why})"
            elif counted:
                yield f"{', '.join(f'{number} {kind}' for kind, number in sorted(counted.items()))} ({why})"


Judgement: TypeAlias = Fault | Why | None
"""A misspelling, a reason to leave an object out, or neither: it is read."""


def judged(document: Document, *, plays_at_max: bool = False) -> Judgement:
    """Return the decision about a document, as far as its kind decides it."""
    raw = document.raw
    version, kind = raw.get("apiVersion"), raw.get("kind")
    if not isinstance(kind, str) or not kind:
        return Why.NO_OBJECT if document.among_others and not _lacks_its_kind(raw) else _without_kind(raw)
    if not isinstance(version, str) or not version:
        return _without_version(kind, version)
    if version in _VERSIONS.get(kind, ()):
        return None
    if (_group_of(version), kind) in at_max.KINDS:
        return None if plays_at_max else Why.AT_MAX
    return _not_read(version, kind, raw)


def _not_read(version: str, kind: str, raw: Mapping[str, Any]) -> Judgement:
    group = _group_of(version)
    if group in _groups():
        return _of_kubernetes(group, version, kind)
    if group in _GROUPS_OF_VOLCANO:
        return _left_out(kind) if kind in _OF_VOLCANO else _not_understood(version, kind)
    return _of_others(group, version, raw)


def _versions() -> dict[str, tuple[str, ...]]:
    versions: dict[str, tuple[str, ...]] = dict(dra.VERSIONS)
    for version, kind in (*api.KINDS, *native.KINDS):
        versions[kind] = (*versions.get(kind, ()), version)
    return versions


_VERSIONS: Final = _versions()


def _lacks_its_kind(raw: Mapping[str, Any]) -> bool:
    """True if this was meant to be an object, or a configuration, and not other YAML."""
    metadata = raw.get("metadata")
    is_named = isinstance(metadata, Mapping) and "name" in metadata
    is_some = is_named or raw.keys() >= {"apiVersion", "metadata"} or bool(raw.keys() & {"kind", "items"})
    return is_some or _is_configuration(raw)


def _is_configuration(raw: Mapping[str, Any]) -> bool:
    tiers = raw.get("tiers")
    listed = tiers if isinstance(tiers, list) else ()
    has_plugins = any("plugins" in tier for tier in listed if isinstance(tier, Mapping))
    return is_of_scheduler(raw.keys(), maps_actions=isinstance(raw.get("actions"), Mapping), has_plugins=has_plugins)


def _without_kind(raw: Mapping[str, Any]) -> Fault:
    if "actions" in raw or "tiers" in raw:
        message = "is missing; a scheduler configuration is given with --config, or inside a ConfigMap"
        return Fault("kind", UNKNOWN_KIND, message)
    return Fault("kind", UNKNOWN_KIND, "must be a text" if raw.get("kind") else "is missing")


def _without_version(kind: str, version: object) -> Fault:
    message = "must be a text" if version else "is missing"
    versions = _VERSIONS.get(kind) or [name for name, kinds in schemas().kubernetes.items() if kind in kinds]
    if not versions:
        return _not_understood("", kind)
    return Fault("apiVersion", UNKNOWN_KIND, f"{message}; {kind} is of {' or '.join(versions)}")


def _of_kubernetes(group: str, version: str, kind: str) -> Judgement:
    """Judge a kind of one of Kubernetes' own groups: all of them are known."""
    if kind in _VERSIONS:
        return _not_understood(version, kind)
    if kind in _groups()[group] or kind in _REMOVED.get(group, ()):
        return _left_out(kind)
    return _not_understood(version, kind)


def _left_out(kind: str) -> Why:
    return Why.FOREIGN_PODS if kind in _MAKES_PODS else Why.NO_PART


def _of_others(group: str, version: str, raw: Mapping[str, Any]) -> Judgement:
    """Judge a kind of an unknown group. Every custom group has a dot in its name."""
    kind = str(raw["kind"])
    if "." not in group or _looks_misspelt(group, kind):
        return _not_understood(version, kind)
    makes_pods = kind in _OPERATED.get(group, ()) or _has_containers(raw.get("spec"))
    return Why.FOREIGN_PODS if makes_pods else Why.FOREIGN


def _looks_misspelt(group: str, kind: str) -> bool:
    """True if a group is similar to one that has a kind of this name and is read."""
    groups = {_group_of(name) for name in _VERSIONS.get(kind, ())}
    is_of_others = group in _OPERATED or group.endswith(_COMMUNITY)
    return not is_of_others and nearest(group, groups, likeness=_LIKE) is not None


def _not_understood(version: str, kind: str) -> Fault:
    versions = _VERSIONS.get(kind)
    if versions is not None:
        message = f"{kind} of {shortened(version, 80)} is not understood; it is of {' or '.join(versions)}"
        return Fault("kind", UNKNOWN_KIND, message)
    of = f" of {shortened(version, 80)}" if version else ""
    return Fault("kind", UNKNOWN_KIND, f"{shortened(kind, 60)}{of} is not understood{_kind_meant(version, kind)}")


def _kind_meant(version: str, kind: str) -> str:
    """Return the nearest kind of the same version, else the nearest of all with its own version."""
    versions = _versions_of_kinds()
    same = [name for name, known in versions.items() if version in known]
    if said := hint(kind, same):
        return said
    meant = nearest(kind, versions)
    return f"; did you mean {meant}? It is of {versions[meant][0]}" if meant else ""


@cache
def _versions_of_kinds() -> Mapping[str, tuple[str, ...]]:
    """Return all known kinds, those that are read first, each with its versions."""
    versions = dict(_VERSIONS)
    for version, kinds in schemas().kubernetes.items():
        for kind in kinds:
            if kind not in _VERSIONS:
                versions[kind] = (*versions.get(kind, ()), version)
    return versions


@cache
def _groups() -> Mapping[str, frozenset[str]]:
    """Return the kinds of each group of Kubernetes, whatever their version."""
    found: dict[str, frozenset[str]] = dict(_REMOVED)
    for version, kinds in schemas().kubernetes.items():
        group = _group_of(version)
        found[group] = found.get(group, frozenset()).union(kinds)
    return found


def _group_of(version: str) -> str:
    return version.rpartition("/")[0]


def _label(raw: Mapping[str, Any]) -> str:
    """Return the name of a kind for counts: with its group, as kubectl takes it, unless that is Kubernetes' own."""
    kind, group = shortened(str(raw.get("kind")), 60), _group_of(str(raw.get("apiVersion")))
    return kind if group in _groups() else f"{kind}.{shortened(group, 80)}"


def _has_containers(spec: Any) -> bool:
    """True if pods are described somewhere in an object, as far as can be seen."""
    return any("containers" in part for part in islice(_mappings(spec), _MOST_PARTS))


def _mappings(value: Any) -> Iterator[Mapping[str, Any]]:
    left = [value]
    while left:
        part = left.pop()
        if isinstance(part, Mapping):
            yield part
            left.extend(part.values())
        elif isinstance(part, list | tuple):
            left.extend(part)
