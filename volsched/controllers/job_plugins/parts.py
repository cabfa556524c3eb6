"""What plugins of Volcano Jobs are made of: what they are asked, and the steps that several of them take."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec

from volsched.controllers import jobs
from volsched.controllers.job_plugins.flags import Flag, Values
from volsched.controllers.owners import owner_reference
from volsched.controllers.writes import Create, Kind
from volsched.model import api

Json: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Setting:
    """A completed Job, as it is and as the API server has it, and the arguments of one of its plugins."""

    job: api.Job
    raw: Json
    flags: Values

    @property
    def name(self) -> str:
        """The Job's name."""
        return self.job.metadata.name

    def companion(self, kind: Kind, name: str, fields: Json, **ways: bool) -> Create:
        """Return an object of the Job's own, in its namespace; `ways` are those of `Create`."""
        namespace = self.job.metadata.namespace
        owner = msgspec.to_builtins(owner_reference(self.job))
        meta = {"name": name, "namespace": namespace, "ownerReferences": [owner]}
        body = {"apiVersion": kind.group_version, "kind": kind.name, "metadata": meta, **fields}
        return Create(kind, namespace, name, body, **ways)


CompanionsFn: TypeAlias = Callable[[Setting], Iterable[Create]]
"""Returns the objects that pods of the Job need."""

EquipFn: TypeAlias = Callable[[Setting, jobs.Member, Json], None]
"""Adds to the spec of one pod what the plugin gives it."""

FaultsFn: TypeAlias = Callable[[api.Job, Values], Iterable[str]]
"""Says what is wrong with arguments that can be read one by one."""


def _nothing(*_: object) -> Iterable[Any]:
    return ()


@dataclass(frozen=True, slots=True)
class JobPlugin:
    """A plugin: its flags, and what it does."""

    flags: tuple[Flag, ...]
    equip: EquipFn
    companions: CompanionsFn = _nothing
    faults: FaultsFn = _nothing


# --- tasks and hosts ------------------------------------------------------------------------------------------------


def task_of(job: api.Job, name: str) -> api.TaskSpec | None:
    """Return the task of this name."""
    return next((task for task in job.spec.tasks if task.name == name), None)


def missing_tasks(job: api.Job, flags: Values, required: Iterable[str], others: Iterable[str] = ()) -> Iterable[str]:
    """Say which tasks a Job lacks: those that `required` flags name, and those that `others` name when given."""
    there = ", ".join(task.name for task in job.spec.tasks)
    for flag in (*required, *(flag for flag in others if flag in flags.given)):
        name = flags.text(flag)
        if task_of(job, name) is None:
            yield f"there is no task {name!r}; name one of {there} with --{flag}"


def hosts_of(job: api.Job, raw: Json) -> Mapping[str, tuple[str, ...]]:
    """Return for each task the host names of its pods in their order, each once, as `<hostname>.<subdomain>`."""
    found: dict[str, dict[str, None]] = {task.name: {} for task in job.spec.tasks}
    templates = {task.name: _pod_spec(given) for task, given in zip(job.spec.tasks, raw["spec"]["tasks"], strict=True)}
    for member in jobs.members(job):
        spec = templates[member.task.name]
        host, domain = spec.get("hostname") or member.name, spec.get("subdomain") or job.metadata.name
        found[member.task.name][f"{host}.{domain}"] = None
    return {task: tuple(names) for task, names in found.items()}


def _pod_spec(task: Json) -> Json:
    found: Json = (task.get("template") or {}).get("spec") or {}
    return found


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
    """Say that containers listen on a port, unless they say so themselves.

    On the host's network a port is the host's, which only one container of a pod may have.
    """
    for container in containers:
        known = list(container.get("ports") or ())
        if any(opened.get("containerPort") == port for opened in known):
            continue
        if spec.get("hostNetwork") and _opens(spec, port):
            continue
        container["ports"] = [*known, {"name": name, "containerPort": port}]


def _opens(spec: Json, port: int) -> bool:
    """Whether any container of a pod says that it listens on a port."""
    ports = (opened for container in all_containers(spec) for opened in container.get("ports") or ())
    return any(opened.get("containerPort") == port for opened in ports)
