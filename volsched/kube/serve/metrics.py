"""Metrics for Prometheus: families that are read on request, in its text format.

Names that Volcano's dashboards know are kept where they make sense; all else begins with `volsched_`. Counters and
histograms are updated as things happen; a present state (waiting pods, depth of a lane, usage of a queue) is read on
request, so the series of deleted objects disappear by themselves. Labels are bounded: queues and resources
(``label_bounds``), reasons, actions, plugins, kinds, verbs and codes; never a pod, and a node only if the number is
that of the node itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.process_collector import ProcessCollector

from volsched import __version__
from volsched.kube.histogram import Histogram
from volsched.kube.serve.label_bounds import LabelBounds
from volsched.model.values.series import Numbers, Series

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

Histograms: TypeAlias = Mapping[tuple[str, ...], Histogram]
Read: TypeAlias = Callable[[], Numbers]


@dataclass(frozen=True, slots=True)
class Distribution:
    """A family of histograms. Bounds and sums are shown times `scale`."""

    name: str
    help: str
    labels: tuple[str, ...] = ()
    scale: float = 1.0


@dataclass(slots=True, eq=False)
class Metrics:
    """All metrics of one process: add families at the start, `render` returns the text.

    Families are read on the thread that renders.
    """

    bounds: LabelBounds = field(default_factory=LabelBounds)
    _families: list[Callable[[], Metric]] = field(default_factory=list)
    _groups: list[Callable[[], Iterable[tuple[Series, Numbers]]]] = field(default_factory=list)
    _registry: CollectorRegistry | None = None

    def __post_init__(self) -> None:
        self.add("volsched_build_info", "This program", ("version",), lambda: {(__version__,): 1})

    def add(self, name: str, help_: str, labels: tuple[str, ...], read: Read, *, counts: bool = False) -> None:
        """Add a family whose numbers are read when asked for; one that `counts` only ever grows."""
        series = Series(name, help_, labels, counts)
        self._families.append(lambda: self._family(series, read()))

    def add_histograms(
        self, name: str, help_: str, labels: tuple[str, ...], read: Callable[[], Histograms], scale: float = 1.0
    ) -> None:
        """Add a family of histograms, shown times `scale`."""
        distribution = Distribution(name, help_, labels, scale)
        self._families.append(lambda: self._histograms(distribution, read()))

    def add_series(self, read: Callable[[], Iterable[tuple[Series, Numbers]]]) -> None:
        """Add families that are known only on request."""
        self._groups.append(read)

    def render(self) -> bytes:
        """Return everything in Prometheus' text format."""
        if self._registry is None:
            self._registry = CollectorRegistry(auto_describe=False)
            ProcessCollector(registry=self._registry)
            self._registry.register(self)
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """Yield all families; called by the registry."""
        for family in self._families:
            yield family()
        for group in self._groups:
            for series, numbers in group():
                yield self._family(series, numbers)

    def _histograms(self, distribution: Distribution, histograms: Histograms) -> Metric:
        family = HistogramMetricFamily(distribution.name, distribution.help, labels=distribution.labels)
        bounded = self.bounds.bounded(distribution.labels, dict(histograms), Histogram.of)
        for values, histogram in sorted(bounded.items()):
            buckets, total = histogram.buckets(distribution.scale)
            family.add_metric(values, buckets, total)
        return family

    def _family(self, series: Series, numbers: Numbers) -> Metric:
        make = CounterMetricFamily if series.counts else GaugeMetricFamily
        family = make(series.name, series.help, labels=series.labels)
        for values, number in sorted(self.bounds.bounded(series.labels, dict(numbers), sum).items()):
            family.add_metric(values, number)
        return family
