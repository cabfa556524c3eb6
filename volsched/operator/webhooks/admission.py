"""Admission: answers writes at the API server with the faults of `volsched validate`, on every replica.

kopf takes reviews in on a thread of its own, and they are judged on others (`reviewers`): a large object delays neither
the loop that follows the cluster nor other reviews. They are judged beside the Queues, Namespaces and Nodes that are
known on that loop when a review comes: they cost the API server no request.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

import kopf
import msgspec
import structlog

from volsched.framework.validation import Severity, Surroundings
from volsched.kube.client.credentials import Source
from volsched.kube.serve.metrics import Metrics
from volsched.kube.serve.site import LimitedSites
from volsched.model import api
from volsched.model.api import native_groups as native
from volsched.model.changes import Change, Deleted, Put
from volsched.operator.kopf_thread import KopfThread
from volsched.operator.webhooks.listening import Listening
from volsched.operator.webhooks.webhook_server import UNDER_REVIEW, WebhookServer
from volsched.validation.admission import DELETE, AdmissionContext, AdmissionRequest, Judgement, judge

KINDS: Final = (
    ("", "v1", "pods"),
    ("", "v1", "configmaps"),
    ("apps", "v1", "deployments"),
    ("apps", "v1", "statefulsets"),
    ("apps", "v1", "daemonsets"),
    ("batch", "v1", "jobs"),
    ("batch.volcano.sh", "v1alpha1", "jobs"),
    ("scheduling.volcano.sh", "v1beta1", "podgroups"),
    ("scheduling.volcano.sh", "v1beta1", "queues"),
    *((*version.split("/"), plural) for version in native.VERSIONS for plural in ("podgroups", "workloads")),
)
"""The kinds that are judged. The manifests state which are sent."""

UNPROCESSABLE: Final = 422

_log = structlog.get_logger(__name__)


class Neighbourhood:
    """Queues, Namespaces and Nodes beside which objects are judged, made again only after a relevant change.

    Status writes of kubelets and controllers (conditions, counts of queues) are not relevant.
    """

    def __init__(self, queues: Mapping[str, api.Queue], scheduler_names: Collection[str] | None = None) -> None:
        self._queues = queues
        self._scheduler_names = scheduler_names
        self._queues_seen: dict[str, Any] = {}
        self._nodes: dict[str, api.Node] = {}
        self._namespaces: dict[str, api.Namespace] = {}
        self._surroundings: Surroundings | None = None

    def observe(self, changes: Sequence[Change]) -> None:
        """Take in what the informers of Nodes and Namespaces found."""
        for change in changes:
            if isinstance(change, Put) and isinstance(change.object, api.Node):
                self._put_node(change.object)
            elif isinstance(change, Put) and isinstance(change.object, api.Namespace):
                self._put_namespace(change.object)
            elif isinstance(change, Deleted):
                table = self._namespaces if change.kind == "Namespace" else self._nodes
                if table.pop(change.name, None) is not None:
                    self._surroundings = None

    def _put_namespace(self, namespace: api.Namespace) -> None:
        meta = namespace.metadata
        known = self._namespaces.get(meta.name)
        if known is None or (known.metadata.labels, known.metadata.annotations) != (meta.labels, meta.annotations):
            self._namespaces[meta.name] = namespace
            self._surroundings = None

    def _put_node(self, node: api.Node) -> None:
        known = self._nodes.get(node.metadata.name)
        if known is None or _of_node(known) != _of_node(node):
            self._nodes[node.metadata.name] = _without_the_rest(node)
            self._surroundings = None

    def queue_changed(self, name: str) -> None:
        """Look at a queue again."""
        queue = self._queues.get(name)
        found = _of_queue(queue) if queue is not None else None
        if found != self._queues_seen.get(name):
            self._surroundings = None
        if found is not None:
            self._queues_seen[name] = found
        else:
            self._queues_seen.pop(name, None)

    def beside(self) -> Surroundings:
        """Return them as they are now."""
        if self._surroundings is None:
            objects = (*self._queues.values(), *self._namespaces.values(), *self._nodes.values())
            self._surroundings = Surroundings(objects, scheduler_names=self._scheduler_names)
        return self._surroundings


def _of_node(node: api.Node) -> Any:
    return node.metadata.labels, node.metadata.annotations, node.spec, node.status.allocatable, node.status.capacity


def _without_the_rest(node: api.Node) -> api.Node:
    """Drop fields that no rule reads: of ten thousand nodes, lists of images alone would take a hundred megabytes."""
    status = api.NodeStatus(capacity=node.status.capacity, allocatable=node.status.allocatable)
    return msgspec.structs.replace(node, status=status)


def _of_queue(queue: api.Queue) -> Any:
    return queue.metadata.annotations, queue.spec, queue.status.state


class Admission(KopfThread):
    """kopf's second operator: its own registry and its own thread, leader or not."""

    def __init__(
        self,
        source: Source,
        listening: Listening,
        neighbours: Neighbourhood,
        groups_in: Callable[[str], int],
        on_death: Callable[[str], None],
        *,
        strict: bool = False,
    ) -> None:
        super().__init__("kopf-admission", source, on_death)
        self._server = WebhookServer(listening, self._count_turned_away)
        self._neighbours = neighbours
        self._groups_in = groups_in
        self._unknown_field: Severity = "error" if strict else "warning"
        self._answers: Counter[tuple[str, ...]] = Counter()

    @property
    def problem(self) -> str:
        """Return why reviews are not answered, empty if they are."""
        return self._server.problem

    @property
    def site(self) -> LimitedSites | None:
        """Return the connections of API servers; None before it serves. Their numbers may be read on any thread."""
        return self._server.site

    def add_gauges(self, metrics: Metrics) -> None:
        """Let `metrics` read what was answered."""
        metrics.add(
            "volsched_admission_reviews",
            "Reviews by what was answered",
            ("resource", "operation", "answer"),
            lambda: dict(self._answers),
            counts=True,
        )
        metrics.add(
            "volsched_admission_certificate_reloads",
            "Certificates of webhooks that took the place of another",
            (),
            lambda: {(): self._server.reloads},
            counts=True,
        )

        metrics.add(
            "volsched_admission_certificate_expiry_timestamp_seconds",
            "When the certificate of webhooks that is in use ends, in seconds since 1970",
            (),
            lambda: {(): self._server.ends.timestamp()} if self._server.ends is not None else {},
        )

    async def stop(self) -> None:
        """End, and wait a little for that."""
        await super().stop()
        self._server.reviewers.close()

    def _register(self, registry: kopf.OperatorRegistry, settings: kopf.OperatorSettings) -> None:
        settings.admission.server = self._server
        for group, version, plural in KINDS:
            name = f"{plural}.{version}.{group}"
            kopf.on.validate(group, version, plural, id=name, registry=registry)(self._handler())

    def _handler(self) -> Callable[..., Any]:
        async def review(resource: Any, warnings: list[str], **_: Any) -> None:
            judgement = await self._judge(resource.plural, UNDER_REVIEW.get())
            warnings.extend(judgement.warnings)
            if not judgement.allowed:
                raise kopf.AdmissionError(judgement.message, code=UNPROCESSABLE)

        return review

    async def _judge(self, plural: str, request: AdmissionRequest) -> Judgement:
        try:
            asked = asyncio.run_coroutine_threadsafe(self._world(request), self._loop)
            judgement = await self._server.reviewers.do(judge, request, await asyncio.wrap_future(asked))
        except Exception as error:  # a bug of ours, or of an installed validator, must not stop all writes
            _log.exception("a request could not be judged and is let in", resource=plural, operation=request.operation)
            self._answers[plural, request.operation, "failed"] += 1
            return Judgement(warnings=(f"volsched could not judge this and lets it in: {type(error).__name__}",))
        answer = "refused" if judgement.errors else "warned" if judgement.warnings else "allowed"
        self._answers[plural, request.operation, answer] += 1
        return judgement

    async def _world(self, request: AdmissionRequest) -> AdmissionContext:
        """Return what a request is judged beside. Runs on the loop that follows the cluster, so it reads all here."""
        name = api.identity_of(request.old).name if request.operation == DELETE else ""
        groups = self._groups_in(name) if name else 0
        return AdmissionContext(self._neighbours.beside(), lambda _: groups, self._unknown_field)

    def _count_turned_away(self, why: str) -> None:
        self._answers["", "", why] += 1
