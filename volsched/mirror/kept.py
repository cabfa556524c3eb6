"""The annotations that the mirror keeps: its own, and those that plugins and actions declare."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from volsched.mirror import reading
from volsched.model import storage, unserved
from volsched.model.annotations import DECLARATIONS, AnnotationKeys, Declared, KeptAnnotations
from volsched.model.api import native_groups as native
from volsched.model.dra import api as dra
from volsched.model.held_nodes import DEFAULT_DURATION, EXPECTED_DURATION
from volsched.model.native_group import QUEUE_NAME
from volsched.model.queues.allowed_namespaces import ALLOWED_NAMESPACES

_OF_GROUPS: Final = (unserved.REVOCABLE_ZONE, unserved.NUMA_POLICY, QUEUE_NAME, EXPECTED_DURATION)
_CORE: Final[Mapping[str, tuple[str, ...]]] = {
    "Pod": (
        reading.GROUP_NAME,
        reading.ROLE,
        reading.TASK_PRIORITY,
        reading.PREEMPTABLE,
        reading.MIRROR,
        QUEUE_NAME,
        EXPECTED_DURATION,
    ),
    "PodGroup": _OF_GROUPS,
    native.KIND: _OF_GROUPS,
    native.WORKLOAD: (QUEUE_NAME,),
    "Namespace": (QUEUE_NAME,),
    "Queue": (ALLOWED_NAMESPACES, DEFAULT_DURATION),
    "ResourceClaim": (dra.EXTENDED_CLAIM,),
    "PersistentVolumeClaim": storage.CLAIM_ANNOTATIONS,
    "PersistentVolume": storage.CLAIM_ANNOTATIONS,
}


def kept_annotations(declared: Iterable[Declared]) -> KeptAnnotations:
    """Return the annotations that are kept of each kind, with those that are declared."""
    found = tuple(declared)
    return KeptAnnotations(
        {
            kind: AnnotationKeys(
                (
                    *_CORE.get(kind, ()),
                    *(key for one in found for name in DECLARATIONS.get(kind, ()) for key in one.get(name, ())),
                ),
                " or ".join(DECLARATIONS.get(kind, ())),
            )
            for kind in sorted({*_CORE, *DECLARATIONS})
        }
    )


class AnnotationReader:
    """Reads the kept annotations of objects; all of them until it is told which to keep."""

    def __init__(self, kept: KeptAnnotations | None) -> None:
        self.kept = kept

    def of(self, kind: str, annotations: dict[str, str]) -> Mapping[str, str]:
        """Return the kept annotations of an object, one copy of each text in memory."""
        return reading.shared(annotations) if self.kept is None else self.kept.of_kind(kind).of(annotations)
