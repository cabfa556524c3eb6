"""The templates of pods: their annotations, and the removal of templates without pods."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from volsched.model import api
from volsched.model.annotations import AnnotationKeys
from volsched.model.cluster import Cluster
from volsched.model.pods.limits import PodLimits
from volsched.model.pods.template import PodTemplate, TemplateTable

POD_ANNOTATIONS: Final = "POD_ANNOTATIONS"
_SWEEP_EVERY: Final = 64
_MOST_CHARACTERS: Final = 8 << 20
"""Of new templates: with more of them a sweep is due however few pods they were, as a tenant's may be large."""


class Templates:
    """The table of templates of a cluster's pods."""

    def __init__(self, cluster: Cluster, limits: PodLimits) -> None:
        self._cluster = cluster
        self._table = TemplateTable(limits=limits, annotation_keys=AnnotationKeys((), POD_ANNOTATIONS))
        self._kept_annotations: tuple[frozenset[str], frozenset[str]] = frozenset(), frozenset()
        self._since_sweep = 0

    def __len__(self) -> int:
        return len(self._table)

    @property
    def remembered(self) -> int:
        """Return the most texts of pods by which a template is found."""
        return self._table.remembered

    def intern(self, pod: api.Pod, placed_as: PodTemplate | None = None) -> PodTemplate:
        """Return the template of a pod. ``placed_as`` is that of a pod that has a node already."""
        return self._table.intern(pod, placed_as)

    def sweep_sometimes(self) -> None:
        """Drop templates without tasks, after so many pods came or went that the check costs little."""
        self._since_sweep += 1
        is_large = self._table.characters_made > _MOST_CHARACTERS
        if self._since_sweep < max(_SWEEP_EVERY, len(self._cluster.tasks) // 4) and not is_large:
            return
        self._since_sweep = 0
        dead = self._table.sweep({task.template.id for task in self._cluster.tasks.values()})
        self._cluster.forget(dead, left=sum(template.weight for template in self._table))

    def keep_annotations(self, keys: Iterable[str], asking: Iterable[str] = ()) -> None:
        """Make these annotations of pods part of templates, and no others, from now on.

        A key that ends in ``*`` is a prefix. By one of ``asking`` a pod requests something. Plugins declare theirs, so
        this is called after a change of plugins, between two sessions.
        """
        kept, asks = frozenset(keys), frozenset(asking)
        if (kept, asks) == self._kept_annotations:
            return
        self._kept_annotations = kept, asks
        self._table.keep(AnnotationKeys(kept, POD_ANNOTATIONS), asks)
        for task in self._cluster.tasks.values():
            task.template = self._table.again(task.template, task.spec.annotations)
        for job in self._cluster.jobs.values():
            self._cluster.queue_cache.requests_changed(job)
