"""The requirements of a PodGroup of scheduling.k8s.io, in any version of the API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from volsched.model.pods.claim_use import ResourceClaimUse

QUEUE_NAME: Final = "scheduling.volcano.sh/queue-name"
"""The annotation that names the queue of a group, of its Workload, of its pods, or of its namespace."""


class ApiVersion(msgspec.Struct, frozen=True, gc=False):
    """Differences between versions of the API, beside their spelling.

    ``condition`` is the type of the condition that states whether a group was placed. ``one_priority``: a group's pods
    must have its priority (1.37); without, the group's decides where it preempts and where it goes as a whole, and pods
    that may go one by one keep their own (1.36).
    """

    name: str
    condition: str
    one_priority: bool


class NativeGroup(msgspec.Struct, frozen=True, gc=False):
    """One PodGroup of scheduling.k8s.io.

    ``min_count`` unfinished pods are needed to start; 1 for a ``basic`` group, which is no gang (``is_gang``).
    ``topology_key``: all pods go to nodes with one value of this label; empty: anywhere. ``goes_whole``: all of its
    pods are evicted together (``disruptionMode``). ``priority`` is None if it is not set. ``preempts`` is None if the
    pods state whether they may preempt. ``claims`` are shared by all pods, ``claim_names`` those that were made of
    templates. ``workload`` names the Workload that it was made from. ``created`` is in seconds since the epoch.
    ``owner`` is the controller as ``Kind/name``, empty without one. ``fault`` states which part is not understood,
    empty without one: a group with a fault is not placed. Its conditions are no part of it.
    """

    version: ApiVersion
    namespace: str
    name: str
    uid: str
    owner: str = ""
    created: float | None = None
    terminating: bool = False
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    is_gang: bool = False
    min_count: int = 1
    topology_key: str = ""
    goes_whole: bool = False
    priority: int | None = None
    priority_class: str = ""
    preempts: bool | None = None
    claims: tuple[ResourceClaimUse, ...] = ()
    claim_names: tuple[tuple[str, str | None], ...] = ()
    workload: str = ""
    template: str = ""
    fault: str = ""

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def queue(self) -> str:
        """Return the queue that the group itself names; empty when it names none."""
        return self.annotations.get(QUEUE_NAME, "")
