"""The server of admission reviews: certificates that come, change and break, and whatever is sent to it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
import threading
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from volsched.kube.serve.certificates import Pair
from volsched.operator.webhooks import webhook_server
from volsched.operator.webhooks.listening import LARGEST_REVIEW_BYTES, Listening
from volsched.operator.webhooks.reviewers import WAITING_FOR_EACH
from volsched.operator.webhooks.webhook_server import (
    PATH,
    UNDER_REVIEW,
    WebhookServer,
    read_review,
)
from volsched.validation.admission import AdmissionRequest

OBJECT = {"metadata": {"name": "x", "uid": "u"}}
REVIEW: Any = {"request": {"uid": "1", "operation": "CREATE", "object": OBJECT, "oldObject": None}}


def a_pair() -> Pair:
    return Pair.made(("localhost",), datetime.now(UTC), timedelta(days=1))


class Rig:
    """A server on a free port, with its files in a folder, quick to look at them."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            self.port = one.getsockname()[1]
        self.certificate, self.key = folder / "tls.crt", folder / "tls.key"
        self.turned_away: list[str] = []
        listening = Listening(f"127.0.0.1:{self.port}", str(self.certificate), str(self.key), reviews=1)
        self.server = WebhookServer(listening, self.turned_away.append)
        self.asked: list[Any] = []
        self.under_review: list[AdmissionRequest] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.trusted = b""

    def give(self, pair: Pair) -> None:
        self.certificate.write_bytes(pair.certificate)
        self.key.write_bytes(pair.key)
        self.trusted = pair.authority

    async def review(self, asked: Any) -> Any:
        self.asked.append(asked)
        self.under_review.append(UNDER_REVIEW.get())
        await self.gate.wait()
        if asked["request"].get("fail"):
            raise LookupError("no such kind")
        return {"answered": asked["request"]["uid"]}

    async def run(self) -> None:
        async for _ in self.server(self.review):
            pass

    async def post(self, body: bytes) -> tuple[int, str]:
        context = ssl.create_default_context(cadata=self.trusted.decode())
        connector = aiohttp.TCPConnector(ssl=context, force_close=True)
        url = f"https://localhost:{self.port}{PATH}"
        async with aiohttp.ClientSession(connector=connector) as session, session.post(url, data=body) as answer:
            return answer.status, await answer.text()

    async def until(self, condition: Any) -> None:
        async with asyncio.timeout(60):
            while not condition():  # noqa: ASYNC110 - the server tells nobody when it has looked
                await asyncio.sleep(0.01)


@pytest.fixture
async def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Rig]:
    monkeypatch.setattr(webhook_server, "LOOK_SECONDS", 0.02)
    rig = Rig(tmp_path)
    running = asyncio.create_task(rig.run())
    yield rig
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    assert rig.server.problem


async def test_it_waits_for_its_certificate_and_then_serves(rig: Rig) -> None:
    await rig.until(lambda: "no certificate for webhooks" in rig.server.problem)
    rig.give(a_pair())
    await rig.until(lambda: not rig.server.problem)

    assert await rig.post(json.dumps(REVIEW).encode()) == (200, '{"answered": "1"}')
    assert rig.server.ends is not None


async def test_half_of_a_new_pair_is_not_used_and_the_whole_one_is_at_once(rig: Rig) -> None:
    first, second = a_pair(), a_pair()
    rig.give(first)
    await rig.until(lambda: not rig.server.problem)

    rig.certificate.write_bytes(second.certificate)
    await rig.until(lambda: "no certificate" in rig.server._reported)
    assert (await rig.post(json.dumps(REVIEW).encode()))[0] == 200
    rig.give(second)
    await rig.until(lambda: rig.server.reloads == 1)
    assert (await rig.post(json.dumps(REVIEW).encode()))[0] == 200
    rig.trusted = first.authority
    with pytest.raises(aiohttp.ClientConnectorCertificateError):
        await rig.post(b"{}")


async def test_certificates_that_disappear_or_are_none_change_nothing(rig: Rig) -> None:
    rig.give(a_pair())
    await rig.until(lambda: not rig.server.problem)

    rig.certificate.write_text("none")
    await rig.until(lambda: "no certificate" in rig.server._reported)
    rig.certificate.unlink()
    await rig.until(lambda: "No such file" in rig.server._reported)

    assert (await rig.post(json.dumps(REVIEW).encode()))[0] == 200
    assert not rig.server.problem


async def test_large_reviews_are_read_and_what_is_none_is_said(rig: Rig) -> None:
    rig.give(a_pair())
    await rig.until(lambda: not rig.server.problem)
    large = json.dumps({"request": {**REVIEW["request"], "note": "x" * (LARGEST_REVIEW_BYTES - 200)}})

    assert (await rig.post(large.encode()))[0] == 200
    status, text = await rig.post(b"x" * (LARGEST_REVIEW_BYTES + 1))
    assert (status, text) == (413, "a review of more than 1048576 bytes is not read (--webhook-bytes)\n")
    assert rig.turned_away == ["too_large"]
    for odd in (b"", b"[]", b"{}", b'{"request": []}', b'{"request": 1}', b"\xff\xfe"):
        status, text = await rig.post(odd)
        assert (status, text.partition(":")[0]) == (400, "no admission review"), odd
    status, text = await rig.post(json.dumps({"request": {"fail": True}}).encode())
    assert (status, text) == (500, "LookupError: no such kind\n")


async def test_kopf_is_not_shown_the_objects_since_it_would_compare_and_remember_them(rig: Rig) -> None:
    rig.give(a_pair())
    await rig.until(lambda: not rig.server.problem)
    await rig.post(json.dumps(REVIEW).encode())

    assert rig.asked == [{"request": {"uid": "1", "operation": "CREATE", "object": {}, "oldObject": None}}]
    assert rig.under_review == [AdmissionRequest("CREATE", OBJECT, None)]


async def test_who_comes_when_all_places_are_taken_is_told_to_come_again(rig: Rig) -> None:
    rig.give(a_pair())
    await rig.until(lambda: not rig.server.problem)
    rig.gate.clear()
    places = 1 + WAITING_FOR_EACH
    body = json.dumps(REVIEW).encode()
    inside = [asyncio.create_task(rig.post(body)) for _ in range(places)]
    await rig.until(lambda: len(rig.asked) == places)

    assert await rig.post(body) == (429, "too many reviews at a time; come again\n")
    assert rig.turned_away == ["busy"]
    rig.gate.set()
    assert {status for status, _ in await asyncio.gather(*inside)} == {200}
    assert (await rig.post(body))[0] == 200


async def test_a_review_that_does_not_come_takes_no_place_for_long(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook_server, "BODY_SECONDS", 0.1)
    rig.give(a_pair())
    await rig.until(lambda: not rig.server.problem)
    context = ssl.create_default_context(cadata=rig.trusted.decode())
    reader, writer = await asyncio.open_connection("localhost", rig.port, ssl=context)
    writer.write(f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n{{".encode())

    assert (await reader.readline()).split()[1] == b"408"
    writer.close()
    assert rig.turned_away == ["slow"]


async def test_reviews_are_read_on_threads_of_their_own(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    read_on: list[str] = []

    def noted(body: bytes) -> Any:
        read_on.append(threading.current_thread().name)
        return read_review(body)

    monkeypatch.setattr(webhook_server, "read_review", noted)
    rig.give(a_pair())
    await rig.until(lambda: not rig.server.problem)
    await rig.post(json.dumps(REVIEW).encode())

    assert read_on == ["review_0"]


anything = st.recursive(
    st.none() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["object", "metadata", "uid"]), inner),
)


@given(st.dictionaries(st.sampled_from(["object", "oldObject", "operation", "uid"]), anything))
def test_whatever_objects_are_kopf_sees_that_there_are_some_and_no_more(request: dict[str, Any]) -> None:
    asked, under_review = read_review(json.dumps({"request": request}).encode())

    for name, given_ in (("object", under_review.new), ("oldObject", under_review.old)):
        assert given_ == request.get(name)
        assert asked["request"].get(name) == (None if request.get(name) is None else {})


@pytest.mark.parametrize("levels", [100, 1_000, 100_000])
def test_however_deep_a_review_is_nested_it_is_read(levels: int) -> None:
    deep = (
        b'{"request": {"operation": "CREATE", "object": {"spec": ' + b'{"a":' * levels + b"1" + b"}" * levels + b"}}}"
    )

    assert read_review(deep)[1].operation == "CREATE"
