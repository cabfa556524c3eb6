"""Kubernetes objects as typed structs with only the fields that volsched reads.

Decoding is strict where it matters (a field that is read and has the wrong type is an error that names its path) and
blind to all else (unknown fields are skipped, which is also what makes it fast). Structs are frozen and not tracked by
the garbage collector: they hold no cycles, and a hundred thousand of them cost it nothing. Times stay texts, quantities
stay as written; `quantity`, `requests` and `template` give them a meaning.

Sources: core/v1 of Kubernetes 1.36, apps/v1, batch/v1, policy/v1, scheduling.k8s.io/v1, storage.k8s.io/v1,
and Volcano's scheduling.volcano.sh/v1beta1 and batch.volcano.sh/v1alpha1.

The module is long and is left whole: it is a table of fields, and is looked things up in.
"""

import re
from collections.abc import Mapping
from datetime import date
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from volsched.model.errors import FieldError, ObjectError
from volsched.model.values import json_text
from volsched.model.values.json_text import MOST_LEVELS
from volsched.model.values.paths import with_keys
from volsched.model.values.quantity import QuantityText

ResourceList = dict[str, QuantityText]
LimitList = dict[str, QuantityText | None]
"""Amounts by which somebody limits others. A null is not read as if it were not written, since that would be no limit:
it is no quantity, as any other text that is none."""


class Record(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, rename="camel"):
    """Base of all structs here: immutable, camelCase outside, absent fields at their defaults."""


# --- metadata and what many kinds share -----------------------------------------------------------------------------


class OwnerReference(Record, frozen=True):
    """Who an object belongs to."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    controller: bool = False


class ObjectMeta(Record, frozen=True):
    """Who an object is."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    generate_name: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that manages this object."""
        return next((owner for owner in self.owner_references if owner.controller), None)


class ApiObject(Record, frozen=True):
    """An object with metadata."""

    metadata: ObjectMeta = ObjectMeta()

    @property
    def key(self) -> str:
        """`namespace/name`, or the name alone of what has no namespace."""
        meta = self.metadata
        return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name


class Condition(Record, frozen=True):
    """One condition in a status."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None
    last_probe_time: str | None = None
    observed_generation: int = 0
    transition_id: str = msgspec.field(default="", name="transitionID")


class LabelSelectorRequirement(Record, frozen=True):
    """One expression of a label selector."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(Record, frozen=True):
    """metav1.LabelSelector, not yet parsed (see `selectors`)."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


class NodeSelectorTerm(Record, frozen=True):
    """One alternative of a node selector: all its expressions and fields must hold."""

    match_expressions: tuple[LabelSelectorRequirement, ...] = ()
    match_fields: tuple[LabelSelectorRequirement, ...] = ()


class NodeSelector(Record, frozen=True):
    """Alternatives, one of which must hold."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class ResourceRequirements(Record, frozen=True):
    """What a container or a pod asks for and may use at most."""

    requests: ResourceList = {}
    limits: ResourceList = {}


# --- pods -----------------------------------------------------------------------------------------------------------


class ContainerPort(Record, frozen=True):
    """A port of a container."""

    container_port: int = 0
    host_port: int = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = "TCP"


class ContainerRestartRule(Record, frozen=True):
    """What to do when a container ends in a certain way."""

    action: str = ""


class Container(Record, frozen=True):
    """A container; `restartPolicy: Always` makes an init container a sidecar (KEP-753)."""

    name: str = ""
    image: str = ""
    restart_policy: str = ""
    restart_policy_rules: tuple[ContainerRestartRule, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()
    ports: tuple[ContainerPort, ...] = ()

    @property
    def is_sidecar(self) -> bool:
        """Whether this init container keeps running beside the others."""
        return self.restart_policy == "Always"


class Toleration(Record, frozen=True):
    """A taint that a pod puts up with, not yet parsed (see `template`)."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class PreferredSchedulingTerm(Record, frozen=True):
    """A node selector term that earns a node some points."""

    weight: int = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(Record, frozen=True):
    """Which nodes a pod needs and likes."""

    required: NodeSelector | None = msgspec.field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: tuple[PreferredSchedulingTerm, ...] = msgspec.field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class PodAffinityTerm(Record, frozen=True):
    """Pods to be near to or away from, within a topology."""

    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(Record, frozen=True):
    """A pod affinity term that earns a node some points."""

    weight: int = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(Record, frozen=True):
    """Pod affinity or anti-affinity."""

    required: tuple[PodAffinityTerm, ...] = msgspec.field(
        default=(), name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: tuple[WeightedPodAffinityTerm, ...] = msgspec.field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(Record, frozen=True):
    """All three affinities of a pod."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(Record, frozen=True):
    """How evenly pods must or should be spread over a topology."""

    max_skew: int = 1
    topology_key: str = ""
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str = ""
    node_taints_policy: str = ""
    match_label_keys: tuple[str, ...] = ()


class PodSchedulingGate(Record, frozen=True):
    """Something that must happen before a pod may be considered."""

    name: str = ""


class PersistentVolumeClaimSource(Record, frozen=True):
    """A volume that is a claim."""

    claim_name: str = ""
    read_only: bool = False


class GCEPersistentDisk(Record, frozen=True):
    """A Google disk named in the pod itself."""

    pd_name: str = ""
    read_only: bool = False


class AWSElasticBlockStore(Record, frozen=True):
    """An Amazon volume named in the pod itself."""

    volume_id: str = msgspec.field(default="", name="volumeID")
    read_only: bool = False


class ISCSI(Record, frozen=True):
    """An iSCSI disk named in the pod itself."""

    target_portal: str = ""
    iqn: str = ""
    lun: int = 0
    read_only: bool = False


class RBD(Record, frozen=True):
    """A Ceph image named in the pod itself."""

    monitors: tuple[str, ...] = ()
    image: str = ""
    pool: str = ""
    read_only: bool = False


class CSIVolumeSource(Record, frozen=True):
    """A CSI volume named in the pod itself."""

    driver: str = ""
    read_only: bool = False


class TypedObject(Record, frozen=True):
    """A reference to an object in the same namespace."""

    api_group: str = ""
    kind: str = ""
    name: str = ""


class PersistentVolumeClaimSpec(Record, frozen=True):
    """What a claim asks for; `storage_class_name` "" means no class, None the default class."""

    access_modes: tuple[str, ...] = ()
    volume_name: str = ""
    storage_class_name: str | None = None
    volume_mode: str = "Filesystem"
    volume_attributes_class_name: str | None = None
    selector: LabelSelector | None = None
    resources: ResourceRequirements = ResourceRequirements()
    data_source: TypedObject | None = None


class PersistentVolumeClaimTemplate(Record, frozen=True):
    """The claim that a pod with an ephemeral volume or a StatefulSet gets."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()


class EphemeralVolume(Record, frozen=True):
    """A volume whose claim is made for the pod and named `<pod>-<volume>`."""

    volume_claim_template: PersistentVolumeClaimTemplate | None = None


class ImageVolume(Record, frozen=True):
    """A volume that is a container image."""

    reference: str = ""


class Volume(Record, frozen=True):
    """A volume of a pod; kinds that need nothing of a node are not read."""

    name: str = ""
    persistent_volume_claim: PersistentVolumeClaimSource | None = None
    ephemeral: EphemeralVolume | None = None
    gce_persistent_disk: GCEPersistentDisk | None = None
    aws_elastic_block_store: AWSElasticBlockStore | None = None
    iscsi: ISCSI | None = None
    rbd: RBD | None = None
    csi: CSIVolumeSource | None = None
    image: ImageVolume | None = None


class PodResourceClaim(Record, frozen=True):
    """A ResourceClaim that a pod uses: named, or made from a template."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class SchedulingGroup(Record, frozen=True):
    """The PodGroup of scheduling.k8s.io that a pod belongs to."""

    pod_group_name: str = ""


class PodSpec(Record, frozen=True):
    """What a pod needs."""

    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    ephemeral_containers: tuple[Container, ...] = ()
    resources: ResourceRequirements | None = None
    overhead: ResourceList = {}
    node_name: str = ""
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    scheduler_name: str = ""
    scheduling_gates: tuple[PodSchedulingGate, ...] = ()
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str = ""
    restart_policy: str = ""
    active_deadline_seconds: int | None = None
    host_network: bool = False
    host_users: bool | None = None
    runtime_class_name: str | None = None
    volumes: tuple[Volume, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()
    scheduling_group: SchedulingGroup | None = None


class TerminatedState(Record, frozen=True):
    """How a container ended."""

    exit_code: int = 0
    reason: str = ""
    finished_at: str | None = None


class ContainerState(Record, frozen=True):
    """What a container is doing, as far as it is of interest."""

    terminated: TerminatedState | None = None


class ContainerStatus(Record, frozen=True):
    """What the kubelet says of a container; `resources` and `allocatedResources` while it is resized in place."""

    name: str = ""
    resources: ResourceRequirements | None = None
    allocated_resources: ResourceList | None = None
    state: ContainerState | None = None
    restart_count: int = 0


class PodResourceClaimStatus(Record, frozen=True):
    """The name of the claim that was made from a template; None when none is needed."""

    name: str = ""
    resource_claim_name: str | None = None


class PodStatus(Record, frozen=True):
    """How a pod is doing."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: tuple[Condition, ...] = ()
    nominated_node_name: str = ""
    start_time: str | None = None
    resize: str = ""
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    resources: ResourceRequirements | None = None
    allocated_resources: ResourceList | None = None
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()


class Pod(ApiObject, frozen=True):
    """core/v1 Pod."""

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class PodTemplateSpec(Record, frozen=True):
    """The pod inside a workload."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()


# --- nodes and cluster-wide things ----------------------------------------------------------------------------------


class Taint(Record, frozen=True):
    """What keeps pods off a node unless they tolerate it."""

    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(Record, frozen=True):
    """What an administrator says of a node."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class ContainerImage(Record, frozen=True):
    """An image that a node already has."""

    names: tuple[str, ...] = ()
    size_bytes: int = 0


class NodeStatus(Record, frozen=True):
    """What the kubelet says of a node."""

    capacity: ResourceList = {}
    allocatable: ResourceList = {}
    conditions: tuple[Condition, ...] = ()
    images: tuple[ContainerImage, ...] = ()
    declared_features: tuple[str, ...] = ()


class Node(ApiObject, frozen=True):
    """core/v1 Node."""

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class NamespaceStatus(Record, frozen=True):
    """Active or Terminating."""

    phase: str = ""


class Namespace(ApiObject, frozen=True):
    """core/v1 Namespace."""

    status: NamespaceStatus = NamespaceStatus()


class PriorityClass(ApiObject, frozen=True):
    """scheduling.k8s.io/v1 PriorityClass."""

    value: int = 0
    global_default: bool = False
    preemption_policy: str = ""


class ConfigMap(ApiObject, frozen=True):
    """core/v1 ConfigMap."""

    data: dict[str, str] = {}


class ServiceSpec(Record, frozen=True):
    """Which pods a Service leads to."""

    selector: dict[str, str] = {}


class Service(ApiObject, frozen=True):
    """core/v1 Service."""

    spec: ServiceSpec = ServiceSpec()


class PodDisruptionBudgetSpec(Record, frozen=True):
    """How many pods must stay."""

    selector: LabelSelector | None = None
    min_available: int | str | None = None
    max_unavailable: int | str | None = None


class PodDisruptionBudgetStatus(Record, frozen=True):
    """How many pods may go now."""

    disruptions_allowed: int = 0
    disrupted_pods: dict[str, str] = {}


class PodDisruptionBudget(ApiObject, frozen=True):
    """policy/v1 PodDisruptionBudget."""

    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()


# --- Volcano --------------------------------------------------------------------------------------------------------


class Guarantee(Record, frozen=True):
    """What a queue keeps for itself."""

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
    """What a queue may use; `dra` is read by its plugin, which reports what is wrong in it.

    `state` is what its administrator wants, Open or Closed; empty leaves it to `status.state`.
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
    """What a queue used up to a time, in amounts times seconds; written by the scheduler."""

    time: str = ""
    resource_seconds: dict[str, str | int | float] = {}


class QueueStatus(Record, frozen=True):
    """What a queue uses; an empty state means Open."""

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
    """How close to each other the pods of a group must be."""

    mode: str = ""
    highest_tier_allowed: int | None = None
    highest_tier_name: str = ""


class PodGroupSpec(Record, frozen=True):
    """What a gang needs before it starts."""

    min_member: int = 0
    min_task_member: dict[str, int] = {}
    queue: str = ""
    priority_class_name: str = ""
    min_resources: ResourceList | None = None
    network_topology: NetworkTopology | None = None


class PodGroupStatus(Record, frozen=True):
    """How a gang is doing."""

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
    """What to do on an event of a Volcano Job."""

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
    """What a Volcano Job runs."""

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
    """How a Volcano Job is doing."""

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


# --- workloads ------------------------------------------------------------------------------------------------------


class WorkloadSpec(Record, frozen=True):
    """Pods that a controller keeps alive."""

    replicas: int | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()


class Deployment(ApiObject, frozen=True):
    """apps/v1 Deployment."""

    spec: WorkloadSpec = WorkloadSpec()


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


class StatefulSet(ApiObject, frozen=True):
    """apps/v1 StatefulSet."""

    spec: StatefulSetSpec = StatefulSetSpec()


class BatchJobSpec(Record, frozen=True):
    """Pods that run to their end."""

    parallelism: int | None = None
    completions: int | None = None
    completion_mode: str = ""
    suspend: bool = False
    template: PodTemplateSpec = PodTemplateSpec()


class BatchJobStatus(Record, frozen=True):
    """How a batch Job is doing."""

    conditions: tuple[Condition, ...] = ()
    start_time: str | None = None
    completion_time: str | None = None


class BatchJob(ApiObject, frozen=True):
    """batch/v1 Job."""

    spec: BatchJobSpec = BatchJobSpec()
    status: BatchJobStatus = BatchJobStatus()


# --- storage --------------------------------------------------------------------------------------------------------


class ObjectReference(Record, frozen=True):
    """A reference to an object anywhere."""

    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class VolumeNodeAffinity(Record, frozen=True):
    """From which nodes a volume can be reached."""

    required: NodeSelector | None = None


class CSIPersistentVolumeSource(Record, frozen=True):
    """The CSI volume behind a PersistentVolume."""

    driver: str = ""
    volume_handle: str = ""


class PersistentVolumeSpec(Record, frozen=True):
    """What a volume offers."""

    capacity: ResourceList = {}
    access_modes: tuple[str, ...] = ()
    volume_mode: str = "Filesystem"
    volume_attributes_class_name: str | None = None
    storage_class_name: str = ""
    claim_ref: ObjectReference | None = None
    node_affinity: VolumeNodeAffinity | None = None
    csi: CSIPersistentVolumeSource | None = None


class VolumePhase(Record, frozen=True):
    """Pending, Available, Bound, Released, Failed or Lost."""

    phase: str = ""


class PersistentVolume(ApiObject, frozen=True):
    """core/v1 PersistentVolume."""

    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: VolumePhase = VolumePhase()


class PersistentVolumeClaim(ApiObject, frozen=True):
    """core/v1 PersistentVolumeClaim."""

    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: VolumePhase = VolumePhase()


class TopologyLabelRequirement(Record, frozen=True):
    """A label that must have one of some values."""

    key: str = ""
    values: tuple[str, ...] = ()


class TopologySelectorTerm(Record, frozen=True):
    """Where a class may make volumes: all expressions must hold."""

    match_label_expressions: tuple[TopologyLabelRequirement, ...] = ()


class StorageClass(ApiObject, frozen=True):
    """storage.k8s.io/v1 StorageClass."""

    provisioner: str = ""
    volume_binding_mode: str = "Immediate"
    allowed_topologies: tuple[TopologySelectorTerm, ...] = ()


class VolumeNodeResources(Record, frozen=True):
    """How many volumes of a driver a node takes; None is no limit."""

    count: int | None = None


class CSINodeDriver(Record, frozen=True):
    """A driver on a node."""

    name: str = ""
    node_id: str = msgspec.field(default="", name="nodeID")
    topology_keys: tuple[str, ...] = ()
    allocatable: VolumeNodeResources | None = None


class CSINodeSpec(Record, frozen=True):
    """The drivers on a node."""

    drivers: tuple[CSINodeDriver, ...] = ()


class CSINode(ApiObject, frozen=True):
    """storage.k8s.io/v1 CSINode."""

    spec: CSINodeSpec = CSINodeSpec()


class CSIDriverSpec(Record, frozen=True):
    """What a driver does."""

    storage_capacity: bool = False
    attach_required: bool = True
    prevent_pod_scheduling_if_missing: bool = False


class CSIDriver(ApiObject, frozen=True):
    """storage.k8s.io/v1 CSIDriver."""

    spec: CSIDriverSpec = CSIDriverSpec()


class CSIStorageCapacity(ApiObject, frozen=True):
    """storage.k8s.io/v1 CSIStorageCapacity."""

    storage_class_name: str = ""
    node_topology: LabelSelector | None = None
    capacity: QuantityText | None = None
    maximum_volume_size: QuantityText | None = None


class InlineVolumeSpec(Record, frozen=True):
    """The volume of an attachment that has no PersistentVolume."""

    csi: CSIPersistentVolumeSource | None = None


class VolumeAttachmentSource(Record, frozen=True):
    """Which volume is attached."""

    persistent_volume_name: str | None = None
    inline_volume_spec: InlineVolumeSpec | None = None


class VolumeAttachmentSpec(Record, frozen=True):
    """What is to be attached where."""

    attacher: str = ""
    node_name: str = ""
    source: VolumeAttachmentSource = VolumeAttachmentSource()


class VolumeAttachmentStatus(Record, frozen=True):
    """Whether it is attached."""

    attached: bool = False


class VolumeAttachment(ApiObject, frozen=True):
    """storage.k8s.io/v1 VolumeAttachment."""

    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()
    status: VolumeAttachmentStatus = VolumeAttachmentStatus()


# --- decoding -------------------------------------------------------------------------------------------------------

KINDS: Final[Mapping[tuple[str, str], type[ApiObject]]] = {
    ("v1", "Pod"): Pod,
    ("v1", "Node"): Node,
    ("v1", "Namespace"): Namespace,
    ("v1", "ConfigMap"): ConfigMap,
    ("v1", "Service"): Service,
    ("v1", "PersistentVolume"): PersistentVolume,
    ("v1", "PersistentVolumeClaim"): PersistentVolumeClaim,
    ("apps/v1", "Deployment"): Deployment,
    ("apps/v1", "ReplicaSet"): ReplicaSet,
    ("apps/v1", "StatefulSet"): StatefulSet,
    ("apps/v1", "DaemonSet"): DaemonSet,
    ("batch/v1", "Job"): BatchJob,
    ("policy/v1", "PodDisruptionBudget"): PodDisruptionBudget,
    ("scheduling.k8s.io/v1", "PriorityClass"): PriorityClass,
    ("storage.k8s.io/v1", "StorageClass"): StorageClass,
    ("storage.k8s.io/v1", "CSINode"): CSINode,
    ("storage.k8s.io/v1", "CSIDriver"): CSIDriver,
    ("storage.k8s.io/v1", "CSIStorageCapacity"): CSIStorageCapacity,
    ("storage.k8s.io/v1", "VolumeAttachment"): VolumeAttachment,
    ("scheduling.volcano.sh/v1beta1", "Queue"): Queue,
    ("scheduling.volcano.sh/v1beta1", "PodGroup"): PodGroup,
    ("batch.volcano.sh/v1alpha1", "Job"): Job,
}
"""What each kind of a group and version is decoded into."""

AnyObject = TypeVar("AnyObject", bound=ApiObject)
T = TypeVar("T")

_MESSAGE_AND_PATH: Final = re.compile(r"(?s)(.*?)(?: - at `(?:key in )?(\$.*)`)?")


def decode_object(raw: Mapping[str, Any]) -> ApiObject:
    """Return the struct for an object as it was read from YAML or JSON, or raise ObjectError."""
    if not isinstance(raw, Mapping):
        raise ObjectError("object", "", "$", f"must be a mapping, not {type(raw).__name__}")
    kind = raw.get("kind")
    version = raw.get("apiVersion")
    known = KINDS.get((version, kind)) if isinstance(kind, str) and isinstance(version, str) else None
    if known is None:
        raise ObjectError(str(kind), object_name(raw), "$.kind", f"{version} {kind} is not understood")
    return decode_as(known, raw)


def decode_text(kind: type[AnyObject], text: bytes) -> AnyObject:
    """Return the object of a JSON text as a struct of this kind, or raise ObjectError. Nulls count as absent."""
    try:
        try:
            return json_text.decode(text, kind)
        except msgspec.ValidationError:
            return decode_as(kind, json_text.decode(text))
    except (msgspec.DecodeError, UnicodeError) as error:
        raise ObjectError(kind.__name__, "", "$", f"is not JSON: {error}") from error


def decode_as(kind: type[AnyObject], raw: Any) -> AnyObject:
    """Return the object as a struct of this kind, or raise ObjectError. Nulls count as absent."""
    if not isinstance(raw, Mapping):
        raise ObjectError(kind.__name__, "", "$", f"must be a mapping, not {type(raw).__name__}")
    try:
        return convert(as_json(raw, _NULLS_MEAN_AMOUNTS.get(kind, {})), kind)
    except FieldError as error:
        raise ObjectError(str(raw.get("kind") or kind.__name__), object_name(raw), error.path, error.message) from error


def convert(read: Any, kind: type[T]) -> T:
    """Return plain values as a struct of this kind; raises FieldError with the path (`$.spec.nodeSelector`)."""
    try:
        return msgspec.convert(read, kind)
    except msgspec.ValidationError as error:
        raise FieldError(*field_and_message(error, read)) from error


def field_and_message(error: msgspec.ValidationError, read: Any) -> tuple[str, str]:
    """Return the path (`$.spec.nodeSelector`) and the text of what msgspec found wrong in what it read."""
    match = _MESSAGE_AND_PATH.fullmatch(str(error))
    message, path = match.groups() if match else (str(error), None)
    return with_keys(path or "$", message, read), message


Nulls: TypeAlias = Mapping[str, "Nulls"]
"""Fields, and fields inside of them, below which entries that are null stay; in the innermost they stay everywhere."""

_EVERYWHERE: Final = "*"
_BELOW: Final[Nulls] = {_EVERYWHERE: {}}
_NULLS_MEAN_AMOUNTS: Final[Mapping[type[ApiObject], Nulls]] = {
    Queue: {"spec": {"capability": _BELOW, "deserved": _BELOW, "guarantee": {"resource": _BELOW}, "dra": _BELOW}},
}


def as_json(value: Any, nulls: Nulls | None = None, levels: int = MOST_LEVELS) -> Any:
    """Return what the API server would make of a value from YAML.

    Mapping entries that are null count as absent, but where `nulls` says that they do not; keys are texts, and times
    stay texts, whatever a YAML reader thinks. Raises FieldError for what is nested deeper than `levels`.
    """
    if levels < 0:
        raise FieldError("$", f"is nested deeper than {MOST_LEVELS} levels")
    if isinstance(value, Mapping):
        known = nulls or {}
        stay = _EVERYWHERE in known
        return {
            _key_text(key): as_json(item, known if stay else known.get(key), levels - 1)
            for key, item in value.items()
            if stay or item is not None
        }
    if isinstance(value, list | tuple):
        return [as_json(item, nulls, levels - 1) for item in value]
    if isinstance(value, date):
        return value.isoformat().replace("+00:00", "Z")
    return value


def _key_text(key: Any) -> Any:
    if isinstance(key, bool):
        return "true" if key else "false"
    return str(key) if isinstance(key, int | float) else key


def object_name(raw: Mapping[str, Any]) -> str:
    """Return `namespace/name` of an object of which nothing is known to be right, as far as it has them."""
    metadata = raw.get("metadata")
    if not isinstance(metadata, Mapping):
        return ""
    parts = [metadata.get("namespace"), metadata.get("name") or metadata.get("generateName")]
    return "/".join(part for part in parts if isinstance(part, str) and part)


def identity_of(raw: Any) -> ObjectMeta:
    """Return who an object is of which nothing is known to be right, as far as it says so."""
    metadata = raw.get("metadata") if isinstance(raw, Mapping) else None
    found = metadata if isinstance(metadata, Mapping) else {}
    identity = {name: found[name] for name in _IDENTITY if isinstance(found.get(name), str)}
    return msgspec.convert(identity, ObjectMeta)


_IDENTITY: Final = ("name", "namespace", "uid", "resourceVersion")
