"""Plugins of Volcano Jobs that are played here, a module each.

A plugin makes objects that the pods of a Job need, and adds to the pods. All of it follows from the Job, so that it
comes out the same after a restart; a key pair, which must not, is made where it is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from volsched.controllers import jobs
from volsched.controllers.job_plugins.env import ENV
from volsched.controllers.job_plugins.flags import Values, read
from volsched.controllers.job_plugins.mpi import MPI
from volsched.controllers.job_plugins.parts import JobPlugin, Json, Setting
from volsched.controllers.job_plugins.pytorch import PYTORCH
from volsched.controllers.job_plugins.ssh import SSH
from volsched.controllers.job_plugins.svc import SVC
from volsched.controllers.job_plugins.tensorflow import TENSORFLOW
from volsched.controllers.writes import Create
from volsched.model import api

PLAYED: Final[Mapping[str, JobPlugin]] = {
    "env": ENV,
    "svc": SVC,
    "ssh": SSH,
    "pytorch": PYTORCH,
    "tensorflow": TENSORFLOW,
    "mpi": MPI,
}
"""In the order in which they add to a pod."""


def unsupported(job: api.Job) -> list[str]:
    """Return the plugins that a Job asks for and that are not played here."""
    return sorted(name for name in job.spec.plugins if name not in PLAYED)


def faults(job: api.Job) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with arguments of plugins: the plugin, and the words."""
    for name, plugin in PLAYED.items():
        if name in job.spec.plugins:
            values = _values(job, name)
            yield from ((name, problem) for problem in (*values.problems, *plugin.faults(job, values)))


def companions(job: api.Job, raw: Json) -> Iterator[Create]:
    """Yield the objects that a Job's plugins make beside its pods; `raw` is the Job as the API server has it."""
    for plugin, setting in _asked(job, raw):
        yield from plugin.companions(setting)


def equip(job: api.Job, raw: Json, member: jobs.Member, spec: Json) -> None:
    """Give a pod's spec what the plugins of its Job add."""
    for plugin, setting in _asked(job, raw):
        plugin.equip(setting, member, spec)


def _asked(job: api.Job, raw: Json) -> Iterator[tuple[JobPlugin, Setting]]:
    for name, plugin in PLAYED.items():
        if name in job.spec.plugins:
            yield plugin, Setting(job, raw, _values(job, name))


def _values(job: api.Job, name: str) -> Values:
    return read(PLAYED[name].flags, job.spec.plugins[name] or ())
