"""The page of a job: why it waits, when it starts, who holds what it waits for, its pods, and what happened so far.

Everything but the suggestions is there at once. The suggestions take sessions of their own, so the page loads them
afterwards, and again when the job waits for another reason.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
from aiohttp import web

from volsched.diagnose.job_answers import JobAnswers
from volsched.diagnose.records import Explanation, Holder, PodState, Short
from volsched.diagnose.redaction import redacted
from volsched.diagnose.workload_names import WorkloadName, distinguished
from volsched.model.job import LONE, NATIVE
from volsched.model.values.bounded import Bounded
from volsched.ui.access import Visibility
from volsched.ui.context import PageContext
from volsched.ui.job_lines import WAITING, JobLine
from volsched.ui.picture import Picture
from volsched.ui.questions import QuestionError
from volsched.ui.redaction import without_names
from volsched.ui.streams import Streams
from volsched.ui.table import Event
from volsched.ui.waiting import Reason

MOST_PODS: Final = 200
"""Pods that are listed of one job: those that wait first."""

MOST_BEFORE: Final = 5
"""Jobs before it in its queue that are named, the nearest."""

MOST_KNOWN: Final = 64
"""Jobs whose answers are kept until something changes."""

LEAST_SECONDS: Final = 2.0
"""The time between two answers about one job."""

REST: Final = 5.0
"""The time between two answers about one job, as a multiple of what the first took."""


@dataclass(frozen=True, slots=True)
class ShownJob:
    """A job as a reader may see it.

    ``line`` is that of the lists, ``answers`` those about a job that is there. ``before`` are the nearest jobs before
    it in its queue that the reader may see, each with its workload; ``ahead`` is the number of all.
    """

    namespace: str
    name: str
    line: JobLine | None
    answers: JobAnswers | None
    reasons: tuple[Reason, ...] = ()
    before: tuple[tuple[JobLine, str], ...] = ()
    ahead: int = 0
    names_queue: bool = True
    names_nodes: bool = True

    @property
    def workload(self) -> str:
        """Return the name of its workload, with the ReplicaSet."""
        known = self.answers or self.line
        if known is not None:
            return WorkloadName(known.workload, known.replica_set).full
        return self.name.removeprefix(LONE).removeprefix(NATIVE)

    @property
    def state(self) -> str:
        """Return its state: ``waiting``, ``running``, ``ended`` or ``idle``; ``gone`` if there is no such job."""
        if self.answers is not None:
            return self.answers.state
        return self.line.state if self.line is not None else "gone"

    @property
    def queue(self) -> str:
        """Return its queue, empty if it has none or that is not known."""
        known = self.answers or self.line
        return known.queue if known is not None else ""

    @property
    def explanation(self) -> Explanation | None:
        """Return why it waits, None if it does not."""
        return self.answers.explanation if self.answers is not None else None

    @property
    def shown_pods(self) -> tuple[PodState, ...]:
        """Return the pods that are listed."""
        pods = self.answers.pods if self.answers is not None else ()
        return tuple(sorted(pods, key=lambda pod: pod.state != "waits")[:MOST_PODS])


_PARTS: Final[Mapping[str, Callable[[ShownJob], Any]]] = {
    "head": lambda job: (job.state, job.workload, job.queue, job.line and (job.line.since, job.line.end)),
    "answers": lambda job: (job.explanation, job.answers and (job.answers.start, job.answers.held, job.answers.ends),
                            job.before, job.ahead, job.line and (job.line.placed, job.line.nodes, job.line.end)),
    "timeline": lambda job: job.answers and job.answers.timeline,
    "pods": lambda job: job.answers and job.answers.pods,
    "reasons": lambda job: job.reasons,
}  # fmt: skip
"""The parts of the page that are sent again, and what each shows of a job."""


@dataclass(slots=True)
class _Sections:
    """What one browser shows of a job. A part is sent again if it shows something else."""

    render: Callable[[str, ShownJob], str]
    _values: dict[str, Any] = field(default_factory=dict)
    _reason: tuple[str, str] | None = None

    @property
    def digest(self) -> str:
        """Return a short name for what is shown."""
        return hashlib.sha256(repr(self._values).encode()).hexdigest()[:16]

    def show(self, job: ShownJob) -> list[Event]:
        """Show the job. The events that do so where it was shown before."""
        values = {name: value(job) for name, value in _PARTS.items()}
        changed = [name for name, value in values.items() if name not in self._values or self._values[name] != value]
        reason = (job.explanation.step, job.explanation.message) if job.explanation is not None else None
        events = [(name, self.render(name, job)) for name in changed]
        if self._values and reason != self._reason:
            events.append(("reason", "changed"))
        self._values, self._reason = values, reason
        return events


class JobPage:
    """Serves a job, the changes of its page, and what would help."""

    def __init__(self, context: PageContext, streams: Streams) -> None:
        self._context = context
        self._streams = streams
        self._known: Bounded[tuple[str, str], tuple[int, float, JobAnswers | None]] = Bounded(MOST_KNOWN)

    def routes(self) -> Iterable[web.RouteDef]:
        """Return the addresses of the page, of its events, and of the suggestions."""
        address = "/job/{namespace}/{name}"
        return [
            web.get(address, self._job),
            web.get(f"{address}/suggestions", self._suggestions),
            web.get(f"/events{address}", self._events),
        ]

    async def _job(self, request: web.Request) -> web.Response:
        _, picture = await self._context.source.picture()
        job = await self._shown(request, picture)
        sections = _Sections(self._render)
        sections.show(job)
        status = 404 if job.state == "gone" else 200
        answer = self._context.page("job", job=job, digest_of_job=sections.digest, parts=tuple(_PARTS))
        answer.set_status(status)
        return answer

    def _render(self, part: str, job: ShownJob) -> str:
        return self._context.pages.page(f"job_{part}", job=job)

    async def _events(self, request: web.Request) -> web.StreamResponse:
        number, picture = await self._context.source.picture()
        sections = _Sections(self._render)
        begin = sections.show(await self._shown(request, picture))

        async def changes(picture: Picture) -> Sequence[Event]:
            namespace, name = request.match_info["namespace"], request.match_info["name"]
            _, due, _ = self._known.get((namespace, name), (0, 0.0, None))
            await asyncio.sleep(due - time.monotonic())
            return sections.show(await self._shown(request, picture))

        is_known = "Last-Event-ID" not in request.headers and request.query.get("seen") == sections.digest
        return await self._streams.follow(request, number, [] if is_known else begin, changes)

    # -- what is shown ------------------------------------------------------------------------------------------------

    async def _shown(self, request: web.Request, picture: Picture) -> ShownJob:
        scope, namespace, name = await self._context.scope_of_job(request)
        everything = await self._context.scope(request, picture)
        answers = await self._answers(namespace, name)
        line = picture.line(namespace, name)
        reasons = self._context.source.reasons(namespace, name)
        queue = answers.queue if answers is not None else line.queue if line is not None else ""
        before, ahead = _before(everything, picture, line)
        return ShownJob(
            namespace,
            name,
            None if line is None else msgspec.structs.replace(line, message=without_names(scope, line.message)),
            None if answers is None else _redacted(answers, everything),
            tuple(Reason(each.since, each.step, without_names(scope, each.message)) for each in reasons),
            before,
            ahead,
            everything.names_queue(queue),
            everything.nodes,
        )

    async def _answers(self, namespace: str, name: str) -> JobAnswers | None:
        """Return the answers about a job, None if it is not there. They are at most some seconds old."""
        source, key = self._context.source, (namespace, name)
        number, _ = await source.picture()
        known = self._known.recall(key)
        if known is not None and (known[0] == number or time.monotonic() < known[1]):
            return known[2]
        began = time.monotonic()
        answers = await source.ask(lambda live: live.answers(namespace, name, source.now()))
        took = time.monotonic() - began
        self._known[key] = number, time.monotonic() + max(LEAST_SECONDS, REST * took), answers
        return answers

    # -- suggestions --------------------------------------------------------------------------------------------------

    async def _suggestions(self, request: web.Request) -> web.Response:
        scope, namespace, name = await self._context.scope_of_job(request)
        try:
            answer = await self._context.questions.explanation(await self._context.asker(request), namespace, name)
        except QuestionError as error:
            problem = str(error) if scope.is_whole else "It could not be worked out."
            return self._context.page("job_suggestions", answer=None, problem=problem)
        if answer is None:
            problem = f"There is no job {namespace}/{name} any more."
            return self._context.page("job_suggestions", answer=None, problem=problem)
        shown = answer if scope.is_whole else redacted(answer, scope.names)
        return self._context.page("job_suggestions", answer=shown, problem="")


def _redacted(answers: JobAnswers, scope: Visibility) -> JobAnswers:
    """Return answers without names that the reader may not see."""
    if scope.is_whole:
        return answers
    explanation = answers.explanation
    if explanation is not None:
        explanation = redacted(explanation, scope.names)
        short = tuple(each if scope.names_queue(each.name) else _unnamed(each) for each in explanation.short)
        holders = tuple(each if scope.names_queue(each.queue) else _unqueued(each) for each in explanation.holders)
        explanation = msgspec.structs.replace(explanation, short=short, holders=holders)
    pods = [msgspec.structs.replace(pod, message=without_names(scope, pod.message)) for pod in answers.pods]
    return msgspec.structs.replace(answers, explanation=explanation, pods=tuple(pods))


def _unnamed(short: Short) -> Short:
    return msgspec.structs.replace(short, name="")


def _unqueued(holder: Holder) -> Holder:
    return msgspec.structs.replace(holder, queue="")


def _before(scope: Visibility, picture: Picture, line: JobLine | None) -> tuple[tuple[tuple[JobLine, str], ...], int]:
    """Return the nearest visible jobs before one in its queue, and the number of all."""
    if line is None or line.state != WAITING:
        return (), 0
    blocks = [
        lines
        for key, lines in picture.jobs.items()
        if (key.state, key.queue) == (WAITING, line.queue) and scope.names(key.namespace)
    ]
    found = [each for lines in blocks for each in lines if each.position < line.position]
    nearest = sorted(found, key=lambda each: -each.position)[:MOST_BEFORE]
    names = distinguished(nearest, lambda each: each.namespace, lambda each: each.called)
    return tuple(zip(nearest, names, strict=True)), line.position - 1
