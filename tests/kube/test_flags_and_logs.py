"""The flags of `volsched run`, and one format for all log lines."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

import click
import pytest
import structlog
from click.testing import CliRunner

from volsched import logs
from volsched.cli.run import Duration, options_from, run
from volsched.run.runner import SchedulerOptions


def parsed(*arguments: str) -> SchedulerOptions:
    context = run.make_context("run", list(arguments))
    found = options_from(context.params)
    assert isinstance(found, SchedulerOptions)
    return found


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("15s", 15), ("1m30s", 90), ("500ms", 0.5), ("1h", 3600), ("2", 2), ("1.5", 1.5), ("1.5s", 1.5)],
)
def test_durations_as_go_writes_them(text: str, seconds: float) -> None:
    assert Duration().convert(text, None, None) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "s", "15 s", "15x", "-1s", "1s2"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(click.UsageError):
        Duration().convert(text, None, None)


def test_volcanos_flags_are_understood() -> None:
    options = parsed(
        "--scheduler-name=volcano",
        "--scheduler-name=volsched",
        "--schedule-period=3s",
        "--leader-elect=false",
        "--kube-api-qps=2000",
        "--kube-api-burst=2000",
        "--default-queue=team",
        "--node-worker-threads=20",
        "--enable-metrics=true",
        "--enable-healthz",
        "--logtostderr",
        "-v=3",
    )

    assert options.scheduler_names == ("volcano", "volsched")
    assert (options.schedule_period, options.leader_elect, options.qps, options.burst) == (3.0, False, 2000.0, 2000)
    assert options.default_queue == "team"


def test_plain_pods_are_scheduled_directly_in_kube_schedulers_place() -> None:
    assert not parsed().is_direct
    assert parsed("--scheduler-name", "default-scheduler").is_direct
    assert not parsed("--scheduler-name", "default-scheduler", "--plain-pods", "podgroup").is_direct
    assert parsed("--plain-pods", "direct").is_direct


@pytest.mark.parametrize(
    ("names", "lease"),
    [
        ((), "volsched-system/volsched"),
        (("volcano",), "volcano-system/volsched"),
        (("volcano", "volsched"), "volsched-system/volsched"),
        (("default-scheduler",), "kube-system/kube-scheduler"),
    ],
)
def test_the_lease_is_in_a_namespace_that_there_is_where_such_a_scheduler_runs(
    names: tuple[str, ...], lease: str
) -> None:
    options = parsed(*(f"--scheduler-name={name}" for name in names))

    assert f"{options.lease.namespace}/{options.lease.name}" == lease


@pytest.mark.parametrize(
    ("arguments", "seconds"),
    [
        ((), 0.0),
        (("--scheduler-name=volcano",), 1.0),
        (("--scheduler-name=volcano", "--settle=0"), 0.0),
        (("--scheduler-name=volcano", "--scheduler-name=volsched"), 0.0),
        (("--settle=250ms",), 0.25),
    ],
)
def test_changes_wait_for_others_as_long_as_volcano_does_in_its_place(
    arguments: tuple[str, ...], seconds: float
) -> None:
    assert parsed(*arguments).settle == seconds


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--scheduler-conf", "f", "--scheduler-configmap", "a/b"), "exclude"),
        (("--scheduler-configmap", "just-a-name"), "NAMESPACE/NAME"),
        (("--leader-elect-renew-deadline", "20s"), "renew deadline"),
        (("--schedule-period", "0"), "positive"),
        (("--settle", "6s"), "0 to 5s"),
        (("--no-such-flag",), "--no-such-flag"),
    ],
)
def test_contradictions_end_with_status_two(arguments: tuple[str, ...], said: str) -> None:
    result = CliRunner().invoke(run, list(arguments))

    assert result.exit_code == 2
    assert said in result.output


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    found = io.StringIO()
    root, handlers, level = logging.getLogger(), logging.getLogger().handlers[:], logging.getLogger().level
    yield found
    root.handlers[:], root.level = handlers, level
    structlog.reset_defaults()


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_ours_and_libraries_lines_have_one_form(stream: io.StringIO) -> None:
    logs.setup("info", "json", stream)

    structlog.get_logger("volsched.test").info("pod bound", pod="ns/p", node="n1")
    logging.getLogger("aiohttp.server").error("odd %s", "request", extra={"peer": "x"})

    ours, theirs = lines(stream)
    assert (ours["event"], ours["pod"], ours["node"], ours["level"]) == ("pod bound", "ns/p", "n1", "info")
    assert (theirs["event"], theirs["logger"], theirs["level"]) == ("odd request", "aiohttp.server", "error")
    assert ours["time"].endswith("Z")


def test_the_level_changes_while_running(stream: io.StringIO) -> None:
    logs.setup("warning", "json", stream)
    log = structlog.get_logger("volsched.test")
    log.info("not seen")
    logs.set_level("debug")
    log.debug("seen")

    assert [line["event"] for line in lines(stream)] == ["seen"]
    assert logs.level_name() == "debug"
    with pytest.raises(ValueError, match="no log level"):
        logs.set_level("loud")


def test_a_terminal_gets_text(stream: io.StringIO) -> None:
    logs.setup("info", "console", stream)

    structlog.get_logger("volsched.test").info("pod bound", pod="ns/p")

    assert "pod bound" in stream.getvalue()
    assert not stream.getvalue().startswith("{")


def raised(make: Callable[[], None]) -> BaseException:
    try:
        make()
    except BaseException as error:
        return error
    raise AssertionError


def deep(levels: int) -> None:
    secret = "t0p-s3cret"  # noqa: S105 - what must not be shown
    if not levels:
        raise ValueError("x" * 100_000 + secret[:0])
    deeper(levels)


def deeper(levels: int) -> None:
    deep(levels - 1)


@pytest.mark.parametrize("format_", ["json", "console"])
def test_an_exception_is_shown_without_values_and_within_bounds(stream: io.StringIO, format_: str) -> None:
    """The console form of structlog shows the values of all variables where rich is installed, as it is here."""
    logs.setup("info", format_, stream)
    error = raised(lambda: deep(400))

    structlog.get_logger("volsched.test").error("it failed", exc_info=error)
    try:
        raise error
    except ValueError:
        structlog.get_logger("volsched.test").exception("it failed again")
        logging.getLogger("aiohttp.server").exception("theirs")

    text = stream.getvalue()
    assert "t0p-s3cret" not in text
    assert text.count("ValueError: xxx") == 3
    assert "in deeper" in text
    assert len(text) < 20_000


@pytest.mark.parametrize("format_", ["json", "console"])
def test_causes_are_told_the_first_one_first_and_not_without_end(stream: io.StringIO, format_: str) -> None:
    logs.setup("info", format_, stream)
    error: BaseException = KeyError("the root")
    for number in range(50):
        later = ValueError(f"number {number}")
        later.__cause__, error = error, later

    structlog.get_logger("volsched.test").error("it failed", exc_info=error)

    text = stream.getvalue()
    assert text.index("number 48") < text.index("number 49")
    assert "number 40" not in text


def test_what_users_write_does_not_fill_the_log(stream: io.StringIO) -> None:
    logs.setup("info", "json", stream)

    structlog.get_logger("volsched.test").info("m" * 100_000, pod="p" * 100_000, names=["n" * 100_000], number=1)

    [line] = lines(stream)
    assert len(json.dumps(line)) < 4 * logs.LONGEST_TEXT
    assert line["number"] == 1


class MuteError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def test_an_exception_that_cannot_say_what_is_wrong_is_logged_all_the_same(stream: io.StringIO) -> None:
    logs.setup("info", "json", stream)

    structlog.get_logger("volsched.test").error("it failed", exc_info=MuteError())

    assert "MuteError" in lines(stream)[0]["exception"]
