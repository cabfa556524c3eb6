"""Asks a running scheduler for an explanation, with the user's own token."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Mapping
from typing import Final

import aiohttp
from yarl import URL

from volsched.kube.client.credentials import Credentials, Source
from volsched.kube.errors import ApiError, CredentialsError

ANSWER_SECONDS: Final = 90.0


def explanation(source: Source, scheduler: str, asked: Mapping[str, str]) -> bytes:
    """Return the JSON of `/explain` at a scheduler's URL. Raises ApiError, and CredentialsError without a token."""
    return asyncio.run(_explanation(source, scheduler, asked))


async def _explanation(source: Source, scheduler: str, asked: Mapping[str, str]) -> bytes:
    credentials = await Credentials.load(source)
    if not credentials.authorization:
        raise CredentialsError(
            f"the scheduler wants a token, and {credentials.origin} has none (a certificate is none)"
        )
    url = URL(scheduler) / "explain"
    if url.scheme != "https":
        raise CredentialsError(f"{scheduler} is no https:// address, and a token is sent to no other")
    headers, timeout = {"Authorization": credentials.authorization}, aiohttp.ClientTimeout(ANSWER_SECONDS)
    try:
        async with (
            aiohttp.ClientSession(headers=headers, timeout=timeout) as session,
            session.get(url, params=dict(asked), ssl=not _is_here(url), allow_redirects=False) as answer,
        ):
            body = await answer.read()
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise ApiError(0, "", f"no answer from {scheduler}: {error}") from error
    if answer.status != 200:
        raise ApiError(answer.status, "", body.decode(errors="replace").strip())
    return body


def _is_here(url: URL) -> bool:
    """True if an address is this machine's: a forwarded port, whose certificate has no known authority."""
    try:
        return url.host == "localhost" or ipaddress.ip_address(url.host or "").is_loopback
    except ValueError:
        return False
