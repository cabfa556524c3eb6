"""The page of a job and the search as they are served, to a reader of everything and to one of one namespace."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import msgspec
import pytest
from aiohttp.test_utils import TestClient, TestServer

from tests.ui.worlds import group, known_of, node, pod, queue
from volsched.kube.serve.reviews import Person
from volsched.model import api
from volsched.ui.access import Visibility
from volsched.ui.server import Ui
from volsched.ui.static_cluster import StaticCluster

Get = Callable[[str], Awaitable[tuple[int, str]]]

HIDDEN = ("secret", "keeper", "theirs", "hush", "node-0")
"""What a reader of the namespace team may not see. The reader's own pods say that they are on node-1."""

LAST = {"/events/jobs": b"event: said", "/events/job/": b"event: reasons"}
"""The last events at the beginning of streams, by their addresses; of others what comes first is read."""

EVERYTHING = Visibility()
TEAM = Visibility(frozenset({"team"}), frozenset({"default", "mine"}), nodes=False)


class Reader:
    """A reader with these rights."""

    def __init__(self, scope: Visibility) -> None:
        self._scope = scope

    async def who(self, authorization: str, address: str = "") -> Person:
        return Person("reader", "reader")

    async def scope(self, person: Person, namespaces: Iterable[str], queues: Iterable[str]) -> Visibility:
        return self._scope


@pytest.fixture(scope="module")
def cluster() -> StaticCluster:
    nodes = [node(f"node-{number}") for number in range(2)]
    queues = [queue("default"), queue("mine"), queue("hush", gpus="1")]
    jobs = [
        *(group("secret/keeper", "hush", phase="Running"), pod("secret/keeper", 8, "node-0")),
        *(group("secret/theirs", "hush"), pod("secret/theirs", 5)),
        *(group("secret/second", "mine"), pod("secret/second", 9)),
        *(group("team/ours", "mine", phase="Running"), declared(pod("team/ours", 6, "node-1"), "2h")),
        *(group("team/waits", "mine"), pod("team/waits", 7)),
        *(group("team/done", "mine"), ended(pod("team/done", 1, "node-1"))),
    ]
    return StaticCluster(known_of([*nodes, *queues, *jobs]), schedules=False)


def declared(found: api.ApiObject, duration: str) -> api.ApiObject:
    """Return a pod that has run for an hour by the page's clock, and declares how long it runs."""
    assert isinstance(found, api.Pod)
    annotations = {**found.metadata.annotations, "volsched.io/expected-duration": duration}
    meta = msgspec.structs.replace(found.metadata, annotations=annotations)
    return msgspec.structs.replace(
        found, metadata=meta, status=msgspec.structs.replace(found.status, start_time="2026-01-02T00:00:00Z")
    )


def ended(found: api.ApiObject) -> api.ApiObject:
    assert isinstance(found, api.Pod)
    return msgspec.structs.replace(found, status=api.PodStatus(phase="Failed", reason="OOMKilled"))


def asked(cluster: StaticCluster, scope: Visibility, *paths: str) -> dict[str, tuple[int, str]]:
    """Return what a reader gets of each path: status, and text; of events, those at the beginning."""

    async def ask() -> dict[str, tuple[int, str]]:
        ui = Ui(cluster, Reader(scope))  # type: ignore[arg-type]
        async with TestClient(TestServer(ui.application())) as client:
            return {path: await _got(client, path) for path in paths}

    return asyncio.run(ask())


async def _got(client: TestClient[Any, Any], path: str) -> tuple[int, str]:
    async with client.get(path, headers={"Authorization": "Bearer x"}, allow_redirects=False) as answer:
        if answer.status in (302, 303):
            return answer.status, answer.headers["Location"]
        if "event-stream" in answer.content_type:
            last = next((event for start, event in LAST.items() if path.startswith(start)), None)
            if last is None:
                return answer.status, (await answer.content.readany()).decode()
            text = await answer.content.readuntil(last)
            return answer.status, (text + await answer.content.readuntil(b"\n\n")).decode()
        return answer.status, (await answer.text()).replace("<wbr>", "")


def text_of(cluster: StaticCluster, path: str, scope: Visibility = EVERYTHING) -> str:
    return asked(cluster, scope, path)[path][1]


# --- the page of a job ----------------------------------------------------------------------------------------------


def test_job_that_waits_says_why_when_and_who_at_once(cluster: StaticCluster) -> None:
    text = text_of(cluster, "/job/team/waits")

    assert "Insufficient nvidia.com/gpu" in text
    assert "<dt>need</dt><dd>7</dd>" in text
    assert "It assumes that this pod ends as it declares" in text
    assert '<a id="holder-1" href="/job/secret/keeper">' in text
    assert 'hx-get="/job/team/waits/suggestions"' in text
    assert "<progress" in text


def test_jobs_before_it_are_named_to_who_may_see_them(cluster: StaticCluster) -> None:
    text, own = text_of(cluster, "/job/team/waits"), text_of(cluster, "/job/team/waits", TEAM)

    assert '<a id="before-1" href="/job/secret/second">' in text
    assert "with 1 job before it" in text
    assert "with 1 job before it" in own
    assert "before-1" not in own


def test_job_that_runs_and_one_that_has_ended_have_a_page(cluster: StaticCluster) -> None:
    running, over = text_of(cluster, "/job/team/ours"), text_of(cluster, "/job/team/done")

    assert "An estimate, by the duration that its pods declare." in running
    assert '<a id="pod-1-node" href="/node/node-1">' in running
    assert "hx-get" not in running.split("<main")[1]
    assert "OOMKilled" in over
    assert "How did it end?" in over


def test_job_that_is_not_there_is_not_found(cluster: StaticCluster) -> None:
    status, text = asked(cluster, EVERYTHING, "/job/team/never")["/job/team/never"]

    assert status == 404
    assert "There is no such job" in text


def test_stream_begins_with_what_the_page_does_not_show(cluster: StaticCluster) -> None:
    assert "event: answers" in text_of(cluster, "/events/job/team/waits?seen=other")


# --- the search -----------------------------------------------------------------------------------------------------


def test_exact_hit_is_opened_at_once(cluster: StaticCluster) -> None:
    found = asked(
        cluster,
        EVERYTHING,
        *(f"/search?text={text}" for text in ("hush", "node-1", "team/waits", "WAITS", "team/ours")),
    )

    assert list(found.values()) == [
        (302, "/queue/hush"),
        (302, "/node/node-1"),
        (302, "/job/team/waits"),
        (302, "/job/team/waits"),
        (302, "/job/team/ours"),
    ]


def test_parts_of_names_are_listed_by_kind(cluster: StaticCluster) -> None:
    text = text_of(cluster, "/search?text=e")

    assert 'Jobs <span class="count">6' in text
    assert 'Nodes <span class="count">2' in text
    assert 'href="/node/node-0"' in text


def test_nothing_found_says_so(cluster: StaticCluster) -> None:
    assert "has <b><bdi>zzz</bdi></b> in its name" in text_of(cluster, "/search?text=zzz")
    assert "Write a part of a name" in text_of(cluster, "/search?text=%20")


# --- a reader of one namespace --------------------------------------------------------------------------------------

SEEN = (
    *("/jobs", "/jobs?state=waiting", "/jobs?state=running&sort=queue", "/jobs?reason=nvidia", "/events/jobs"),
    *("/job/team/waits", "/job/team/ours", "/job/team/done", "/events/job/team/waits", "/events/job/team/ours"),
    *("/search?text=e", "/search?text=o", "/search?text=/", "/search?text=d"),
)


@pytest.fixture(scope="module")
def of_team(cluster: StaticCluster) -> dict[str, tuple[int, str]]:
    return asked(cluster, TEAM, *SEEN)


@pytest.fixture(scope="module")
def of_all(cluster: StaticCluster) -> dict[str, tuple[int, str]]:
    return asked(cluster, EVERYTHING, *SEEN)


@pytest.mark.parametrize("path", SEEN)
def test_reader_of_one_namespace_reads_no_name_of_others(of_team: dict[str, tuple[int, str]], path: str) -> None:
    status, text = of_team[path]

    assert status == 200
    assert [name for name in HIDDEN if name in text] == []


@pytest.mark.parametrize("path", SEEN)
def test_reader_of_everything_reads_more_there(of_all: dict[str, tuple[int, str]], path: str) -> None:
    """Else the test above would find nothing because there is nothing."""
    _, text = of_all[path]

    assert [name for name in HIDDEN if name in text] or "/job/team/" in path


def test_jobs_and_names_of_others_do_not_exist(cluster: StaticCluster) -> None:
    hidden = ("/job/secret/keeper", "/events/job/secret/keeper", "/job/secret/keeper/suggestions")
    names = ("/search?text=keeper", "/search?text=hush", "/search?text=node-0", "/search?text=secret/theirs")
    found = asked(cluster, TEAM, *hidden, *names)

    assert [found[path][0] for path in hidden] == [404] * 3
    assert [(status, "No job, pod, queue or node" in text) for status, text in (found[p] for p in names)] == [
        (200, True)
    ] * 4
