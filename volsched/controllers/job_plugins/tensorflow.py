"""`tensorflow` gives pods `TF_CONFIG`: the hosts of each role, and which of them the pod is.

The form is that of tf.distribute; arguments after the plugin of that name in Volcano's
pkg/controllers/job/plugins/distributed-framework. It needs `svc`, which a Job that has it gets too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
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
    task_of,
)
from volsched.model import api

ROLES: Final = ("ps", "worker", "chief", "evaluator")

_PORT: Final = "port"


def _equip(setting: Setting, member: jobs.WantedPod, spec: Json) -> None:
    if _is_alone(setting.job):
        return
    config = _config(setting, member)
    for container in main_containers(spec):
        add_env(container, [{"name": "TF_CONFIG", "value": config}])


def _is_alone(job: api.Job) -> bool:
    """True if a Job has only one pod, which needs no other."""
    return sum(task.replicas for task in job.spec.tasks) == 1


def _config(setting: Setting, member: jobs.WantedPod) -> str:
    """Return the variables of one pod. The part for all pods is made once, as it grows with their number."""
    cluster = setting.once("cluster", lambda: _text(_cluster(setting)))
    roles = setting.once("own", lambda: {task.name: role for role, task in reversed(_roles(setting).items())})
    own = {"type": roles.get(member.task.name, member.task.name), "index": member.number}
    return f'{{"cluster":{cluster},"task":{_text(own)}}}'


def _text(value: Json) -> str:
    return json.dumps(value, separators=(",", ":"))


def _cluster(setting: Setting) -> Json:
    port = setting.flags.number(_PORT)
    return {role: [f"{host}:{port}" for host in setting.hosts.of(task)] for role, task in _roles(setting).items()}


def _roles(setting: Setting) -> dict[str, api.TaskSpec]:
    """Return the tasks of the roles that have pods."""
    found = {role: setting.tasks.get(setting.flags.text(role)) for role in ROLES}
    return {role: task for role, task in found.items() if task is not None and task.replicas}


def _adds(setting: Setting, task: api.TaskSpec) -> int:
    """Quotes count twice, as they are escaped in the pod."""
    cluster = setting.once("bytes", lambda: sum(setting.hosts.bytes(t, 12) for t in _roles(setting).values()))
    return (200 + len(task.name) + cluster) * setting.hosts.template(task).containers


def _faults(job: api.Job, flags: Values) -> Iterator[str]:
    missing = list(missing_tasks(job, flags, (), ROLES))
    yield from missing
    if not missing and not _is_alone(job) and not any(task_of(job, flags.text(role)) for role in ROLES):
        yield f"no task is {', '.join(ROLES[:-1])} or {ROLES[-1]}; say which is which, as --{ROLES[1]}=<task>"


TENSORFLOW: Final = JobPlugin((*(Flag(role, role) for role in ROLES), Flag(_PORT, 2222)), _equip, _adds, faults=_faults)
