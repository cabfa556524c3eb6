"""Whether Volcano's own controllers run: then ours stand aside, since two would fight over the same objects.

They are seen by either of two signs: their Lease `vc-controller-manager`, in whatever namespace, was renewed within the
grace; or a pod with the label that their Deployment gives (`app: volcano-controller`) is ready, since Volcano's chart
leaves election off. A Lease counts by when we saw it change, not by the clock of whoever wrote it, so after a start we
wait one grace where there is one. They count as gone once neither sign was seen for the grace.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from volsched.controllers.objects import Lease, LeaseSpec
from volsched.kube.resources import Resource
from volsched.model import api
from volsched.model.changes import Change, Gone, Put

LEASE_NAME: Final = "vc-controller-manager"
LABEL: Final = "app=volcano-controller"

LEASES: Final = Resource(
    "Lease", "coordination.k8s.io/v1", "leases", Lease, field_selector=f"metadata.name={LEASE_NAME}"
)
PODS: Final = Resource("Pod", "v1", "pods", api.Pod, label_selector=LABEL)


class VolcanoWatch:
    """Remembers the signs. `clock` is monotonic, in seconds; so is `grace`."""

    def __init__(self, grace: float, clock: Callable[[], float]) -> None:
        self._grace = grace
        self._clock = clock
        self._leases: dict[str, LeaseSpec] = {}
        self._pods: dict[str, str] = {}
        self._seen_at: float | None = None

    def observe(self, changes: Sequence[Change]) -> None:
        """Take in what the informers of Leases and pods found."""
        for change in changes:
            if isinstance(change, Put) and isinstance(change.object, Lease):
                self._put_lease(change.object)
            elif isinstance(change, Put) and isinstance(change.object, api.Pod):
                self._put_pod(change.object)
            elif isinstance(change, Gone):
                self._leases.pop(change.uid, None)
                self._drop_pod(change.uid)

    def _put_lease(self, lease: Lease) -> None:
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
        """Return in words why Volcano's controllers count as running; empty when they do not."""
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
