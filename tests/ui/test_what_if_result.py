"""The result of a what-if question, job by job."""

from __future__ import annotations

import msgspec

from tests.ui.worlds import group, known_of
from volsched.diagnose.diff import _starts
from volsched.diagnose.records import Difference, PodDifference, StartDifference
from volsched.model import api
from volsched.ui.access import Visibility
from volsched.ui.redaction import difference_for
from volsched.ui.what_if_result import lists_of


def change(pod: str, sort: str, gang: str, after: str = "n1", why: str = "") -> PodDifference:
    return PodDifference(pod, gang, "q", sort, "waits (predicate)", after, why)


def test_pods_of_a_job_are_one_row_of_its_list() -> None:
    owned = group("a/pg-1")
    owner = api.OwnerReference(kind="Job", name="train", controller=True)
    owned = msgspec.structs.replace(owned, metadata=msgspec.structs.replace(owned.metadata, owner_references=(owner,)))
    nodes = [change(f"a/p{n}", "starts", "a/pg-1", f"n{n}", "no longer: full") for n in range(5)]
    pods = [*nodes, change("b/x", "evicted", "b/pod/x", "evicted", "evicted for a/p0"), change("c/y", "starts", "c/y")]

    found = lists_of(Difference({}, {}, {}, tuple(pods)), known_of([owned]))

    assert [(each.title, each.pods, len(each.jobs)) for each in found] == [
        ("Start earlier", 6, 2),
        ("Are evicted", 1, 1),
    ]
    first = found[0].jobs[0]
    assert (first.workload, first.name, first.pods, first.why) == ("Job/train", "pg-1", 5, "no longer: full")
    assert first.after == "n0, n1, n2, 2 more"
    assert found[1].jobs[0].workload == "Pod/x"


def test_promised_starts_that_differ_by_a_minute_are_told() -> None:
    before = {"a/x": ("q", "2026-01-01T10:00:00Z"), "a/y": ("q", ""), "a/z": ("q", "2026-01-01T10:00:00Z")}
    after = {
        "a/x": ("q", "2026-01-01T09:00:00Z"),
        "a/y": ("q", "2026-01-01T10:00:00Z"),
        "a/z": ("q", "2026-01-01T10:00:59Z"),
    }

    found = list(_starts(before, {**after, "a/new": ("q", "")}))

    assert [(start.job, start.before, start.after) for start in found] == [
        ("a/x", "2026-01-01T10:00:00Z", "2026-01-01T09:00:00Z"),
        ("a/y", "", "2026-01-01T10:00:00Z"),
    ]


def test_promised_starts_of_others_are_not_told() -> None:
    starts = tuple(StartDifference(job, "q", "", "2026-01-01T10:00:00Z") for job in ("team/a", "secret/b"))

    shown, _ = difference_for(Visibility(frozenset({"team"})), Difference({}, {}, {}, (), starts))

    assert [start.job for start in shown.starts] == ["team/a"]
