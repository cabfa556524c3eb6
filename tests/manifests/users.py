"""What users ask of a real API server, and whether it lets them: nothing of it is carried out, unless it says so.

`kubectl --as` would ask the same, and takes twenty times as much CPU time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tests.cluster.scheduling import eventually
from tools.controlplane import ApiClient, ControlPlane

Json = dict[str, Any]

STRICTLY: Final = "fieldValidation=Strict"
"""What is no field of the kind is refused, as kubectl has it."""

PATCHES: Final = {"merge": "application/merge-patch+json", "strategic": "application/strategic-merge-patch+json"}
WITHOUT_NAMESPACE: Final = frozenset(
    {
        "ClusterRole",
        "ClusterRoleBinding",
        "DeviceClass",
        "PersistentVolume",
        "PriorityClass",
        "Queue",
        "ResourceSlice",
    }
)
RBAC: Final = "rbac.authorization.k8s.io"


@dataclass(frozen=True, slots=True)
class User:
    """A user, or a ServiceAccount by its full name, as whom the administrator asks; and one group that he is in."""

    name: str
    group: str = ""

    def client(self, cluster: ControlPlane) -> ApiClient:
        """A client for other requests."""
        return cluster.api.as_user(self.name, self.group)

    def makes(self, cluster: ControlPlane, found: Json, namespace: str) -> None:
        """Would make an object; raises ApiServerError if that is refused."""
        path = f"{collection_of(found, namespace)}?dryRun=All&{STRICTLY}"
        self.client(cluster).create(path, found)

    def patches(
        self, cluster: ControlPlane, path: str, body: Mapping[str, Any], kind: str = "merge", *, is_tried: bool = True
    ) -> None:
        """Would patch the object at a path, or does if it is not only tried."""
        self.client(cluster).patch(f"{path}{'?dryRun=All' if is_tried else ''}", body, PATCHES[kind])

    def deletes(self, cluster: ControlPlane, path: str, grace: int | None = None) -> None:
        """Would delete what is at a path, with so many seconds to go."""
        seconds = "" if grace is None else f"&gracePeriodSeconds={grace}"
        self.client(cluster).request("DELETE", f"{path}?dryRun=All{seconds}")


ADMINISTRATOR: Final = User("root", "system:masters")


def collection_of(found: Mapping[str, Any], namespace: str) -> str:
    """Return the path of the objects of its kind."""
    version, kind = found["apiVersion"], found["kind"]
    plural = f"{kind.lower()}s".replace("ys", "ies").replace("sss", "sses")
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    return f"{root}/{plural}" if kind in WITHOUT_NAMESPACE else f"{root}/namespaces/{namespace}/{plural}"


def gives(role: str, *names: str, namespace: str, groups: Sequence[str] = (), kind: str = "ClusterRole") -> Json:
    """Return a RoleBinding that gives a role to users, or ServiceAccounts by their full names, and groups."""
    subjects = [{"apiGroup": RBAC, "kind": "User", "name": name} for name in names]
    subjects += [{"apiGroup": RBAC, "kind": "Group", "name": name} for name in groups]
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": f"{names[0]}-{role}", "namespace": namespace},
        "roleRef": {"apiGroup": RBAC, "kind": kind, "name": role},
        "subjects": subjects,
    }


def gives_everywhere(role: str, *names: str) -> Json:
    """Return a ClusterRoleBinding that gives a ClusterRole to users."""
    found = gives(role, *names, namespace="")
    return found | {"kind": "ClusterRoleBinding", "metadata": {"name": found["metadata"]["name"]}}


def create(cluster: ControlPlane, *objects: Json, namespace: str = "") -> None:
    """Create objects as the administrator; `namespace` is that of those that name none."""
    for found in objects:
        cluster.api.create(f"{_place_of(found, namespace)}?{STRICTLY}", found)


def remove(cluster: ControlPlane, *objects: Json, namespace: str = "") -> None:
    """Delete objects as the administrator, what was made for them as well, and return once they are gone."""
    paths = [f"{_place_of(found, namespace)}/{found['metadata']['name']}" for found in objects]
    for path in paths:
        cluster.api.delete(f"{path}?propagationPolicy=Background")
    eventually(lambda: not any(cluster.api.find(path) for path in paths), what=f"{paths} are gone")


def _place_of(found: Json, namespace: str) -> str:
    return collection_of(found, found["metadata"].get("namespace", namespace))


def remove_namespaces(cluster: ControlPlane, *names: str) -> None:
    """Delete namespaces, and return once they are gone."""
    paths = [f"/api/v1/namespaces/{name}" for name in names]
    for path in paths:
        cluster.api.delete(path)
    eventually(lambda: not any(cluster.api.find(path) for path in paths), what=f"{names} are gone")
