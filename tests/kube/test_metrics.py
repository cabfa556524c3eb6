"""The metrics page: right counts, names that dashboards know, no series of what is gone."""

from __future__ import annotations

import time

from prometheus_client.parser import text_string_to_metric_families

from volsched.kube.histogram import Histogram
from volsched.kube.serve.metrics import Metrics
from volsched.kube.serve.scheduler_metrics import SchedulerMetrics
from volsched.kube.watch.config_state import LOADED, REFUSED
from volsched.model.values.series import Series
from volsched.ports import CycleReport, Waiting

Sample = tuple[str, tuple[tuple[str, str], ...]]


def samples(metrics: Metrics) -> dict[Sample, float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(metrics.render().decode())
        for sample in family.samples
    }


def sample(name: str, **labels: str) -> Sample:
    return name, tuple(sorted(labels.items()))


def test_a_histogram_counts_and_sums() -> None:
    histogram = Histogram()
    for value in (0.0004, 0.0005, 0.003, 99.0):
        histogram.add(value)

    buckets, total = histogram.buckets(1e3)

    assert buckets[0] == ("0.5", 2)
    assert buckets[3] == ("5", 3)
    assert buckets[-1] == ("+Inf", 4)
    assert round(total) == 99_004


def test_sessions_actions_and_what_waits() -> None:
    metrics = SchedulerMetrics()
    metrics.cycle(
        CycleReport(
            job_attempts=4,
            placed=3,
            evicted=1,
            duration=0.02,
            open_duration=0.001,
            actions={"allocate": 0.01},
            plugins={"gang": 0.001},
            waiting_jobs=2,
            waiting=Waiting(pods={("q1", "predicate", "FailedScheduling", "Unschedulable"): 7}),
        )
    )
    created = time.time() - 60
    metrics.cycle(
        CycleReport(
            job_attempts=3,
            placed=2,
            waiting=Waiting(
                pods={("q2", "allocatable", "Quota", "QuotaExceeded"): 2},
                jobs={("q2", "allocatable", "Quota", "QuotaExceeded"): 1},
                oldest={"q2": created},
            ),
        )
    )

    found = samples(metrics)

    assert found[sample("volsched_job_attempts_total")] == 7
    assert found[sample("volsched_pods_placed_total")] == 5
    assert found[sample("volsched_pods_evicted_total")] == 1
    assert found[sample("volsched_session_duration_seconds_count")] == 2
    assert found[sample("volcano_e2e_scheduling_latency_milliseconds_count")] == 2
    assert found[sample("volcano_action_scheduling_latency_milliseconds_sum", action="allocate")] == 10
    assert found[sample("volsched_plugin_open_duration_seconds_count", plugin="gang")] == 1
    assert (
        found[
            sample("volsched_pending_pods", queue="q2", step="allocatable", reason="Quota", condition="QuotaExceeded")
        ]
        == 2
    )
    assert (
        found[
            sample("volsched_pending_jobs", queue="q2", step="allocatable", reason="Quota", condition="QuotaExceeded")
        ]
        == 1
    )
    assert (
        sample(
            "volsched_pending_pods", queue="q1", step="predicate", reason="FailedScheduling", condition="Unschedulable"
        )
        not in found
    )
    assert 60 <= found[sample("volsched_oldest_pending_pod_age_seconds", queue="q2")] < 120


def test_what_is_read_at_the_moment_of_asking_leaves_no_series_behind() -> None:
    metrics = Metrics()
    queues = {("a",): 1.0, ("b",): 2.0}
    metrics.add("volcano_queue_allocated_milli_cpu", "CPU", ("queue_name",), lambda: queues)
    assert samples(metrics)[sample("volcano_queue_allocated_milli_cpu", queue_name="b")] == 2

    del queues["b",]

    found = samples(metrics)
    assert sample("volcano_queue_allocated_milli_cpu", queue_name="a") in found
    assert sample("volcano_queue_allocated_milli_cpu", queue_name="b") not in found


def test_series_of_plugins_are_shown_as_long_as_their_plugin_reports_them() -> None:
    metrics = SchedulerMetrics()
    cards, trials = Series("site_cards", "Cards", ("card",)), Series("site_trials", "WhatIf", counts=True)
    metrics.cycle(CycleReport(series=((cards, {("A100",): 8}), (trials, {(): 3}))))

    found = samples(metrics)
    assert found[sample("site_cards", card="A100")] == 8
    assert found[sample("site_trials_total")] == 3

    metrics.cycle(CycleReport())
    assert not any(name.startswith("site_") for name, _ in samples(metrics))


def test_the_configuration_in_force_and_the_newest_one_are_visible() -> None:
    metrics = SchedulerMetrics()
    assert samples(metrics)[sample("volsched_config_valid")] == 0
    metrics.config.source = "ConfigMap ns/c"
    metrics.config.judge(LOADED, "abc")

    found = samples(metrics)
    assert found[sample("volsched_config_valid")] == 1
    assert found[sample("volsched_config_info", hash="abc", source="ConfigMap ns/c")] == 1
    assert found[sample("volsched_config_newest_info", hash="abc", source="ConfigMap ns/c", verdict="loaded")] == 1
    loaded_at = found[sample("volsched_config_last_reload_timestamp_seconds")]
    assert loaded_at == found[sample("volsched_config_last_verdict_timestamp_seconds")] > 0

    metrics.config.judge(REFUSED, "def", "line 1: no such action")

    found = samples(metrics)
    assert found[sample("volsched_config_valid")] == 0
    assert found[sample("volsched_config_info", hash="abc", source="ConfigMap ns/c")] == 1
    assert found[sample("volsched_config_newest_info", hash="def", source="ConfigMap ns/c", verdict="refused")] == 1
    assert found[sample("volsched_config_last_reload_timestamp_seconds")] == loaded_at
    assert found[sample("volsched_config_verdicts_total", verdict="loaded")] == 1
    assert found[sample("volsched_config_verdicts_total", verdict="refused")] == 1
