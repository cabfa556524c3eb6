"""The kinds that the scheduler watches, and where the API server has them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from volsched.model import api
from volsched.model.dra import api as dra
from volsched.model.dra import observed

GROUP_NAME_ANNOTATION: Final = "scheduling.k8s.io/group-name"
VOLCANO: Final = "scheduling.volcano.sh/v1beta1"

SOON_SECONDS: Final = 10.0
"""The time between two checks for an optional kind that may be installed at any time."""

AFTER_RESTART_SECONDS: Final = 60.0
"""The same for a kind that the server only has when it was started so."""


Trim = Callable[[str, api.ApiObject], None]
"""Drops the parts that are not kept from a newly decoded object without other users."""


def trim_nothing(_kind: str, _found: api.ApiObject) -> None:
    """Keep all of an object."""


def _everything(_: api.ApiObject) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind to watch.

    An `optional` one is skipped while the server does not have it, and looked for every `look_again` seconds. `keep`
    states which objects are of interest; one that stops being so counts as gone. `namespace`, `field_selector` and
    `label_selector` narrow what the server sends.
    """

    kind: str
    group_version: str
    plural: str
    struct: type[api.ApiObject]
    optional: bool = False
    look_again: float = SOON_SECONDS
    keep: Callable[[api.ApiObject], bool] = _everything
    namespace: str = ""
    field_selector: str = ""
    label_selector: str = ""

    @property
    def discovery_path(self) -> str:
        """Return the path that lists the kinds of this group and version. Everybody may read it."""
        return f"{'/api/' if '/' not in self.group_version else '/apis/'}{self.group_version}"

    @property
    def path(self) -> str:
        """Return the path of the collection."""
        inside = f"/namespaces/{self.namespace}" if self.namespace else ""
        return f"{self.discovery_path}{inside}/{self.plural}"

    def query(self, **parameters: str) -> str:
        """Return path and query with these parameters."""
        if self.field_selector:
            parameters["fieldSelector"] = self.field_selector
        if self.label_selector:
            parameters["labelSelector"] = self.label_selector
        pairs = "&".join(f"{name}={quote(value, safe='')}" for name, value in parameters.items())
        return f"{self.path}?{pairs}" if pairs else self.path


def keep_pod(pod: api.ApiObject) -> bool:
    """Drop finished pods, except a PodGroup's: they count for its phase, or towards its minimum.

    The API server could leave finished pods out by itself, but then a finished pod looks like a deleted one, and a
    PodGroup would never be seen to complete.
    """
    return (
        not isinstance(pod, api.Pod)
        or pod.status.phase not in ("Succeeded", "Failed")
        or GROUP_NAME_ANNOTATION in pod.metadata.annotations
        or pod.spec.scheduling_group is not None
    )


def watched(*, need_groups: bool) -> tuple[Resource, ...]:
    """Return everything that a scheduler has to know. PodGroups and Queues may be absent unless they are needed."""
    storage, devices = "storage.k8s.io/v1", dra.GROUP_VERSION
    template = observed.ResourceClaimTemplate
    rules = ("DeviceTaintRule", dra.RULES_VERSION, "devicetaintrules", dra.DeviceTaintRule)
    return (
        Resource("Node", "v1", "nodes", api.Node),
        Resource("Namespace", "v1", "namespaces", api.Namespace),
        Resource("PriorityClass", "scheduling.k8s.io/v1", "priorityclasses", api.PriorityClass),
        Resource("Queue", VOLCANO, "queues", api.Queue, optional=not need_groups),
        Resource("PodGroup", VOLCANO, "podgroups", api.PodGroup, optional=not need_groups),
        Resource("PersistentVolume", "v1", "persistentvolumes", api.PersistentVolume),
        Resource("PersistentVolumeClaim", "v1", "persistentvolumeclaims", api.PersistentVolumeClaim),
        Resource("StorageClass", storage, "storageclasses", api.StorageClass),
        Resource("CSINode", storage, "csinodes", api.CSINode),
        Resource("CSIDriver", storage, "csidrivers", api.CSIDriver),
        Resource("CSIStorageCapacity", storage, "csistoragecapacities", api.CSIStorageCapacity, optional=True),
        Resource("VolumeAttachment", storage, "volumeattachments", api.VolumeAttachment),
        Resource("PodDisruptionBudget", "policy/v1", "poddisruptionbudgets", api.PodDisruptionBudget, optional=True),
        Resource("DeviceClass", devices, "deviceclasses", dra.DeviceClass, optional=True),
        Resource(*rules, optional=True, look_again=AFTER_RESTART_SECONDS),
        Resource("ResourceSlice", devices, "resourceslices", dra.ResourceSlice, optional=True),
        Resource("ResourceClaimTemplate", devices, "resourceclaimtemplates", template, optional=True),
        Resource("ResourceClaim", devices, "resourceclaims", observed.ResourceClaim, optional=True),
        Resource("Pod", "v1", "pods", api.Pod, keep=keep_pod),
    )
