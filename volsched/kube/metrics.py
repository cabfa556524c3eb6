"""What the scheduler says of itself in numbers, for Prometheus.

Names that Volcano's dashboards know are kept where they make sense; all else begins with `volsched_`. Counters and
histograms are kept as they happen; everything that describes a present state (who waits for what, how deep a lane is,
what a queue uses) is read at the moment of asking, so the series of what no longer exists disappear by themselves.
Labels are bounded: queues, reasons, actions, plugins, kinds, verbs and codes; never a pod or a node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.process_collector import ProcessCollector

from volsched import __version__
from volsched.ports import CycleReport

SECONDS: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the histograms' buckets."""

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class Histogram:
    """Counts of values by bucket; only one thread may add to it."""

    __slots__ = ("_counts", "_sum")

    def __init__(self) -> None:
        self._counts = [0] * (len(SECONDS) + 1)
        self._sum = 0.0

    def add(self, seconds: float) -> None:
        """Count one value."""
        place = next((i for i, bound in enumerate(SECONDS) if seconds <= bound), len(SECONDS))
        self._counts[place] += 1
        self._sum += seconds

    def buckets(self, scale: float = 1.0) -> tuple[list[tuple[str, float]], float]:
        """Return cumulated counts by upper bound and the sum of all values, both times `scale`."""
        total = 0
        found: list[tuple[str, float]] = []
        for bound, count in zip((*SECONDS, None), self._counts, strict=True):
            total += count
            found.append(("+Inf" if bound is None else repr(bound * scale), total))
        return found, self._sum * scale


@dataclass(slots=True)
class ConfigState:
    """How the configuration stands: `valid` is about the newest text, the rest about the one in force.

    `loaded_at` is in seconds since the epoch.
    """

    valid: bool = False
    hash: str = ""
    loaded_at: float = 0.0
    source: str = ""
    problem: str = ""


Numbers: TypeAlias = Mapping[tuple[str, ...], float]
Histograms: TypeAlias = Mapping[tuple[str, ...], Histogram]


@dataclass(slots=True)
class Gauge:
    """One family of numbers, read when asked for."""

    name: str
    help: str
    labels: tuple[str, ...]
    read: Callable[[], Numbers]
    counts: bool = False
    """Whether it only ever grows."""


@dataclass(slots=True, eq=False)
class Metrics:
    """Collects everything; `render` gives the text. `cycle` is called by the scheduling thread, `add` at the start."""

    config: ConfigState = field(default_factory=ConfigState)
    last: CycleReport = field(default_factory=CycleReport)
    sessions: Histogram = field(default_factory=Histogram)
    openings: Histogram = field(default_factory=Histogram)
    actions: dict[str, Histogram] = field(default_factory=dict)
    plugins: dict[str, Histogram] = field(default_factory=dict)
    placed: int = 0
    evicted: int = 0
    hunts: Counter[tuple[str, str]] = field(default_factory=Counter)
    victims: Counter[tuple[str, str]] = field(default_factory=Counter)
    gauges: list[Gauge] = field(default_factory=list)
    _registry: CollectorRegistry | None = None

    def cycle(self, report: CycleReport) -> None:
        """Take in what a cycle did."""
        self.last = report
        self.sessions.add(report.duration)
        self.openings.add(report.open_duration)
        for name, seconds in report.actions.items():
            self.actions.setdefault(name, Histogram()).add(seconds)
        for name, seconds in report.plugins.items():
            self.plugins.setdefault(name, Histogram()).add(seconds)
        self.placed += report.placed
        self.evicted += report.evicted
        self.hunts.update(report.hunts)
        self.victims.update(report.victims)

    def add(
        self,
        name: str,
        help_: str,
        labels: tuple[str, ...],
        read: Callable[[], Numbers],
        *,
        counts: bool = False,
    ) -> None:
        """Add a family whose numbers are read when asked for."""
        self.gauges.append(Gauge(name, help_, labels, read, counts))

    def render(self) -> bytes:
        """Return everything in Prometheus' text format."""
        if self._registry is None:
            self._registry = CollectorRegistry(auto_describe=False)
            ProcessCollector(registry=self._registry)
            self._registry.register(self)
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """Yield all families; called by the registry."""
        yield from self._sessions()
        yield from self._counters()
        yield from self._configuration()
        for gauge in self.gauges:
            yield _family(gauge)

    # -- families -------------------------------------------------------------------------------------------------

    def _sessions(self) -> Iterator[Metric]:
        one: Histograms = {(): self.sessions}
        by_action: Histograms = {(name,): histogram for name, histogram in list(self.actions.items())}
        by_plugin: Histograms = {(name, "OnSessionOpen"): histogram for name, histogram in list(self.plugins.items())}
        yield _histogram("volsched_session_duration_seconds", "Length of a session", (), one)
        yield _histogram("volsched_action_duration_seconds", "Length of an action", ("action",), by_action)
        yield _histogram("volcano_e2e_scheduling_latency_milliseconds", "Length of a session", (), one, 1e3)
        opening: Histograms = {(): self.openings}
        yield _histogram("volcano_open_session_duration_milliseconds", "Opening a session", (), opening, 1e3)
        yield _histogram("volcano_action_scheduling_latency_milliseconds", "Actions", ("action",), by_action, 1e3)
        labels = ("plugin", "OnSession")
        yield _histogram("volcano_plugin_scheduling_latency_milliseconds", "Plugins", labels, by_plugin, 1e3)

    def _counters(self) -> Iterator[Metric]:
        last = self.last
        yield _counter("volsched_pods_placed", "Pods for which a node was decided", self.placed)
        yield _counter("volsched_pods_evicted", "Pods whose eviction was decided", self.evicted)
        yield _by_queue("volsched_preemption_attempts", "Searches for pods that could be evicted", self.hunts)
        yield _by_queue("volsched_preemption_victims", "Pods evicted, by the queue that needed the room", self.victims)
        waiting = GaugeMetricFamily(
            "volsched_pods_unschedulable", "Pods that wait, by queue and why", labels=("queue", "reason")
        )
        for (queue, reason), count in sorted(last.waiting.items()):
            waiting.add_metric((queue, reason), count)
        yield waiting
        yield GaugeMetricFamily("volcano_unschedule_job_count", "Jobs with pods that wait", value=last.waiting_jobs)
        build = GaugeMetricFamily("volsched_build_info", "This program", labels=("version",))
        build.add_metric((__version__,), 1)
        yield build

    def _configuration(self) -> Iterator[Metric]:
        config = self.config
        yield GaugeMetricFamily(
            "volsched_config_valid", "Whether the newest configuration is the one in force", value=float(config.valid)
        )
        loaded = GaugeMetricFamily(
            "volsched_config_last_reload_timestamp_seconds", "When the configuration in force was loaded"
        )
        loaded.add_metric((), config.loaded_at)
        yield loaded
        info = GaugeMetricFamily("volsched_config_info", "The configuration in force", labels=("hash", "source"))
        info.add_metric((config.hash, config.source), 1)
        yield info


def _histogram(name: str, help_: str, labels: tuple[str, ...], values: Histograms, scale: float = 1.0) -> Metric:
    family = HistogramMetricFamily(name, help_, labels=labels)
    for label_values, histogram in sorted(values.items()):
        buckets, total = histogram.buckets(scale)
        family.add_metric(label_values, buckets, total)
    return family


def _counter(name: str, help_: str, value: float) -> Metric:
    return CounterMetricFamily(name, help_, value=value)


def _by_queue(name: str, help_: str, counts: Mapping[tuple[str, str], int]) -> Metric:
    family = CounterMetricFamily(name, help_, labels=("action", "queue"))
    for labels, count in sorted(dict(counts).items()):
        family.add_metric(labels, count)
    return family


def _family(gauge: Gauge) -> Metric:
    family = (CounterMetricFamily if gauge.counts else GaugeMetricFamily)(gauge.name, gauge.help, labels=gauge.labels)
    for values, number in _sorted(gauge.read().items()):
        family.add_metric(values, number)
    return family


def _sorted(items: Iterable[tuple[tuple[str, ...], float]]) -> list[tuple[tuple[str, ...], float]]:
    return sorted(items, key=lambda item: item[0])
