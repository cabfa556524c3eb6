"""Queues as the mirror takes them in."""

from __future__ import annotations

from dataclasses import replace

from volsched.mirror import reading
from volsched.mirror.kept import AnnotationReader
from volsched.mirror.problems import NO_EFFECT, ReadingProblems
from volsched.mirror.settings import Arrival, MirrorSettings
from volsched.model import api
from volsched.model.changes import Deleted
from volsched.model.cluster import Cluster
from volsched.model.queues.allowed_namespaces import FIELD as ALLOWED_FIELD
from volsched.model.queues.queue import QueueInfo, QueueProperties
from volsched.model.unserved import ignored_by


class Queues:
    """The queues of a cluster; ``root`` and the default one exist without being declared."""

    def __init__(
        self,
        cluster: Cluster,
        settings: MirrorSettings,
        problems: ReadingProblems,
        arrival: Arrival,
        annotations: AnnotationReader,
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._problems = problems
        self._arrival = arrival
        self._annotations = annotations
        for name in dict.fromkeys(("root", settings.default_queue)):
            cluster.queue_cache.put_queue(_builtin_queue(name))

    def put(self, found: api.Queue) -> None:
        """Take a Queue in."""
        known = self._cluster.queues.get(found.metadata.name)
        spec = self._read(found, known)
        past = reading.past_of(found.status.usage)
        if known is not None and known.spec == spec:
            known.past = past
            return
        self._warn(found, spec, known)
        self._cluster.queue_cache.put_queue(spec, past)

    def _read(self, found: api.Queue, known: QueueInfo | None) -> QueueProperties:
        spec = reading.queue_spec(found, self._problems.reporter("Queue", found))
        created = spec.created or (known.spec.created if known is not None else 0.0) or self._arrival.as_time()
        return replace(spec, created=created, annotations=self._annotations.of("Queue", found.metadata.annotations))

    def _warn(self, found: api.Queue, spec: QueueProperties, known: QueueInfo | None) -> None:
        """Report what the Queue asks for in vain."""
        allowed = spec.allowed
        if allowed is not None and allowed.problem and (known is None or known.spec.allowed != allowed):
            self._problems.reporter("Queue", found, "nobody new may use the queue")(ALLOWED_FIELD, allowed.problem)
        report = self._problems.reporter("Queue", found, NO_EFFECT)
        for wish in ignored_by(found):
            report(wish.field, wish.message)

    def drop(self, gone: Deleted) -> None:
        """Forget a Queue. A built-in queue stays, with default properties."""
        if gone.name in ("root", self._settings.default_queue):
            self._cluster.queue_cache.put_queue(_builtin_queue(gone.name))
        else:
            self._cluster.queue_cache.remove_queue(gone.name)


def _builtin_queue(name: str) -> QueueProperties:
    """Return a queue that exists without being declared."""
    return QueueProperties(name, reclaimable=name != "root")
