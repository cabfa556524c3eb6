"""Prepares a pod's volumes on its node before the pod is bound to it.

An existing volume is reserved for its claim (claimRef on the PersistentVolume); a new one is requested on the node
(annotation on the claim). Some are written at a time, and namespaces take turns. The volume controllers and
provisioners then do their part, which may take minutes; the pod is bound once every claim is. The writes stay if a pod
goes elsewhere, as upstream does: the next try finds them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final

import msgspec
import structlog

from volsched.kube.asker_turns import AskerTurns
from volsched.kube.client.backoff import Backoff
from volsched.kube.client.rest import MERGE_PATCH, Api, parsed, path_segment
from volsched.kube.errors import ApiError
from volsched.kube.fence import Fence
from volsched.kube.write.pod_writer import PrebindError
from volsched.kube.write.polls import Polls
from volsched.kube.write.views import Views, number
from volsched.model import api
from volsched.model.plan import Bind, VolumeWrite
from volsched.model.storage import BIND_COMPLETED, SELECTED_NODE

BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"

IN_FLIGHT: Final = 32
"""Volumes that are asked for at the same time. Namespaces take turns."""

_ATTEMPTS: Final = 5
_WRITE_TIMEOUT_SECONDS: Final = 10.0

_log = structlog.get_logger(__name__)


class Volumes:
    """A `Prebinder`: makes the writes of `Bind.volumes` and waits for what they ask for."""

    def __init__(self, api_server: Api, fence: Fence, views: Views) -> None:
        self._api = api_server
        self._fence = fence
        self._views = views
        self._spaces = AskerTurns(IN_FLIGHT, IN_FLIGHT)
        self._polls = Polls()

    def is_needed(self, step: Bind) -> bool:
        """True if a pod has volumes that are not bound yet."""
        return bool(step.volumes)

    async def prepare(self, step: Bind) -> None:
        """Get all volumes of a pod bound. Raises PrebindError or FenceError."""
        written: list[tuple[VolumeWrite, int]] = []
        for write in step.volumes:
            reserve = self._reserve if write.kind == "static" else self._select_node
            written.append((write, await self._persistently(reserve, write)))
        with self._polls.waiting():
            await self._until_bound(written)

    async def withdraw(self, step: Bind) -> None:
        """Leave everything in place: the next try finds it."""

    # -- writes ---------------------------------------------------------------------------------------------------

    async def _persistently(self, make: Callable[[VolumeWrite], Awaitable[int]], write: VolumeWrite) -> int:
        """Make a write, again after conflicts and trouble of the server. Return the resulting version."""
        backoff = Backoff(0.1, 5.0)
        while True:
            try:
                async with self._spaces.turn(write.claim.partition("/")[0]):
                    return await make(write)
            except ApiError as error:
                if error.is_deleted or not error.is_transient or backoff.failures >= _ATTEMPTS:
                    raise PrebindError(f"claim {write.claim}: {error.message}") from error
                await asyncio.sleep(max(backoff.next(), error.retry_after or 0.0))

    async def _reserve(self, write: VolumeWrite) -> int:
        """Give a volume to a claim, unless it has it already."""
        claim = await self._get(_claim_path(write.claim), "persistentvolumeclaims")
        path = f"/api/v1/persistentvolumes/{path_segment(write.volume)}"
        volume = await self._get(path, "persistentvolumes")
        taken = volume["spec"].get("claimRef")
        mine = {"namespace": claim["metadata"]["namespace"], "name": claim["metadata"]["name"]}
        if taken and {key: taken.get(key) for key in mine} != mine:
            raise PrebindError(f"volume {write.volume} was taken by {_named(taken, mine['namespace'], write)}")
        if taken and taken.get("uid") not in (None, "", claim["metadata"]["uid"]):
            raise PrebindError(f"volume {write.volume} belongs to an earlier claim named {write.claim}")
        if taken and taken.get("uid"):
            return 0
        reference = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "uid": claim["metadata"]["uid"], **mine}
        metadata: dict[str, Any] = {"resourceVersion": volume["metadata"]["resourceVersion"]}
        if not taken:
            metadata["annotations"] = {BOUND_BY_CONTROLLER: "yes"}
        await self._patch(path, "persistentvolumes", {"metadata": metadata, "spec": {"claimRef": reference}})
        return 0

    async def _select_node(self, write: VolumeWrite) -> int:
        """Ask for a claim's volume on a node, unless that was asked for already."""
        path = _claim_path(write.claim)
        claim = await self._get(path, "persistentvolumeclaims")
        selected = (claim["metadata"].get("annotations") or {}).get(SELECTED_NODE)
        if selected == write.node:
            return number(claim["metadata"]["resourceVersion"])
        if selected:
            raise PrebindError(f"claim {write.claim} is being provisioned for node {selected}")
        metadata = {
            "resourceVersion": claim["metadata"]["resourceVersion"],
            "annotations": {SELECTED_NODE: write.node},
        }
        left = await self._patch(path, "persistentvolumeclaims", {"metadata": metadata})
        return number(left["metadata"]["resourceVersion"])

    async def _get(self, path: str, resource: str) -> Any:
        return await self._api.get(path, resource, within=_WRITE_TIMEOUT_SECONDS)

    async def _patch(self, path: str, resource: str, body: Any) -> Any:
        answer = await self._api.request(
            "PATCH",
            path,
            resource,
            body=msgspec.json.encode(body),
            content_type=MERGE_PATCH,
            within=_WRITE_TIMEOUT_SECONDS,
            fence=self._fence,
        )
        return parsed(answer)

    # -- waiting --------------------------------------------------------------------------------------------------

    async def _until_bound(self, written: Iterable[tuple[VolumeWrite, int]]) -> None:
        """Wait for all claims. Raises PrebindError if one can no longer be bound here, or takes too long."""
        waiting = list(written)
        within = max(write.within for write, _ in waiting)
        deadline = time.monotonic() + within
        while True:
            waiting = [(write, version) for write, version in waiting if not self._is_bound(write, version)]
            if not waiting:
                return
            if time.monotonic() > deadline:
                claims = ", ".join(write.claim for write, _ in waiting)
                raise PrebindError(f"not bound within {within:g}s: {claims}")
            self._fence.check()
            await self._polls.pause()

    def _is_bound(self, write: VolumeWrite, version: int) -> bool:
        claim = self._views.claims.get(write.claim)
        if claim is None:
            raise PrebindError(f"claim {write.claim} is gone")
        if number(claim.metadata.resource_version) < version:  # the watch has not shown our own write yet
            return False
        if claim.spec.volume_name and claim.metadata.annotations.get(BIND_COMPLETED) == "yes":
            if write.kind == "static" and claim.spec.volume_name != write.volume:
                raise PrebindError(f"claim {write.claim} was bound to volume {claim.spec.volume_name}")
            return True
        self._check_node(write, claim)
        return False

    @staticmethod
    def _check_node(write: VolumeWrite, claim: api.PersistentVolumeClaim) -> None:
        if write.kind == "dynamic" and claim.metadata.annotations.get(SELECTED_NODE) != write.node:
            raise PrebindError(f"claim {write.claim}: the provisioner cannot make its volume on node {write.node}")


def _named(taken: Mapping[str, Any], namespace: str, write: VolumeWrite) -> str:
    """Return the name of a volume's claim for an Event; one of another namespace is named in the log alone."""
    claim = f"{taken.get('namespace')}/{taken.get('name')}"
    if taken.get("namespace") == namespace:
        return claim
    _log.info("a volume was taken by a claim of another namespace", volume=write.volume, claim=write.claim, by=claim)
    return "a claim of another namespace"


def _claim_path(key: str) -> str:
    namespace, _, name = key.partition("/")
    return f"/api/v1/namespaces/{path_segment(namespace)}/persistentvolumeclaims/{path_segment(name)}"
