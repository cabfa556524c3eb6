"""PodGroups and Workloads of scheduling.k8s.io as they are sent, one struct for each version.

A spec stays as it was sent: unknown fields must be seen, so that no pod is placed with a rule left out
(``reading.group_of``). All other fields that are read are the same in every version.

Sources: scheduling/v1alpha2 of Kubernetes 1.36, scheduling/v1beta1 and v1alpha3 of 1.37.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Final

import msgspec

from volsched.model import api

GROUP: Final = "scheduling.k8s.io"
KIND: Final = "NativePodGroup"
"""The name of these PodGroups where kinds are distinguished by name: Volcano has the name PodGroup."""

WORKLOAD: Final = "NativeWorkload"
NAMES: Final = {KIND: "PodGroup", WORKLOAD: "Workload"}
"""Their name at the API server."""


class ClaimStatus(api.Record, frozen=True):
    """The name of the claim that was made for a group from a template; None when none is needed."""

    name: str = ""
    resource_claim_name: str | None = None


class PodGroupStatus(api.Record, frozen=True):
    """The status of a group."""

    conditions: tuple[api.Condition, ...] = ()
    resource_claim_statuses: tuple[ClaimStatus, ...] = ()


class PodGroup(api.ApiObject, frozen=True):
    """A PodGroup of scheduling.k8s.io, of any version."""

    group_version: ClassVar[str]
    spec: dict[str, Any] = msgspec.field(default_factory=dict)
    status: PodGroupStatus = PodGroupStatus()


class PodGroupV1alpha2(PodGroup, frozen=True):
    """scheduling.k8s.io/v1alpha2 PodGroup (Kubernetes 1.36)."""

    group_version = f"{GROUP}/v1alpha2"


class PodGroupV1alpha3(PodGroup, frozen=True):
    """scheduling.k8s.io/v1alpha3 PodGroup (Kubernetes 1.37)."""

    group_version = f"{GROUP}/v1alpha3"


class PodGroupV1beta1(PodGroup, frozen=True):
    """scheduling.k8s.io/v1beta1 PodGroup (Kubernetes 1.37)."""

    group_version = f"{GROUP}/v1beta1"


class PodGroupV1(PodGroup, frozen=True):
    """scheduling.k8s.io/v1 PodGroup, as planned: as v1beta1."""

    group_version = f"{GROUP}/v1"


class Workload(api.ApiObject, frozen=True):
    """A Workload of scheduling.k8s.io, of any version: only its annotations are read, which may name a queue."""


def kind_of(found: api.ApiObject) -> str:
    """Return the name by which objects of a kind are distinguished from others."""
    if isinstance(found, PodGroup):
        return KIND
    return WORKLOAD if isinstance(found, Workload) else type(found).__name__


VERSIONS: Final[Mapping[str, type[PodGroup]]] = {
    struct.group_version: struct for struct in (PodGroupV1, PodGroupV1beta1, PodGroupV1alpha3, PodGroupV1alpha2)
}
"""The struct of a PodGroup in each version, the preferred one first."""

KINDS: Final[Mapping[tuple[str, str], type[api.ApiObject]]] = {
    **{(version, "PodGroup"): struct for version, struct in VERSIONS.items()},
    **{(version, "Workload"): Workload for version in VERSIONS},
}
"""The struct of each kind of a group and version."""
