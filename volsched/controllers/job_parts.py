"""The templates of a Volcano Job's pods, as text: a Job may be large, and there may be many.

Templates may hold anything that the API server lets in, so they are passed on without being understood. The few fields
that are read of a template are beside its text.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec

from volsched.controllers.objects import GivenJob, GivenPodSpec

Json = dict[str, Any]


class TaskTemplate(NamedTuple):
    """The template of a task's pods, as JSON, and its names and containers."""

    text: bytes = b"{}"
    hostname: str = ""
    subdomain: str = ""
    containers: int = 0
    init_containers: int = 0

    @property
    def all_containers(self) -> int:
        """Return how many containers a pod has, init containers included."""
        return self.containers + self.init_containers

    def read(self) -> Json:
        """Return it as plain values of the caller's own."""
        return dict(msgspec.json.decode(self.text))


class JobParts(NamedTuple):
    """The templates of a Job's tasks, and the specs of the claims that it brings (empty without any)."""

    templates: tuple[TaskTemplate, ...] = ()
    claims: tuple[bytes, ...] = ()

    def claim(self, place: int) -> Json:
        """Return the spec of a claim."""
        return dict(msgspec.json.decode(self.claims[place]))


NO_PARTS: Final = JobParts()


def parts_of(spec: Json, given: GivenJob) -> JobParts:
    """Return the parts of a Job: its spec as it is written, and the read fields."""
    templates = tuple(
        _template(task.get("template") or {}, known.template.spec)
        for task, known in zip(spec.get("tasks") or (), given.spec.tasks, strict=True)
    )
    claims = tuple(
        b"" if claim is None else msgspec.json.encode(claim)
        for claim in (volume.get("volumeClaim") for volume in spec.get("volumes") or ())
    )
    return JobParts(templates, claims)


def _template(template: Json, spec: GivenPodSpec) -> TaskTemplate:
    return TaskTemplate(
        msgspec.json.encode(template), spec.hostname, spec.subdomain, len(spec.containers), len(spec.init_containers)
    )
