"""Devices that will be free: those of claims all of whose users are leaving, are taken as gone, or are gone.

A claim has its devices until Kubernetes' controller takes them from it, some time after its last pod is gone. Whoever
makes room asks earlier: what if these pods were not there? So while a pod is tried as gone, devices that nobody else
uses are free. For a promise of room, devices are as good as free as well whose users are still leaving, or whose claim
was not cleaned up yet; nothing is bound to them before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from volsched.plugin import Cluster, TaskInfo, TaskStatus
from volsched.plugin.devices import Claim, claims_of

CHOSEN_NOW: Final = (TaskStatus.ALLOCATED, TaskStatus.PIPELINED, TaskStatus.BINDING)
"""Whoever stands so and leaves has used nothing yet."""


class Vacancies:
    """Told of moves by the rules for devices (``follow``)."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._devices = cluster.devices

    def follow(self, task: TaskInfo, before: TaskStatus) -> None:
        """Have devices free that nobody uses but pods that are taken as gone; taken again when these are back."""
        if task.status is TaskStatus.RELEASING or before is TaskStatus.RELEASING:
            for claim in self._claims_of(task):
                self._devices.vacate(claim, is_vacant=self._is_used_by_none(claim, _is_away))
        if task.status is TaskStatus.PENDING and before not in CHOSEN_NOW:
            self._devices.unclean.update((claim.key, None) for claim in self._claims_of(task))

    @contextmanager
    def all_left(self, tasks: list[TaskInfo]) -> Iterator[None]:
        """Have devices free that nobody uses but pods that are leaving, these among them, or are gone already."""
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
