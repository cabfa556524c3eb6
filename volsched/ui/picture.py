"""The picture of a cluster at one moment, and the cluster that it is made of, updated with changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from volsched.diagnose.cards import NodeCards, card_names_in
from volsched.diagnose.cluster_snapshot import ClusterSnapshot
from volsched.diagnose.job_answers import JobAnswers, job_answers
from volsched.diagnose.nodes import NodeDetails, NodeState, details_of_node
from volsched.diagnose.queries import queue_state
from volsched.diagnose.queues import QueueDetails, details_of_queue
from volsched.diagnose.reasons import ReasonCount, frequent_reasons
from volsched.diagnose.records import QueueState, WaitingJob
from volsched.model.changes import Change
from volsched.model.cluster import Cluster
from volsched.model.job import JobInfo
from volsched.model.nodes.node import NodeInfo, NodeProperties
from volsched.model.observers import Observer
from volsched.model.pods.task import TaskInfo
from volsched.model.queues.queue import QueueInfo
from volsched.model.status import IS_FINISHED, ON_NODE, TaskStatus
from volsched.ui.cards import LiveCards
from volsched.ui.history import Day, History, Moment
from volsched.ui.job_lines import COMPLETED, FAILED, RUNNING, WAITING, Blocks, JobLine
from volsched.ui.job_lists import JobLists
from volsched.ui.overview import MOST_REASONS, Overview, RecentJobs
from volsched.ui.read_only_scheduler import ReadOnlyScheduler
from volsched.ui.waiting import Reason, WaitingList

RECLAIM: Final = "reclaim"
"""The action that evicts pods for queues below their deserved shares."""


@dataclass(frozen=True, slots=True)
class Picture:
    """The lists of all views. Equal pictures in a row are the same object.

    ``jobs`` has the jobs of all states, in blocks. ``namespaces`` are those of all named jobs and pods;
    ``group_labels`` are labels by which nodes can be grouped. ``history`` gives what a queue used of a resource while
    the page has been open. ``seen`` keeps the visible parts of the picture by the rights of readers.
    """

    queues: tuple[QueueState, ...] = ()
    cards: tuple[NodeCards, ...] = ()
    waiting: tuple[WaitingJob, ...] = ()
    jobs: Blocks = field(default_factory=dict)
    nodes: tuple[NodeState, ...] = ()
    namespaces: frozenset[str] = frozenset()
    group_labels: tuple[str, ...] = ()
    history: Callable[[str, str], Sequence[Moment]] = lambda _queue, _resource: ()
    overview: Overview = field(default_factory=Overview)
    seen: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)

    def line(self, namespace: str, name: str) -> JobLine | None:
        """Return the line of a job in the lists, None for others."""
        blocks = (lines for key, lines in self.jobs.items() if key.namespace == namespace)
        return next((line for lines in blocks for line in lines if line.name == name), None)


class FoundPod(NamedTuple):
    """A pod that a search has found, its state in one word, and the name of its job."""

    namespace: str
    name: str
    state: str
    job: str


class Live:
    """A cluster that is followed: ``take`` what changed, ``look`` for a picture. Only one thread at a time.

    The cost of a look follows what changed: nodes, queues and jobs that nothing happened to are what they were.
    """

    def __init__(self, configured: ClusterSnapshot) -> None:
        """Begin without any objects. Raises ConfigError."""
        self._configured = configured
        self._scheduler = ReadOnlyScheduler(configured.profile(), configured.scheduler_names, configured.default_queue)
        self._cards = LiveCards(self.cluster, card_names_in(self._scheduler.profile.configuration))
        self._use = _Use()
        self.cluster.observe(self._use)
        self._recent = RecentJobs(self.cluster)
        self._day = Day()
        self._jobs = JobLists(self._scheduler)
        self._waiting = self._jobs.waiting = WaitingList(self._scheduler)
        self._history = History()
        self._counts: dict[str, tuple[int, int]] = {}
        self._reasons: tuple[ReasonCount, ...] = ()
        self._configuration = configured.configuration
        self._picture = Picture()

    @property
    def cluster(self) -> Cluster:
        """Return the cluster as the mirror has it."""
        return self._scheduler.mirror.cluster

    @property
    def known(self) -> ClusterSnapshot:
        """Return the cluster as a value, for questions in sessions of their own."""
        return replace(self._configured, objects=tuple(self._scheduler.objects.values()))

    def reasons(self, namespace: str, name: str) -> tuple[Reason, ...]:
        """Return why a job has waited so far."""
        return tuple(self._waiting.reasons.get(f"{namespace}/{name}", ()))

    def node(self, name: str) -> NodeDetails | None:
        """Return everything about a node, or None if there is no such node. Call it between looks."""
        node = self._cards.node(name)
        state = next((state for state in self._picture.nodes if state.name == name), None)
        return details_of_node(self.cluster, node, state) if node is not None and state is not None else None

    def queue(self, name: str) -> QueueDetails | None:
        """Return everything about a queue that the picture leaves out, or None. Call it between looks."""
        usage = self._scheduler.usage
        if usage is None:
            return None
        reclaims = RECLAIM in self._scheduler.profile.configuration.actions
        return details_of_queue(self.cluster, usage, self._scheduler.tables, name, reclaims=reclaims)

    def answers(self, namespace: str, name: str, now: float) -> JobAnswers | None:
        """Return the answers about a job that is there, None for others. ``now`` is in seconds since the epoch."""
        job = self.cluster.jobs.get(f"{namespace}/{name}")
        return job_answers(self._scheduler, self._scheduler.objects, job, now) if job is not None else None

    def named(self, text: str, may_name: Callable[[str], bool]) -> tuple[list[FoundPod], list[str]]:
        """Return the pods in namespaces that may be named, and the nodes, that have a text in their names.

        The text is in small letters.
        """
        pods = [
            FoundPod(task.namespace, task.name, _word(task), task.job.name)
            for task in self.cluster.tasks.values()
            if task.job is not None and text in task.key.lower() and may_name(task.namespace)
        ]
        return pods, [name for name in self.cluster.nodes if text in name.lower()]

    def use(self, configuration: str) -> None:
        """Use another configuration of the scheduler, which holds, from the next look on. May be called at any time."""
        self._configuration = configuration

    def take(self, changes: Sequence[Change]) -> None:
        """Take changes in, in order."""
        for change in changes:
            self._cards.take(change)
        self._scheduler.take(changes)

    def due(self) -> float | None:
        """Return when a picture changes without changes of objects, in seconds since the epoch."""
        times = (self._waiting.due, self._recent.due, self._scheduler.wake_at())
        first = min(time for time in times if time is not None)
        return first if first < float("inf") else None

    def look(self, now: float) -> Picture:
        """Hold a session and return the picture. ``now`` is in seconds since the epoch."""
        self._configure()
        self._jobs.take(now)
        self._scheduler.wants_usage |= self._use.changed
        self._hear(False)
        try:
            starts = self._scheduler.run()
            started = self._waiting.note(self._take_dirty(), starts)
            self._scheduler.take_back()
        finally:
            self._hear(True)
        self._cards.use_free(self._scheduler.free_cards)
        cards = self._cards.all()
        self._waiting.note_started(started, now)
        waiting = self._waiting.all(now)
        if waiting is not self._picture.waiting:
            self._counts = _counted(waiting)
            self._reasons = frequent_reasons(waiting, MOST_REASONS)
        jobs = self._jobs.all()
        self._picture = self._changed(
            Picture(
                queues=self._queues(now),
                cards=cards,
                waiting=waiting,
                jobs=jobs,
                nodes=self._cards.nodes(),
                namespaces=self._cards.namespaces | {key.namespace for key in jobs},
                group_labels=self._cards.group_labels,
                history=self._history.of,
                overview=self._overview(now, waiting),
            )
        )
        return self._picture

    def _hear(self, does: bool) -> None:
        """Have observers hear moves, or not, as they are those of a session that is taken back."""
        hearers = (self._cards, self._use, self._jobs, self._recent)
        for each in hearers:
            each.is_hearing = does

    def _overview(self, now: float, waiting: Sequence[WaitingJob]) -> Overview:
        bars = self._cards.bars()
        self._day.note(now, sum(bar.used for bar in bars), len(waiting))
        faults = self._scheduler.mirror.quarantine.objects()
        tables = self._scheduler.tables
        return Overview(bars, self._reasons, tables, faults, self._recent.counted(now), self._day.points())

    def _configure(self) -> None:
        if self._configuration != self._configured.configuration:
            self._configured = replace(self._configured, configuration=self._configuration)
            self._scheduler.reconfigure(self._configured.profile())
            self._cards.use(card_names_in(self._scheduler.profile.configuration))

    def _take_dirty(self) -> list[JobInfo]:
        dirty, self._scheduler.dirty = self._scheduler.dirty, {}
        return [job for key, job in dirty.items() if key in self.cluster.jobs]

    def _queues(self, now: float) -> tuple[QueueState, ...]:
        """Return the queues as they were before the session, with jobs that wait after it."""
        usage = self._scheduler.usage
        uses = usage.queues if usage is not None else {}
        queues = tuple(queue_state(use, *self._counts.get(name, (0, 0))) for name, use in uses.items())
        if self._use.changed or queues != self._picture.queues:
            self._history.note(now, queues)
        self._use.changed = False
        return queues

    def _changed(self, picture: Picture) -> Picture:
        """Return the former picture if nothing on it has changed."""
        return self._picture if _content(picture) == _content(self._picture) else picture


def _content(picture: Picture) -> tuple[object, ...]:
    return (
        picture.queues,
        picture.cards,
        picture.waiting,
        id(picture.jobs),
        picture.nodes,
        picture.group_labels,
        picture.overview,
    )


def _word(task: TaskInfo) -> str:
    if IS_FINISHED[task.status]:
        return FAILED if task.status is TaskStatus.FAILED else COMPLETED
    return RUNNING if ON_NODE[task.status] else WAITING


def _counted(waiting: Sequence[WaitingJob]) -> dict[str, tuple[int, int]]:
    """Return by queue how many jobs wait, and how many pods."""
    found: dict[str, tuple[int, int]] = {}
    for job in waiting:
        jobs, pods = found.get(job.queue, (0, 0))
        found[job.queue] = jobs + 1, pods + job.pods
    return found


class _Use(Observer):
    """Notes whether queues may hold or may have something else than before. ``is_hearing``: see ``LiveCards``."""

    def __init__(self) -> None:
        self.changed = True
        self.is_hearing = True

    def task_moved(self, task: TaskInfo, before: TaskStatus, node_before: NodeInfo | None) -> None:
        self._note()

    def task_ungated(self, task: TaskInfo, *, counts: bool) -> None:
        self._note()

    def node_changed(self, node: NodeInfo, before: NodeProperties | None) -> None:
        self._note()

    def node_removed(self, node: NodeInfo) -> None:
        self._note()

    def job_changed(self, job: JobInfo, *, gone: bool) -> None:
        self._note()

    def queue_changed(self, queue: QueueInfo, *, gone: bool) -> None:
        self._note()

    def _note(self) -> None:
        if self.is_hearing:
            self.changed = True
