"""Features of Volcano that volsched lacks: rules that keep a job waiting, and settings without effect; all warnings."""

from __future__ import annotations

from volsched.controllers.grouping import TOPOLOGY_MODE, TOPOLOGY_TIER, topology_of
from volsched.framework.validation import INVALID, NOT_SUPPORTED, Faults, Surroundings, pods_in, warning
from volsched.model import api, labels
from volsched.model.unserved import ignored_by, ignored_by_pod, is_hard, rules_of_group, rules_of_job


def unserved_faults(found: api.ApiObject, beside: Surroundings) -> Faults:
    """Yield a warning for each rule that keeps the pods of an object waiting."""
    if not beside.places(found):
        return
    if isinstance(found, api.PodGroup | api.Job):
        rules = rules_of_group(found.spec) if isinstance(found, api.PodGroup) else rules_of_job(found.spec)
        for rule in rules:
            yield warning(rule.field, NOT_SUPPORTED, rule.message)
        return
    for pod in pods_in(found):
        yield from pod.under(_of_pod(pod.metadata))


def _of_pod(metadata: api.ObjectMeta) -> Faults:
    """Yield a warning for a pod whose PodGroup gets a hard topology."""
    if not is_hard(topology_of(metadata.annotations)):
        return
    key = TOPOLOGY_MODE if TOPOLOGY_MODE in metadata.annotations else TOPOLOGY_TIER
    message = (
        "asks for a hard network topology, and volsched knows no HyperNodes, so the pods wait; leave it out, or set "
        f"{TOPOLOGY_MODE} to soft, which has no effect"
    )
    yield warning(f"metadata.annotations[{key}]", NOT_SUPPORTED, message)


def ignored_faults(found: api.ApiObject) -> Faults:
    """Yield a warning for each thing that an object, or its pods, states in vain."""
    for wish in ignored_by(found):
        yield warning(wish.field, NOT_SUPPORTED, f"has no effect: {wish.message}")
    for pod in pods_in(found):
        ignored = ignored_by_pod(pod.metadata)
        yield from pod.under(warning(wish.field, NOT_SUPPORTED, f"has no effect: {wish.message}") for wish in ignored)
        yield from pod.under(_of_labels(pod.metadata))
    if isinstance(found, api.PodGroup):
        yield from _of_labels(found.metadata)


def _of_labels(metadata: api.ObjectMeta) -> Faults:
    if labels.are_too_many(metadata.labels):
        yield warning("metadata.labels", INVALID, f"{labels.TOO_MANY}; {labels.FIRST}")
