"""The devices that lost pods had: they count as taken while pods are placed that are kept from them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from hashlib import blake2b
from typing import Final

from actions.repair.lost_room import LostRoom
from volsched.framework.dra.accounts import claims_of
from volsched.model.dra.device import Claim, DeviceId
from volsched.model.dra.devices import Devices
from volsched.model.pods.task import TaskInfo

CLAIMS: Final = "resourceclaims"
"""The name under which ResourceClaims are counted beside amounts of resources."""


def claims_lost_with(task: TaskInfo, devices: Devices) -> tuple[Claim, ...]:
    """Return the claims of a pod that have devices, as they are: a claim from a template goes with its pod."""
    found = (devices.claims.get(key) for key in claims_of(task, devices))
    return tuple(claim for claim in found if claim is not None and claim.allocation is not None)


def shapes_of(task: TaskInfo, devices: Devices) -> list[str]:
    """Return for each ResourceClaim of a pod a name of what it asks for; the same for all that are not made yet."""
    keys = [key for _, key in task.claims_by_entry()]
    return [_shape(devices.claims.get(key)) for key in keys]


def _shape(claim: Claim | None) -> str:
    """Return a short name of what a claim asks for: another number, class or selector has another name."""
    return f"{CLAIMS}/{blake2b(claim.spec.shape, digest_size=8).hexdigest()}" if claim is not None else CLAIMS


class LostDevices:
    """Takes devices for claims that had them, and gives them back."""

    def __init__(self, devices: Devices) -> None:
        self._devices = devices
        self._rooms: list[LostRoom] = []

    def keep(self, rooms: Iterable[LostRoom]) -> None:
        """Let the devices of these rooms count as taken, and of no other ones."""
        self._rooms = [room for room in rooms if room.leaving is None]
        wanted = {claim.uid: claim for room in self._rooms for claim in room.claims}
        for uid in self._devices.kept.keys() - wanted.keys():
            self._devices.keep(uid, None)
        for uid, claim in wanted.items():
            if uid not in self._devices.kept and self._is_free(claim):
                self._devices.keep(uid, claim.allocation)

    def _is_free(self, claim: Claim) -> bool:
        """Whether nobody has its devices, not even the claim itself, which may be deleted later than its pod."""
        known, results = (
            self._devices.claims.get(claim.key),
            claim.allocation.devices.results if claim.allocation else (),
        )
        if known is not None and known.uid == claim.uid and self._devices.allocation_of(known) is not None:
            return False
        return not any(DeviceId(r.driver, r.pool, r.device) in self._devices.usage.taken for r in results)

    @contextmanager
    def given_back_to(self, room: LostRoom) -> Iterator[None]:
        """Let a stand-in have the claims of its pod, and no device be kept, while something is tried."""
        before = self._rooms
        self.keep(())
        pod = room.stand_in.as_owner
        claims = [replace(c, owner=c.owner and pod, deleting=False) for c in room.claims if not c.extended]
        try:
            with self._devices.restored(claims):
                yield
        finally:
            self.keep(before)
