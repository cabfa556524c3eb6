"""Labels whose values users write are bounded; what is too much is summed up."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from volsched.kube.histogram import Histogram
from volsched.kube.serve.label_bounds import MOST, OTHER, LabelBounds
from volsched.kube.serve.metrics import Metrics

FEW = LabelBounds(most={"queue": 2}, known={"queue": lambda: {"z-real"}})


def test_objects_that_exist_are_shown_first_and_the_rest_is_summed_up() -> None:
    numbers = {(queue, "cpu"): 1.0 for queue in ("a", "b", "c", "z-real")} | {("b", "memory"): 5.0}

    assert FEW.bounded(("queue", "what"), numbers, sum) == {
        ("a", "cpu"): 1.0,
        ("z-real", "cpu"): 1.0,
        (OTHER, "cpu"): 2.0,
        (OTHER, "memory"): 5.0,
    }


@given(st.dictionaries(st.tuples(st.text(max_size=2), st.sampled_from("xy")), st.integers(0, 9)))
def test_nothing_is_lost_and_no_label_has_more_values_than_it_may(numbers: dict[tuple[str, ...], int]) -> None:
    found = FEW.bounded(("queue", "what"), numbers, sum)

    assert sum(found.values()) == sum(numbers.values())
    assert len({queue for queue, _ in found} - {OTHER}) <= 2


def test_other_labels_are_as_they_are() -> None:
    numbers = {(str(number),): 1.0 for number in range(5000)}
    assert LabelBounds().bounded(("node",), numbers, sum) is numbers


def test_a_page_has_so_many_queues_however_many_are_named() -> None:
    metrics, histogram = Metrics(), Histogram()
    histogram.add(0.3)
    names = [f"q{number}" for number in range(MOST["queue"] + 7)]
    metrics.add("volsched_pending_pods", "", ("queue",), lambda: {(name,): 1.0 for name in names})
    metrics.add_histograms("volsched_waits", "", ("queue",), lambda: {(name,): histogram for name in names})

    families = {family.name: family for family in text_string_to_metric_families(metrics.render().decode())}
    pods = {sample.labels["queue"]: sample.value for sample in families["volsched_pending_pods"].samples}
    assert len(pods) == MOST["queue"] + 1
    assert pods[OTHER] == 7
    [count] = [
        sample.value
        for sample in families["volsched_waits"].samples
        if sample.name.endswith("_count") and sample.labels["queue"] == OTHER
    ]
    assert count == 7
