"""Faults and costs of one job end with that job.

Actions work on a job only inside ``Session.about(job)``. If a plugin, or volsched itself, fails there, the changes are
undone, the job is refused with ``PluginError``, and it is paused: until one of its objects changes, or a growing pause
is over. The session goes on with other jobs.

A session has a budget of CPU time. When it is used up, the session ends; its decisions stand, and the rest follows in
the next session. The job that used most of the budget is paused in the same way.

Many jobs of one namespace do not delay others for long. After ``TURN_SECONDS``, namespaces take turns where queues and
priorities do not order jobs. After ``GIVE_WAY_SECONDS``, the session ends if changes have arrived. Shorter sessions,
which are nearly all, keep the order of ages.

A fault that belongs to no job (a plugin that fails when a session opens, an account that lost track of the cluster, an
order of queues) ends the session at once, and the next session makes the accounts again. So nothing is decided by wrong
data.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Literal

import msgspec

from volsched.framework.accounts.admissions import Admissions
from volsched.framework.answers import AnswerError
from volsched.model.errors import shortened
from volsched.model.job import JobInfo
from volsched.model.verdict import ConditionReason, Scope, Step, Verdict

PLUGIN_ERROR: Final = "PluginError"
TOO_EXPENSIVE: Final = "TooExpensive"

PAUSED: Final = -2
"""The mark of a paused job, in place of the requeue generation of its last try.

A change of one of its own objects replaces it.
"""

FIRST_PAUSE_SECONDS: Final = 1.0
LONGEST_PAUSE_SECONDS: Final = 300.0

EXPENSIVE_SHARE: Final = 0.2
"""The share of a session's budget above which a job is paused, if the session ran out of time."""

TURN_SECONDS: Final = 0.5
"""Of CPU, after which namespaces take turns in a session where nothing else orders their jobs."""

GIVE_WAY_SECONDS: Final = 1.0
"""Of CPU, after which a session ends when changes have come that it does not know."""

_WORTH_NOTING: Final = 0.01
"""Of a session's budget: what took less is not remembered of a job."""

_LONGEST_CAUSE: Final = 300


class SessionOverError(Exception):
    """Ends a session: ``blame`` is the plugin that failed, empty when it was not a plugin or nothing failed."""

    def __init__(self, message: str, blame: str = "") -> None:
        super().__init__(message)
        self.blame = blame


@dataclass(slots=True)
class _Pause:
    seconds: float
    until: float


class PausedJobs:
    """Jobs that failed or took too long, and are skipped for a while; kept from session to session."""

    def __init__(self) -> None:
        self._pauses: dict[str, _Pause] = {}

    def __len__(self) -> int:
        return len(self._pauses)

    def has(self, job: JobInfo, now: float) -> bool:
        """True if a job is paused at this time (seconds since the epoch)."""
        pause = self._pauses.get(job.key)
        return pause is not None and job.unschedulable_at == PAUSED and now < pause.until

    def add(self, job: JobInfo, now: float) -> float:
        """Pause a job, each time for twice as long. Return the seconds."""
        before = self._pauses.get(job.key)
        seconds = FIRST_PAUSE_SECONDS if before is None else min(LONGEST_PAUSE_SECONDS, 2 * before.seconds)
        self._pauses[job.key] = _Pause(seconds, now + seconds)
        job.leave_equivalents()
        job.unschedulable_at = PAUSED
        return seconds

    def drop(self, job: JobInfo) -> None:
        """A job went well: begin with a short pause should it fail again."""
        self._pauses.pop(job.key, None)

    def forget_gone(self, jobs: Mapping[str, JobInfo]) -> None:
        """Forget all jobs but these."""
        for key in [key for key in self._pauses if key not in jobs]:
            del self._pauses[key]

    def wake_at(self, now: float) -> float | None:
        """Return when the first pause ends (seconds since the epoch), or None without one that is running."""
        return min((pause.until for pause in self._pauses.values() if pause.until > now), default=None)


@dataclass(frozen=True)
class Bounds:
    """The limits of a session, and the end of faults.

    ``budget`` is in seconds of CPU. With ``contains_faults`` an exception ends with its job, or with the session;
    without, it is raised, as tests want it. ``paused_jobs`` are skipped for a while; ``admissions`` has jobs that were
    admitted and lack pods. ``news`` is True if changes wait for the next session.
    """

    budget: float = math.inf
    contains_faults: bool = False
    paused_jobs: PausedJobs = field(default_factory=PausedJobs)
    admissions: Admissions = field(default_factory=Admissions)
    news: Callable[[], bool] = lambda: False

    def forget_gone(self, jobs: Mapping[str, JobInfo]) -> None:
        """Forget all jobs but these."""
        self.paused_jobs.forget_gone(jobs)
        self.admissions.forget_gone(jobs)

    def wake_at(self, now: float) -> float | None:
        """Return when the next pause or admission ends (seconds since the epoch), or None if no time is known."""
        times = self.paused_jobs.wake_at(now), self.admissions.wake_at(now)
        return min((time for time in times if time is not None), default=None)

    def is_paused(self, job: JobInfo, now: float) -> bool:
        """True if a job is skipped at this time (seconds since the epoch)."""
        return self.paused_jobs.has(job, now) or self.admissions.pauses(job, now)


class Boundary:
    """How far one session goes: the CPU time that it used, and what failed in it.

    ``faults`` are the exceptions of the session, each with the plugin that raised it, and ``over`` states why it ended
    before it was through. ``modules`` has which plugin's code is where. ``is_long``: the session took long enough for
    namespaces to take turns. ``ended_for``: it ended because changes have come, or because its time was over.
    """

    def __init__(self, bounds: Bounds, clock: Callable[[], float]) -> None:
        self.bounds = bounds
        self.clock = clock
        self.modules: Mapping[str, str] = {}
        self.faults: list[tuple[str, BaseException]] = []
        self.over = ""
        self.is_long = False
        self.ended_for: Literal["", "news", "budget"] = ""
        self._began = clock()
        self.long_from = self._began + min(TURN_SECONDS, bounds.budget)
        """The time of the clock from which on it is asked whether the session goes on."""
        self.worth_noting = bounds.budget * _WORTH_NOTING
        """The seconds above which it is noted what a job took."""
        self._used = 0.0
        self._costs: dict[str, tuple[float, JobInfo]] = {}

    @property
    def gave_way(self) -> bool:
        """True if the session ended because changes have come."""
        return self.ended_for == "news"

    def is_over_budget(self, now: float) -> bool:
        """Note that the session is long; true if its time is over. Raises SessionOverError if it gives way."""
        used = self._used = now - self._began
        self.is_long = True
        if used > self.bounds.budget:
            return True
        if used > GIVE_WAY_SECONDS and self.bounds.news():
            self.ended_for = "news"
            raise SessionOverError("it gives way to changes that have come")
        return False

    def most_expensive(self) -> tuple[float, JobInfo] | None:
        """Return the job that waits and took most of the time, with its seconds, if that was a large share."""
        waiting = (each for each in self._costs.values() if each[1].waiting)
        found = max(waiting, key=lambda each: each[0], default=None)
        return found if found is not None and found[0] > EXPENSIVE_SHARE * self.bounds.budget else None

    def over_budget(self) -> SessionOverError:
        """End the session, as its time is over. Return the error for that."""
        self.ended_for = "budget"
        return SessionOverError(
            f"{self._used:.1f}s of CPU were used, the budget of a session is {self.bounds.budget:g}s"
        )

    def charge(self, job: JobInfo, seconds: float) -> None:
        """Note what a job took."""
        self._costs[job.key] = (self._costs.get(job.key, (0.0, job))[0] + seconds, job)

    def blame(self, error: BaseException) -> str:
        """Note an exception, and return the plugin that raised it."""
        plugin = culprit(error, self.modules)
        self.faults.append((plugin, error))
        return plugin

    @contextmanager
    def ends_here(self) -> Iterator[None]:
        """Do a part of a session: what fails and is about no job ends the session, and no more than that."""
        try:
            yield
        except SessionOverError as over:
            self.over = self.over or str(over)
        except Exception as error:
            if not self.bounds.contains_faults:
                raise
            self.blame(error)
            self.over = self.over or f"{type(error).__name__}: {error}"


def culprit(error: BaseException, modules: Mapping[str, str]) -> str:
    """Return the plugin in whose code an exception was raised. ``modules`` are those of the plugins, by their names."""
    if isinstance(error, AnswerError):
        return error.plugin
    found = ""
    for module in _modules_of(error.__traceback__):
        roots = [(root, plugin) for plugin, root in modules.items() if f"{module}.".startswith(f"{root}.")]
        found = max(roots)[1] if roots else found  # the longest: all are beginnings of the same name
    return found


def _modules_of(traceback: TracebackType | None) -> Iterator[str]:
    while traceback is not None:
        yield str(traceback.tb_frame.f_globals.get("__name__", ""))
        traceback = traceback.tb_next


def modules_of(plugins: Iterable[tuple[str, object]]) -> dict[str, str]:
    """Return the package that each plugin's class is from, as ``plugins.mgpu`` of ``plugins.mgpu.plugin``.

    Where several are from one package, or there is none, it is the module.
    """
    modules = {name: type(plugin).__module__ for name, plugin in plugins}
    packages = Counter(map(home_of, modules.values()))
    return {name: module if packages[home_of(module)] > 1 else home_of(module) for name, module in modules.items()}


def home_of(module: str) -> str:
    """Return the package that a module is in, itself where it is in none."""
    parts = module.split(".")
    return ".".join(parts[:2] if parts[0] == "plugins" else parts[:-1] or parts)


def failed(plugin: str, error: BaseException, seconds: float) -> Verdict:
    """Return the refusal of a job over which a plugin or the scheduler failed, with the time of the next try."""
    who = f'plugin "{plugin}"' if plugin else "the scheduler"
    cause = shortened(f"{type(error).__name__}: {error}", _LONGEST_CAUSE)
    message = f"{who} failed over this pod group ({cause}); it is tried again after {seconds:g}s or when it changes"
    return _of_ours(Verdict(Step.INVALID, plugin, Scope.JOB, PLUGIN_ERROR, message, resolvable=False))


def too_expensive(used: float, budget: float, seconds: float) -> Verdict:
    """Return the refusal of a job that took too much of a session's time."""
    message = (
        f"deciding about this pod group took {used:.1f}s of the {budget:g}s that a session has; "
        f"it is tried again after {seconds:g}s or when it changes"
    )
    return _of_ours(Verdict(Step.INVALID, "", Scope.JOB, TOO_EXPENSIVE, message, resolvable=False))


def _of_ours(verdict: Verdict) -> Verdict:
    """Return the refusal with a reason that says that more nodes would not help."""
    return msgspec.structs.replace(verdict, shown_as=ConditionReason.SCHEDULER_ERROR)
