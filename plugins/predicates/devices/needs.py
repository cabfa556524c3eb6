"""The needs of pods by their claims, cached until one of their inputs changes.

Thousands of pods may wait, each with a claim of its own, and every placement changes a claim. So the needs of a pod are
kept until one of *its* claims changes, or any DeviceClass; pods that share a claim are kept until members of the job
come or go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from plugins.predicates.devices.resource_claims import ClaimNeeds, left_over, named_by, needs_of
from volsched.plugin import JobInfo, PodProperties, PodTemplate, Resources, TaskInfo
from volsched.plugin.devices import Devices

Company = tuple[tuple[str, int], ...]
"""The joint request of several pods, in project units; empty for one alone."""


class _CachedNeeds(NamedTuple):
    """The needs of a pod by its claims, their inputs, and the keys of claims that can change them."""

    spec: PodProperties
    template: PodTemplate
    job: JobInfo | None
    needs: ClaimNeeds
    claims: tuple[str, ...]


class KnownNeeds:
    """The needs of pods, by uid. They end with the pods, at the latest when half of a job's pods are gone."""

    def __init__(self, devices: Devices) -> None:
        self._devices = devices
        self._known: dict[str, _CachedNeeds] = {}
        self._users: dict[str, set[str]] = {}
        """Cached pods by the keys of their claims."""
        self._members: dict[str, set[str]] = {}
        """The pods of which something was found out, by the keys of their jobs."""
        self._version = devices.claims_version
        self._position = devices.log_end
        self._classes_version = devices.classes_version
        self._shared: dict[str, Mapping[str, list[TaskInfo]]] = {}

    def of(self, task: TaskInfo) -> ClaimNeeds:
        """Return what a pod's claims need."""
        if self._version != self._devices.claims_version:
            self._refresh()
        known = self._known.get(task.uid)
        if known is not None and known.spec is task.spec and known.template is task.template and known.job is task.job:
            return known.needs
        return self._find_out(task).needs

    def _find_out(self, task: TaskInfo) -> _CachedNeeds:
        if task.uid in self._known:
            self._drop(task.uid)
        claims = self._keys_of(task)
        known = _CachedNeeds(task.spec, task.template, task.job, needs_of(task, self._devices), claims)
        self._known[task.uid] = known
        for key in claims:
            self._users.setdefault(key, set()).add(task.uid)
        if task.job is not None:
            self._members.setdefault(task.job.key, set()).add(task.uid)
        return known

    def company(self, task: TaskInfo, needs: ClaimNeeds) -> Company:
        """Add up the requests of pods that must go to this pod's node, as the devices of its claims are there.

        These are all pods that wait with it for one of the same open claims.
        """
        if task.job is None or len(task.job.waiting) < 2 or not needs.open:
            return ()
        shared = self._shared_in(task.job)
        if not shared:
            return ()
        waiting = {
            t.uid: t for c in needs.open for t in shared.get(c.key, ()) if t is task or t.uid in task.job.waiting
        }
        if len(waiting) < 2:
            return ()
        total = Resources.EMPTY
        for other in waiting.values():
            total = total.plus(other.template.request)
        return tuple(sorted(total.items()))

    def members_changed(self, job: JobInfo) -> None:
        """Find the pods that share a claim in a job again, and drop those that are gone.

        This is done when half of them may be gone: pods of a large job go one by one, and each time all would be looked
        through.
        """
        self._shared.pop(job.key, None)
        members = self._members.get(job.key)
        if members is not None and len(members) > 2 * len(job.tasks):
            for uid in members - job.tasks.keys():
                self._drop(uid)
                members.discard(uid)
            if not members:
                del self._members[job.key]

    def _shared_in(self, job: JobInfo) -> Mapping[str, list[TaskInfo]]:
        """Return the claims that several pods of a job name, with these pods."""
        found = self._shared.get(job.key)
        if found is None:
            users: dict[str, list[TaskInfo]] = {}
            for task in job.tasks.values():
                for key in dict.fromkeys(named_by(task)):
                    users.setdefault(key, []).append(task)
            found = self._shared[job.key] = {key: tasks for key, tasks in users.items() if len(tasks) > 1}
        return found

    # -- changes ------------------------------------------------------------------------------------------------------

    def _refresh(self) -> None:
        """Forget what was found out from claims or classes that changed."""
        devices = self._devices
        changed = devices.changed_since(self._position)
        if changed is None or self._classes_version != devices.classes_version:
            self._clear()
        else:
            self._forget(changed)
        self._version = devices.claims_version
        self._position, self._classes_version = devices.log_end, devices.classes_version

    def _clear(self) -> None:
        self._known.clear()
        self._users.clear()
        self._members.clear()

    def _forget(self, claims: Iterable[str]) -> None:
        """Drop the needs of all pods with these claims."""
        for key in claims:
            claim = self._devices.claims.get(key)
            if claim is not None and claim.owner is not None:
                self._drop(claim.owner.uid)
            for uid in self._users.pop(key, ()):
                self._drop(uid)

    def _drop(self, uid: str) -> None:
        """Forget what is known of a pod."""
        known = self._known.pop(uid, None)
        for key in known.claims if known is not None else ():
            users = self._users.get(key)
            if users is not None:
                users.discard(uid)
                if not users:
                    del self._users[key]

    def _keys_of(self, task: TaskInfo) -> tuple[str, ...]:
        """Return the keys of the claims that a pod names, whether they are there or not, and of those made for it."""
        keys = named_by(task)
        keys += [f"{task.namespace}/{name}" for _, name in task.spec.claim_names if name is not None]
        made = left_over(task, self._devices) if task.template.container_amounts else None
        if made is not None:
            keys.append(made.key)
        return tuple(keys)
