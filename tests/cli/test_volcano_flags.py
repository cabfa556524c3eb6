"""`volsched run` and `volsched controllers` take what Volcano's programs are told, and say what it does not change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import click
import pytest
from click.testing import CliRunner
from structlog.testing import capture_logs

from tests.cli import volcano_arguments as volcano
from volsched import operator
from volsched.cli import controllers, run
from volsched.cli.inputs.volcano_flags import report_what_has_no_effect
from volsched.run import runner

VERBS = {"run": run, "controllers": controllers}
FLAGS = {"run": volcano.SCHEDULER_FLAGS, "controllers": volcano.CONTROLLERS_FLAGS}
LISTS = {
    "run": (volcano.SCHEDULER_OF_CHART, volcano.SCHEDULER_OF_SEED, volcano.SCHEDULER_WITH_ALL_VALUES),
    "controllers": (volcano.CONTROLLERS_OF_CHART, volcano.CONTROLLERS_WITH_ALL_VALUES),
}
STANDING_ALONE = ("logtostderr", "alsologtostderr", "enable-healthz", "enable-metrics", "leader-elect", "one_output")
"""Switches that need no value: what follows them is another argument."""


def command(verb: str) -> click.Command:
    found = getattr(VERBS[verb], verb)
    assert isinstance(found, click.Command)
    return found


def parsed(verb: str, arguments: Iterable[str]) -> click.Context:
    return command(verb).make_context(verb, list(arguments))


def taken(verb: str, arguments: Iterable[str]) -> dict[str, Any]:
    """The parameters, without the sign that click leaves before the value of a flag of one letter (`-v=3`)."""
    return {
        name: tuple(text.removeprefix("=") for text in value) if name.startswith("unused_") else value
        for name, value in parsed(verb, arguments).params.items()
    }


def options(verb: str, *arguments: str) -> Any:
    return VERBS[verb].options_from(parsed(verb, arguments).params)


def warnings(verb: str, *arguments: str) -> list[list[str]]:
    """The arguments that each line of the log says have no effect."""
    with capture_logs() as lines:
        report_what_has_no_effect(parsed(verb, arguments))
    assert {line["log_level"] for line in lines} <= {"warning"}
    return [line["arguments"] for line in lines]


def every(flags: Mapping[str, Mapping[str, str]]) -> list[tuple[str, str, str]]:
    return [(verb, name, value) for verb, known in flags.items() for name, value in known.items()]


@pytest.mark.parametrize(("verb", "name", "value"), every(FLAGS))
def test_each_flag_of_volcano_is_taken_with_hyphens_and_underscores(verb: str, name: str, value: str) -> None:
    dashes = "-" if len(name) == 1 else "--"

    forms = (
        [f"{dashes}{name}={value}"],
        [f"{dashes}{name}", value],
        [f"{dashes}{name.replace('-', '_')}={value}"],
        [f"{dashes}{name.replace('_', '-')}={value}"],
    )
    first, *others = [taken(verb, form) for form in forms]
    assert others == [first] * 3


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("name", STANDING_ALONE)
def test_a_switch_may_stand_alone_also_before_what_is_meant_for_a_shell(verb: str, name: str) -> None:
    assert parsed(verb, [f"--{name}", "2>&1"]).params == parsed(verb, [f"--{name}=true"]).params
    assert parsed(verb, [f"--{name}", "--kube-api-qps=1"]).params["kube_api_qps"] == 1


@pytest.mark.parametrize("verb", VERBS)
def test_lists_of_the_chart_and_of_the_seed_are_taken_word_for_word(verb: str) -> None:
    for arguments in LISTS[verb]:
        assert options(verb, *arguments)


def test_the_seeds_scheduler_is_told_what_the_seed_says() -> None:
    found = options("run", *volcano.SCHEDULER_OF_SEED)

    assert isinstance(found, runner.SchedulerOptions)
    assert found.scheduler_conf == "/volcano.scheduler/volcano-scheduler.conf"
    assert (found.leader_elect, found.schedule_period, found.qps, found.burst) == (True, 3.0, 2000.0, 2000)


def test_what_has_no_effect_is_named_in_one_warning() -> None:
    assert warnings("run", *volcano.SCHEDULER_OF_SEED) == [
        ["--enable-healthz", "--enable-metrics", "--logtostderr", "--node-worker-threads", "-v", "2>&1"]
    ]
    assert warnings("run", "--log_dir=/x", "--log_dir=/y", "1>/dev/null") == [["--log-dir", "1>/dev/null"]]
    assert warnings("run", "--schedule-period=3s", "--leader-elect") == []


def test_controllers_that_are_not_here_are_named_too() -> None:
    with capture_logs() as lines:
        context = parsed("controllers", ["--controllers=*,-sharding-controller,-job-controller"])
        report_what_has_no_effect(context, controllers._absent(context.params["words"]))

    assert [line["arguments"] for line in lines] == [["--controllers=-sharding-controller"]]


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--logtostder"], "--logtostderr"),
        (["--leader-elct=true", "2>&1"], "--leader-elect"),
        (["--shceduler-name=x"], "--scheduler-name"),
        (["--kube-api-qps"], "requires an argument"),
        (["somebody"], "somebody"),
        (["2>1&", "&1"], "&1"),
    ],
)
def test_a_slip_of_the_pen_is_still_an_error(verb: str, arguments: list[str], said: str) -> None:
    result = CliRunner().invoke(command(verb), arguments)

    assert result.exit_code == 2
    assert said in result.output


@pytest.mark.parametrize("verb", VERBS)
def test_version_is_printed_and_that_is_all(verb: str) -> None:
    result = CliRunner().invoke(command(verb), ["--version"])

    assert result.exit_code == 0
    assert result.output.startswith("volsched ")


@pytest.mark.parametrize("verb", VERBS)
def test_the_old_name_of_the_leases_namespace_counts_as_it_does_with_volcano(verb: str) -> None:
    both = ("--lock-object-namespace=old", "--leader-elect-resource-namespace=new")

    assert options(verb, both[0]).lease.namespace == "old"
    assert options(verb, *both).lease.namespace == "old"
    assert options(verb, both[1]).lease.namespace == "new"


# --- flags that mean here what they mean there ------------------------------------------------------------------------


def test_labels_of_nodes_are_repeated_or_joined() -> None:
    given = ("--node-selector=volcano.sh/role:train, volcano.sh/role:serving", "--node-selector=zone:a")

    assert options("run", *given).node_selector == (
        ("volcano.sh/role", "train"),
        ("volcano.sh/role", "serving"),
        ("zone", "a"),
    )


@pytest.mark.parametrize("text", ["role", "role:", ":train", "role:train,", "role=train"])
def test_what_is_no_label_and_value_is_refused(text: str) -> None:
    result = CliRunner().invoke(run.run, [f"--node-selector={text}"])

    assert result.exit_code == 2
    assert "volcano.sh/role:train" in result.output


@pytest.mark.parametrize(
    ("given", "on"),
    [
        ((), {"job-controller", "pg-controller", "queue-controller"}),
        (("*",), {"job-controller", "pg-controller", "queue-controller"}),
        (("*,-job-controller,-sharding-controller",), {"pg-controller", "queue-controller"}),
        (("-job-controller", "*"), {"pg-controller", "queue-controller"}),
        (("pg-controller,+queue-controller",), {"pg-controller", "queue-controller"}),
        (("-job-controller",), set()),
        (("+gc-controller",), set()),
    ],
)
def test_controllers_are_switched_by_volcanos_rule(given: tuple[str, ...], on: set[str]) -> None:
    found = options("controllers", *(f"--controllers={text}" for text in given))

    assert isinstance(found, operator.options.ControllerOptions)
    assert set(found.controllers) == on


@pytest.mark.parametrize(("text", "said"), [("*,-jobs", "jobs"), ("pg-controller,-pg-controller", "twice"), ("", "''")])
def test_controllers_that_nobody_has_are_refused(text: str, said: str) -> None:
    result = CliRunner().invoke(controllers.controllers, [f"--controllers={text}"])

    assert result.exit_code == 2
    assert said in result.output
