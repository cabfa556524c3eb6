"""Volumes, claims, and the drivers that provide them."""

import msgspec

from volsched.model.api.pods import PersistentVolumeClaimSpec
from volsched.model.api.shared import ApiObject, LabelSelector, NodeSelector, Record, ResourceList
from volsched.model.values.quantity import QuantityText


class ObjectReference(Record, frozen=True):
    """A reference to an object anywhere."""

    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class VolumeNodeAffinity(Record, frozen=True):
    """The nodes from which a volume can be reached."""

    required: NodeSelector | None = None


class CSIPersistentVolumeSource(Record, frozen=True):
    """The CSI volume behind a PersistentVolume."""

    driver: str = ""
    volume_handle: str = ""


class PersistentVolumeSpec(Record, frozen=True):
    """The spec of a volume."""

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
    reclaim_policy: str = "Delete"
    allowed_topologies: tuple[TopologySelectorTerm, ...] = ()


class VolumeNodeResources(Record, frozen=True):
    """The number of volumes of a driver that a node takes; None is no limit."""

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
    """The spec of a driver."""

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
    """The volume of an attachment."""

    persistent_volume_name: str | None = None
    inline_volume_spec: InlineVolumeSpec | None = None


class VolumeAttachmentSpec(Record, frozen=True):
    """The spec of an attachment."""

    attacher: str = ""
    node_name: str = ""
    source: VolumeAttachmentSource = VolumeAttachmentSource()


class VolumeAttachmentStatus(Record, frozen=True):
    """The status of an attachment."""

    attached: bool = False


class VolumeAttachment(ApiObject, frozen=True):
    """storage.k8s.io/v1 VolumeAttachment."""

    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()
    status: VolumeAttachmentStatus = VolumeAttachmentStatus()
