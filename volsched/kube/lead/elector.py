"""Elects one leader among several schedulers by a Lease object of coordination.k8s.io.

The rules, each of which some client library breaks:

* A holder's life is judged by when *we* last saw its record change, never by its wall clock.
* Our own right to write ends a renew deadline after the *sending* of the last successful renewal, on the monotonic
  clock.
* Every request ends within that deadline.
* An update names the version that it is based on, so two candidates cannot both win.
* A leader that stops gives the lease back.
* A leader begins no further write and ends its process if it loses the lease, if it was stopped for as long as the
  lease lasts, or if a write was refused because it renewed late. A request that was sent may still be applied later.

The elector is one class: each rule reads the record and the times that the others write.
"""

from __future__ import annotations

import asyncio
import json
import random
import socket
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import structlog

from volsched.kube.client.rest import Api, parsed, path_segment
from volsched.kube.errors import ApiError
from volsched.kube.fence import Fence

_JITTER: Final = 1.2
"""The random part of a candidate's wait, in retry periods, after one retry period."""

_log = structlog.get_logger(__name__)

Lease = dict[str, Any]


@dataclass(frozen=True, slots=True)
class LeaseSettings:
    """The Lease and its durations, in seconds.

    Others may take the lease `duration` after its last renewal; the holder stops writing if it could not renew for
    `renew_deadline`, and tries to renew every `retry_period`.
    """

    namespace: str
    name: str
    duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0

    def problem(self) -> str:
        """Return what is wrong with the times, empty when nothing is."""
        if not self.duration > self.renew_deadline:
            return "the lease duration must be longer than the renew deadline"
        if not self.renew_deadline > self.retry_period * _JITTER:
            return f"the renew deadline must be longer than {_JITTER} retry periods"
        return (
            "" if self.retry_period > 0 and self.duration >= 1 else "times must be positive, the duration at least 1s"
        )


def make_identity() -> str:
    """Return a name for this process that no other has, not even its successor in the same pod."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


@dataclass(frozen=True, slots=True)
class Predecessor:
    """The former holder of the Lease, empty without one, and the metadata of the Lease then."""

    holder: str = ""
    annotations: Mapping[str, str] = field(default_factory=dict)


class Elector:
    """One candidate. `acquire` returns once it leads, `keep` once it leads no more, `release` gives the lease back.

    `stuck` states why the program that it leads for is not to lead any more, empty while it is well.
    `lease_metadata` returns the labels and annotations that are written on the Lease with each renewal.
    """

    def __init__(
        self,
        api: Api,
        settings: LeaseSettings,
        fence: Fence,
        identity: str = "",
        stuck: Callable[[], str] = lambda: "",
        lease_metadata: Callable[[], Mapping[str, Mapping[str, str]]] = dict,
    ) -> None:
        self.identity = identity or make_identity()
        self.holder = ""
        self.predecessor = Predecessor()
        self._api = api
        self._settings = settings
        self._fence = fence
        self._stuck = stuck
        self._lease_metadata = lease_metadata
        self._seen: tuple[Any, ...] = ()
        self._seen_at = 0.0
        self._seen_duration = 0.0
        self._lease: Lease | None = None
        collection = f"/apis/coordination.k8s.io/v1/namespaces/{path_segment(settings.namespace)}/leases"
        self._collection = collection
        self._path = f"{collection}/{path_segment(settings.name)}"

    @property
    def lease_uid(self) -> str:
        """Return the uid of the Lease while we hold it, else empty."""
        lease = self._lease  # once: it may be asked for on another thread
        return str(lease["metadata"].get("uid") or "") if lease is not None else ""

    # -- life -----------------------------------------------------------------------------------------------------

    async def acquire(self) -> None:
        """Return once this process holds the lease. Failures meanwhile are retried."""
        where = f"{self._settings.namespace}/{self._settings.name}"
        _log.info("waiting for leadership", lease=where, identity=self.identity)
        trouble = ""
        while True:
            try:
                if await self._try():
                    break
                trouble = ""
            except ApiError as error:
                if str(error) != trouble:
                    trouble = str(error)
                    _log.warning("cannot read or write the lease", lease=where, error=trouble)
            await asyncio.sleep(self._pause())
        _log.info("leading", lease=where, identity=self.identity, previous_holder=self.predecessor.holder)

    def _pause(self) -> float:
        """Return the wait before the next try: at most until the last seen lease has ended."""
        pause = self._settings.retry_period * (1 + _JITTER * random.random())  # noqa: S311
        left = self._seen_at + self._seen_duration - time.monotonic()
        if self._is_of_another and left > 0:
            spread = 0.1 * self._settings.retry_period * random.random()  # noqa: S311 - not all candidates at once
            return min(pause, left + spread)
        return pause

    async def keep(self) -> str:
        """Renew the lease as long as possible, and return why that ended. The fence is closed then."""
        reason = ""
        while not reason:
            await asyncio.sleep(max(0.0, min(self._settings.retry_period, self._left())))
            reason = self._too_late() or self._stuck() or await self._renew()
        self._fence.close()
        return reason

    async def release(self) -> None:
        """Give the lease back, so that another need not wait for its end. Only call when every write is over."""
        self._fence.close()
        lease = self._lease
        if lease is None or lease["spec"].get("holderIdentity") != self.identity:
            return
        spec = lease["spec"] | {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": _now_text()}
        try:
            await self._put(lease | {"spec": spec}, self._settings.retry_period)
        except ApiError as error:
            _log.warning("the lease could not be released; others wait until it ends", error=str(error))
        else:
            self._lease = None
            _log.info("released the lease", identity=self.identity)

    # -- one step -------------------------------------------------------------------------------------------------

    def _too_late(self) -> str:
        """Return why leading is over if another may have taken over, as after this process was stopped; else empty.

        The same holds after a refused write: that is dropped, and a late renewal does not bring it back.
        """
        late = time.monotonic() - self._fence.lease_ends
        if late >= 0:
            return f"it ended {late:.0f}s ago, before this process came to renew it"
        within = f"{self._settings.renew_deadline:g}s"
        return f"a write was refused, as it was not renewed within {within}" if self._fence.has_refused else ""

    async def _renew(self) -> str:
        """Try once, and return why leading is over, if it is."""
        trouble = ""
        try:
            if await self._try():
                return ""
            if self.holder != self.identity:
                return f"the lease was taken by {self.holder or 'nobody yet'}"
        except ApiError as error:
            trouble = str(error)
            _log.warning("could not renew the lease", error=trouble, seconds_left=round(self._left(), 1))
        if self._left() <= 0:
            return f"the lease could not be renewed for {self._settings.renew_deadline:g}s ({trouble or 'conflicts'})"
        return ""

    def _left(self) -> float:
        return self._fence.valid_until - time.monotonic()

    async def _try(self) -> bool:
        """Take or renew the lease if that is allowed, and return True if we hold it now. Raises ApiError.

        While leading, the record of the last write is renewed without reading it first; after a conflict it is read for
        the next try.
        """
        if self._lease is None:
            self._lease = await self._read()
        if self._lease is None:
            return self._has_had_its_time() and await self._write(self._fresh(), self._create)
        if not self._may_take(self._lease):
            self._lease = None
            return False
        return await self._write(self._mine(self._lease), self._put)

    async def _write(self, lease: Lease, send: Any) -> bool:
        sent_at = time.monotonic()
        previous = self._predecessor_in(self._lease)
        try:
            self._lease = await send(lease, self._within())
        except ApiError as error:
            if error.status != 409 and (error.status != 404 or self._lease is None):
                if error.may_have_happened:
                    self._lease = None
                raise  # a 404 for a new Lease states that its namespace is missing
            self._lease = None  # somebody else was faster, or it was deleted: look before trying again
            self._lease = await self._read()
            if self._lease is not None:
                self._note(self._lease)
                if self.holder != self.identity:
                    self._lease = None
            return False
        if previous.holder != self.identity:
            self.predecessor = previous
        self._note(lease)
        self._fence.prolong(sent_at + self._settings.renew_deadline, sent_at + self._settings.duration)
        return True

    def _may_take(self, lease: Lease) -> bool:
        """True if the lease is ours, free, or has not changed for its whole duration while we were looking."""
        self._note(lease)
        return self._has_had_its_time()

    def _has_had_its_time(self) -> bool:
        """True if no other process may write by the last seen lease.

        That counts also if the lease was deleted: its holder does not know that before it renews. The holder makes it
        again then; other candidates wait as if it were there.
        """
        return not self._is_of_another or time.monotonic() > self._seen_at + self._seen_duration

    @property
    def _is_of_another(self) -> bool:
        return self.holder not in ("", self.identity)

    def _duration_of(self, lease: Lease) -> float:
        try:
            return float(lease["spec"].get("leaseDurationSeconds") or self._settings.duration)
        except (TypeError, ValueError, KeyError):
            return self._settings.duration

    def _note(self, lease: Lease) -> None:
        """Remember when the record was first seen as it is now."""
        spec = lease.get("spec") or {}
        seen = (spec.get("holderIdentity"), spec.get("renewTime"), spec.get("leaseTransitions"))
        self.holder = self._holder_of(lease)
        self._seen_duration = self._duration_of(lease)
        if seen != self._seen:
            self._seen, self._seen_at = seen, time.monotonic()

    @staticmethod
    def _holder_of(lease: Lease) -> str:
        return str((lease.get("spec") or {}).get("holderIdentity") or "")

    def _predecessor_in(self, lease: Lease | None) -> Predecessor:
        if lease is None:
            return Predecessor()
        return Predecessor(self._holder_of(lease), dict(lease["metadata"].get("annotations") or {}))

    # -- records --------------------------------------------------------------------------------------------------

    def _fresh(self) -> Lease:
        now = _now_text()
        metadata = {"name": self._settings.name, "namespace": self._settings.namespace}
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": metadata | dict(self._lease_metadata()),
            "spec": self._spec() | {"acquireTime": now, "renewTime": now, "leaseTransitions": 0},
        }

    def _mine(self, lease: Lease) -> Lease:
        spec = dict(lease.get("spec") or {})
        now = _now_text()
        if spec.get("holderIdentity") != self.identity:
            spec |= {"acquireTime": now, "leaseTransitions": int(spec.get("leaseTransitions") or 0) + 1}
        known = lease["metadata"]
        stated = {part: {**(known.get(part) or {}), **texts} for part, texts in self._lease_metadata().items()}
        return lease | {"metadata": known | stated, "spec": spec | self._spec() | {"renewTime": now}}

    def _spec(self) -> dict[str, Any]:
        return {"holderIdentity": self.identity, "leaseDurationSeconds": round(self._settings.duration)}

    # -- requests -------------------------------------------------------------------------------------------------

    def _within(self) -> float:
        """Return the time limit of a request: two tries must fit into the rest of the deadline."""
        half = self._settings.renew_deadline / 2
        left = self._left()
        return half if left <= 0 else max(0.1, min(half, left))

    async def _read(self) -> Lease | None:
        try:
            return await self._ask("GET", self._path, None, self._within())
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    async def _create(self, lease: Lease, within: float) -> Lease:
        return await self._ask("POST", self._collection, lease, within)

    async def _put(self, lease: Lease, within: float) -> Lease:
        return await self._ask("PUT", self._path, lease, within)

    async def _ask(self, method: str, path: str, lease: Lease | None, within: float) -> Lease:
        body = None if lease is None else json.dumps(lease).encode()
        answer = await self._api.request(method, path, "leases", body=body, within=within)
        found: Lease = parsed(answer)
        return found


def _now_text() -> str:
    """Return the time as a MicroTime: always six digits, always UTC. For people only; nothing is judged by it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
