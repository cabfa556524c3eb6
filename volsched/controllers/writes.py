"""The writes of controllers, as values; `volsched.operator` carries them out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

Body: TypeAlias = Mapping[str, Any]


class ApiKind(NamedTuple):
    """A kind of object, and where the API server has it."""

    name: str
    group_version: str
    plural: str


POD: Final = ApiKind("Pod", "v1", "pods")
CLAIM: Final = ApiKind("PersistentVolumeClaim", "v1", "persistentvolumeclaims")
SERVICE: Final = ApiKind("Service", "v1", "services")
SECRET: Final = ApiKind("Secret", "v1", "secrets")
CONFIG_MAP: Final = ApiKind("ConfigMap", "v1", "configmaps")
NETWORK_POLICY: Final = ApiKind("NetworkPolicy", "networking.k8s.io/v1", "networkpolicies")
GROUP: Final = ApiKind("PodGroup", "scheduling.volcano.sh/v1beta1", "podgroups")
QUEUE: Final = ApiKind("Queue", "scheduling.volcano.sh/v1beta1", "queues")
JOB: Final = ApiKind("Job", "batch.volcano.sh/v1alpha1", "jobs")
COMMAND: Final = ApiKind("Command", "bus.volcano.sh/v1alpha1", "commands")


@dataclass(frozen=True, slots=True)
class Create:
    """Create an object. An existing one is as good, unless its content `must_match`, then it is patched.

    * `content` may be a function, so that many may wait to be written and each is in memory only meanwhile.
    * `with_keys`: a Secret that gets a new key pair for SSH at its write, so that no other reader has seen it.
    * `is_own`: an object with another owner, or none, is no substitute: objects of others are neither changed nor used,
      and
    leftovers of a deleted Job of that name are waited for. The owner of a Secret cannot be read: one made before
    `garbage_until` (seconds since the epoch) may be such a leftover.
    """

    kind: ApiKind
    namespace: str
    name: str
    content: Body | Callable[[], Body]
    must_match: bool = False
    with_keys: bool = False
    is_own: bool = False
    garbage_until: float = 0.0

    @property
    def body(self) -> Body:
        """Return the object, made again each time where it is made late."""
        return self.content() if callable(self.content) else self.content


@dataclass(frozen=True, slots=True)
class Patch:
    """Merge into an object. The body names the uid or the version that the patch is meant for."""

    kind: ApiKind
    namespace: str
    name: str
    body: Mapping[str, Any]
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete the object with this uid. One that is gone is as good."""

    kind: ApiKind
    namespace: str
    name: str
    uid: str


Write: TypeAlias = Create | Patch | Delete


def merge_patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON merge patch (RFC 7386) from `before` to `after`; empty if they are equal."""
    patch: dict[str, Any] = {key: None for key in before if key not in after}
    for key, value in after.items():
        known = before.get(key)
        if isinstance(known, Mapping) and isinstance(value, Mapping):
            inner = merge_patch(known, value)
            if inner:
                patch[key] = inner
        elif known != value:
            patch[key] = value
    return patch
