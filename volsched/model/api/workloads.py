"""Workloads, which make pods: Deployments, StatefulSets, DaemonSets, Jobs."""

from volsched.model.api.pods import PersistentVolumeClaimTemplate, PodTemplateSpec
from volsched.model.api.shared import ApiObject, Condition, LabelSelector, Record


class WorkloadSpec(Record, frozen=True):
    """Pods that a controller keeps alive."""

    replicas: int | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()


class RollingUpdate(Record, frozen=True):
    """The surplus and the shortage of pods that a rolling update allows: numbers or percentages."""

    max_surge: int | str = "25%"
    max_unavailable: int | str = "25%"


class DeploymentStrategy(Record, frozen=True):
    """The update strategy: ``RollingUpdate``, also if the type is empty, or ``Recreate``."""

    type: str = ""
    rolling_update: RollingUpdate | None = None


class DeploymentSpec(WorkloadSpec, frozen=True):
    """Pods that a controller keeps alive and replaces step by step."""

    strategy: DeploymentStrategy = DeploymentStrategy()


class Deployment(ApiObject, frozen=True):
    """apps/v1 Deployment."""

    spec: DeploymentSpec = DeploymentSpec()


class ReplicaSet(ApiObject, frozen=True):
    """apps/v1 ReplicaSet."""

    spec: WorkloadSpec = WorkloadSpec()


class DaemonSet(ApiObject, frozen=True):
    """apps/v1 DaemonSet."""

    spec: WorkloadSpec = WorkloadSpec()


class StatefulSetOrdinals(Record, frozen=True):
    """Where the numbering of a StatefulSet's pods starts."""

    start: int = 0


class StatefulSetSpec(Record, frozen=True):
    """Numbered pods, each with claims of its own."""

    replicas: int | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    volume_claim_templates: tuple[PersistentVolumeClaimTemplate, ...] = ()
    ordinals: StatefulSetOrdinals | None = None
    pod_management_policy: str = ""


class StatefulSet(ApiObject, frozen=True):
    """apps/v1 StatefulSet."""

    spec: StatefulSetSpec = StatefulSetSpec()


class BatchJobSpec(Record, frozen=True):
    """Pods that run to their end."""

    parallelism: int | None = None
    completions: int | None = None
    completion_mode: str = ""
    backoff_limit: int | None = None
    backoff_limit_per_index: int | None = None
    suspend: bool = False
    template: PodTemplateSpec = PodTemplateSpec()


class BatchJobStatus(Record, frozen=True):
    """The status of a batch Job."""

    conditions: tuple[Condition, ...] = ()
    start_time: str | None = None
    completion_time: str | None = None


class BatchJob(ApiObject, frozen=True):
    """batch/v1 Job."""

    spec: BatchJobSpec = BatchJobSpec()
    status: BatchJobStatus = BatchJobStatus()
