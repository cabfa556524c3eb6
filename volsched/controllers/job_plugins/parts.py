"""The common parts of plugins of Volcano Jobs: their questions, and steps that several of them take."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, TypeVar, cast

import msgspec

from volsched.controllers import jobs
from volsched.controllers.job_parts import TaskTemplate
from volsched.controllers.job_plugins.flags import Flag, Values
from volsched.controllers.owners import owner_reference
from volsched.controllers.writes import ApiKind, Create
from volsched.mirror.reading import seconds
from volsched.model import api
from volsched.model.errors import shortened

GARBAGE_SECONDS: Final = 120.0
"""The time after a Job was made in which objects of an earlier Job of its name may still exist."""

Json: TypeAlias = dict[str, Any]
T = TypeVar("T")


class Hosts:
    """The host names of a Job's pods, by task: made once for all pods that get them."""

    def __init__(self, job: api.Job, templates: Iterable[TaskTemplate]) -> None:
        self._job = job
        self._templates = {task.name: template for task, template in zip(job.spec.tasks, templates, strict=True)}
        self._names: dict[str, tuple[str, ...]] = {}

    def template(self, task: api.TaskSpec) -> TaskTemplate:
        """Return what a task's pods are made from."""
        return self._templates[task.name]

    def of(self, task: api.TaskSpec) -> tuple[str, ...]:
        """Return the host names of a task's pods in their order, each once, as `<hostname>.<subdomain>`."""
        if task.name not in self._names:
            names = (jobs.pod_name(self._job, task, number) for number in range(task.replicas))
            own, domain = self._templates[task.name].hostname, self._domain(task)
            shared = (own,) if task.replicas else ()
            self._names[task.name] = tuple(f"{name}.{domain}" for name in (shared if own else names))
        return self._names[task.name]

    def first(self, task: api.TaskSpec) -> str:
        """Return the host name of a task's first pod."""
        own = self._templates[task.name].hostname
        return f"{own or jobs.pod_name(self._job, task, 0)}.{self._domain(task)}"

    def number(self, task: api.TaskSpec) -> int:
        """Return how many there are, without making them."""
        return min(1, task.replicas) if self._templates[task.name].hostname else task.replicas

    def bytes(self, task: api.TaskSpec, around: int) -> int:
        """Return the most bytes of the names, with so many around each, without making them."""
        longest = len(self._templates[task.name].hostname) or len(jobs.pod_name(self._job, task, task.replicas))
        return self.number(task) * (longest + 1 + len(self._domain(task)) + around)

    def _domain(self, task: api.TaskSpec) -> str:
        return self._templates[task.name].subdomain or self._job.metadata.name


@dataclass(frozen=True, slots=True)
class Setting:
    """A completed Job, the host names of its pods, and the arguments of one of its plugins, for one look at it."""

    job: api.Job
    hosts: Hosts
    flags: Values
    _known: dict[str, Any] = field(default_factory=dict)

    def once(self, what: str, make: Callable[[], T]) -> T:
        """Return what is the same for all pods, made for the first of them."""
        if what not in self._known:
            self._known[what] = make()
        return cast("T", self._known[what])

    @property
    def tasks(self) -> Mapping[str, api.TaskSpec]:
        """Return the Job's tasks by name."""
        return self.once("tasks", lambda: {task.name: task for task in self.job.spec.tasks})

    @property
    def name(self) -> str:
        """Return the Job's name."""
        return self.job.metadata.name

    def owned_object(
        self, kind: ApiKind, name: str, fields: Json, *, must_match: bool = False, with_keys: bool = False
    ) -> Create:
        """Return an object of the Job's own, in its namespace; see `Create`."""
        namespace = self.job.metadata.namespace
        owner = msgspec.to_builtins(owner_reference(self.job))
        meta = {"name": name, "namespace": namespace, "ownerReferences": [owner]}
        body = {"apiVersion": kind.group_version, "kind": kind.name, "metadata": meta, **fields}
        until = (seconds(self.job.metadata.creation_timestamp) or 0.0) + GARBAGE_SECONDS
        return Create(kind, namespace, name, body, must_match, with_keys, is_own=True, garbage_until=until)


OwnedObjectsFn: TypeAlias = Callable[[Setting], Iterable[Create]]
"""Returns the objects that pods of the Job need."""

EquipFn: TypeAlias = Callable[[Setting, jobs.WantedPod, Json], None]
"""Adds to the spec of one pod what the plugin gives it."""

FaultsFn: TypeAlias = Callable[[api.Job, Values], Iterable[str]]
"""Finds faults of arguments that are right one by one."""

AddsFn: TypeAlias = Callable[[Setting, api.TaskSpec], int]
"""Returns how many bytes a pod of a task grows by at most, without making any."""

MakesFn: TypeAlias = Callable[[Setting], int]
"""Returns the most bytes of the largest object that is made beside the pods, without making it."""


def _nothing(*_: object) -> Iterable[Any]:
    return ()


def _no_bytes(*_: object) -> int:
    return 0


@dataclass(frozen=True, slots=True)
class JobPlugin:
    """A plugin: its flags, and what it does."""

    flags: tuple[Flag, ...]
    equip: EquipFn
    adds: AddsFn
    owned_objects: OwnedObjectsFn = _nothing
    makes: MakesFn = _no_bytes
    faults: FaultsFn = _nothing


# --- tasks ----------------------------------------------------------------------------------------------------------


def task_of(job: api.Job, name: str) -> api.TaskSpec | None:
    """Return the task of this name."""
    return next((task for task in job.spec.tasks if task.name == name), None)


def named_task(setting: Setting, flag: str) -> api.TaskSpec:
    """Return the task that a flag names. A Job that lacks it has a fault (`missing_tasks`) and is not run."""
    return setting.tasks[setting.flags.text(flag)]


def missing_tasks(job: api.Job, flags: Values, required: Iterable[str], others: Iterable[str] = ()) -> Iterable[str]:
    """Return the missing tasks of a Job: those that `required` flags name, and those that `others` name if given."""
    there = shortened(", ".join(task.name for task in job.spec.tasks), 200)
    for flag in (*required, *(flag for flag in others if flag in flags.given)):
        name = flags.text(flag)
        if task_of(job, name) is None:
            yield f"there is no task {shortened(name)!r}; name one of {there} with --{flag}"


# --- pods -----------------------------------------------------------------------------------------------------------


def main_containers(spec: Json) -> list[Json]:
    """Return the containers of a pod, those that come first left out."""
    return list(spec.get("containers") or ())


def all_containers(spec: Json) -> list[Json]:
    """Return the containers of a pod, those that come first included."""
    return [*(spec.get("initContainers") or ()), *main_containers(spec)]


def add_env(container: Json, variables: Iterable[Json]) -> None:
    """Add variables; what the user has set himself stays."""
    known = list(container.get("env") or ())
    names = {variable.get("name") for variable in known}
    container["env"] = [*known, *(variable for variable in variables if variable["name"] not in names)]


def add_volume(spec: Json, containers: Iterable[Json], volume: Json, mount: Json) -> None:
    """Add a volume to a pod, and its mount to containers."""
    spec["volumes"] = [*(spec.get("volumes") or ()), volume]
    for container in containers:
        container["volumeMounts"] = [*(container.get("volumeMounts") or ()), {"name": volume["name"], **mount}]


def open_port(spec: Json, containers: Iterable[Json], name: str, port: int) -> None:
    """Report that containers listen on a port, unless they declare it themselves.

    On the host's network a port is the host's, which only one container of a pod may have.
    """
    taken = bool(spec.get("hostNetwork")) and any(_opens(container, port) for container in all_containers(spec))
    for container in containers:
        if taken or _opens(container, port):
            continue
        container["ports"] = [*(container.get("ports") or ()), {"name": name, "containerPort": port}]
        taken = bool(spec.get("hostNetwork"))


def _opens(container: Json, port: int) -> bool:
    """True if a container states that it listens on a port."""
    return any(opened.get("containerPort") == port for opened in container.get("ports") or ())
