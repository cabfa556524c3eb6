"""All objects of some kinds, read once: for verbs that show a state and do not follow it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from volsched.kube.client.credentials import Source
from volsched.kube.client.rest import Api, parsed
from volsched.kube.errors import ApiError
from volsched.kube.watch.decoding import Page
from volsched.kube.watch.informer import page_of
from volsched.kube.watch.resources import Resource
from volsched.kube.watch.schemas import dropped_of_queues
from volsched.kube.watch.served_kinds import ServedKind, as_served
from volsched.model import api
from volsched.model.api import native_groups as native
from volsched.model.errors import ObjectError

AT_ONCE: Final = 4
"""Kinds that are listed at the same time."""

_MOST_TRIES: Final = 3
_AGAIN: Final = (410, 429)
"""The list grew too old between two pages, or the server asks to come later."""


Sieve = Callable[[str, Sequence[api.ApiObject]], Sequence[api.ApiObject]]


def _whatever(_kind: str, found: Sequence[api.ApiObject]) -> Sequence[api.ApiObject]:
    return found


@dataclass(slots=True)
class Listing:
    """The objects by kind, then by namespace and name. Unreadable ones are left out and listed.

    ``dropped`` are the fields of Queues that the server does not keep, None if that is not known. Its ``repr`` is
    short: ``asyncio.run`` ends with the ``repr`` of the result.
    """

    server: str = ""
    dropped: frozenset[str] | None = None
    objects: list[api.ApiObject] = field(default_factory=list, repr=False)
    unreadable: list[ObjectError] = field(default_factory=list, repr=False)


def read_cluster(source: Source, kinds: Sequence[Resource | ServedKind]) -> Listing:
    """Read everything of these kinds. Raises CredentialsError and ApiError, whose text names the kind and the way out.

    An optional kind that the server does not have has no objects.
    """
    return asyncio.run(_read(source, kinds))


def read_names(source: Source, resources: Sequence[Resource], seconds: float) -> list[tuple[str, str]]:
    """Return namespace and name of the first objects of some kinds, at most one page of each.

    A kind that the server does not have has none. Raises CredentialsError, ApiError, and TimeoutError after so many
    seconds.
    """
    return asyncio.run(asyncio.wait_for(_names(source, resources), seconds))


async def _names(source: Source, resources: Sequence[Resource]) -> list[tuple[str, str]]:
    server = await Api.connect(source)
    try:
        return [name for resource in resources for name in await _names_of(server, resource)]
    finally:
        await server.close()


async def _names_of(server: Api, resource: Resource) -> list[tuple[str, str]]:
    try:
        answer = await page_of(server, resource)
    except ApiError as error:
        if error.status == 404:
            return []
        raise
    found = msgspec.json.decode(answer, type=Page[api.ApiObject]).items or ()
    return [(item.metadata.namespace, item.metadata.name) for item in found]


async def _read(source: Source, kinds: Sequence[Resource | ServedKind]) -> Listing:
    server = await Api.connect(source)
    try:
        return await listed(server, kinds)
    finally:
        await server.close()


async def listed(server: Api, kinds: Sequence[Resource | ServedKind], sieve: Sieve = _whatever) -> Listing:
    """Read everything of these kinds from a server that is connected. Raises ApiError as `read_cluster` does.

    ``sieve`` is given the objects of each page, and returns those that are kept.
    """
    listing, resources = Listing(server.server), await as_served(server, kinds)
    await _list_all(server, resources, listing, sieve)
    if any(resource.kind == "Queue" for resource in resources):
        listing.dropped = await dropped_of_queues(server)
    return listing


async def _list_all(server: Api, resources: Sequence[Resource], listing: Listing, sieve: Sieve) -> None:
    """List a few kinds at a time. The objects are in the order of the kinds all the same."""
    turns = asyncio.Semaphore(AT_ONCE)
    parts = [Listing(listing.server) for _ in resources]

    async def take(resource: Resource, part: Listing) -> None:
        async with turns:
            await _list(server, resource, part, sieve)

    taken = (take(resource, part) for resource, part in zip(resources, parts, strict=True))
    for failure in await asyncio.gather(*taken, return_exceptions=True):
        if failure is not None:
            raise failure
    for part in parts:
        listing.objects += part.objects
        listing.unreadable += part.unreadable


async def _list(server: Api, resource: Resource, listing: Listing, sieve: Sieve) -> None:
    for left in reversed(range(_MOST_TRIES)):
        try:
            found = await _pages(server, resource, listing, sieve)
            break
        except ApiError as error:
            if error.status in _AGAIN and left:
                await asyncio.sleep(error.retry_after or 0)
                continue
            if _can_be_without(resource, error):
                return
            raise _explained(resource, server.server, error) from error
    listing.objects.extend(sorted((item for item in found if resource.keep(item)), key=lambda item: item.key))


def _can_be_without(resource: Resource, error: ApiError) -> bool:
    """True if a kind may be left out. Workloads only name queues: readers without the right go on without."""
    return (error.status == 404 and resource.optional) or (error.status == 403 and resource.kind == native.WORKLOAD)


def _explained(resource: Resource, server: str, error: ApiError) -> ApiError:
    what = f"{resource.plural} of {resource.group_version}"
    match error.status:
        case 0:
            message = f"{server} does not answer when {what} are listed: {error.message}"
        case 401:
            message = f"{server} does not know you ({error.message}); renew the credentials of your kubeconfig"
        case 403:
            message = f"you may not list {what} ({error.message}); ask for the right to list them in all namespaces"
        case 404:
            message = f"{server} has no {what}; install their CustomResourceDefinition, see manifests/crds"
        case _:
            message = f"cannot list {what}: {error.message}"
    return ApiError(error.status, error.reason, message, error.retry_after)


async def _pages(server: Api, resource: Resource, listing: Listing, sieve: Sieve) -> list[api.ApiObject]:
    found: list[api.ApiObject] = []
    parameters: dict[str, str] = {}
    while True:
        body = await page_of(server, resource, **parameters)
        items, continued = _page(resource, body, listing)
        found += sieve(resource.kind, items)
        if not continued:
            return found
        parameters["continue"] = continued


def _page(resource: Resource, body: bytes, listing: Listing) -> tuple[list[api.ApiObject], str]:
    """Return the objects of a page and its continuation, decoded straight into structs if possible."""
    try:
        page = msgspec.json.decode(body, type=Page[resource.struct])  # type: ignore[name-defined]
    except (msgspec.DecodeError, UnicodeError):
        pass  # nulls where nothing is meant, or an object that cannot be read: each is looked at by itself
    else:
        return list(page.items or ()), page.metadata.continue_
    raw = parsed(body)
    found = (_decoded(resource, each, listing) for each in raw.get("items") or ())
    return [item for item in found if item is not None], (raw.get("metadata") or {}).get("continue") or ""


def _decoded(resource: Resource, raw: Any, listing: Listing) -> api.ApiObject | None:
    try:
        return msgspec.convert(raw, resource.struct)
    except msgspec.ValidationError:
        pass  # nulls where nothing is meant; `decode_as` passes over them, and is slower
    try:
        return api.decode_as(resource.struct, {"kind": resource.kind, **raw})
    except ObjectError as error:
        listing.unreadable.append(error)
        return None
