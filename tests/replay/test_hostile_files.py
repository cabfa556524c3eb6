"""Whatever a file of jobs or of objects states: a replay is made or refused with words, within bounds."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.calls import call, written
from tests.simulation.clusters import node, pod, queue
from volsched.model.errors import VolschedError
from volsched.replay.jobs import LONGEST_JOB, LONGEST_TRACE, MOST_PODS
from volsched.replay.trace import parse_trace
from volsched.simulation.manifests import Inventory

HEAD = "name,submit_s,duration_s,pods,cpu\n"
ODD_NUMBERS = (
    "1e308",
    "1e13",
    "1e999",
    "nan",
    "inf",
    "-inf",
    "-5",
    "9" * 5000,
    "0x10",
    "1_0",
    "٣",
    "",
    "\x00",
    "1e-320",
)
ODD_NAMES = ("x" * 100_000, "\u202e\u2028", "a/b", "..", "-", "\x1b[2J", "日本", "a\x00b")


def replayed(folder: Path, text: str, *flags: str, **more: object) -> tuple[int, str]:
    """Replay a text of jobs; how it ended, and what it said."""
    (folder / "jobs.csv").write_text(text)
    world = written(folder, node("n1"), queue("team"))
    done = call("replay", "-f", world, "--jobs", folder / "jobs.csv", "-o", "json", *flags)
    assert done.exception is None or isinstance(done.exception, SystemExit), text[:200]
    if done.exit_code == 0:
        json.loads(done.stdout)
    return done.exit_code, done.stderr


@pytest.mark.parametrize("column", [1, 2, 3, 4])
@pytest.mark.parametrize("text", ODD_NUMBERS, ids=lambda text: repr(text)[:12])
def test_any_number_is_taken_or_refused_with_its_column(tmp_path: Path, column: int, text: str) -> None:
    fields = ["a", "0", "1", "1", "1"]
    fields[column] = text
    code, said = replayed(tmp_path, f"{HEAD}{','.join(fields)}\nb,1,1,1,1\n")
    assert code == 0 or (code == 2 and "line 2" in said and len(said) < 500)


@pytest.mark.parametrize("name", ODD_NAMES, ids=lambda name: repr(name)[:12])
def test_any_name_is_taken_or_refused(tmp_path: Path, name: str) -> None:
    code, said = replayed(tmp_path, f"{HEAD}{name},0,1,1,1\n{name},1,1,1,1\n")
    assert (code, len(said) < 500) == (2, True)
    assert replayed(tmp_path, f"{HEAD}{name},0,1,1,1\n")[0] in (0, 2)


def test_jobs_that_take_ten_thousand_years_one_after_the_other_do_not_end_the_replay(tmp_path: Path) -> None:
    jobs = "".join(f"a{number},0,{LONGEST_JOB:.0f},1,8\n" for number in range(120))
    assert replayed(tmp_path, HEAD + jobs)[0] == 0


def test_a_job_comes_ten_years_after_the_beginning_at_most(tmp_path: Path) -> None:
    assert replayed(tmp_path, f"{HEAD}a,0,1,1,1\nb,{LONGEST_TRACE:.0f},1,1,1\n")[0] == 0
    code, said = replayed(tmp_path, f"{HEAD}a,0,1,1,1\nb,{LONGEST_TRACE + 1:.0f},1,1,1\n")
    assert code == 2
    assert f"from 0 to {LONGEST_TRACE:.0f}" in said


def test_pods_that_fill_the_memory_are_refused(tmp_path: Path) -> None:
    code, said = replayed(tmp_path, f"{HEAD}a,0,1,100001,1\n")
    assert (code, "pods: 100001 must be from 1 to 100000" in said) == (2, True)
    few = f"name,submit_s,duration_s,pods,min_pods,cpu\n{'a,0,1,100000,1,1'}\n"
    assert parse_trace(few, "jobs", "volsched", Inventory())[0][0].pods <= MOST_PODS


@pytest.mark.parametrize("stamp", ["9999-12-31T23:59:59Z", "9999-12-31T23:59:59-12:00", "0001-01-01T00:00:00Z"])
@pytest.mark.parametrize("verb", ["simulate", "replay"])
def test_objects_of_any_year_are_simulated(tmp_path: Path, verb: str, stamp: str) -> None:
    runs = {"replay.volsched.io/duration": "90s"} if verb == "replay" else {}
    old = pod("p", metadata={"creationTimestamp": stamp}, annotations=runs)
    done = call(verb, "-f", written(tmp_path, node("n1"), old))
    assert done.exit_code == 0, done.stderr


@pytest.mark.parametrize("text", ["1e999s", "99999999999999999999h", "nan", "-5s", "1000000000000"])
@pytest.mark.parametrize("key", ["duration", "submit"])
def test_any_time_of_an_annotation_is_taken_or_refused(tmp_path: Path, key: str, text: str) -> None:
    times = {"replay.volsched.io/duration": "90s", f"replay.volsched.io/{key}": text}
    done = call("replay", "-f", written(tmp_path, node("n1"), pod("p", annotations=times)))
    assert done.exit_code == 2
    assert f"replay.volsched.io/{key}" in done.stderr


def test_a_past_of_thousands_of_years_is_left_out(tmp_path: Path) -> None:
    status = {"phase": "Succeeded", "startTime": "2026-01-01T00:00:00Z"}
    pods = [
        pod("old", on="n1", metadata={"creationTimestamp": "0001-01-01T00:00:00Z"}, status=status),
        pod("new", on="n1", metadata={"creationTimestamp": "2026-01-01T00:00:00Z"}, status=status),
    ]
    done = call("replay", "-f", written(tmp_path, node("n1"), *pods), "--past", "-o", "json")
    assert done.exit_code == 0, done.stderr
    assert "default/old: it came more than" in done.stderr
    assert [job["name"] for job in json.loads(done.stdout)["jobs"]] == ["new"]


@given(st.text(st.characters(codec="utf-8"), max_size=200))
def test_any_text_is_jobs_or_is_refused_in_memory_of_its_size(text: str) -> None:
    tracemalloc.start()
    try:
        parse_trace(HEAD + text, "jobs", "volsched", Inventory())
    except VolschedError:
        pass
    finally:
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert most < 1_000_000 + 1000 * len(text)
