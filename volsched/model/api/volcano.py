"""Queues, PodGroups and Jobs of Volcano."""

from typing import Any

import msgspec

from volsched.model.api.pods import PersistentVolumeClaimSpec, PodTemplateSpec
from volsched.model.api.shared import ApiObject, Condition, LabelSelector, LimitList, Record, ResourceList


class Guarantee(Record, frozen=True):
    """The guarantee of a queue."""

    resource: LimitList = {}


class NodeGroupAffinity(Record, frozen=True):
    """Node groups that a queue needs, and likes."""

    required: tuple[str, ...] = msgspec.field(default=(), name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: tuple[str, ...] = msgspec.field(default=(), name="preferredDuringSchedulingIgnoredDuringExecution")


class QueueAffinity(Record, frozen=True):
    """Node groups that a queue's pods go to and stay away from."""

    node_group_affinity: NodeGroupAffinity | None = None
    node_group_anti_affinity: NodeGroupAffinity | None = None


class QueueSpec(Record, frozen=True):
    """The spec of a queue. `dra` is read by its plugin, which reports its faults.

    `state` is the wanted one, Open or Closed; empty leaves it to `status.state`.
    """

    weight: int = 1
    capability: LimitList = {}
    deserved: LimitList = {}
    guarantee: Guarantee = Guarantee()
    reclaimable: bool | None = None
    parent: str = ""
    priority: int = 0
    state: str = ""
    dequeue_strategy: str = ""
    affinity: QueueAffinity | None = None
    type: str = ""
    dra: Any = None


class QueueUsage(Record, frozen=True):
    """The past usage of a queue until a time, in amounts times seconds; written by the scheduler."""

    time: str = ""
    resource_seconds: dict[str, str | int | float] = {}


class QueueStatus(Record, frozen=True):
    """The status of a queue; an empty state means Open."""

    state: str = ""
    pending: int = 0
    running: int = 0
    inqueue: int = 0
    unknown: int = 0
    completed: int = 0
    allocated: ResourceList = {}
    usage: QueueUsage | None = None


class Queue(ApiObject, frozen=True):
    """scheduling.volcano.sh/v1beta1 Queue."""

    spec: QueueSpec = QueueSpec()
    status: QueueStatus = QueueStatus()


class NetworkTopology(Record, frozen=True):
    """The network topology of a group."""

    mode: str = ""
    highest_tier_allowed: int | None = None
    highest_tier_name: str = ""


class SubGroupPolicy(Record, frozen=True):
    """The subgroups of a group, and how many of these start whole."""

    name: str = ""
    sub_group_size: int | None = None
    min_sub_groups: int | None = None
    label_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    network_topology: NetworkTopology | None = None


class PodGroupSpec(Record, frozen=True):
    """The spec of a gang."""

    min_member: int = 0
    min_task_member: dict[str, int] = {}
    queue: str = ""
    priority_class_name: str = ""
    min_resources: ResourceList | None = None
    network_topology: NetworkTopology | None = None
    sub_group_policy: tuple[SubGroupPolicy, ...] = ()


class PodGroupStatus(Record, frozen=True):
    """The status of a gang."""

    phase: str = ""
    conditions: tuple[Condition, ...] = ()
    running: int = 0
    succeeded: int = 0
    failed: int = 0


class PodGroup(ApiObject, frozen=True):
    """scheduling.volcano.sh/v1beta1 PodGroup."""

    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


class LifecyclePolicy(Record, frozen=True):
    """A policy for an event of a Volcano Job."""

    action: str = ""
    event: str = ""
    events: tuple[str, ...] = ()
    exit_code: int | None = None
    timeout: str | None = None


class DependsOn(Record, frozen=True):
    """Tasks that must come first."""

    name: tuple[str, ...] = ()
    iteration: str = ""


class PartitionPolicy(Record, frozen=True):
    """Into groups of how many pods a role of a Volcano Job is divided."""

    partition_size: int = 0
    min_partitions: int | None = None
    network_topology: NetworkTopology | None = None


class TaskSpec(Record, frozen=True):
    """One role of a Volcano Job."""

    name: str = ""
    replicas: int = 1
    min_available: int | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    policies: tuple[LifecyclePolicy, ...] = ()
    topology_policy: str = ""
    max_retry: int = 0
    depends_on: DependsOn | None = None
    partition_policy: PartitionPolicy | None = None


class JobVolume(Record, frozen=True):
    """A volume that all pods of a Volcano Job share."""

    mount_path: str = ""
    volume_claim_name: str = ""
    volume_claim: PersistentVolumeClaimSpec | None = None


class JobSpec(Record, frozen=True):
    """The spec of a Volcano Job."""

    scheduler_name: str = ""
    min_available: int | None = None
    volumes: tuple[JobVolume, ...] = ()
    tasks: tuple[TaskSpec, ...] = ()
    policies: tuple[LifecyclePolicy, ...] = ()
    plugins: dict[str, tuple[str, ...] | None] = {}
    running_estimate: str | None = None
    queue: str = ""
    max_retry: int | None = None
    ttl_seconds_after_finished: int | None = None
    priority_class_name: str = ""
    min_success: int | None = None
    network_topology: NetworkTopology | None = None


class JobState(Record, frozen=True):
    """The phase of a Volcano Job."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class JobStatus(Record, frozen=True):
    """The status of a Volcano Job."""

    state: JobState = JobState()
    min_available: int = 0
    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    terminating: int = 0
    unknown: int = 0
    version: int = 0
    retry_count: int = 0
    running_duration: str | None = None


class Job(ApiObject, frozen=True):
    """batch.volcano.sh/v1alpha1 Job."""

    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()
