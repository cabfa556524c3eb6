"""Addresses of the page with anything in them: an answer or a refusal, never an error of the page's own."""

from __future__ import annotations

import asyncio
import urllib.parse
from collections.abc import Iterable

import pytest
from aiohttp.test_utils import TestClient, TestServer
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.manifests.rendering import MANIFESTS
from tests.ui.worlds import read
from volsched.ui.server import Ui
from volsched.ui.static_cluster import StaticCluster

ODD = (
    "",
    "\x00",
    "\x1b[2J",
    "\u202e",
    "..",
    "%",
    "x" * 240,
    "x" * 300,
    "x" * 2000,
    "9" * 5000,
    "1e999",
    "NaN",
    "-1",
    "a/b",
    "\udcff",
    "日本",
    "{0}",
)
PLACES = (
    "/job/{}/a",
    "/job/a/{}",
    "/job/{}/{}",
    "/events/{}",
    "/{}",
    "/static/{}",
    "/events/job/a/{}",
    "/job/a/{}/suggestions",
)
QUERIES = (
    *(
        "/queues?filter={}",
        "/jobs?page={}&queue={}&sort={}",
        "/jobs?namespace={}&text={}&state={}",
        "/cards?model={}&page={}",
    ),
    *("/search?text={}", "/waiting?queue={}&page={}"),
    *("/what-if?queue={}", "/what-if/quotas?queue={}", "/what-if/result?nodes:{}=1", "/what-if/result?nodes:n={}"),
    *("/what-if?queue=default&quota:capability:cpu={}&nodes:{}=1", "/overview?seen={}", "/state?seen={}"),
    *("/what-if/result?queue=default&quota:capability:cpu={}", "/what-if/result?queue={}&quota:{}=1"),
)


@pytest.fixture(scope="module")
def still() -> StaticCluster:
    return StaticCluster(read(MANIFESTS / "examples"), schedules=True)


def statuses(cluster: StaticCluster, addresses: Iterable[str]) -> dict[str, int]:
    """Ask for addresses, as they are written; what is sent for ever is left at once."""

    async def ask() -> dict[str, int]:
        found = {}
        async with TestClient(TestServer(Ui(cluster).application(), host="127.0.0.1")) as client:
            for address in addresses:
                async with client.get(address, headers={"Host": "localhost"}, allow_redirects=False) as answer:
                    found[address] = answer.status
        return found

    return asyncio.run(ask())


def quoted(text: str) -> str:
    return urllib.parse.quote(text.encode("utf-8", "surrogateescape"), safe="")


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: ascii(odd)[:12])
def test_odd_addresses_are_answered_or_refused(still: StaticCluster, odd: str) -> None:
    addresses = [place.replace("{}", quoted(odd)) for place in (*PLACES, *QUERIES)]
    found = statuses(still, [address for address in addresses if not address.endswith("/suggestions") or odd == "\x00"])
    assert {status for status in found.values() if status >= 500} == set(), found


@given(st.text(st.characters(codec="utf-8"), max_size=60), st.sampled_from((*PLACES[:-1], *QUERIES)))
@settings(max_examples=100)
def test_any_text_in_an_address_is_answered_or_refused(text: str, place: str) -> None:
    cluster = StaticCluster(read(MANIFESTS / "examples"), schedules=False)
    found = statuses(cluster, [place.replace("{}", quoted(text))])
    assert max(found.values()) < 500, found
