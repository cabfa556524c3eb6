"""Devices that will be free: those of claims whose users are all terminating, tried as gone, or gone.

A claim has its devices until Kubernetes' controller takes them from it, some time after its last pod is gone. A search
for victims asks earlier: what if these pods were gone? So while a pod is tried as gone, devices without other users are
free. For a pipelined pod, devices also count as free if their users are still terminating, or if their claim was not
cleaned up yet; nothing is bound to them before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from volsched.plugin import Cluster, TaskInfo, TaskStatus
from volsched.plugin.devices import Claim, claims_of

CHOSEN_NOW: Final = (TaskStatus.ALLOCATED, TaskStatus.PIPELINED, TaskStatus.BINDING)
"""A pod with this status that leaves has used nothing yet."""


class Vacancies:
    """Notified of moves by the rules for devices (``follow``)."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._devices = cluster.devices

    def follow(self, task: TaskInfo, before: TaskStatus) -> None:
        """Free devices whose users are all tried as gone. Take them again when these are back."""
        if task.status is TaskStatus.RELEASING or before is TaskStatus.RELEASING:
            for claim in self._claims_of(task):
                self._devices.vacate(claim, is_vacant=self._is_used_by_none(claim, _is_away))
        if task.status is TaskStatus.PENDING and before not in CHOSEN_NOW:
            self._devices.unclean.update((claim.key, None) for claim in self._claims_of(task))

    @contextmanager
    def all_left(self, tasks: list[TaskInfo]) -> Iterator[None]:
        """Free devices whose users are all terminating, these among them, or are gone already."""
        keys = {claim.key: claim for task in tasks for claim in self._claims_of(task)}
        claims = [claim for claim in keys.values() if self._is_used_by_none(claim, _is_leaving)]
        was = [claim.uid in self._devices.vacant for claim in claims]
        for claim in claims:
            self._devices.vacate(claim, is_vacant=True)
        with self._devices.cleaned_up(self._cluster.tasks):
            yield
        for claim, vacant in zip(claims, was, strict=True):
            self._devices.vacate(claim, is_vacant=vacant)

    def _claims_of(self, task: TaskInfo) -> list[Claim]:
        found = (self._devices.claims.get(key) for key in claims_of(task, self._devices))
        return [claim for claim in found if claim is not None and self._devices.allocation_of(claim) is not None]

    def _is_used_by_none(self, claim: Claim, but: Callable[[TaskInfo], bool]) -> bool:
        tasks = self._cluster.tasks
        if claim.is_of_group:
            return False
        return all((user := tasks.get(uid)) is None or but(user) for uid in self._devices.users_of(claim))


def _is_away(task: TaskInfo) -> bool:
    return task.status is TaskStatus.RELEASING and task.node is None


def _is_leaving(task: TaskInfo) -> bool:
    return task.status is TaskStatus.RELEASING
