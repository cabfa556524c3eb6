"""A reader of one namespace reads each page and stream: names of others are nowhere, counts are."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiohttp import ClientResponse
from aiohttp.test_utils import TestClient, TestServer

from tests.ui.worlds import group, known_of, node, pod, queue
from volsched.kube.serve.reviews import Person
from volsched.ui.access import Visibility
from volsched.ui.server import Ui
from volsched.ui.static_cluster import StaticCluster

HIDDEN = ("secret", "keeper", "theirs", "hush", "node-0", "node-1", "node-2")
PAGES = (
    *("/overview", "/state", "/what-if", "/what-if/quotas", "/what-if?queue=mine", "/what-if?nodes:node-1=2"),
    *("/queues", "/jobs", "/jobs?reason=secret", "/search?text=e", "/cards", "/cards?state=used", "/cards?node=node-1"),
    *("/job/team/waits", "/nosuch", "/queue/mine", "/nodes", "/nodes?colour=job&holder=secret", "/nodes?node=node-1"),
)
STREAMS = (
    "/events/overview",
    "/events/queues",
    "/events/jobs",
    "/events/job/team/waits",
    "/events/cards",
    "/events/nodes",
    "/events/queue/mine",
)
REFUSED = (
    *("/queue/hush", "/events/queue/hush", "/node/node-1", "/events/node/node-1"),
    *(
        "/job/secret/keeper",
        "/job/secret/keeper/suggestions",
        "/events/job/secret/keeper",
        "/what-if/quotas?queue=hush",
    ),
    *("/what-if/result?queue=hush&quota:capability:cpu=1", "/what-if/result?nodes:node-1=1"),
)


class OneNamespace:
    """Reviews of a person who may list pods in one namespace, and get two queues."""

    async def who(self, *_: str) -> Person:
        return Person("reader", "reader")

    async def scope(self, *_: Any) -> Visibility:
        return Visibility(frozenset({"team"}), frozenset({"default", "mine"}), nodes=False)


@pytest.fixture(scope="module")
def cluster() -> StaticCluster:
    nodes = [node(f"node-{number}") for number in range(3)]
    queues = [queue("default"), queue("mine", gpus="8"), queue("hush", gpus="1")]
    jobs = [
        *(group("secret/keeper", "hush"), pod("secret/keeper", 6, "node-0")),
        *(group("secret/theirs", "hush"), pod("secret/theirs", 9)),
        *(group("team/ours", "mine"), pod("team/ours", 2, "node-1")),
        *(group("team/waits", "mine"), pod("team/waits", 9)),
    ]
    return StaticCluster(known_of([*nodes, *queues, *jobs]), schedules=False)


async def beginning_of(answer: ClientResponse) -> str:
    """Return the text of an answer; of a stream the events with which it begins."""
    if "event-stream" not in answer.content_type:
        return (await answer.text()).replace("<wbr>", "")
    text = ""
    while "\n\n" not in text:
        text += (await answer.content.readany()).decode()
    return text


def answers(cluster: StaticCluster, paths: tuple[str, ...]) -> dict[str, tuple[int, str]]:
    async def ask() -> dict[str, tuple[int, str]]:
        found = {}
        ui = Ui(cluster, OneNamespace())  # type: ignore[arg-type]
        async with TestClient(TestServer(ui.application(), host="127.0.0.1")) as client:
            for path in paths:
                async with client.get(path) as answer:
                    found[path] = answer.status, await beginning_of(answer)
                    answer.close()
        return found

    return asyncio.run(ask())


@pytest.mark.parametrize("path", [*PAGES, *STREAMS])
def test_no_name_of_others_is_on_any_page_or_in_any_stream(cluster: StaticCluster, path: str) -> None:
    status, text = answers(cluster, (path,))[path]
    asked = path.partition("?")[2]

    assert status == (404 if path == "/nosuch" else 200)
    assert [name for name in HIDDEN if name in text.replace(asked, "") and name not in asked] == []


def test_what_others_have_is_counted(cluster: StaticCluster) -> None:
    [(_, text)] = answers(cluster, ("/overview",)).values()

    assert "of 24 cards used" in text
    assert "1 job is of others" in text
    assert "team" in answers(cluster, ("/jobs",))["/jobs"][1]


def test_questions_about_others_are_refused(cluster: StaticCluster) -> None:
    found = answers(cluster, REFUSED)

    assert {path: status for path, (status, _) in found.items() if status not in (403, 404)} == {}
