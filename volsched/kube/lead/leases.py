"""Metadata of a scheduler on its Lease, which commands read.

label       volsched.io/lease: scheduler
annotation  volsched.io/scheduler-names       its scheduler names, separated by commas
annotation  volsched.io/default-queue         the queue of pods that name none
annotation  volsched.io/configuration         the source of its configuration: `ConfigMap <namespace>/<name>`, the
                                              path of a file, or `built-in default`
annotation  volsched.io/configuration-hash    of the text in force, as metrics show it

It is written with each renewal, so it follows the configuration within seconds, and costs no request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from volsched.kube.watch.resources import Resource
from volsched.model import api

LABEL: Final = "volsched.io/lease"
SCHEDULER: Final = "scheduler"
NAMES: Final = "volsched.io/scheduler-names"
QUEUE: Final = "volsched.io/default-queue"
CONFIGURATION: Final = "volsched.io/configuration"
HASH: Final = "volsched.io/configuration-hash"

CONFIG_MAP: Final = "ConfigMap "
"""The prefix of a configuration source that is a ConfigMap object; its namespace and name follow."""
BUILT_IN: Final = "built-in default"


def of_schedulers(namespace: str = "") -> Resource:
    """Return what lists the Leases of schedulers: in one namespace, or in all."""
    selector = f"{LABEL}={SCHEDULER}"
    return Resource(
        "Lease", "coordination.k8s.io/v1", "leases", api.Lease, namespace=namespace, label_selector=selector
    )


@dataclass(frozen=True, slots=True)
class LeaseInfo:
    """The metadata of one scheduler on its Lease. ``lease`` is `namespace/name`, ``renewed`` an RFC 3339 time."""

    lease: str
    names: tuple[str, ...]
    default_queue: str
    configuration: str
    hash: str
    renewed: str = ""

    @property
    def config_map(self) -> tuple[str, str] | None:
        """Namespace and name of the ConfigMap that the configuration is from; None when it is from elsewhere."""
        if not self.configuration.startswith(CONFIG_MAP):
            return None
        namespace, _, name = self.configuration.removeprefix(CONFIG_MAP).partition("/")
        return namespace, name


def metadata_of(
    names: Sequence[str], default_queue: str, source: str, text_hash: str
) -> Mapping[str, Mapping[str, str]]:
    """Return the labels and annotations by which a scheduler states this."""
    annotations = {NAMES: ",".join(names), QUEUE: default_queue, CONFIGURATION: source, HASH: text_hash}
    return {"labels": {LABEL: SCHEDULER}, "annotations": annotations}


def hash_in(annotations: Mapping[str, str], source: str) -> str:
    """Return the hash of the configuration from this source that was in force; empty if the Lease has none."""
    return annotations.get(HASH, "") if annotations.get(CONFIGURATION) == source else ""


def read(lease: api.Lease) -> LeaseInfo:
    """Return what a scheduler has stated on its Lease."""
    annotations = lease.metadata.annotations
    names = tuple(name for name in annotations.get(NAMES, "").split(",") if name)
    return LeaseInfo(
        lease.key,
        names,
        annotations.get(QUEUE, ""),
        annotations.get(CONFIGURATION, ""),
        annotations.get(HASH, ""),
        lease.spec.renew_time,
    )
