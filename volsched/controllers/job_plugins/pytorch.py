"""`pytorch` gives pods the environment variables of torch.distributed.

    MASTER_ADDR, MASTER_PORT   the address of the first pod of the master's task
    WORLD_SIZE                 the number of pods of master and workers
    RANK                       the pod's number among them, the master's first

Names and arguments after Volcano's docs/user-guide/how_to_use_pytorch_plugin.md. It needs `svc`, which a Job that has
it gets too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from volsched.controllers import jobs
from volsched.controllers.job_plugins.flags import Flag, Values
from volsched.controllers.job_plugins.parts import (
    JobPlugin,
    Json,
    Setting,
    add_env,
    main_containers,
    missing_tasks,
    named_task,
    open_port,
    task_of,
)
from volsched.model import api

LONGEST_WAIT: Final = 7 * 24 * 3600
"""The longest configurable wait of workers for the master, in seconds."""

_MASTER: Final = "master"
_WORKER: Final = "worker"
_PORT: Final = "port"
_WAIT: Final = "wait-master-enabled"
_WAIT_SECONDS: Final = "wait-master-timeout"
_WAIT_IMAGE: Final = "wait-master-image"
_WAITER: Final = "wait-for-master"


def _equip(setting: Setting, member: jobs.WantedPod, spec: Json) -> None:
    flags, master = setting.flags, named_task(setting, _MASTER)
    port, address = flags.number(_PORT), setting.hosts.first(master)
    world = setting.once("world", lambda: _world(setting))
    variables = {"MASTER_ADDR": address, "MASTER_PORT": str(port), "WORLD_SIZE": str(world)}
    rank = _rank(setting, member, master)
    if rank is not None:
        variables["RANK"] = str(rank)
    containers = main_containers(spec)
    open_port(spec, containers, "pytorchjob-port", port)
    for container in containers:
        add_env(container, [{"name": name, "value": value} for name, value in variables.items()])
    if flags.is_true(_WAIT) and member.task.name == flags.text(_WORKER):
        _let_wait(setting, spec, address)


def _adds(setting: Setting, task: api.TaskSpec) -> int:
    address = len(setting.hosts.first(named_task(setting, _MASTER)))
    waiter = 800 + 3 * address + len(setting.flags.text(_WAIT_IMAGE)) if setting.flags.is_true(_WAIT) else 0
    return (250 + address) * setting.hosts.template(task).containers + waiter


def _world(setting: Setting) -> int:
    """Return how many pods take part. Other tasks of the Job do not."""
    roles = {setting.flags.text(_MASTER), setting.flags.text(_WORKER)}
    return sum(task.replicas for task in setting.job.spec.tasks if task.name in roles)


def _rank(setting: Setting, member: jobs.WantedPod, master: api.TaskSpec) -> int | None:
    if member.task.name == master.name:
        return member.number
    return member.number + master.replicas if member.task.name == setting.flags.text(_WORKER) else None


def _let_wait(setting: Setting, spec: Json, address: str) -> None:
    """Have a pod wait until its master listens. It fails after that time, and the Job's policies apply."""
    before = list(spec.get("initContainers") or ())
    if any(container.get("name") == _WAITER for container in before):
        return
    script = _script(address, setting.flags.number(_PORT), setting.flags.number(_WAIT_SECONDS))
    waiter = {
        "name": _WAITER,
        "image": setting.flags.text(_WAIT_IMAGE),
        "command": ["sh", "-c", script],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    spec["initContainers"] = [*before, waiter]


def _script(address: str, port: int, seconds: int) -> str:
    """Return what waits: with netcat, or with bash where an image has only that."""
    return (
        f"end=$(($(date +%s) + {seconds})); "
        f"until nc -z -w 2 {address} {port} 2>/dev/null || "
        f"timeout 2 bash -c ': < /dev/tcp/{address}/{port}' 2>/dev/null; do "
        f'if [ "$(date +%s)" -ge "$end" ]; then '
        f"echo 'the master {address}:{port} did not listen within {seconds}s' >&2; exit 1; fi; "
        "sleep 1; done"
    )


def _faults(job: api.Job, flags: Values) -> Iterable[str]:
    yield from missing_tasks(job, flags, (_MASTER,), (_WORKER,))
    master = task_of(job, flags.text(_MASTER))
    if master is not None and master.replicas < 1:
        yield f"task {master.name!r} has no replicas, so there is no master; give it one"


PYTORCH: Final = JobPlugin(
    (
        Flag(_MASTER, "master"),
        Flag(_WORKER, "worker"),
        Flag(_PORT, 23456),
        Flag(_WAIT, False),
        Flag(_WAIT_SECONDS, 300, most=LONGEST_WAIT),
        Flag(_WAIT_IMAGE, "busybox:1.36.1"),
    ),
    _equip,
    _adds,
    faults=_faults,
)
