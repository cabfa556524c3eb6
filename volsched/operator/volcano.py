"""Watches for Volcano's own controllers: while they run ours stand aside, since two would fight over objects.

They are seen by either of two signs, each only in the namespaces of Volcano, where no tenant may write: their Lease
`vc-controller-manager` was renewed within the grace; or a pod of the ServiceAccount that their chart gives them
(`volcano-controllers`) is ready, since the chart leaves election off. A Lease counts by when we saw it change, not by
the clock of its writer, so after a start we wait one grace if there is one. They count as gone once neither sign was
seen for the grace.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from volsched.kube.watch.resources import Resource
from volsched.model import api
from volsched.model.changes import Change, Deleted, Put

LEASE_NAME: Final = "vc-controller-manager"

Mode: TypeAlias = Literal["auto", "never", "always"]


@dataclass(frozen=True, slots=True)
class Signs:
    """Whether to look for Volcano's controllers, and where: namespaces, and the ServiceAccount of their pods."""

    mode: Mode = "auto"
    namespaces: tuple[str, ...] = ("volcano-system",)
    service_account: str = "volcano-controllers"

    def resources(self) -> tuple[Resource, ...]:
        """Return what is followed to see them."""
        if self.mode != "auto":
            return ()
        lease, pod = f"metadata.name={LEASE_NAME}", f"spec.serviceAccountName={self.service_account}"
        leases = ("Lease", "coordination.k8s.io/v1", "leases", api.Lease)
        return tuple(
            resource
            for namespace in self.namespaces
            for resource in (
                Resource(*leases, namespace=namespace, field_selector=lease),
                Resource("Pod", "v1", "pods", api.Pod, namespace=namespace, field_selector=pod),
            )
        )


class VolcanoWatch:
    """Remembers the signs. `clock` is monotonic, in seconds; so is `grace`."""

    def __init__(self, grace: float, clock: Callable[[], float], mode: Mode = "auto") -> None:
        self._mode = mode
        self._grace = grace
        self._clock = clock
        self._leases: dict[str, api.LeaseSpec] = {}
        self._pods: dict[str, str] = {}
        self._seen_at: float | None = None

    def observe(self, changes: Sequence[Change]) -> None:
        """Take in what the informers of Leases and pods found."""
        for change in changes:
            if isinstance(change, Put) and isinstance(change.object, api.Lease):
                self._put_lease(change.object)
            elif isinstance(change, Put) and isinstance(change.object, api.Pod):
                self._put_pod(change.object)
            elif isinstance(change, Deleted):
                self._leases.pop(change.uid, None)
                self._drop_pod(change.uid)

    def _put_lease(self, lease: api.Lease) -> None:
        known = self._leases.get(lease.metadata.uid)
        if lease.spec.holder_identity and known != lease.spec:
            self._seen_at = self._clock()
        self._leases[lease.metadata.uid] = lease.spec

    def _put_pod(self, pod: api.Pod) -> None:
        if _is_ready(pod):
            self._pods[pod.metadata.uid] = pod.key
        else:
            self._drop_pod(pod.metadata.uid)

    def _drop_pod(self, uid: str) -> None:
        if self._pods.pop(uid, None) is not None:
            self._seen_at = self._clock()

    def sign(self) -> str:
        """Return in words why to stand aside; empty when Volcano's controllers count as not running."""
        if self._mode == "always":
            return "--stand-aside=always"
        seen = self._seen()
        return f"Volcano's own controllers run ({seen})" if seen else ""

    def _seen(self) -> str:
        if self._pods:
            return f"pod {min(self._pods.values())} is ready"
        if self._seen_at is not None and self._clock() - self._seen_at < self._grace:
            holders = {lease.holder_identity for lease in self._leases.values()} - {""}
            held = f"Lease {LEASE_NAME} is held by {min(holders)}" if holders else "they were seen a moment ago"
            return f"{held}; they count as gone when nothing is seen of them for {self._grace:g}s"
        return ""


def _is_ready(pod: api.Pod) -> bool:
    return pod.metadata.deletion_timestamp is None and any(
        condition.type == "Ready" and condition.status == "True" for condition in pod.status.conditions
    )
