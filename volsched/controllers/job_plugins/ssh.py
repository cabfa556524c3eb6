"""`ssh` lets the pods of a Job log in to each other without a password.

A Secret has a key pair that is the Job's alone, a ConfigMap the hosts in the form of ssh_config(5); pods have both in
one folder. Names and arguments after Volcano's docs/user-guide/how_to_use_ssh_plugin.md. The hosts are kept apart from
the keys, so that they can follow a Job that is scaled without the right to change Secrets.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from volsched.controllers import jobs
from volsched.controllers.job_plugins.flags import Flag, Values
from volsched.controllers.job_plugins.mpi import sshd_port
from volsched.controllers.job_plugins.parts import JobPlugin, Json, Setting, add_volume, all_containers
from volsched.controllers.writes import CONFIG_MAP, SECRET, Create
from volsched.model import api
from volsched.model.errors import shortened

PRIVATE: Final = "id_rsa"
PUBLIC: Final = "id_rsa.pub"
AUTHORIZED: Final = "authorized_keys"

_FOLDER: Final = ".ssh"
"""Inside the volume. It is mounted by itself: a volume's own folder may be written by all, and then sshd trusts no key
in it."""

_MODE: Final = 0o600
_CONFIG: Final = "config"
_PATH: Final = "ssh-key-file-path"
_PRIVATE_KEY: Final = "ssh-private-key"
_PUBLIC_KEY: Final = "ssh-public-key"
_PORT: Final = "ssh-port"


def _owned_objects(setting: Setting) -> Iterator[Create]:
    flags = setting.flags
    keys: Json = {"type": "Opaque", "immutable": True}
    if flags.text(_PRIVATE_KEY):
        public = flags.text(_PUBLIC_KEY)
        keys["stringData"] = {PRIVATE: flags.text(_PRIVATE_KEY), PUBLIC: public, AUTHORIZED: public}
        yield setting.owned_object(SECRET, _name(setting), keys)
    else:
        yield setting.owned_object(SECRET, _name(setting), keys, with_keys=True)
    yield setting.owned_object(
        CONFIG_MAP, _name(setting), {"data": {_CONFIG: _client_config(setting)}}, must_match=True
    )


def _equip(setting: Setting, _: jobs.WantedPod, spec: Json) -> None:
    name = _name(setting)
    sources = [{"secret": _items(name, PRIVATE, PUBLIC, AUTHORIZED)}, {"configMap": _items(name, _CONFIG)}]
    volume = {"name": name, "projected": {"defaultMode": _MODE, "sources": sources}}
    add_volume(spec, all_containers(spec), volume, {"mountPath": setting.flags.text(_PATH), "subPath": _FOLDER})


def _items(name: str, *keys: str) -> Json:
    return {"name": name, "items": [{"key": key, "path": f"{_FOLDER}/{key}"} for key in keys]}


def _name(setting: Setting) -> str:
    return f"{setting.name}-ssh"


def _client_config(setting: Setting) -> str:
    """Return the configuration of ssh: the hosts by their short names, without known keys, as pods are new."""
    port = _port(setting)
    lines = ["StrictHostKeyChecking no", "UserKnownHostsFile /dev/null"]
    for task in setting.job.spec.tasks:
        for name in setting.hosts.of(task):
            lines += [f"Host {name.partition('.')[0]}", f"  HostName {name}", f"  Port {port}"]
    return "\n".join(lines) + "\n"


def _adds(setting: Setting, task: api.TaskSpec) -> int:
    name, path = len(_name(setting)), len(setting.flags.text(_PATH))
    return 400 + 3 * name + (60 + name + path) * setting.hosts.template(task).all_containers


def _makes(setting: Setting) -> int:
    keys = len(setting.flags.text(_PRIVATE_KEY)) + 2 * len(setting.flags.text(_PUBLIC_KEY))
    return max(keys, sum(2 * setting.hosts.bytes(task, 20) for task in setting.job.spec.tasks))


def _port(setting: Setting) -> int:
    """Return the port of sshd: as stated here, else that of `mpi`."""
    if _PORT not in setting.flags.given and "mpi" in setting.job.spec.plugins:
        return sshd_port(setting.job)
    return setting.flags.number(_PORT)


def _faults(_: api.Job, flags: Values) -> Iterator[str]:
    if bool(flags.text(_PRIVATE_KEY)) != bool(flags.text(_PUBLIC_KEY)):
        yield f"--{_PRIVATE_KEY} and --{_PUBLIC_KEY} belong together; give both, or neither and a pair is made"
    if not flags.text(_PATH).startswith("/"):
        yield f"--{_PATH} must be an absolute path, not {shortened(flags.text(_PATH))!r}"


SSH: Final = JobPlugin(
    (Flag(_PATH, "/root/.ssh"), Flag(_PRIVATE_KEY, ""), Flag(_PUBLIC_KEY, ""), Flag(_PORT, 22)),
    _equip,
    _adds,
    _owned_objects,
    _makes,
    _faults,
)
