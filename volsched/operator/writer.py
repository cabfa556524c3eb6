"""Carries out the writes of controllers: one request each, none without the right to write."""

from __future__ import annotations

import asyncio
import time
from typing import Final

import msgspec

from volsched.controllers.writes import CONFIG_MAP, GROUP, POD, SECRET, ApiKind, Body, Create, Delete, Patch
from volsched.kube.client.rest import JSON, MERGE_PATCH, Api, path_segment
from volsched.kube.errors import ApiError, ElsewhereError
from volsched.kube.fence import Fence
from volsched.model import api
from volsched.model.pods.owners import Owner, controller_of, named_by
from volsched.model.values.bounded import Bounded
from volsched.operator import ssh_keys

WRITE_TIMEOUT_SECONDS: Final = 10.0

_MOST_UNSURE: Final = 1024
"""The most remembered Secrets that may have been created without an answer."""

_NOT_READ: Final = (CONFIG_MAP, POD, GROUP)
"""Kinds that volsched may patch but not `get`. A patch that changes nothing and is not kept shows as much."""

_RENAME: Final = "delete it, or give the Job another name"


class Writer:
    """Writes to one API server while the fence is open."""

    def __init__(self, api: Api, fence: Fence) -> None:
        self._api = api
        self._fence = fence
        self._unsure: Bounded[tuple[str, Owner], None] = Bounded(_MOST_UNSURE)

    async def write(self, write: Create | Patch | Delete) -> bytes | None:
        """Carry a write out and return the object as it is now, empty if nothing changed.

        None means that the object does not exist any more. An existing object to create, or a deleted one to delete,
        counts as written. Raises ApiError and FenceError; a 409 means that the object has changed since it was read, an
        ElsewhereError that the name belongs to an object of others.
        """
        match write:
            case Create():
                return await self._create(write)
            case Patch():
                return await self._patch(write)
            case Delete():
                return await self._delete(write)

    async def _create(self, write: Create) -> bytes | None:
        path, body = _collection(write.kind, write.namespace), write.body
        whose = _owners_in(write.namespace, body)
        try:
            if write.with_keys:
                await self._send("POST", f"{path}?dryRun=All", write.kind, body)  # a pair costs time: only if it may be
                body = {**body, "data": await asyncio.to_thread(ssh_keys.new_pair)}
            return await self._make(write, path, body, whose)
        except ApiError as error:
            if error.status != 409 or error.reason != "AlreadyExists":
                raise
        if write.is_own:
            await self._look_whose(write, whose)
        if not write.must_match:
            return b""
        answer = await self._patch(Patch(write.kind, write.namespace, write.name, body))
        if answer is None:
            raise ElsewhereError(f"{_name_of(write)} has just gone; it is made anew")
        return answer

    async def _make(self, write: Create, path: str, body: Body, whose: frozenset[Owner]) -> bytes:
        """Create an object. Remember that a Secret may exist although no answer came."""
        try:
            return await self._send("POST", path, write.kind, body)
        except ApiError as error:
            if write.kind is SECRET and error.may_have_happened:
                for owner in whose:
                    self._unsure[write.name, owner] = None
            raise

    async def _look_whose(self, write: Create, whose: frozenset[Owner]) -> None:
        """Raise ElsewhereError if the object under a name does not belong to its owner, or is terminating.

        Keys may not be read: the ConfigMap of their name tells, which is made right after them. Without it they are the
        Job's own only if they may have been made here a moment ago.
        """
        if write.kind is not SECRET:
            found = await self._shown(write.kind, write)
        else:
            found = await self._shown(CONFIG_MAP, write)
            if found is None:
                self._look_whose_keys(write, whose)
        if found is None:
            return
        owner = controller_of(found)
        if owner is None:
            raise ElsewhereError(f"{_name_of(write)} is there already, made by somebody else; {_RENAME}")
        if owner not in whose:
            name = f'{owner.kind} "{owner.name}" of uid {owner.uid}'
            raise ElsewhereError(f"{_name_of(write)} belongs to {name}; it is waited for until it is gone")
        if found.deletion_timestamp is not None:
            raise ElsewhereError(f"{_name_of(write)} is being deleted; it is waited for until it is gone")

    def _look_whose_keys(self, write: Create, whose: frozenset[Owner]) -> None:
        if any((write.name, owner) in self._unsure for owner in whose):
            return
        if time.time() < write.garbage_until:
            raise ElsewhereError(f"{_name_of(write)} is there already, maybe of an earlier Job; it is waited for")
        raise ElsewhereError(f"{_name_of(write)} is there already, and nobody can tell who made it; {_RENAME}")

    async def _shown(self, kind: ApiKind, write: Create) -> api.ObjectMeta | None:
        """Return the metadata of an object, or None when there is none. Some kinds may be patched but not read."""
        path = f"{_collection(kind, write.namespace)}/{path_segment(write.name)}"
        try:
            if kind in _NOT_READ:
                raw = await self._send("PATCH", f"{path}?dryRun=All", kind, {}, MERGE_PATCH)
            else:
                raw = await self._send("GET", path, kind, None)
        except ApiError as error:
            if _is_deleted(error, write.name):
                return None
            raise
        return api.decode_text(api.ApiObject, raw).metadata

    async def _patch(self, write: Patch) -> bytes | None:
        path, plural = _path(write), write.kind.plural
        if write.subresource:
            path, plural = f"{path}/{write.subresource}", f"{plural}/{write.subresource}"
        try:
            return await self._send("PATCH", path, write.kind, write.body, MERGE_PATCH, plural)
        except ApiError as error:
            if _is_deleted(error, write.name):
                return None
            raise

    async def _delete(self, write: Delete) -> bytes | None:
        body = {"preconditions": {"uid": write.uid}, "propagationPolicy": "Background"}
        try:
            await self._send("DELETE", _path(write), write.kind, body)
        except ApiError as error:
            if not _is_deleted(error, write.name):
                raise
            return None
        return b""

    async def _send(
        self, method: str, path: str, kind: ApiKind, body: object, content_type: str = JSON, resource: str = ""
    ) -> bytes:
        return await self._api.request(
            method,
            path,
            resource or kind.plural,
            body=msgspec.json.encode(body) if body is not None else None,
            content_type=content_type,
            within=WRITE_TIMEOUT_SECONDS,
            fence=self._fence,
        )


def _owners_in(namespace: str, body: Body) -> frozenset[Owner]:
    references = body.get("metadata", {}).get("ownerReferences", ())
    return frozenset(named_by(namespace, msgspec.convert(reference, api.OwnerReference)) for reference in references)


def _name_of(write: Create) -> str:
    return f'{write.kind.name} "{write.name}"'


def _is_deleted(error: ApiError, name: str) -> bool:
    """True if an object, or the intended one, does not exist any more.

    An API server that has just been started does not know custom kinds for a moment, and answers 404 to everything.
    """
    return error.is_deleted and (error.status != 404 or f'"{name}"' in error.message)


def _collection(kind: ApiKind, namespace: str) -> str:
    root = "/api/" if "/" not in kind.group_version else "/apis/"
    inside = f"/namespaces/{path_segment(namespace)}" if namespace else ""
    return f"{root}{kind.group_version}{inside}/{kind.plural}"


def _path(write: Patch | Delete) -> str:
    return f"{_collection(write.kind, write.namespace)}/{path_segment(write.name)}"
