"""A cluster under other names that decides alike and shows no secrets.

Every text is replaced unless it is public and decides (``public``). Other words take the place of its words
(``words``), so that the order of names stays, and composed names stay composed. The replacement is stated for each
field (``objects``), annotation (``notes``), argument (``settings``) and selector of devices (``expressions``).

Two passes go the same way: the first gathers words, the second replaces them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

import msgspec

from volsched.diagnose.anonymous.expressions import Expressions
from volsched.diagnose.anonymous.names import Names
from volsched.diagnose.anonymous.objects import Objects
from volsched.diagnose.anonymous.settings import Settings
from volsched.diagnose.anonymous.words import Words
from volsched.diagnose.cluster_snapshot import ClusterSnapshot
from volsched.model import api
from volsched.model.dra import api as dra
from volsched.model.dra.device import Device
from volsched.model.dra.reading import slice_of
from volsched.model.selectors import GREATER, LESS
from volsched.simulation.controllers import settled

__all__ = ["Names", "anonymised"]

ORIGIN: Final = "anonymised"
_INDEXED: Final = (api.Pod, api.PersistentVolumeClaim, dra.ResourceClaim)


def anonymised(known: ClusterSnapshot) -> tuple[ClusterSnapshot, Names]:
    """Return the cluster under other names, and which they are. Raises ConfigError."""
    objects = settled(_whole(found) for found in known.objects if not isinstance(found, api.ConfigMap))
    words = Words()
    indexed = {found.metadata.name for found in objects if isinstance(found, _INDEXED)}
    names = Names(words, indexed, dict(_composed(objects)), _numeric_keys(objects))
    plan = _Anonymiser(known, objects, names)
    plan.other()
    words.settle()
    return plan.other(), names


class _Anonymiser:
    """Goes through a cluster. All texts go through ``names``."""

    def __init__(self, known: ClusterSnapshot, objects: list[api.ApiObject], names: Names) -> None:
        self._known = known
        self._found = objects
        self._names = names
        expressions = Expressions(names, _devices(objects))
        kept = known.profile().kept_annotations.kinds.values()
        self._objects = Objects(names, expressions, lambda key: any(keys.covers(key) for keys in kept))
        self._settings = Settings(names, self._objects.other)

    def other(self) -> ClusterSnapshot:
        """Return the cluster as its names are now."""
        # slices last: by then it is known what selectors ask of devices
        slices = [place for place, found in enumerate(self._found) if isinstance(found, dra.ResourceSlice)]
        others = {place: self._objects.other(self._found[place]) for place in self._with_these_last(slices)}
        return replace(
            self._known,
            objects=tuple(others[place] for place in range(len(self._found))),
            configuration=self._settings.other(self._known.configuration),
            origin=ORIGIN,
            scheduler_names=tuple(map(self._names.name, self._known.scheduler_names)),
            default_queue=self._names.name(self._known.default_queue),
        )

    def _with_these_last(self, last: list[int]) -> Iterator[int]:
        """Yield the places of all objects, those in ``last`` at the end."""
        yield from (place for place in range(len(self._found)) if place not in set(last))
        yield from last


def _whole(found: api.ApiObject) -> api.ApiObject:
    """Return an object of resource.k8s.io in its own struct: that of a cluster was decoded without unneeded fields."""
    kind = dra.KINDS.get(type(found).__name__)
    if kind is None or type(found) is kind:
        return found
    return kind(*(getattr(found, name) for name in kind.__struct_fields__))


def _devices(objects: Iterable[api.ApiObject]) -> Iterator[Device]:
    for found in objects:
        if isinstance(found, dra.ResourceSlice):
            yield from slice_of(found).devices


def _composed(objects: Iterable[api.ApiObject]) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield names that controllers and the scheduler compose, up to a number at the end, with their parts."""
    for found in objects:
        name = found.metadata.name
        starts: list[str] = []
        ends: list[str] = []
        if isinstance(found, api.Pod):
            ends = [volume.name for volume in found.spec.volumes if volume.ephemeral is not None]
            ends += [use.name for use in found.spec.resource_claims if use.resource_claim_template_name]
        elif isinstance(found, api.Job):
            ends = [task.name for task in found.spec.tasks if task.name]
        elif isinstance(found, api.StatefulSet):
            starts = [template.metadata.name for template in found.spec.volume_claim_templates]
        yield from ((f"{name}-{end}", (name, end)) for end in ends)
        yield from ((f"{start}-{name}", (start, name)) for start in starts)


def _numeric_keys(objects: Iterable[api.ApiObject]) -> frozenset[str]:
    """Return the keys of labels and taints that some object compares as numbers."""
    return frozenset(key for found in objects for key in _compared(found))


def _compared(part: object) -> Iterator[str]:
    if isinstance(part, api.LabelSelectorRequirement | api.Toleration) and part.operator in (GREATER, LESS):
        yield part.key
    elif isinstance(part, msgspec.Struct):
        for name in part.__struct_fields__:
            yield from _compared(getattr(part, name))
    elif isinstance(part, tuple | list):
        for each in part:
            yield from _compared(each)
