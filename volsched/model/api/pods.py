"""Pods."""

from typing import Final

import msgspec

from volsched.model.api.shared import (
    ApiObject,
    Condition,
    LabelSelector,
    NodeSelector,
    NodeSelectorTerm,
    ObjectMeta,
    Record,
    ResourceList,
    ResourceRequirements,
)

DEFAULT_SCHEDULER: Final = "default-scheduler"
"""Whose pods are that name no scheduler: the API server writes it into them."""


class ContainerPort(Record, frozen=True):
    """A port of a container."""

    container_port: int = 0
    host_port: int = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = "TCP"


class ContainerRestartRule(Record, frozen=True):
    """A rule for a container that ends in a certain way."""

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
        """True if this init container keeps running beside the others."""
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
    """The node affinity of a pod."""

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
    """A topology spread constraint."""

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
    """The spec of a claim. `storage_class_name` "" means no class, None the default class."""

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
    """A volume of a pod. Kinds that need nothing of a node are not read."""

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


class PodOS(Record, frozen=True):
    """The operating system that a pod is for, as `linux` or `windows`."""

    name: str = ""


class Sysctl(Record, frozen=True):
    """A parameter of the kernel that a pod sets."""

    name: str = ""


class PodSecurityContext(Record, frozen=True):
    """The parts of a security context for which a kubelet may refuse a pod."""

    supplemental_groups_policy: str = ""
    sysctls: tuple[Sysctl, ...] = ()


class PodSpec(Record, frozen=True):
    """The spec of a pod."""

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
    os: PodOS | None = None
    security_context: PodSecurityContext | None = None
    host_users: bool | None = None
    runtime_class_name: str | None = None
    volumes: tuple[Volume, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()
    scheduling_group: SchedulingGroup | None = None


class RunningState(Record, frozen=True):
    """Since when a container runs."""

    started_at: str | None = None


class TerminatedState(Record, frozen=True):
    """The end of a container."""

    exit_code: int = 0
    reason: str = ""
    started_at: str | None = None
    finished_at: str | None = None


class ContainerState(Record, frozen=True):
    """The state of a container, as far as it is read."""

    running: RunningState | None = None
    terminated: TerminatedState | None = None


class ContainerStatus(Record, frozen=True):
    """The status of a container. `resources` and `allocatedResources` while it is resized in place."""

    name: str = ""
    resources: ResourceRequirements | None = None
    allocated_resources: ResourceList | None = None
    state: ContainerState | None = None
    last_state: ContainerState | None = None
    restart_count: int = 0


class PodResourceClaimStatus(Record, frozen=True):
    """The name of the claim that was made from a template; None when none is needed."""

    name: str = ""
    resource_claim_name: str | None = None


class PodStatus(Record, frozen=True):
    """The status of a pod."""

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
