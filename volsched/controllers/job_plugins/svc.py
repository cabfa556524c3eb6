"""`svc` makes the pods of a Job find each other.

A headless Service, a ConfigMap with their names (mounted at /etc/volcano, and as variables), and a NetworkPolicy that
lets them talk. Names and arguments after Volcano's docs/user-guide/how_to_use_svc_plugin.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from volsched.controllers import jobs
from volsched.controllers.job_plugins.flags import Flag
from volsched.controllers.job_plugins.parts import (
    JobPlugin,
    Json,
    Setting,
    add_env,
    add_volume,
    all_containers,
)
from volsched.controllers.writes import CONFIG_MAP, NETWORK_POLICY, SERVICE, Create
from volsched.model import api

MOUNT_PATH: Final = "/etc/volcano"

_NOT_READY: Final = "publish-not-ready-addresses"
_NO_POLICY: Final = "disable-network-policy"
_INJECT: Final = "inject-hosts-env"


def _owned_objects(setting: Setting) -> Iterator[Create]:
    yield setting.owned_object(SERVICE, setting.name, {"spec": _service(setting)})
    yield setting.owned_object(CONFIG_MAP, _config_name(setting), {"data": dict(_host_data(setting))}, must_match=True)
    if not setting.flags.is_true(_NO_POLICY):
        yield setting.owned_object(NETWORK_POLICY, setting.name, {"spec": _network_policy(setting)})


def _equip(setting: Setting, member: jobs.WantedPod, spec: Json) -> None:
    spec["hostname"] = spec.get("hostname") or member.name
    spec["subdomain"] = spec.get("subdomain") or setting.name
    config = _config_name(setting)
    containers = all_containers(spec)
    add_volume(spec, containers, {"name": config, "configMap": {"name": config}}, {"mountPath": MOUNT_PATH})
    if setting.flags.is_true(_INJECT):
        variables = setting.once("variables", lambda: _injected(setting, config))
        for container in containers:
            add_env(container, variables)


def _injected(setting: Setting, config: str) -> list[Json]:
    names = (name for task in setting.job.spec.tasks for name in _variables(task))
    return [{"name": name, "valueFrom": {"configMapKeyRef": {"name": config, "key": name}}} for name in names]


def _adds(setting: Setting, task: api.TaskSpec) -> int:
    config = len(_config_name(setting))
    injected = setting.once("bytes", lambda: _bytes_injected(setting, config)) if setting.flags.is_true(_INJECT) else 0
    return 500 + 2 * config + (60 + config + injected) * setting.hosts.template(task).all_containers


def _bytes_injected(setting: Setting, config: int) -> int:
    return sum(2 * (80 + config + 2 * len(task.name) + 20) for task in setting.job.spec.tasks)


def _makes(setting: Setting) -> int:
    return sum(2 * setting.hosts.bytes(task, 2) + 3 * len(task.name) + 60 for task in setting.job.spec.tasks)


def _config_name(setting: Setting) -> str:
    return f"{setting.name}-svc"


def _selector(setting: Setting) -> Json:
    return {jobs.JOB_NAME: setting.name, jobs.JOB_NAMESPACE: setting.job.metadata.namespace}


def _service(setting: Setting) -> Json:
    spec: Json = {
        "clusterIP": "None",
        "selector": _selector(setting),
        "ports": [{"name": "placeholder-volcano", "port": 1, "protocol": "TCP", "targetPort": 1}],
    }
    if setting.flags.is_true(_NOT_READY):
        spec["publishNotReadyAddresses"] = True
    return spec


def _network_policy(setting: Setting) -> Json:
    pods = {"matchLabels": _selector(setting)}
    return {"podSelector": pods, "ingress": [{"from": [{"podSelector": pods}]}], "policyTypes": ["Ingress"]}


def _host_data(setting: Setting) -> Mapping[str, str]:
    """Return the host names of each task, as a file and as variables."""
    found: dict[str, str] = {}
    for task in setting.job.spec.tasks:
        names = setting.hosts.of(task)
        hosts, number = _variables(task)
        found[f"{_plain(task)}.host"] = "\n".join(names)
        found[hosts] = ",".join(names)
        found[number] = str(len(names))
    return found


def _variables(task: api.TaskSpec) -> tuple[str, str]:
    """Return the variables that have the hosts of a task, and how many there are."""
    name = _plain(task).upper()
    return f"VC_{name}_HOSTS", f"VC_{name}_NUM"


def _plain(task: api.TaskSpec) -> str:
    """Return a task's name as variables can have it, and as Volcano names its file."""
    return task.name.replace("-", "_")


SVC: Final = JobPlugin(
    (Flag(_NOT_READY, False), Flag(_NO_POLICY, False), Flag(_INJECT, True)), _equip, _adds, _owned_objects, _makes
)
