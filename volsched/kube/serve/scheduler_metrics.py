"""Metrics of sessions, of waiting jobs, and of the configuration."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

from volsched.kube.histogram import Histogram
from volsched.kube.serve.metrics import Metrics
from volsched.kube.watch.config_state import VERDICTS, ConfigState
from volsched.model.values.series import Numbers
from volsched.ports import CycleReport

Timed = dict[tuple[str, ...], Histogram]

_WHY = ("queue", "step", "reason", "condition")


class SchedulerMetrics(Metrics):
    """The metrics of `volsched run`. `cycle` is called by the scheduling thread, everything else by the other one.

    `victim_searches` and `victims` count, by (action, queue), searches for pods to evict and pods evicted; see
    `CycleReport`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.config = ConfigState()
        self.last = CycleReport()
        self._last_at = 0.0
        self._sessions: Timed = {(): Histogram()}
        self._openings: Timed = {(): Histogram()}
        self._actions: Timed = {}
        self._plugins: Timed = {}
        self._job_attempts = 0
        self._placed = 0
        self._evicted = 0
        self._cut_short = 0
        self.victim_searches: Counter[tuple[str, ...]] = Counter()
        self.victims: Counter[tuple[str, ...]] = Counter()
        self._gang_searches: Counter[tuple[str, ...]] = Counter()
        self._add_sessions()
        self._add_decisions()
        self._add_waiting()
        self._add_configuration()
        self.add_series(lambda: self.last.series)

    def cycle(self, report: CycleReport) -> None:
        """Take in what a cycle did."""
        self.last, self._last_at = report, time.time()
        self._sessions[()].add(report.duration)
        self._openings[()].add(report.open_duration)
        for name, seconds in report.actions.items():
            self._actions.setdefault((name,), Histogram()).add(seconds)
        for name, seconds in report.plugins.items():
            self._plugins.setdefault((name,), Histogram()).add(seconds)
        self._job_attempts += report.job_attempts
        self._placed += report.placed
        self._evicted += report.evicted
        self._cut_short += bool(report.over)
        self.victim_searches.update(report.victim_searches)
        self.victims.update(report.victims)
        self._gang_searches.update(report.gang_searches)

    def add_plugin_errors(self, numbers: Callable[[], Numbers]) -> None:
        """Count what plugins failed with."""
        self.add("volsched_plugin_errors", "Errors of plugins, by plugin", ("plugin",), numbers, counts=True)

    # -- families -------------------------------------------------------------------------------------------------

    def _add_sessions(self) -> None:
        def sessions() -> Timed:
            return self._sessions

        def actions() -> Timed:
            return self._actions

        self.add_histograms("volsched_session_duration_seconds", "Length of a session", (), sessions)
        self.add_histograms("volsched_action_duration_seconds", "Length of an action", ("action",), actions)
        self.add_histograms(
            "volsched_plugin_open_duration_seconds", "Opening of a plugin", ("plugin",), lambda: self._plugins
        )
        self.add_histograms("volcano_e2e_scheduling_latency_milliseconds", "Length of a session", (), sessions, 1e3)
        self.add_histograms(
            "volcano_open_session_duration_milliseconds", "Opening a session", (), lambda: self._openings, 1e3
        )
        self.add_histograms("volcano_action_scheduling_latency_milliseconds", "Actions", ("action",), actions, 1e3)
        self.add_histograms(
            "volcano_plugin_scheduling_latency_milliseconds",
            "Plugins",
            ("plugin", "OnSession"),
            lambda: {(*name, "OnSessionOpen"): histogram for name, histogram in dict(self._plugins).items()},
            1e3,
        )
        self.add("volsched_last_session_age_seconds", "Since the last session ended", (), self._last_session_age)

    def _add_decisions(self) -> None:
        self.add(
            "volsched_sessions_cut_short",
            "Sessions that ended before they were through",
            (),
            lambda: {(): self._cut_short},
            counts=True,
        )
        self.add(
            "volsched_job_attempts", "Jobs that a session tried", (), lambda: {(): self._job_attempts}, counts=True
        )
        self.add(
            "volsched_gang_searches",
            "Gangs whose pods found no nodes one by one, by what came of a search for all of them",
            ("outcome",),
            lambda: dict(self._gang_searches),
            counts=True,
        )
        self.add(
            "volsched_pods_placed", "Pods for which a node was decided", (), lambda: {(): self._placed}, counts=True
        )
        self.add(
            "volsched_pods_evicted", "Pods whose eviction was decided", (), lambda: {(): self._evicted}, counts=True
        )

    def _add_waiting(self) -> None:
        self.add("volsched_pending_pods", "Pods that wait, by queue and why", _WHY, lambda: self.last.waiting.pods)
        self.add("volsched_pending_jobs", "Jobs with pods that wait", _WHY, lambda: self.last.waiting.jobs)
        self.add(
            "volsched_oldest_pending_pod_age_seconds",
            "Since the oldest waiting pod of the queue was created",
            ("queue",),
            self._oldest_ages,
        )
        self.add("volcano_unschedule_job_count", "Jobs with pods that wait", (), lambda: {(): self.last.waiting_jobs})

    def _add_configuration(self) -> None:
        config = self.config
        self.add(
            "volsched_config_valid",
            "Whether the newest configuration is the one in force",
            (),
            lambda: {(): float(config.valid)},
        )
        self.add(
            "volsched_config_last_reload_timestamp_seconds",
            "When the configuration in force was loaded",
            (),
            lambda: {(): config.loaded_at},
        )
        self.add(
            "volsched_config_last_verdict_timestamp_seconds",
            "When the newest configuration was judged",
            (),
            lambda: {(): config.judged_at},
        )
        self.add(
            "volsched_config_info",
            "The configuration in force",
            ("hash", "source"),
            lambda: {(config.hash, config.source): 1} if config.hash else {},
        )
        self.add(
            "volsched_config_newest_info",
            "The newest configuration, and what became of it",
            ("hash", "source", "verdict"),
            lambda: {(config.newest, config.source, config.verdict): 1} if config.verdict else {},
        )
        self.add(
            "volsched_config_verdicts",
            "Configurations that were judged",
            ("verdict",),
            lambda: {(verdict,): config.verdicts[verdict] for verdict in VERDICTS},
            counts=True,
        )

    def _last_session_age(self) -> Numbers:
        return {(): time.time() - self._last_at} if self._last_at else {}

    def _oldest_ages(self) -> Numbers:
        now = time.time()
        return {(queue,): max(0.0, now - created) for queue, created in self.last.waiting.oldest.items()}
