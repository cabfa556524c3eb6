"""The metrics page: right counts, names that dashboards know, no series of what is gone."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from volsched.kube.metrics import Histogram, Metrics
from volsched.ports import CycleReport


def samples(metrics: Metrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(metrics.render().decode())
        for sample in family.samples
    }


def test_a_histogram_counts_and_sums() -> None:
    histogram = Histogram()
    for value in (0.0004, 0.003, 99.0):
        histogram.add(value)

    buckets, total = histogram.buckets(1e3)

    assert buckets[0] == ("0.5", 1)
    assert buckets[-1] == ("+Inf", 3)
    assert round(total) == 99_003


def test_sessions_actions_and_waiting_pods() -> None:
    metrics = Metrics()
    metrics.cycle(
        CycleReport(
            placed=3,
            evicted=1,
            duration=0.02,
            open_duration=0.001,
            actions={"allocate": 0.01},
            plugins={"gang": 0.001},
            waiting_jobs=2,
            waiting={("q1", "Unschedulable"): 7},
        )
    )
    metrics.cycle(CycleReport(placed=2, waiting={("q2", "InsufficientScalarQuota"): 1}))

    found = samples(metrics)

    assert found["volsched_pods_placed_total", ()] == 5
    assert found["volsched_pods_evicted_total", ()] == 1
    assert found["volsched_session_duration_seconds_count", ()] == 2
    assert found["volcano_e2e_scheduling_latency_milliseconds_count", ()] == 2
    assert found["volcano_action_scheduling_latency_milliseconds_sum", (("action", "allocate"),)] == 10
    assert found["volsched_pods_unschedulable", (("queue", "q2"), ("reason", "InsufficientScalarQuota"))] == 1
    assert ("volsched_pods_unschedulable", (("queue", "q1"), ("reason", "Unschedulable"))) not in found


def test_what_is_read_at_the_moment_of_asking_leaves_no_series_behind() -> None:
    metrics = Metrics()
    queues = {("a",): 1.0, ("b",): 2.0}
    metrics.add("volcano_queue_allocated_milli_cpu", "CPU", ("queue_name",), lambda: queues)
    assert samples(metrics)["volcano_queue_allocated_milli_cpu", (("queue_name", "b"),)] == 2

    del queues["b",]

    found = samples(metrics)
    assert ("volcano_queue_allocated_milli_cpu", (("queue_name", "a"),)) in found
    assert ("volcano_queue_allocated_milli_cpu", (("queue_name", "b"),)) not in found


def test_the_configuration_is_visible() -> None:
    metrics = Metrics()
    assert samples(metrics)["volsched_config_valid", ()] == 0
    metrics.config.valid, metrics.config.hash, metrics.config.source = True, "abc", "ConfigMap ns/c"
    metrics.config.loaded_at = 12.0

    found = samples(metrics)

    assert found["volsched_config_valid", ()] == 1
    assert found["volsched_config_last_reload_timestamp_seconds", ()] == 12
    assert found["volsched_config_info", (("hash", "abc"), ("source", "ConfigMap ns/c"))] == 1
