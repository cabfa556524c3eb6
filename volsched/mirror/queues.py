"""Queues as the mirror takes them in."""

from __future__ import annotations

from volsched.mirror import reading
from volsched.mirror.kept import AnnotationReader
from volsched.mirror.problems import NO_EFFECT, ReadingProblems
from volsched.mirror.settings import Arrival, MirrorSettings
from volsched.model import api
from volsched.model.changes import Gone
from volsched.model.cluster import Cluster
from volsched.model.queues.allowed_namespaces import FIELD as ALLOWED_FIELD
from volsched.model.queues.queue import QueueInfo
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
            cluster.queue_ledger.put_queue(_standing_queue(name))

    def put(self, found: api.Queue) -> None:
        """Take a Queue in."""
        info = reading.queue_info(found, self._problems.reporter("Queue", found))
        info.annotations = self._annotations.of("Queue", found.metadata.annotations)
        created = reading.seconds(found.metadata.creation_timestamp)
        known = self._cluster.queues.get(info.name)
        if created is None:
            created = known.created if known is not None and known.created else self._arrival.as_time()
        info.created = created
        if info.allowed is not None and info.allowed.problem and (known is None or known.allowed != info.allowed):
            self._problems.reporter("Queue", found, "nobody new may use the queue")(ALLOWED_FIELD, info.allowed.problem)
        if known is None or known.declared != info.declared:
            self._warn(found)
            self._cluster.queue_ledger.put_queue(info)
        else:
            known.past = info.past

    def _warn(self, found: api.Queue) -> None:
        report = self._problems.reporter("Queue", found, NO_EFFECT)
        for wish in ignored_by(found):
            report(wish.field, wish.message)

    def drop(self, gone: Gone) -> None:
        """Forget a Queue; one that exists without being declared stays, as if nobody had declared it."""
        if gone.name in ("root", self._settings.default_queue):
            self._cluster.queue_ledger.put_queue(_standing_queue(gone.name))
        else:
            self._cluster.queue_ledger.remove_queue(gone.name)


def _standing_queue(name: str) -> QueueInfo:
    """A queue that exists without being declared."""
    queue = QueueInfo(name)
    queue.reclaimable = name != "root"
    return queue
