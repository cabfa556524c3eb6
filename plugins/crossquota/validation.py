"""Faults of the annotations of crossquota on nodes and pods, found before scheduling.

All of them are warnings: an unreadable annotation is ignored, and a Node must not be refused for it.
"""

from __future__ import annotations

from plugins.crossquota.quota import (
    ANNOTATION,
    PERCENTAGE_ANNOTATION,
    QUOTA,
    doubt_about,
    field_of,
    has_annotations,
    read_amount,
    read_part,
)
from plugins.crossquota.scoring import MOST_ALLOCATED, STRATEGIES, STRATEGY
from volsched.plugin import describe, hint
from volsched.plugin.objects import INVALID, Faults, Surroundings, api, pods_in, warning


def validate(found: api.ApiObject, _: Surroundings) -> Faults:
    """Yield what is wrong with an object; see ``framework.validation.Validator``."""
    if isinstance(found, api.Node):
        for key, text in found.metadata.annotations.items():
            if key.startswith(ANNOTATION) and key != STRATEGY:
                yield from _of_node(key, text)
    for pod in pods_in(found):
        yield from pod.under(_of_pod(pod.metadata))


def _of_node(key: str, text: str) -> Faults:
    resource = key.removeprefix(PERCENTAGE_ANNOTATION).removeprefix(ANNOTATION)
    if not has_annotations(resource):
        message = f"a resource with a domain has its quota by arguments only ({QUOTA}{resource}); it is passed over"
        yield warning(field_of(key), INVALID, message)
        return
    try:
        if key.startswith(PERCENTAGE_ANNOTATION):
            read_part(text)
        else:
            amount = read_amount(resource, text)
            doubt = doubt_about(resource, amount) if amount is not None else None
            if doubt is not None:
                yield warning(field_of(key), INVALID, doubt)
    except ValueError as error:
        yield warning(field_of(key), INVALID, f"{error}; it is passed over")


def _of_pod(metadata: api.ObjectMeta) -> Faults:
    given = metadata.annotations.get(STRATEGY)
    if given is not None and given not in STRATEGIES:
        message = f"{describe(given)} is none of {', '.join(STRATEGIES)} and counts as {MOST_ALLOCATED}"
        yield warning(field_of(STRATEGY), INVALID, f"{message}{hint(given, STRATEGIES)}")
