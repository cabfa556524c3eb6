"""The server of admission reviews: certificates that come, change and break, and whatever is sent to it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from volsched.kube.certificates import Pair
from volsched.operator import webhook_server
from volsched.operator.webhook_server import LARGEST_REVIEW_BYTES, PATH, Listening, WebhookServer, _without_identity

REVIEW = {"request": {"uid": "1", "object": {"metadata": {"name": "x", "uid": "u"}}, "oldObject": None}}


def a_pair() -> Pair:
    return Pair.made(("localhost",), datetime.now(UTC), timedelta(days=1))


class Rig:
    """A server on a free port, with its files in a folder, quick to look at them."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            self.port = one.getsockname()[1]
        self.certificate, self.key = folder / "tls.crt", folder / "tls.key"
        self.server = WebhookServer(Listening(f"127.0.0.1:{self.port}", str(self.certificate), str(self.key)))
        self.asked: list[Any] = []
        self.trusted = b""

    def give(self, pair: Pair) -> None:
        self.certificate.write_bytes(pair.certificate)
        self.key.write_bytes(pair.key)
        self.trusted = pair.authority

    async def review(self, asked: Any) -> Any:
        self.asked.append(asked)
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
    await rig.until(lambda: "no certificate" in rig.server._said)
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
    await rig.until(lambda: "no certificate" in rig.server._said)
    rig.certificate.unlink()
    await rig.until(lambda: "No such file" in rig.server._said)

    assert (await rig.post(json.dumps(REVIEW).encode()))[0] == 200
    assert not rig.server.problem


async def test_large_reviews_are_read_and_what_is_none_is_said(rig: Rig) -> None:
    rig.give(a_pair())
    await rig.until(lambda: not rig.server.problem)
    large = {"request": {**REVIEW["request"], "note": "x" * (3 << 20)}}

    assert (await rig.post(json.dumps(large).encode()))[0] == 200
    assert (await rig.post(b"x" * (LARGEST_REVIEW_BYTES + 1)))[0] == 413
    for odd in (b"", b"[]", b"{}", b'{"request": []}', b'{"request": 1}', b"\xff\xfe"):
        status, text = await rig.post(odd)
        assert (status, text.partition(":")[0]) == (400, "no admission review"), odd
    status, text = await rig.post(json.dumps({"request": {"fail": True}}).encode())
    assert (status, text) == (500, "LookupError: no such kind\n")


async def test_kopf_is_not_told_who_objects_are_since_it_would_remember_them_for_good(rig: Rig) -> None:
    rig.give(a_pair())
    await rig.until(lambda: not rig.server.problem)
    await rig.post(json.dumps(REVIEW).encode())

    assert rig.asked == [{"request": {"uid": "1", "object": {"metadata": {"name": "x"}}, "oldObject": None}}]


anything = st.recursive(
    st.none() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["object", "metadata", "uid"]), inner),
)


@given(st.dictionaries(st.sampled_from(["object", "oldObject"]), anything))
def test_whatever_objects_are_their_uids_are_gone(request: dict[str, Any]) -> None:
    found = _without_identity({"request": request})["request"]

    for raw in found.values():
        if isinstance(raw, dict) and isinstance(raw.get("metadata"), dict):
            assert "uid" not in raw["metadata"]
