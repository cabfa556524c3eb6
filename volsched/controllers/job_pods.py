"""The pods of a Volcano Job, from its templates: a body is made only when it is written."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import msgspec

from volsched.controllers import jobs
from volsched.controllers.job_parts import JobParts
from volsched.controllers.job_plugins import Outfit
from volsched.controllers.owners import owner_reference
from volsched.controllers.writes import CLAIM, POD, Create
from volsched.model import api

Json = dict[str, Any]

MOST_BYTES: Final = 1 << 20
"""Of one object that is made for a Job: Kubernetes takes 1 MiB in a ConfigMap, and etcd 1.5 MiB of a pod together with
all that the API server adds to it."""

MOST_BYTES_ADDED: Final = 1 << 30
"""The most bytes that plugins add to all pods of a Job together: half of etcd's default size.

So one Job whose pods are each told of all others does not fill it.
"""


_LONGEST_HOST_NAME: Final = 63


class PodMaker:
    """Makes what belongs to a Job, for one look at it."""

    def __init__(self, job: api.Job, parts: JobParts) -> None:
        self._job = job
        self._parts = parts
        self._outfit = Outfit(job, parts)
        self._templates = {task.name: template for task, template in zip(job.spec.tasks, parts.templates, strict=True)}
        self._shared = tuple(jobs.shared_volumes(job))
        self._owner = msgspec.to_builtins(owner_reference(job))

    def pod(self, member: jobs.WantedPod, group: str) -> Create:
        """Return a pod to create, of a PodGroup. Its body is made on request."""
        return Create(POD, self._job.metadata.namespace, member.name, partial(self.body, member, group), is_own=True)

    def body(self, member: jobs.WantedPod, group: str) -> Json:
        """Return a pod to create: its template with all that is in it, and the data that makes it a member."""
        job, template = self._job, self._templates[member.task.name].read()
        meta, spec = template.get("metadata") or {}, template.get("spec") or {}
        spec["schedulerName"] = spec.get("schedulerName") or job.spec.scheduler_name
        if job.spec.priority_class_name:
            spec["priorityClassName"] = spec.get("priorityClassName") or job.spec.priority_class_name
        if spec.get("hostNetwork") and not spec.get("dnsPolicy"):
            spec["dnsPolicy"] = "ClusterFirstWithHostNet"
        self._mount(spec)
        self._outfit.equip(member, spec)
        return {
            "apiVersion": POD.group_version,
            "kind": POD.name,
            "metadata": {
                "name": member.name,
                "namespace": job.metadata.namespace,
                "labels": {**(meta.get("labels") or {}), **jobs.pod_labels(job, member)},
                "annotations": {**(meta.get("annotations") or {}), **jobs.pod_annotations(job, member, group)},
                "ownerReferences": [self._owner],
            },
            "spec": spec,
        }

    def _mount(self, spec: Json) -> None:
        """Give a pod the volumes that all pods of its Job share."""
        if not self._shared:
            return
        claims = [{"name": one.volume, "persistentVolumeClaim": {"claimName": one.claim}} for one in self._shared]
        spec["volumes"] = [*(spec.get("volumes") or ()), *claims]
        mounts = [{"name": one.volume, "mountPath": one.mount_path} for one in self._shared]
        for container in spec.get("containers") or ():
            container["volumeMounts"] = [*(container.get("volumeMounts") or ()), *mounts]

    def preparations(self) -> Iterator[Create]:
        """Yield the objects that a Job's pods need: its own claims, and objects of its plugins."""
        job = self._job
        for shared in self._shared:
            if shared.is_own:
                meta = {"name": shared.claim, "namespace": job.metadata.namespace, "ownerReferences": [self._owner]}
                spec = self._parts.claim(shared.place)
                body = {"apiVersion": CLAIM.group_version, "kind": CLAIM.name, "metadata": meta, "spec": spec}
                yield Create(CLAIM, job.metadata.namespace, shared.claim, body, is_own=True)
        yield from self._outfit.owned_objects()

    def misnamed(self) -> str:
        """Return the task whose pods could not have the host names by which they find each other."""
        for number, task in enumerate(self._job.spec.tasks if "svc" in self._job.spec.plugins else ()):
            longest = len(jobs.pod_name(self._job, task, max(0, task.replicas - 1)))
            if longest > _LONGEST_HOST_NAME and not self._templates[task.name].hostname:
                return (
                    f"spec.tasks[{number}].name: its pods would have names of {longest} characters, and as host names, "
                    f"which the plugin svc makes of them, {_LONGEST_HOST_NAME} at most; give the Job or the task a "
                    "shorter one"
                )
        return ""

    # -- how much that would be -----------------------------------------------------------------------------------

    def too_large(self) -> str:
        """Return why a Job requests more than Kubernetes takes. Nothing is made to find that out."""
        made = self._outfit.bytes_made()
        for plugin, size in made.items():
            if size > MOST_BYTES:
                return f"the plugin {plugin} would make an object of {_mib(size)}, {_mib(MOST_BYTES)} at most; {_FEWER}"
        total = 0
        for number, task in enumerate(self._job.spec.tasks):
            added = self._outfit.bytes_added(task)
            own, by_plugins = self._bytes(task), sum(added.values())
            total += task.replicas * by_plugins
            if task.replicas > 0 and own + by_plugins > MOST_BYTES:
                most = max(added, key=lambda name: added[name], default="")
                who = f", {_mib(added[most])} of it by the plugin {most}" if by_plugins > own else ""
                return (
                    f"spec.tasks[{number}]: a pod would have {_mib(own + by_plugins)}{who}, {_mib(MOST_BYTES)} at "
                    f"most; {_FEWER}"
                )
        if total > MOST_BYTES_ADDED:
            return f"plugins would add {_mib(total)} to its pods, {_mib(MOST_BYTES_ADDED)} at most; {_FEWER}"
        return ""

    def _bytes(self, task: api.TaskSpec) -> int:
        """Return how many bytes a pod has before plugins add to it, at most."""
        template = self._templates[task.name]
        mounts = sum(60 + len(one.mount_path) for one in self._shared)
        claims = sum(90 + len(one.claim) for one in self._shared)
        return len(template.text) + claims + mounts * template.containers


_FEWER: Final = "give the Job fewer replicas or plugins that add less, or make more Jobs"


def _mib(size: int) -> str:
    return f"{size / (1 << 20):.1f} MiB"
