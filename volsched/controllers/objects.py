"""Objects that only controllers read, with only the fields that they need: there may be very many of them."""

from __future__ import annotations

from volsched.model.api import ApiObject, Record


class Scale(Record, frozen=True):
    """How many pods a workload wants; None where its kind does not say so."""

    replicas: int | None = None


class Workload(ApiObject, frozen=True):
    """A ReplicaSet, StatefulSet, DaemonSet or batch/v1 Job."""

    spec: Scale = Scale()


class LeaseSpec(Record, frozen=True):
    """Who holds a Lease, and when it was renewed last."""

    holder_identity: str = ""
    renew_time: str = ""
    lease_transitions: int = 0


class Lease(ApiObject, frozen=True):
    """coordination.k8s.io/v1 Lease."""

    spec: LeaseSpec = LeaseSpec()


class CommandTarget(Record, frozen=True):
    """The object that a command is about."""

    kind: str = ""
    name: str = ""
    uid: str = ""


class Command(ApiObject, frozen=True):
    """bus.volcano.sh/v1alpha1 Command."""

    action: str = ""
    target: CommandTarget = CommandTarget()
