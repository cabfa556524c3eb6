"""Objects that only controllers read, with only the fields that they need: there may be very many of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from volsched.model.api import ApiObject, ObjectMeta, PodGroup, Record

Json = dict[str, Any]


class Scale(Record, frozen=True):
    """How many pods a workload wants, or None if its kind does not state it."""

    replicas: int | None = None


class PodOwner(ApiObject, frozen=True):
    """The struct of each kind of owner, since lists do not state the kind of their items."""

    spec: Scale = Scale()


class ReplicaSet(PodOwner, frozen=True):
    """apps/v1 ReplicaSet."""


class StatefulSet(PodOwner, frozen=True):
    """apps/v1 StatefulSet."""


class DaemonSet(PodOwner, frozen=True):
    """apps/v1 DaemonSet."""


class Job(PodOwner, frozen=True):
    """batch/v1 Job."""


WORKLOADS: Final[Mapping[type[ApiObject], tuple[str, str]]] = {
    ReplicaSet: ("apps/v1", "ReplicaSet"),
    StatefulSet: ("apps/v1", "StatefulSet"),
    DaemonSet: ("apps/v1", "DaemonSet"),
    Job: ("batch/v1", "Job"),
}
"""Kinds of owners whose annotations a PodGroup inherits, so that it is not made before they are known."""


class ManagedEntry(Record, frozen=True):
    """Who wrote which fields of an object last."""

    manager: str = ""
    fields_v1: Any = None


class ManagedMeta(ObjectMeta, frozen=True):
    """Who an object is, and who wrote what of it."""

    managed_fields: tuple[ManagedEntry, ...] = ()


class ManagedPodGroup(PodGroup, frozen=True):
    """scheduling.volcano.sh/v1beta1 PodGroup with who wrote what of it."""

    metadata: ManagedMeta = ManagedMeta()


class CommandTarget(Record, frozen=True):
    """The object that a command is about."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""


class Command(ApiObject, frozen=True):
    """bus.volcano.sh/v1alpha1 Command."""

    action: str = ""
    target: CommandTarget = CommandTarget()


# --- Volcano Jobs as they are written ---------------------------------------------------------------------------------


class RawJob(ApiObject, frozen=True):
    """batch.volcano.sh/v1alpha1 Job with all fields of its templates: pods are made from it."""

    spec: Any = None
    status: Any = None

    @property
    def phase(self) -> str:
        """Return the phase of the Job; empty when it has none."""
        state = self.status.get("state") if isinstance(self.status, dict) else None
        phase = state.get("phase") if isinstance(state, dict) else None
        return phase if isinstance(phase, str) else ""

    def as_json(self) -> Json:
        """Return the Job as plain values."""
        return {"metadata": msgspec.to_builtins(self.metadata), "spec": self.spec, "status": self.status}


class GivenVariable(Record, frozen=True):
    """An environment variable of a container. The rest of it is handed on."""

    name: str = ""


class GivenPort(Record, frozen=True):
    """A port of a container."""

    container_port: int = 0


class GivenContainer(Record, frozen=True):
    """The fields of a container that plugins of Volcano Jobs read and change."""

    name: str = ""
    env: tuple[GivenVariable, ...] = ()
    ports: tuple[GivenPort, ...] = ()
    volume_mounts: tuple[Json, ...] = ()


class GivenPodSpec(Record, frozen=True):
    """The fields of a pod that the Job controller and its plugins read and change."""

    containers: tuple[GivenContainer, ...] = ()
    init_containers: tuple[GivenContainer, ...] = ()
    volumes: tuple[Json, ...] = ()
    hostname: str = ""
    subdomain: str = ""
    host_network: bool = False
    dns_policy: str = ""
    scheduler_name: str = ""
    priority_class_name: str = ""


class GivenTemplate(Record, frozen=True):
    """The template of a task."""

    metadata: ObjectMeta = ObjectMeta()
    spec: GivenPodSpec = GivenPodSpec()


class GivenTask(Record, frozen=True):
    """A task of a Job."""

    template: GivenTemplate = GivenTemplate()


class GivenVolume(Record, frozen=True):
    """A volume that the pods of a Job share. Its claim is handed on as it is."""

    volume_claim: Json | None = None


class GivenSpec(Record, frozen=True):
    """The parts of a Job that pods are made from without being understood: the CRD allows any fields there."""

    tasks: tuple[GivenTask, ...] = ()
    volumes: tuple[GivenVolume, ...] = ()


class GivenJob(ApiObject, frozen=True):
    """A Job whose templates have the form that pods can be made from."""

    spec: GivenSpec = GivenSpec()
