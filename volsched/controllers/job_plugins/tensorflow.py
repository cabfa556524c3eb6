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
    hosts_of,
    main_containers,
    missing_tasks,
    task_of,
)
from volsched.model import api

ROLES: Final = ("ps", "worker", "chief", "evaluator")

_PORT: Final = "port"


def _equip(setting: Setting, member: jobs.Member, spec: Json) -> None:
    if _is_alone(setting.job):
        return
    config = json.dumps(_config(setting, member), separators=(",", ":"))
    for container in main_containers(spec):
        add_env(container, [{"name": "TF_CONFIG", "value": config}])


def _is_alone(job: api.Job) -> bool:
    """Whether a Job has but one pod, which needs nobody."""
    return sum(task.replicas for task in job.spec.tasks) == 1


def _config(setting: Setting, member: jobs.Member) -> Json:
    job, flags = setting.job, setting.flags
    tasks = {role: task for role in ROLES if (task := task_of(job, flags.text(role))) is not None and task.replicas}
    cluster = {
        role: [f"{host}:{flags.number(_PORT)}" for host in hosts_of(job, setting.raw, task)]
        for role, task in tasks.items()
    }
    own = next((role for role, task in tasks.items() if task.name == member.task.name), member.task.name)
    return {"cluster": cluster, "task": {"type": own, "index": member.number}}


def _faults(job: api.Job, flags: Values) -> Iterator[str]:
    missing = list(missing_tasks(job, flags, (), ROLES))
    yield from missing
    if not missing and not _is_alone(job) and not any(task_of(job, flags.text(role)) for role in ROLES):
        yield f"no task is {', '.join(ROLES[:-1])} or {ROLES[-1]}; say which is which, as --{ROLES[1]}=<task>"


TENSORFLOW: Final = JobPlugin((*(Flag(role, role) for role in ROLES), Flag(_PORT, 2222)), _equip, faults=_faults)
