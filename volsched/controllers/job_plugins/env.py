"""`env` tells each pod its number in its task.

Variables after Volcano's pkg/controllers/job/plugins/env.
"""

from __future__ import annotations

from typing import Final

from volsched.controllers import jobs
from volsched.controllers.job_plugins.parts import JobPlugin, Json, Setting, add_env, all_containers
from volsched.model import api

_INDEX_NAMES: Final = ("VC_TASK_INDEX", "VK_TASK_INDEX")


def _equip(_: Setting, member: jobs.WantedPod, spec: Json) -> None:
    for container in all_containers(spec):
        add_env(container, [{"name": name, "value": str(member.number)} for name in _INDEX_NAMES])


def _adds(setting: Setting, task: api.TaskSpec) -> int:
    return 120 * setting.hosts.template(task).all_containers


ENV: Final = JobPlugin((), _equip, _adds)
