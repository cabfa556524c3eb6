"""Annotations and labels by which Volcano decides and volsched does not, with their effect there.

The page docs/configuration.md lists all that Volcano reads; these cause warnings, beside those of
`volsched/model/unserved.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from volsched.framework.validation import NOT_SUPPORTED, Faults, warning
from volsched.mirror.reading import GROUP_NAME
from volsched.model import api

_CDP: Final = "in Volcano the plugin cdp keeps pods from being evicted for so long"
_TDM: Final = "it belongs to Volcano's plugin tdm"
_TASK_TOPOLOGY: Final = "it belongs to Volcano's plugin task-topology; write podAffinity in the pods"
_GROUP: Final = f"name the PodGroup in {GROUP_NAME}"
_VGPU: Final = "it belongs to Volcano's plugin deviceshare; cards that containers share are the plugin mgpu"

NOT_READ: Final[Mapping[str, str]] = {
    "volcano.sh/cooldown-time": _CDP,
    "volcano.sh/jdb-min-available": f"{_TDM}; write a PodDisruptionBudget",
    "volcano.sh/jdb-max-unavailable": f"{_TDM}; write a PodDisruptionBudget",
    "volcano.sh/task-topology": _TASK_TOPOLOGY,
    "volcano.sh/task-topology-affinity": _TASK_TOPOLOGY,
    "volcano.sh/task-topology-anti-affinity": _TASK_TOPOLOGY,
    "volcano.sh/task-topology-task-order": _TASK_TOPOLOGY,
    "volcano.sh/overcommit-factor": "queues have no factors of their own; the plugin overcommit has one for all",
    "volcano.sh/dequeue-strategy": "jobs that do not fit are passed over, which is the strategy traverse",
    "volcano.sh/nodegroup-name": "it belongs to Volcano's plugin nodegroup; write nodeAffinity in the pods",
    "volcano.sh/offline-job-evicting": "nodes on which Volcano's agent evicts take pods; cordon them",
    "volcano.sh/vgpu-mode": _VGPU,
    "scheduling.volcano.sh/group-name": _GROUP,
    "scheduling.volcano.sh/group-min-resources": "minResources of a PodGroup follow from what its pods request",
    "scheduling.volcano.sh/queue-allocation-gate": "write the scheduling gate of that name in the pod itself",
}
"""Keys, and what to know or do about each."""

_INSTEAD: Final[Mapping[str, str]] = {"scheduling.volcano.sh/group-name": GROUP_NAME}
"""A key with the same meaning that is read: beside it there is no warning."""


def unread_keys(metadata: api.ObjectMeta) -> Faults:
    """Yield a warning for each annotation and label by which Volcano decides and volsched does not."""
    for field, texts in (("annotations", metadata.annotations), ("labels", metadata.labels)):
        for key in sorted(texts.keys() & NOT_READ.keys()):
            if _INSTEAD.get(key) not in metadata.annotations:
                yield warning(f"metadata.{field}[{key}]", NOT_SUPPORTED, f"volsched does not read it: {NOT_READ[key]}")
