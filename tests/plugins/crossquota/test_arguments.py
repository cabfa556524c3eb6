"""What crossquota can be told: the table of arguments, and what is said of what cannot be used."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugins.crossquota.arguments import ARGUMENTS, CrossQuotaArguments, check_arguments, parse
from volsched.framework.config.arguments import ArgumentProblem, check
from volsched.framework.resource_patterns import DeviceNames
from volsched.model.selectors import EVERYTHING, LabelSelector

NAMES, RESOURCES = "gpu-resource-names", "quota-resources"
GPU = "nvidia.com/gpu"


def read(**arguments: Any) -> CrossQuotaArguments:
    return parse(check("plugin crossquota", ARGUMENTS, {NAMES: GPU, **arguments}).values)


def problems(**arguments: Any) -> list[ArgumentProblem]:
    return list(check("plugin crossquota", ARGUMENTS, {NAMES: GPU, **arguments}, check_arguments).problems)


def warnings(**arguments: Any) -> list[str]:
    found = problems(**arguments)
    assert {problem.severity for problem in found} <= {"warning"}
    return [problem.message for problem in found]


def error(**arguments: Any) -> str:
    (found,) = (problem for problem in problems(**arguments) if problem.severity == "error")
    return found.message


# --- the table ------------------------------------------------------------------------------------------------------


def test_p01_lists_in_one_text() -> None:
    found = read(**{NAMES: "nvidia.com/gpu,amd.com/gpu", RESOURCES: "cpu,memory,ephemeral-storage"})

    assert [found.devices.include(name) for name in (GPU, "amd.com/gpu", "intel.com/gpu")] == [True, True, False]
    assert found.limits.resources == ("cpu", "memory", "ephemeral-storage")


@pytest.mark.parametrize(
    ("given", "resources"),
    [
        ({}, ("cpu",)),  # P02
        ({RESOURCES: "  cpu , memory  "}, ("cpu", "memory")),  # P06
        ({RESOURCES: ""}, ("cpu",)),  # P06
        ({RESOURCES: ["memory", "cpu"]}, ("memory", "cpu")),  # D3
        ({RESOURCES: "cpu,memory,cpu,,memory"}, ("cpu", "memory")),  # D24
    ],
)
def test_resources_are_listed_once_in_their_order_and_cpu_stands_for_none(given: Any, resources: Any) -> None:
    assert read(**given).limits.resources == resources


def test_p04_patterns_that_all_fail_are_an_error() -> None:
    assert error(**{NAMES: "[invalid"}) == (
        'gpu-resource-names has no pattern that can be used: the text "[invalid" is no regular expression: '
        "missing ]: [invalid"
    )


def test_one_pattern_that_fails_is_a_warning_and_the_others_count() -> None:
    (said,) = warnings(**{NAMES: f"[invalid,{GPU}"})

    assert said.startswith('gpu-resource-names has a pattern that is left out: the text "[invalid" is no regular ')
    assert read(**{NAMES: f"[invalid,{GPU}"}).devices.include(GPU)


def test_p27_without_arguments_nothing_is_a_gpu_node_and_that_is_said() -> None:
    found = read(**{NAMES: ""})

    assert not found.devices
    assert (found.limits.resources, found.scale, found.weights) == (("cpu",), 10.0, (10.0,))
    assert read(**{RESOURCES: "cpu,memory,other"}).weights == (10.0, 1.0, 1.0)
    assert warnings(**{NAMES: ""}) == [
        "gpu-resource-names is missing or empty: no node counts as a GPU node, so crossquota does nothing"
    ]


@pytest.mark.parametrize("given", [32, 32.0, "32", " 32 ", "32000m"])
def test_p09_a_number_counts_as_a_text_does(given: Any) -> None:
    assert read(**{"quota.cpu": given}).limits.amounts == {"cpu": 32000}


@pytest.mark.parametrize("given", ["invalid", "", None, True, "-1", -1, float("nan"), float("inf"), ["1"]])
def test_p11_a_quota_that_is_none_is_warned_of_and_left_out(given: Any) -> None:
    assert read(**{"quota.cpu": given}).limits.amounts == {}
    (said,) = warnings(**{"quota.cpu": given})
    assert said.startswith("quota.cpu of plugin crossquota must be a quantity")


@pytest.mark.parametrize("given", ["150", "0", "-5", "50%", "NaN", float("nan"), True, ""])
def test_p12_a_percentage_that_is_none_is_warned_of_and_left_out(given: Any) -> None:
    assert read(**{"quota-percentage.cpu": given}).limits.percentages == {}
    (said,) = warnings(**{"quota-percentage.cpu": given})
    assert said.startswith("quota-percentage.cpu of plugin crossquota must be a number above 0 and at most 100")


@pytest.mark.parametrize("given", [" 60 ", 60, 60.0, "60"])
def test_p14_spaces_and_numbers(given: Any) -> None:
    assert read(**{"quota-percentage.cpu": given}).limits.percentages == {"cpu": Fraction(60)}


@pytest.mark.parametrize(
    ("given", "scale", "weights"),
    [
        ({"crossQuotaWeight": 10, "weight.cpu": 15, "weight.memory": 5}, 10, (15, 5)),  # P15
        ({"crossQuotaWeight": 20.0, "weight.cpu": 12.0, "weight.memory": 3.0}, 20, (12, 3)),  # P16
        ({"weight.cpu": "8", "weight.memory": "2"}, 10, (8, 2)),  # P17
        ({"weight.cpu": "invalid", "weight.memory": 5}, 10, (10, 5)),  # P18
        ({"crossQuotaWeight": "20"}, 20, (10, 1)),
        ({"crossQuotaWeight": True, "weight.cpu": -1}, 10, (10, 1)),
    ],
)
def test_weights(given: dict[str, Any], scale: float, weights: tuple[float, ...]) -> None:
    found = read(**{RESOURCES: "cpu,memory", **given})

    assert (found.scale, found.weights) == (scale, weights)
    assert bool(warnings(**{RESOURCES: "cpu,memory", **given})) == any(v in ("invalid", -1) for v in given.values())


def test_p25_resources_of_any_name() -> None:
    found = read(**{RESOURCES: "cpu,example.com/fpga", "quota.example.com/fpga": "2"})

    assert found.limits.amounts == {"example.com/fpga": 2000}
    assert found.weights == (10.0, 1.0)


# --- what is said ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({RESOURCES: "memory", "quota.memory": "64"}, "quota.memory 64 is less than 1Mi; quotas count bytes: write a"),
        (
            {RESOURCES: "hugepages-2Mi", "quota.hugepages-2Mi": 2},
            "quota.hugepages-2Mi 2 is less than one page; quotas count bytes, not pages: two pages are 2 times 2Mi",
        ),
        ({"quota.memory": "64Gi"}, "quota.memory has no effect: memory is not among quota-resources (cpu)"),
        ({"quota-percentage.memory": 5}, "quota-percentage.memory has no effect: memory is not among"),
        ({"weight.memory": 5}, "weight.memory has no effect: memory is not among quota-resources (cpu)"),
        (
            {RESOURCES: "CPU,memory"},
            "quota-resources has CPU, which no node offers: resources have a domain, but for cpu,",
        ),
        ({RESOURCES: "gpu"}, "quota-resources has gpu, which no node offers"),
        ({"crossQuotaWeight": -1}, "crossQuotaWeight is below 0, which counts as 0: nodes are not scored"),
        ({"weight.cpu": 0}, "crossQuotaWeight has no effect: the weight of every resource is 0"),
        ({"crossQuotaWeight": 0, "non-gpu-node-score": 5}, "non-gpu-node-score has no effect while crossQuotaWeight"),
        ({NAMES: "nvidia.com/gpu,pu$"}, "gpu-resource-names matches cpu: every node counts as a GPU node"),
    ],
)
def test_what_is_hardly_meant_is_a_warning(given: dict[str, Any], said: str) -> None:
    (found,) = warnings(**given)

    assert found.startswith(said)


def test_scores_that_are_switched_off_are_no_reason_for_a_warning() -> None:
    assert warnings(crossQuotaWeight=0, **{"weight.cpu": 0}) == []


def test_a_resource_that_no_node_offers_is_told_with_the_one_that_was_meant() -> None:
    (found,) = warnings(**{RESOURCES: ["cpu", "ephemeral_storage", "hugepages-2Mi", "pods", "example.com/fpga"]})

    assert found.endswith("pods, ephemeral-storage and hugepages-*; did you mean ephemeral-storage?")


@pytest.mark.parametrize(
    "given",
    [
        {RESOURCES: "memory,hugepages-2Mi", "quota.memory": "0", "quota.hugepages-2Mi": "2Mi"},
        {"crossQuotaWeight": 0},
        {"non-gpu-node-score": 20, "exempt-resource-claims": True, "label-selector": {"matchLabels": {"a": "b"}}},
    ],
)
def test_what_may_be_meant_is_not(given: dict[str, Any]) -> None:
    assert warnings(**given) == []


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"label-selector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}},
            "unknown operator 'Near'",
        ),  # D21
        ({"label-selector": "a=b"}, "label-selector of plugin crossquota must be a mapping"),
        ({RESOURCES: "cpu memory"}, 'quota-resources: the text "cpu memory" is not the name of a resource'),
        ({NAMES: 5}, "gpu-resource-names of plugin crossquota must be a list of names"),
        ({"non-gpu-node-score": -1}, "non-gpu-node-score of plugin crossquota must be at least 0, not -1"),
        ({"exempt-resource-claims": "maybe"}, "exempt-resource-claims of plugin crossquota must be true or false"),
        ({"crossQuotaWieght": 5}, "did you mean crossQuotaWeight?"),
    ],
)
def test_what_would_change_whom_it_is_for_is_an_error(given: dict[str, Any], said: str) -> None:
    assert said in error(**given)


def test_the_selector_is_everything_when_none_is_given() -> None:
    assert read().selector == EVERYTHING
    assert read(**{"label-selector": {"matchLabels": {"a": "b"}}}).selector == LabelSelector.of({"a": "b"})


# --- patterns -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "name", "is_one"),
    [
        (GPU, "nvidia.com/gpumem", True),  # D1: found anywhere
        ("^nvidia.com/gpu$", "nvidia.com/gpumem", False),
        (r".*\.com/gpu", "amd.com/gpu", True),  # C15
        ("nvidia.com/mig-.*", "nvidia.com/mig-1g.10gb", True),
        ("(?i)NVIDIA", GPU, True),
        (r"gpu\z", GPU, True),  # Go's syntax
        ("[[:alpha:]]+/gpu", GPU, True),
    ],
)
def test_patterns_are_regular_expressions_of_go(pattern: str, name: str, is_one: bool) -> None:
    assert read(**{NAMES: [pattern]}).devices.include(name) == is_one


def test_a_comma_inside_a_pattern_stands_in_a_list() -> None:
    assert read(**{NAMES: ["g.{1,2}u"]}).devices.include(GPU)


@pytest.mark.parametrize("pattern", ["(?=gpu)", r"(a)\1", "a{1001}", "(?P<n", "\\"])
def test_what_is_no_pattern_says_why(pattern: str) -> None:
    assert "is no regular expression: " in error(**{NAMES: [pattern]})


def test_a_search_takes_time_that_grows_with_the_name_only() -> None:
    devices = read(**{NAMES: ["(a+)+$", "(a|aa)+$", "(.*)*x"]}).devices

    assert not devices.include("a" * 200 + "!")  # backtracking would not come to an end


# --- anything -------------------------------------------------------------------------------------------------------

VALUES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.lists(st.text(max_size=9))
KEYS = st.sampled_from([a.key.replace("*", "cpu") for a in ARGUMENTS] + ["quota.memory", "weight.x/y", "quota."])


@given(st.dictionaries(KEYS, VALUES, max_size=6))
def test_any_arguments_are_read_or_refused_with_messages(given: dict[str, Any]) -> None:
    checked = check("plugin crossquota", ARGUMENTS, given, check_arguments)
    found = parse(checked.values)

    assert all(problem.message for problem in checked.problems)
    assert all(amount >= 0 for amount in found.limits.amounts.values())
    assert all(0 < part <= 100 for part in found.limits.percentages.values())
    assert all(weight >= 0 for weight in found.weights)
    again = check("plugin crossquota", ARGUMENTS, checked.values, check_arguments)
    assert again.values == checked.values


def test_a_pattern_that_is_too_long_is_left_out_and_named() -> None:
    found = DeviceNames(["nvidia", r"\p{L}" * 40_000])
    assert found.include("nvidia.com/gpu")
    assert list(found.faults.values()) == ["it is longer than 1000 characters"]
