"""`mpi` gives the master of an MPI job the hosts of its workers, and sets the port of their sshd.

Names and arguments after Volcano's docs/user-guide/how_to_use_mpi_plugin.md. It needs `svc` and `ssh`, which a Job that
has it gets too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from volsched.controllers import jobs
from volsched.controllers.job_plugins.flags import Flag, Values, read
from volsched.controllers.job_plugins.parts import (
    JobPlugin,
    Json,
    Setting,
    add_env,
    all_containers,
    missing_tasks,
    named_task,
    open_port,
)
from volsched.model import api

_MASTER: Final = "master"
_WORKER: Final = "worker"
_PORT: Final = "port"


def sshd_port(job: api.Job) -> int:
    """Return the port that the plugin's arguments in a Job name."""
    return read(MPI.flags, job.spec.plugins.get("mpi") or ()).number(_PORT)


def _equip(setting: Setting, member: jobs.WantedPod, spec: Json) -> None:
    flags, containers = setting.flags, all_containers(spec)
    open_port(spec, containers, "mpijob-port", flags.number(_PORT))
    if member.task.name == flags.text(_MASTER):
        workers = setting.once("workers", lambda: ",".join(setting.hosts.of(named_task(setting, _WORKER))))
        for container in containers:
            add_env(container, [{"name": "MPI_HOST", "value": workers}])


def _adds(setting: Setting, task: api.TaskSpec) -> int:
    is_master = task.name == setting.flags.text(_MASTER)
    workers = setting.hosts.bytes(named_task(setting, _WORKER), 1) if is_master else 0
    return (100 + workers) * setting.hosts.template(task).all_containers


def _faults(job: api.Job, flags: Values) -> Iterable[str]:
    return missing_tasks(job, flags, (_MASTER, _WORKER))


MPI: Final = JobPlugin(
    (Flag(_MASTER, "master"), Flag(_WORKER, "worker"), Flag(_PORT, 22)), _equip, _adds, faults=_faults
)
