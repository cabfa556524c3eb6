"""Writes the chosen allocations of ResourceClaims, before the pods that use them are bound.

For each claim, in this order: the finalizer that protects its devices, then allocation and reservation in one write of
its status; only then may the pod be bound. The claims of a pod are written at the same time. Pods that share a claim
take turns: one that writes its reservation writes those of all that wait for their turn, and these find them there.
What fails later takes back this pod's reservation and nothing else: an allocation stays, the next attempt uses it, and
Kubernetes' own controller clears it when its pod is gone. Some claims are written at a time, and namespaces take turns.

A claim for a pod's extended resources is made before that, and stated in the pod's status after it. It is deleted if
the pod is not bound, as another node may serve these resources in another way.

If devices have binding conditions, the pod then waits for these: drivers set them in the claim's status, and the
informer brings them. If that fails, or takes too long, the next attempt has the claim released (`ReleaseClaim`).

Rules: kube-scheduler's dynamicresources (PreBind, Unreserve) of Kubernetes 1.36. The API server refuses a status with
another allocation than the one it has, and a reservation without any.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
import structlog

from volsched.kube.asker_turns import AskerTurns
from volsched.kube.client.backoff import Backoff
from volsched.kube.client.rest import JSON, MERGE_PATCH, Api, path_segment
from volsched.kube.errors import ApiError, FenceError
from volsched.kube.fence import Fence
from volsched.kube.histogram import Histogram
from volsched.kube.tasks import Tasks, all_of
from volsched.kube.write.pod_writer import PrebindError
from volsched.kube.write.polls import Polls
from volsched.kube.write.views import Views
from volsched.model import api, labels
from volsched.model.changes import Change, Put
from volsched.model.dra import api as dra
from volsched.model.dra import observed
from volsched.model.dra.binding import Readiness, readiness_of
from volsched.model.errors import FieldError
from volsched.model.plan import Bind, ClaimWrite, ExtendedClaim, RecordEvent, ReleaseClaim
from volsched.model.pods.owners import Owner, as_pod, controller_of
from volsched.model.values.bounded import Size

ATTEMPTS: Final = 5
IN_FLIGHT: Final = 32
"""Claims that are written at the same time. Namespaces take turns."""

_WRITE_TIMEOUT_SECONDS: Final = 10.0

_log = structlog.get_logger(__name__)


class ResourceClaims:
    """A `Prebinder`: makes the writes of `Bind.claims`; carries out `ReleaseClaim` steps beside that.

    `report` gets each claim after a write, so that the scheduler knows it before its watch does; `record_event` takes
    the Event of a pod that waits for binding conditions.
    """

    def __init__(
        self,
        api_server: Api,
        fence: Fence,
        views: Views,
        report: Callable[[Change], None],
        record_event: Callable[[RecordEvent], None],
    ) -> None:
        self._api = api_server
        self._fence = fence
        self._views = views
        self._report = report
        self._record_event = record_event
        self._turns: dict[str, _Turn] = {}
        self._spaces = AskerTurns(IN_FLIGHT, IN_FLIGHT)
        self._releasing = Tasks()
        self._polls = Polls()
        self.durations = Histogram()
        """From when the claims of a pod may be written to when they are, conditions of devices not waited for."""

    def tables(self) -> Mapping[str, Size]:
        """Return the sizes of what is kept here."""
        return {"claims.turns": lambda: len(self._turns), "claims.releasing": lambda: len(self._releasing)}

    def is_needed(self, step: Bind) -> bool:
        """True if a pod uses claims that are not reserved for it, or whose devices are not ready."""
        return bool(step.claims)

    async def prepare(self, step: Bind) -> None:
        """Have all claims of a pod allocated, reserved and ready. Raises PrebindError or FenceError."""
        began = time.monotonic()
        await all_of([self._prepare(write, step) for write in step.claims])
        if step.claims:
            self.durations.add(time.monotonic() - began)
        with self._polls.waiting():
            await self._until_ready(step)

    async def _prepare(self, write: ClaimWrite, step: Bind) -> None:
        """Have one claim of a pod allocated and reserved."""
        async with self._turn(write, step):
            await self._persistently(write, step)
            if write.made is not None:
                await self._report_claim(write.made, step)

    async def withdraw(self, step: Bind) -> None:
        """Take this pod's reservations back. What cannot be taken back is left to Kubernetes' own controller."""
        for write in step.claims:
            async with self._spaces.turn(step.namespace):
                await self._withdraw(write, step)

    async def _withdraw(self, write: ClaimWrite, step: Bind) -> None:
        if write.made is not None:
            await self._delete(write.claim, as_pod(step.namespace, step.name, step.uid))
            return
        if write.reserved_for is not None:
            return  # it is its group's, which keeps it for the others, and for the next attempt
        try:
            await self._unreserve(write, step)
        except (ApiError, FenceError) as error:
            if not (isinstance(error, ApiError) and error.is_deleted):
                _log.warning("a claim stays reserved", claim=write.claim, pod=step.name, error=str(error))

    async def _unreserve(self, write: ClaimWrite, step: Bind) -> None:
        """Take a pod out of those that a claim is reserved for.

        Not by a strategic patch: the API server then orders opaque parameters anew, which it refuses in an allocation.
        """
        claim = self._views.resource_claims.get(write.claim)
        for left in reversed(range(ATTEMPTS)):
            claim = claim or await self._get(write.claim)
            if claim.metadata.uid != write.uid or not _is_reserved(claim, step.uid):
                return
            others = [consumer for consumer in claim.status.reserved_for if consumer.uid != step.uid]
            body = {**_changed(claim), "status": {"reservedFor": others or None}}
            try:
                self._heard(await self._patch(write.claim, "/status", body))
            except ApiError as error:
                if error.status != 409 or not left:
                    raise
            claim = None

    def release(self, step: ReleaseClaim) -> None:
        """Remove the allocation of a claim, unless it is used by others now; does not wait for it."""
        self._releasing.start(self._release_in_turn(step), "release of a claim")

    async def stop(self) -> None:
        """Give up releases that are under way."""
        await self._releasing.stop()

    @asynccontextmanager
    async def _turn(self, write: ClaimWrite, step: Bind) -> AsyncIterator[None]:
        """Wait for our turn at a claim. What is kept for that goes with the last pod that wants it."""
        turn = self._turns.get(write.claim)
        if turn is None:
            turn = self._turns[write.claim] = _Turn()
        consumer = _consumer(write, step)
        turn.users += 1
        turn.waiting[step.uid] = write.uid, consumer
        try:
            async with turn.lock:
                turn.waiting.pop(step.uid, None)
                yield
        finally:
            turn.waiting.pop(step.uid, None)
            turn.users -= 1
            if not turn.users:
                del self._turns[write.claim]

    def _consumers(self, claim: dra.ResourceClaim, write: ClaimWrite, step: Bind) -> list[dra.Consumer]:
        """Return for whom a claim is reserved from now on: this pod, and those that wait as far as there is room."""
        turn = self._turns.get(write.claim)
        waiting = turn.waiting.values() if turn is not None else ()
        known = {consumer.uid: consumer for consumer in claim.status.reserved_for}
        own = _consumer(write, step)
        known.setdefault(own.uid, own)
        for uid, consumer in waiting:
            if uid == write.uid and len(known) < dra.MOST_CONSUMERS:
                known.setdefault(consumer.uid, consumer)
        return list(known.values())

    # -- one claim ----------------------------------------------------------------------------------------------------

    async def _persistently(self, write: ClaimWrite, step: Bind) -> None:
        """Write a claim. After conflicts and trouble of the server, in its state by then."""
        backoff = Backoff(0.05, 5.0)
        claim = self._views.resource_claims.get(write.claim)
        while True:
            try:
                async with self._spaces.turn(step.namespace):
                    if write.made is not None:
                        claim = await self._made(write, write.made, step)
                    claim = claim or await self._get(write.claim)
                    await self._write(claim, write, step)
            except ApiError as error:
                if error.is_deleted or not error.is_transient or backoff.failures >= ATTEMPTS:
                    raise PrebindError(f"resourceclaim {write.claim}: {error.message}") from error
                await asyncio.sleep(max(backoff.next(), error.retry_after or 0.0))
                claim = None
            else:
                return

    async def _write(self, claim: dra.ResourceClaim, write: ClaimWrite, step: Bind) -> None:
        """Write the missing parts of finalizer and status of a claim. Raises PrebindError if it may not be used."""
        if write.made is None and claim.metadata.uid != write.uid:
            raise PrebindError(f"resourceclaim {write.claim} was deleted and made again")
        has = claim.status.allocation
        if has is not None and write.allocation is not None and _devices(has) != _devices(write.allocation):
            raise PrebindError(f"resourceclaim {write.claim} was allocated elsewhere")
        consumer = _consumer(write, step)
        if has is not None and _is_reserved(claim, consumer.uid):
            return
        if claim.metadata.deletion_timestamp is not None:
            raise PrebindError(f"resourceclaim {write.claim} is being deleted")
        if has is None and write.allocation is None:
            raise PrebindError(f"resourceclaim {write.claim} was deallocated meanwhile")
        answer = b""
        if has is None and dra.FINALIZER not in claim.metadata.finalizers:
            finalizers = [*claim.metadata.finalizers, dra.FINALIZER]
            answer = await self._patch(write.claim, "", _changed(claim, finalizers=finalizers))
            claim = self._heard(answer)
        status: dict[str, Any] = {}
        if has is None:
            status["allocation"] = await self._allocation(write, answer)
        status["reservedFor"] = self._consumers(claim, write, step)
        self._heard(await self._patch(write.claim, "/status", {**_changed(claim), "status": status}))

    async def _allocation(self, write: ClaimWrite, found: bytes) -> dra.Allocation:
        """Return what is written as a claim's allocation, with the parameters for drivers, which are not kept here.

        ``found`` is the claim as it was just answered, empty when nothing was written to it yet.
        """
        allocation = write.allocation or dra.Allocation()
        if observed.needs_parameters(allocation):
            found = found or await self._fetch(write.claim)
            try:
                allocation = observed.with_parameters(allocation, found)
            except FieldError as error:
                raise PrebindError(f"resourceclaim {write.claim}: {error}") from error
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return msgspec.structs.replace(allocation, allocation_timestamp=now)

    async def _made(self, write: ClaimWrite, made: ExtendedClaim, step: Bind) -> dra.ResourceClaim:
        """Make the claim for a pod's extended resources, or find the one that an earlier try has made."""
        owner = {"apiVersion": "v1", "kind": "Pod", "name": step.name, "uid": step.uid, "controller": True}
        meta = {
            "name": made.name,
            "annotations": {dra.EXTENDED_CLAIM: "true"},
            "ownerReferences": [owner],
            "finalizers": [dra.FINALIZER],
        }
        body = {"metadata": meta, "spec": {"devices": {"requests": msgspec.to_builtins(made.requests)}}}
        try:
            return self._heard(await self._send("POST", _path(f"{step.namespace}/"), "resourceclaims", body))
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
        claim = await self._get(write.claim)
        if not (_is_made_for(claim, as_pod(step.namespace, step.name, step.uid)) and _asks_for(claim, made)):
            raise PrebindError(f"resourceclaim {write.claim} is there already, and was not made for this attempt")
        return claim

    async def _report_claim(self, made: ExtendedClaim, step: Bind) -> None:
        """Write the requests of the claim by container into the pod's status: the kubelet reads them there."""
        mappings = [
            {"containerName": container, "resourceName": resource, "requestName": request}
            for container, resource, request in made.mappings
        ]
        status = {"resourceClaimName": made.name, "requestMappings": mappings}
        body = {"metadata": {"uid": step.uid}, "status": {"extendedResourceClaimStatus": status}}
        pod = f"/api/v1/namespaces/{path_segment(step.namespace)}/pods/{path_segment(step.name)}/status"
        backoff = Backoff(0.05, 5.0)
        while True:
            try:
                async with self._spaces.turn(step.namespace):
                    await self._send("PATCH", pod, "pods/status", body)
            except ApiError as error:
                if error.is_deleted or not error.is_transient or backoff.failures >= ATTEMPTS:
                    raise PrebindError(f"status of pod {step.namespace}/{step.name}: {error.message}") from error
                await asyncio.sleep(max(backoff.next(), error.retry_after or 0.0))
            else:
                return

    async def _delete(self, key: str, pod: Owner) -> None:
        """Delete the claim for a pod's extended resources; if that fails now, the scheduler deletes it later."""
        try:
            claim = await self._get(key)
            if not _is_made_for(claim, pod):
                return
            rest = [name for name in claim.metadata.finalizers if name != dra.FINALIZER]
            await self._patch(key, "", _changed(claim, finalizers=rest))
            gone = {"preconditions": {"uid": claim.metadata.uid}}
            await self._send("DELETE", _path(key), "resourceclaims", gone)
        except (ApiError, FenceError) as error:
            if not (isinstance(error, ApiError) and error.is_deleted):
                _log.warning("a claim could not be deleted", claim=key, error=str(error))

    async def _release_in_turn(self, step: ReleaseClaim) -> None:
        async with self._spaces.turn(step.namespace):
            await self._release(step)

    async def _release(self, step: ReleaseClaim) -> None:
        key = f"{step.namespace}/{step.name}"
        if step.delete:
            await self._delete(key, step.pod)
            return
        try:
            claim = await self._get(key)
            if claim.metadata.uid != step.uid or any(c.uid != step.pod.uid for c in claim.status.reserved_for):
                return
            body = {**_changed(claim), "status": {"allocation": None, "reservedFor": None}}
            self._heard(await self._patch(key, "/status", body))
        except (ApiError, FenceError) as error:  # the pod is looked at again when the claim, or anything, changes
            _log.warning("a claim could not be released", claim=key, error=str(error))

    # -- binding conditions -------------------------------------------------------------------------------------------

    async def _until_ready(self, step: Bind) -> None:
        """Wait until the pod may be bound. Raises PrebindError if a device has failed or takes too long."""
        began = time.time()
        waiting = [write for write in step.claims if not self._readiness(write, step).is_reached]
        if waiting:
            self._record_event(_pending_event(step))
        while waiting:
            for write in waiting:
                self._check(write, self._readiness(write, step), began)
            self._fence.check()
            await self._polls.pause()
            waiting = [write for write in waiting if not self._readiness(write, step).is_reached]

    def _readiness(self, write: ClaimWrite, step: Bind) -> Readiness:
        """Return the progress of a claim, which the pod must still have. Claims of others are not waited for."""
        claim = self._views.resource_claims.get(write.claim)
        if claim is None or (write.made is None and claim.metadata.uid != write.uid):
            raise PrebindError(f"resourceclaim {write.claim} is gone")
        if claim.status.allocation is None:
            raise PrebindError(f"resourceclaim {write.claim} was deallocated meanwhile")
        if not _is_reserved(claim, _consumer(write, step).uid):
            raise PrebindError(f"resourceclaim {write.claim} is not reserved for the pod any more")
        return readiness_of(claim.status)

    @staticmethod
    def _check(write: ClaimWrite, found: Readiness, began: float) -> None:
        """Raise PrebindError if waiting for a claim is useless. Its time runs from the allocation, or from our wait."""
        if found.failure:
            raise PrebindError(f"resourceclaim {write.claim}: {found.failure}")
        now = time.time()
        if found.is_given_up(now, write.within) or now > began + write.within:
            missing = ", ".join(found.pending)
            raise PrebindError(f"resourceclaim {write.claim}: not true within {write.within:g}s: {missing}")

    # -- requests -----------------------------------------------------------------------------------------------------

    async def _get(self, key: str) -> dra.ResourceClaim:
        claim = api.decode_text(observed.ResourceClaim, await self._fetch(key))
        self._views.wrote(claim)
        return claim

    async def _fetch(self, key: str) -> bytes:
        return await self._api.request("GET", _path(key), "resourceclaims", within=_WRITE_TIMEOUT_SECONDS)

    async def _patch(self, key: str, subresource: str, body: Any) -> bytes:
        return await self._send("PATCH", _path(key) + subresource, f"resourceclaims{subresource}", body)

    async def _send(self, method: str, path: str, resource: str, body: Any) -> bytes:
        return await self._api.request(
            method,
            path,
            resource,
            body=msgspec.json.encode(body),
            content_type=MERGE_PATCH if method == "PATCH" else JSON,
            within=_WRITE_TIMEOUT_SECONDS,
            fence=self._fence,
        )

    def _heard(self, answer: bytes | Mapping[str, Any]) -> dra.ResourceClaim:
        """Take in a claim after a write, before the watch shows it. A deleted one holds no devices."""
        kind = observed.ResourceClaim
        claim = api.decode_text(kind, answer) if isinstance(answer, bytes) else api.decode_as(kind, answer)
        labels.trim("ResourceClaim", claim)
        if self._views.wrote(claim):
            self._report(Put(claim))
        return claim


@dataclass(slots=True)
class _Turn:
    """The writers of a claim, and the pods that wait for them, by uid of the pod."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0
    waiting: dict[str, tuple[str, dra.Consumer]] = field(default_factory=dict)


def _changed(claim: dra.ResourceClaim, **metadata: Any) -> dict[str, Any]:
    """Return the start of a patch that fails if the claim is another one, or was changed meanwhile."""
    meta = claim.metadata
    return {"metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version, **metadata}}


def _is_made_for(claim: dra.ResourceClaim, pod: Owner) -> bool:
    return controller_of(claim.metadata) == pod and claim.metadata.annotations.get(dra.EXTENDED_CLAIM) == "true"


def _asks_for(claim: dra.ResourceClaim, made: ExtendedClaim) -> bool:
    try:
        return dra.parsed(claim.spec, dra.ResourceClaimSpec).devices.requests == made.requests
    except FieldError:
        return False


def _pending_event(step: Bind) -> RecordEvent:
    message = f"waiting for binding conditions for device on node {step.node}"
    return RecordEvent("Pod", "v1", step.namespace, step.name, step.uid, "Normal", "BindingConditionsPending", message)


def _consumer(write: ClaimWrite, step: Bind) -> dra.Consumer:
    """Return the users for which a claim is reserved."""
    return write.reserved_for or dra.Consumer(resource="pods", name=step.name, uid=step.uid)


def _is_reserved(claim: dra.ResourceClaim, pod: str) -> bool:
    return any(consumer.uid == pod for consumer in claim.status.reserved_for)


def _devices(allocation: dra.Allocation) -> set[tuple[str, ...]]:
    return {(r.request, r.driver, r.pool, r.device, r.share_id or "") for r in allocation.devices.results}


def _path(key: str) -> str:
    namespace, _, name = key.partition("/")
    claims = f"/apis/{dra.GROUP_VERSION}/namespaces/{path_segment(namespace)}/resourceclaims"
    return f"{claims}/{path_segment(name)}" if name else claims
