"""The list of all jobs: who is in it, in which order, and what an update sends and does."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import pytest

from tests.ui.worlds import NOW, gone, group, known_of, live_of, node, pod, puts, queue
from volsched.model import api
from volsched.ui import job_lists, jobs_page
from volsched.ui.access import WHOLE, Visibility
from volsched.ui.job_lines import JobLine
from volsched.ui.jobs_page import JobQuery, JobsView
from volsched.ui.pages import Pages
from volsched.ui.picture import Live, Picture
from volsched.ui.redaction import VisibleJobs, seen_by

HOLDS = ["team/a", "team/b", "other/c"]


def base() -> list[api.ApiObject]:
    return [node("n1"), node("n2"), queue("default"), queue("batch")]


def job(key: str, gpus: int = 1, on: str = "", in_queue: str = "default") -> list[api.ApiObject]:
    return [group(key, in_queue, phase="Running" if on else "Inqueue"), pod(key, gpus, on)]


def followed(*objects: Iterable[api.ApiObject]) -> Live:
    live = live_of(known_of([*base(), *(each for found in objects for each in found)]))
    live.look(NOW)
    return live


def with_phase(found: api.ApiObject, phase: str, finished: str = "") -> api.Pod:
    assert isinstance(found, api.Pod)
    containers = ()
    if finished:
        ended = msgspec.convert({"terminated": {"finishedAt": finished}}, api.pods.ContainerState)
        containers = (api.pods.ContainerStatus(name="c", state=ended),)
    return msgspec.structs.replace(found, status=api.PodStatus(phase=phase, container_statuses=containers))


def lines(picture: Picture) -> dict[str, JobLine]:
    return {line.key: line for found in picture.jobs.values() for line in found}


def states(picture: Picture) -> dict[str, str]:
    return {key: line.end or line.state for key, line in lines(picture).items()}


def shown(picture: Picture, scope: Visibility = WHOLE, **query: str) -> list[str]:
    """Return the names in the order in which the table has them."""
    view = JobsView(Pages(), JobQuery.of(query))
    view.show(seen_by(scope, picture), picture.history)
    return [row.line.key for row in view.table._values.values()]


# --- who is in it ---------------------------------------------------------------------------------------------------


def test_jobs_wait_run_and_end() -> None:
    live = followed(job("team/runs", 8, "n1"), job("team/waits", 99))
    assert states(live.look(NOW)) == {"team/runs": "running", "team/waits": "waiting"}

    live.take(puts(with_phase(pod("team/runs", 8, "n1"), "Succeeded", "2033-05-18T03:33:10Z")))

    found = lines(live.look(NOW + 60))["team/runs"]
    assert (found.state, found.end, found.is_there) == ("ended", "completed", True)
    assert found.since == NOW - 10
    assert found.requests["nvidia.com/gpu"] == "8"


def test_job_with_a_failed_pod_has_failed() -> None:
    live = followed(job("team/runs", 8, "n1"))

    live.take(puts(with_phase(pod("team/runs", 8, "n1"), "Failed")))

    assert states(live.look(NOW)) == {"team/runs": "failed"}


def test_job_that_had_ended_before_the_page_has_no_invented_time() -> None:
    live = live_of(known_of([*base(), group("team/old"), with_phase(pod("team/old", 1, "n1"), "Succeeded")]))

    found = lines(live.look(NOW))["team/old"]

    assert (found.end, found.since) == ("completed", None)


@pytest.mark.parametrize("on", ["", "n1"])
def test_job_whose_objects_are_deleted_was_deleted(on: str) -> None:
    objects = job("team/a", 99 if not on else 1, on)
    live = followed(objects)

    live.take([gone(each) for each in reversed(objects)])
    live.look(NOW + 5)
    found = lines(live.look(NOW + 9))["team/a"]

    assert (found.end, found.since, found.is_there) == ("deleted", NOW + 5, False)


def test_pod_and_its_group_may_go_one_after_the_other() -> None:
    objects = job("team/a", 1, "n1")
    live = followed(objects)

    for each in reversed(objects):
        live.take([gone(each)])
        live.look(NOW)

    assert states(live.look(NOW)) == {"team/a": "deleted"}


def test_completed_job_stays_completed_when_its_objects_go() -> None:
    objects = [group("team/a"), with_phase(pod("team/a", 1, "n1"), "Succeeded")]
    live = followed(objects)

    live.take([gone(each) for each in reversed(objects)])

    assert states(live.look(NOW)) == {"team/a": "completed"}


def test_evicted_job_is_told_from_a_deleted_one() -> None:
    objects = job("team/a", 1, "n1")
    live = followed(objects)
    victim = objects[1]
    assert isinstance(victim, api.Pod)
    reason = [api.Condition(type="DisruptionTarget", status="True", reason="PreemptionByScheduler")]
    condition = api.Condition(type="volsched.io/Evicted", status="True", reason="EvictedBySession")
    status = msgspec.structs.replace(victim.status, conditions=(*reason, condition))
    meta = msgspec.structs.replace(victim.metadata, deletion_timestamp="2033-05-18T03:33:20Z")
    live.take(puts(msgspec.structs.replace(victim, status=status, metadata=meta)))
    live.look(NOW)

    live.take([gone(each) for each in reversed(objects)])

    assert states(live.look(NOW)) == {"team/a": "evicted"}


def test_job_that_comes_again_has_not_ended() -> None:
    objects = job("team/a", 1, "n1")
    live = followed(objects)
    live.take([gone(each) for each in reversed(objects)])
    live.look(NOW)

    live.take(puts(*objects))

    assert states(live.look(NOW)) == {"team/a": "running"}


def test_ended_jobs_are_bounded_and_a_busy_namespace_loses_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_lists, "MOST_ENDED", 4)
    live = followed()
    for number, key in enumerate(["quiet/a", *(f"busy/{number}" for number in range(9))]):
        live.take(puts(group(key), with_phase(pod(key, 1, "n1"), "Succeeded")))
        live.look(NOW + number)

    assert sorted(states(live.look(NOW))) == ["busy/6", "busy/7", "busy/8", "quiet/a"]


def test_what_a_session_would_do_is_no_state() -> None:
    """Its pods could start, and no scheduler has bound them."""
    live = followed(job("team/could"))

    assert states(live.look(NOW + 60)) == {"team/could": "waiting"}


# --- order, filters, addresses --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def picture() -> Picture:
    return followed(
        job("team/small", 1, "n1"),
        job("team/large", 4, "n2", "batch"),
        job("team/waits", 99),
        job("other/hidden", 50, in_queue="batch"),
    ).look(NOW)


def test_default_is_what_waits_before_what_runs(picture: Picture) -> None:
    assert [key in ("team/waits", "other/hidden") for key in shown(picture)] == [True, True, False, False]


def test_columns_order_all_rows(picture: Picture) -> None:
    assert shown(picture, state="running", sort="cards") == ["team/small", "team/large"]
    assert shown(picture, state="running", sort="-cards") == ["team/large", "team/small"]
    assert shown(picture, state="running", sort="queue") == ["team/large", "team/small"]
    assert shown(picture, state="waiting", sort="job") == ["other/hidden", "team/waits"]


def test_order_is_over_all_pages(picture: Picture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs_page, "PAGE", 1)

    pages = [shown(picture, state="running", sort="-cards", page=str(page)) for page in (1, 2, 3)]

    assert pages == [["team/large"], ["team/small"], ["team/small"]]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"text": "LARGE"}, {"team/large"}),
        ({"text": "podgroup/waits"}, {"team/waits"}),
        ({"queue": "batch"}, {"team/large", "other/hidden"}),
        ({"namespace": "oth"}, {"other/hidden"}),
        ({"reason": "insufficient"}, {"team/waits", "other/hidden"}),
        ({"state": "ended"}, set()),
        ({"state": "nonsense", "sort": "nonsense"}, {"team/small", "team/large", "team/waits", "other/hidden"}),
    ],
)
def test_filters_look_at_all_rows(picture: Picture, query: dict[str, str], found: set[str]) -> None:
    assert set(shown(picture, **query)) == found


def test_address_says_what_is_shown_and_no_more() -> None:
    query = JobQuery.of({"state": "running", "text": " a&b ", "queue": "", "sort": "-since", "page": "3"})

    assert query.address() == "/jobs?state=running&text=a%26b&page=3"
    assert query.by("cards").address() == "/jobs?state=running&text=a%26b&sort=cards"
    assert query.by("cards").by("cards").address() == "/jobs?state=running&text=a%26b&sort=-cards"
    assert query.of_state("").address() == "/jobs?text=a%26b"


def test_reason_of_others_cannot_be_searched_for() -> None:
    """The message names the job of others that goes first; the reader sees "another job" in its place."""
    live = followed(job("secret/first", 99), job("team/waits", 99))
    named = msgspec.structs.replace(lines(live.look(NOW))["team/waits"], message="job secret/first goes before it")
    blocks = {
        key: tuple(named if x.key == named.key else x for x in found) for key, found in live.look(NOW).jobs.items()
    }
    scope = Visibility(frozenset({"team"}))

    picture = Picture(jobs=blocks)

    assert shown(picture, scope) == ["team/waits"]
    assert shown(picture, scope, reason="secret") == shown(picture, scope, text="secret") == []
    assert shown(picture, scope, reason="another job") == ["team/waits"]


# --- updates --------------------------------------------------------------------------------------------------------


def test_only_blocks_of_what_changed_are_made_again() -> None:
    live = followed(job("team/a", 1, "n1"), job("other/b", 1, "n2"), job("team/w", 99), job("other/w", 98))
    before = live.look(NOW).jobs

    live.take(puts(*job("team/new", 1, "n1")))
    after = live.look(NOW).jobs

    assert {key for key in after if after[key] is not before.get(key)} == {("running", "default", "team")}
    assert live.look(NOW).jobs is after


def test_update_filters_changed_blocks_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    live = followed(job("team/a", 1, "n1"), job("other/b", 1, "n2"))
    view = JobsView(Pages(), JobQuery.of({"text": "e"}))
    view.show(seen_by(WHOLE, live.look(NOW)), live.look(NOW).history)
    looked: list[str] = []
    matches = JobsView._matches

    def noted(view: JobsView, jobs: VisibleJobs, line: JobLine) -> bool:
        looked.append(line.key)
        return matches(view, jobs, line)

    monkeypatch.setattr(JobsView, "_matches", noted)

    live.take(puts(*job("team/new", 1, "n1")))
    events = view.show(seen_by(WHOLE, live.look(NOW)), live.look(NOW).history)

    assert sorted(looked) == ["team/a", "team/new"]
    assert [name for name, _ in events] == ["new", "said"]


def test_counts_are_of_each_state(picture: Picture) -> None:
    view = JobsView(Pages(), JobQuery.of({"queue": "batch"}))
    view.show(seen_by(Visibility(frozenset({"team"})), picture), picture.history)

    caption = view.caption()[1]

    assert 'Waiting <span class="count">0' in caption
    assert 'Running <span class="count">1' in caption
    assert "1 job of others as well" in caption
