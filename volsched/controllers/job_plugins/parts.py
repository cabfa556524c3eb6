"""What plugins of Volcano Jobs are made of: what they are asked, and the steps that several of them take."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec

from volsched.cache.reading import seconds
from volsched.controllers import jobs
from volsched.controllers.job_plugins.flags import Flag, Values
from volsched.controllers.owners import owner_reference
from volsched.controllers.writes import Create, Kind
from volsched.model import api

GARBAGE_SECONDS: Final = 120.0
"""How long after a Job was made something may still be there of an earlier one of its name."""

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

    def companion(
        self, kind: Kind, name: str, fields: Json, *, must_match: bool = False, with_keys: bool = False
    ) -> Create:
        """Return an object of the Job's own, in its namespace; see `Create`."""
        namespace = self.job.metadata.namespace
        owner = msgspec.to_builtins(owner_reference(self.job))
        meta = {"name": name, "namespace": namespace, "ownerReferences": [owner]}
        body = {"apiVersion": kind.group_version, "kind": kind.name, "metadata": meta, **fields}
        until = (seconds(self.job.metadata.creation_timestamp) or 0.0) + GARBAGE_SECONDS
        return Create(kind, namespace, name, body, must_match, with_keys, is_own=True, garbage_until=until)


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


def named_task(setting: Setting, flag: str) -> api.TaskSpec:
    """Return the task that a flag names; a Job that lacks it has a fault (`missing_tasks`) and is not run."""
    return next(task for task in setting.job.spec.tasks if task.name == setting.flags.text(flag))


def missing_tasks(job: api.Job, flags: Values, required: Iterable[str], others: Iterable[str] = ()) -> Iterable[str]:
    """Say which tasks a Job lacks: those that `required` flags name, and those that `others` name when given."""
    there = ", ".join(task.name for task in job.spec.tasks)
    for flag in (*required, *(flag for flag in others if flag in flags.given)):
        name = flags.text(flag)
        if task_of(job, name) is None:
            yield f"there is no task {name!r}; name one of {there} with --{flag}"


def hosts_of(job: api.Job, raw: Json, task: api.TaskSpec) -> tuple[str, ...]:
    """Return the host names of a task's pods in their order, each once, as `<hostname>.<subdomain>`."""
    given = raw["spec"]["tasks"][job.spec.tasks.index(task)]
    spec: Json = (given.get("template") or {}).get("spec") or {}
    domain = spec.get("subdomain") or job.metadata.name
    if spec.get("hostname"):
        return (f"{spec['hostname']}.{domain}",) if task.replicas else ()
    return tuple(f"{jobs.pod_name(job, task, number)}.{domain}" for number in range(task.replicas))


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
