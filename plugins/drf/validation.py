"""What is wrong with annotations of Queues that say where these are in the hierarchy of `drf`."""

from __future__ import annotations

from typing import Final

from plugins.drf.places import HIERARCHY, WEIGHTS, differs, place_of, way_of
from volsched.plugin import ROOT
from volsched.plugin.objects import INVALID, NOT_SUPPORTED, Faults, Surroundings, api, warning

NOT_READ: Final = "the plugin drf alone reads it, with enableHierarchy, and no configuration names drf; use spec.parent"


def validate(found: api.ApiObject, beside: Surroundings) -> Faults:
    """Yield a warning for what does not count of a queue's annotations."""
    if not isinstance(found, api.Queue):
        return
    annotations, parent = found.metadata.annotations, found.spec.parent
    way = way_of(found.metadata.name, annotations)
    errors = [*way.errors]
    if way.is_stated and parent not in ("", ROOT):
        errors.extend(differs(annotations[HIERARCHY], place_of(way, beside.queues), parent))
    for error in errors:
        yield warning(error.path, INVALID, error.message)
    if beside.arguments_of is None or beside.arguments_of("drf") is None:
        for key in (HIERARCHY, WEIGHTS):
            if key in annotations:
                yield warning(f"metadata.annotations[{key}]", NOT_SUPPORTED, NOT_READ)
