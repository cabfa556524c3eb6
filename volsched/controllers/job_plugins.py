"""Plugins of Volcano Jobs that are played here: `env` and `svc`.

`env` tells each pod its number in its task. `svc` makes the pods of a Job find each other: a headless Service, a
ConfigMap with their names (mounted at /etc/volcano, and as variables), and a NetworkPolicy that lets them talk.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from volsched.controllers import jobs
from volsched.controllers.writes import CONFIG_MAP, NETWORK_POLICY, SERVICE, Create
from volsched.model import api

SUPPORTED: Final = ("env", "svc")
MOUNT_PATH: Final = "/etc/volcano"

Json = dict[str, Any]


def unsupported(job: api.Job) -> list[str]:
    """Return the plugins that a Job asks for and that are not played here."""
    return sorted(name for name in job.spec.plugins if name not in SUPPORTED)


def companions(job: api.Job, raw: Json, owner: Json) -> list[Create]:
    """Return the objects that a Job's plugins make beside its pods.

    `raw` is the Job as the API server has it, `owner` the reference to it.
    """
    if "svc" not in job.spec.plugins:
        return []
    made = [(SERVICE, _service(job)), (CONFIG_MAP, _config_map(job, raw))]
    if not _is_set(job, "disable-network-policy"):
        made.append((NETWORK_POLICY, _network_policy(job)))
    namespace = job.metadata.namespace
    result = []
    for kind, body in made:
        name = body["metadata"]["name"]
        body["metadata"] |= {"namespace": namespace, "ownerReferences": [owner]}
        body |= {"apiVersion": kind.group_version, "kind": kind.name}
        result.append(Create(kind, namespace, name, body, must_match=kind is CONFIG_MAP))
    return result


def equip(job: api.Job, raw: Json, member: jobs.Member, spec: Json) -> None:
    """Give a pod's spec what the plugins of its Job add."""
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    if "env" in job.spec.plugins:
        for container in containers:
            _add_env(container, [{"name": name, "value": str(member.number)} for name in _INDEX_NAMES])
    if "svc" in job.spec.plugins:
        spec["hostname"] = spec.get("hostname") or member.name
        spec["subdomain"] = spec.get("subdomain") or job.metadata.name
        config = _config_name(job)
        spec["volumes"] = [*(spec.get("volumes") or ()), {"name": config, "configMap": {"name": config}}]
        variables = [
            {"name": key, "valueFrom": {"configMapKeyRef": {"name": config, "key": key}}}
            for key in _host_data(job, raw)
            if not key.endswith(".host")
        ]
        for container in containers:
            _add_env(container, variables)
            mounts = container.get("volumeMounts") or ()
            container["volumeMounts"] = [*mounts, {"name": config, "mountPath": MOUNT_PATH}]


_INDEX_NAMES: Final = ("VC_TASK_INDEX", "VK_TASK_INDEX")


def _add_env(container: Json, variables: list[Json]) -> None:
    """Add variables; what the user has set himself stays."""
    known = list(container.get("env") or ())
    names = {variable.get("name") for variable in known}
    container["env"] = [*known, *(variable for variable in variables if variable["name"] not in names)]


def _is_set(job: api.Job, flag: str) -> bool:
    """Say whether a plugin's argument `--flag` or `--flag=true` is given."""
    given = [argument.lstrip("-") for argument in job.spec.plugins.get("svc") or ()]
    return flag in given or f"{flag}=true" in given


def _config_name(job: api.Job) -> str:
    return f"{job.metadata.name}-svc"


def _selector(job: api.Job) -> Json:
    return {jobs.JOB_NAME: job.metadata.name, jobs.JOB_NAMESPACE: job.metadata.namespace}


def _service(job: api.Job) -> Json:
    spec: Json = {
        "clusterIP": "None",
        "selector": _selector(job),
        "ports": [{"name": "placeholder-volcano", "port": 1, "protocol": "TCP", "targetPort": 1}],
    }
    if _is_set(job, "publish-not-ready-addresses"):
        spec["publishNotReadyAddresses"] = True
    return {"metadata": {"name": job.metadata.name}, "spec": spec}


def _config_map(job: api.Job, raw: Json) -> Json:
    return {"metadata": {"name": _config_name(job)}, "data": dict(_host_data(job, raw))}


def _network_policy(job: api.Job) -> Json:
    pods = {"matchLabels": _selector(job)}
    spec = {"podSelector": pods, "ingress": [{"from": [{"podSelector": pods}]}], "policyTypes": ["Ingress"]}
    return {"metadata": {"name": job.metadata.name}, "spec": spec}


def _host_data(job: api.Job, raw: Json) -> Mapping[str, str]:
    """Return the host names of each task, as a file and as variables."""
    hosts: dict[str, list[str]] = {task.name: [] for task in job.spec.tasks}
    templates = {task.name: _pod_spec(given) for task, given in zip(job.spec.tasks, raw["spec"]["tasks"], strict=True)}
    for member in jobs.members(job):
        spec = templates[member.task.name]
        host, domain = spec.get("hostname") or member.name, spec.get("subdomain") or job.metadata.name
        hosts[member.task.name].append(f"{host}.{domain}")
    found: dict[str, str] = {}
    for task, names in hosts.items():
        variable = task.upper().replace("-", "_")
        found[f"{task}.host"] = "\n".join(names)
        found[f"VC_{variable}_HOSTS"] = ",".join(names)
        found[f"VC_{variable}_NUM"] = str(len(names))
    return found


def _pod_spec(task: Json) -> Json:
    found: Json = (task.get("template") or {}).get("spec") or {}
    return found
