"""Plugins of Volcano Jobs that are played here, a module each.

A plugin makes objects that the pods of a Job need, and adds to the pods. All of it follows from the Job, so that it
comes out the same after a restart; a key pair, which must not, is made where it is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from volsched.controllers import jobs
from volsched.controllers.job_parts import JobParts
from volsched.controllers.job_plugins.env import ENV
from volsched.controllers.job_plugins.flags import Values, read
from volsched.controllers.job_plugins.mpi import MPI
from volsched.controllers.job_plugins.parts import Hosts, JobPlugin, Json, Setting
from volsched.controllers.job_plugins.pytorch import PYTORCH
from volsched.controllers.job_plugins.ssh import SSH
from volsched.controllers.job_plugins.svc import SVC
from volsched.controllers.job_plugins.tensorflow import TENSORFLOW
from volsched.controllers.writes import Create
from volsched.model import api
from volsched.model.errors import shortened

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


OF_VOLCANO: Final = ("ray", "hcclrank")
"""Plugins of Volcano's own controllers that are not played here."""


def refusal(job: api.Job) -> str:
    """Return why a Job is not run for its plugins, and the way out; empty if all of them can be run."""
    missing = unsupported(job)
    if not missing:
        return ""
    known = ", ".join(PLAYED)
    return (
        f"spec.plugins: {shortened(', '.join(missing), 200)}: volsched plays only {known}; take "
        f"{'it' if len(missing) == 1 else 'them'} out, or run Volcano's own controllers"
    )


def faults(job: api.Job) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with arguments of plugins: the plugin, and the words."""
    for name, plugin in PLAYED.items():
        if name in job.spec.plugins:
            values = _values(job, name)
            yield from ((name, problem) for problem in (*values.problems, *plugin.faults(job, values)))


class Outfit:
    """The additions of a Job's plugins, for one look at it: the parts that are equal for all pods are made once."""

    def __init__(self, job: api.Job, parts: JobParts) -> None:
        self._hosts = Hosts(job, parts.templates)
        self._plugins = [
            (name, plugin, Setting(job, self._hosts, _values(job, name)))
            for name, plugin in PLAYED.items()
            if name in job.spec.plugins
        ]

    def owned_objects(self) -> Iterator[Create]:
        """Yield the objects that the plugins make beside pods."""
        for _, plugin, setting in self._plugins:
            yield from plugin.owned_objects(setting)

    def equip(self, member: jobs.WantedPod, spec: Json) -> None:
        """Give a pod's spec what the plugins add."""
        for _, plugin, setting in self._plugins:
            plugin.equip(setting, member, spec)

    def bytes_added(self, task: api.TaskSpec) -> Mapping[str, int]:
        """Return how many bytes each plugin adds to a pod of a task at most, without making them."""
        return {name: plugin.adds(setting, task) for name, plugin, setting in self._plugins}

    def bytes_made(self) -> Mapping[str, int]:
        """Return how many bytes the largest object has at most that each plugin makes beside pods."""
        return {name: plugin.makes(setting) for name, plugin, setting in self._plugins}


def _values(job: api.Job, name: str) -> Values:
    return read(PLAYED[name].flags, job.spec.plugins[name] or ())
