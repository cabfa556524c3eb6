"""PodGroups for pods that name none: their names, and their fields.

After Volcano's pkg/controllers/podgroup. A pod that has one of our scheduler names and no group-name annotation gets
the PodGroup of its controlling owner, so that all pods of one ReplicaSet, StatefulSet, DaemonSet or Job share one; a
pod without an owner gets its own. The PodGroup needs only the `GroupTemplate` of a pod; pods of one template share it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from volsched.controllers.owners import owner_reference
from volsched.mirror.reading import LONGEST_NAME, PREEMPTABLE, as_name
from volsched.model import api
from volsched.model.errors import FieldError
from volsched.model.held_nodes import EXPECTED_DURATION, RESERVE_AFTER
from volsched.model.pods import requests
from volsched.model.values.quantity import QuantityText, format_amount
from volsched.model.values.resources import Resources

QUEUE_NAME: Final = "scheduling.volcano.sh/queue-name"
GROUP_MIN_MEMBER: Final = "scheduling.volcano.sh/group-min-member"
TOPOLOGY_MODE: Final = "volcano.sh/network-topology-mode"
TOPOLOGY_TIER: Final = "volcano.sh/network-topology-highest-tier"
VOLCANO_PREFIX: Final = "volcano.sh/"
INHERITED: Final = (EXPECTED_DURATION, RESERVE_AFTER)
"""Annotations of ours that a workload gives to its PodGroup."""

DEFAULT_QUEUE: Final = "default"
_FROM_POD: Final[tuple[str, ...]] = (
    PREEMPTABLE,
    "volcano.sh/cooldown-time",
    "volcano.sh/revocable-zone",
    TOPOLOGY_MODE,
    TOPOLOGY_TIER,
)
_BUDGETS: Final[tuple[str, ...]] = ("volcano.sh/jdb-min-available", "volcano.sh/jdb-max-unavailable")
"""Of these the first that a pod has."""

_LABELS_FROM_POD: Final[tuple[str, ...]] = (PREEMPTABLE, "volcano.sh/cooldown-time")

LONGEST_INHERITED: Final = 4096
MOST_INHERITED: Final = 16_384
"""The most characters of one inherited annotation, and of all together.

There may be very many PodGroups of a workload or Job, and each keeps them. A longer one is not inherited.
"""

_TIER: Final = re.compile(r"[0-9]{1,9}")

Pairs = tuple[tuple[str, str], ...]


class GroupTemplate(msgspec.Struct, frozen=True, weakref=True):
    """The fields that a PodGroup takes from a pod."""

    queue: str = ""
    priority_class: str = ""
    request: Resources = Resources.EMPTY
    annotations: Pairs = ()
    labels: Pairs = ()


def group_template_of(pod: api.Pod) -> GroupTemplate:
    """Return what the PodGroup of a pod takes from it."""
    annotations, labels = pod.metadata.annotations, pod.metadata.labels
    budget = next((key for key in _BUDGETS if key in annotations), None)
    keys = _FROM_POD if budget is None else (*_FROM_POD, budget)
    return GroupTemplate(
        queue=as_name(annotations.get(QUEUE_NAME, "")),
        priority_class=pod.spec.priority_class_name,
        request=request_of(pod.spec),
        annotations=_pairs(annotations, keys),
        labels=_pairs(labels, _LABELS_FROM_POD),
    )


def _pairs(found: Mapping[str, str], keys: Iterable[str]) -> Pairs:
    return tuple((key, found[key]) for key in keys if key in found and len(found[key]) <= LONGEST_NAME)


def group_owner(pod: api.Pod) -> api.OwnerReference:
    """Return who owns the PodGroup of such a pod: the pod's controller, or the pod."""
    return pod.metadata.controller or owner_reference(pod)


def inherited(annotations: Mapping[str, str]) -> dict[str, str]:
    """Return the annotations of a workload that its PodGroup inherits, by key."""
    found: dict[str, str] = {}
    left = MOST_INHERITED
    for key, value in sorted(annotations.items()):
        if is_inherited(key) and len(value) <= LONGEST_INHERITED and len(key) + len(value) <= left:
            found[key] = value
            left -= len(key) + len(value)
    return found


def is_inherited(key: str) -> bool:
    """True if a PodGroup takes the annotation from its workload, or from its pods."""
    return key.startswith(VOLCANO_PREFIX) or key in INHERITED


def min_member_of(annotations: Mapping[str, str]) -> int:
    """Return how many pods of a workload have to start together; 1 if it states no valid number."""
    return min_member_in(annotations.get(GROUP_MIN_MEMBER, "")) or 1


def min_member_in(text: str) -> int | None:
    """Return the number of pods that an annotation states, None when it is nonsense."""
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
    return number or None


def plain_group(
    meta: api.ObjectMeta,
    group_template: GroupTemplate,
    owner: Mapping[str, str],
    *,
    default_queue: str = DEFAULT_QUEUE,
    inherit: bool = True,
) -> api.PodGroup:
    """Return the PodGroup for pods of one owner.

    `meta` has its name, namespace and owner; `owner` are the annotations of the workload, none for a bare pod.
    """
    members = min_member_of(owner)
    annotations = {**(inherited(owner) if inherit else {}), **dict(group_template.annotations)}
    return api.PodGroup(
        metadata=msgspec.structs.replace(meta, labels=dict(group_template.labels), annotations=annotations),
        spec=api.PodGroupSpec(
            min_member=members,
            queue=group_template.queue or default_queue,
            priority_class_name=group_template.priority_class,
            min_resources=quantities(group_template.request.scaled(members)),
            network_topology=topology_of(dict(group_template.annotations)),
        ),
        status=api.PodGroupStatus(phase="Pending"),
    )


def topology_of(annotations: Mapping[str, str]) -> api.NetworkTopology | None:
    """Return the network topology in the annotations of pods, None without one.

    A mode that is neither hard nor soft counts as hard, and a tier that is no number is left out, as in Volcano.
    """
    mode, tier = annotations.get(TOPOLOGY_MODE), annotations.get(TOPOLOGY_TIER)
    if mode is None and tier is None:
        return None
    highest = int(tier) if tier is not None and _TIER.fullmatch(tier) else None
    return api.NetworkTopology("soft" if (mode or "").lower() == "soft" else "hard", highest)


def admitted_queue(queue: str, of_namespace: str, default_queue: str = DEFAULT_QUEUE) -> str:
    """Return the queue of a new PodGroup: that of its namespace, if its own is only the default."""
    return of_namespace if of_namespace and queue in ("", default_queue) else queue


def request_of(spec: api.PodSpec) -> Resources:
    """Return the request of a pod; nothing if that cannot be read (the scheduler will report that)."""
    try:
        return requests.of_pod(api.Pod(spec=spec)).request.without("pods")
    except FieldError:
        return Resources.EMPTY


def quantities(amounts: Mapping[str, int]) -> dict[str, QuantityText]:
    """Return amounts as a resource list."""
    return {name: format_amount(name, amount) for name, amount in sorted(amounts.items())}
