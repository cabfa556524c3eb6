"""A job of a replay: its submission, its duration, and its requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from volsched.controllers.grouping import request_of
from volsched.model import api
from volsched.model.values.resources import Resources

YEAR: Final = 365.25 * 86400.0
LONGEST_TRACE: Final = 10 * YEAR
"""The seconds after the first in which jobs may come: usage is reported by hour."""

LONGEST_JOB: Final = 100 * YEAR
"""Seconds for which a job may run."""

MOST_PODS: Final = 200_000
"""The most pods of jobs that have come and are not over: more than a Kubernetes cluster has."""

EXPECTED_DURATION: Final = "volsched.io/expected-duration"
"""The annotation with the declared duration of a job, as Go writes it."""


@dataclass(frozen=True, slots=True)
class Role:
    """Equal pods of a job. ``name`` is their task role, empty when the job has none; ``request`` is that of one pod."""

    template: api.PodTemplateSpec
    request: Resources
    count: int
    name: str = ""

    @classmethod
    def of(cls, template: api.PodTemplateSpec, count: int, name: str = "") -> Role:
        """Return pods of a template."""
        return cls(template, request_of(template.spec), count, name)


@dataclass(frozen=True)
class ReplayJob:
    """A job: ``submit`` in seconds of the replay, ``duration`` and ``declared`` in seconds; declared None: unknown.

    The job runs from the start of the last pod that it needs (``min_pods``, and ``min_roles`` of each role) for its
    duration, and then all of its pods are over.
    """

    name: str
    namespace: str
    queue: str
    submit: float
    duration: float
    roles: tuple[Role, ...]
    min_pods: int
    declared: float | None = None
    priority_class: str = ""
    min_roles: Mapping[str, int] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    network_topology: api.NetworkTopology | None = None

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @cached_property
    def pods(self) -> int:
        """Return how many pods the job has."""
        return sum(role.count for role in self.roles)

    @cached_property
    def request(self) -> Resources:
        """Return the request of all pods together."""
        return Resources.sum_of(role.request.scaled(role.count) for role in self.roles)

    def least(self) -> Resources:
        """Return the request of the pods that the job needs: of each role its own minimum, in order."""
        left, needed = self.min_pods, []
        for role in self.roles:
            taken = min(left, self.min_roles.get(role.name, role.count))
            needed.append(role.request.scaled(taken))
            left -= taken
        return Resources.sum_of(needed)

    def members(self) -> Iterator[tuple[str, Role]]:
        """Yield the name of each pod and its role."""
        numbers = iter(range(self.pods))
        for role in self.roles:
            for _ in range(role.count):
                yield f"{self.name}-{next(numbers)}", role
