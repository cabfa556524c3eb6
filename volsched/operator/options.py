"""The options of `volsched controllers`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from volsched.controllers.job_controller import PODS_AT_ONCE
from volsched.controllers.writes import GROUP, JOB, POD, QUEUE
from volsched.kube.client.credentials import Source
from volsched.kube.lead.elector import LeaseSettings
from volsched.kube.serve.connections import Network
from volsched.kube.watch.informer import SILENCE_SECONDS
from volsched.model.pods.limits import KEPT_BYTES_OF_CONTROLLERS
from volsched.operator.reading import MOST_BYTES
from volsched.operator.volcano import Signs
from volsched.operator.webhooks.listening import Listening

EVERY: Final = "*"

CONTROLLERS: Final = {
    "job-controller": (JOB.name,),
    "pg-controller": (POD.name, GROUP.name),
    "queue-controller": (QUEUE.name,),
}
"""Volcano's names of the controllers that there are, and the kinds that each looks after."""

ELSEWHERE: Final = (
    *("cronjob-controller", "gc-controller", "hyperNode-controller", "jobflow-controller", "jobtemplate-controller"),
    "sharding-controller",
)
"""Volcano's other controllers. Jobs are collected by `job-controller` here."""


def is_on(controller: str, words: Sequence[str]) -> bool:
    """True if `--controllers` switches a controller on, by Volcano's rule: the first word that names it decides."""
    for word in words:
        if word.lstrip("+-") == controller:
            return not word.startswith("-")
    return EVERY in words


@dataclass(frozen=True, slots=True)
class ControllerOptions:
    """All options of `volsched controllers`. Times are in seconds, see `volsched.cli.controllers`."""

    scheduler_names: tuple[str, ...] = ("volsched",)
    default_queue: str = "default"
    inherit_owner_annotations: bool = True
    workers: int = 32
    job_pods_at_once: int = PODS_AT_ONCE
    job_bytes: int = MOST_BYTES
    kept_bytes: int = KEPT_BYTES_OF_CONTROLLERS
    queue_command_namespaces: tuple[str, ...] = ()
    controllers: tuple[str, ...] = tuple(CONTROLLERS)
    volcano_grace: float = 60.0
    volcano: Signs = field(default_factory=Signs)
    leader_elect: bool = True
    lease: LeaseSettings = field(default_factory=lambda: LeaseSettings("volsched-system", "volsched-controllers"))
    source: Source = field(default_factory=Source)
    qps: float = 0.0
    burst: int = 5000
    listen_address: str = ":8080"
    metrics_auth: bool = False
    healthz_address: str = ":11251"
    node_address: tuple[Network, ...] = ()
    watch_silence: float = SILENCE_SECONDS
    webhooks: Listening | None = None
    webhook_strict: bool = False

    @property
    def command_namespaces(self) -> tuple[str, ...]:
        """Return the namespaces whose Commands are for Queues: volsched's own, and those that were named."""
        return tuple(dict.fromkeys((self.lease.namespace, *self.queue_command_namespaces)))

    def looks_after(self, kind: str) -> bool:
        """True if one of the controllers that are switched on looks after a kind."""
        return any(kind in CONTROLLERS[name] for name in self.controllers)
