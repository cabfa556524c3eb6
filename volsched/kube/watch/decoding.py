"""Decodes one kind from the API server: pages of a list, and lines of a watch.

Objects are decoded straight into the structs of `model.api`. An unreadable object still has its identity; an answer
that is no JSON is a failure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, TypeVar

import msgspec
import structlog

from volsched.kube.client.rest import parsed
from volsched.kube.errors import ApiError
from volsched.kube.watch.resources import Resource
from volsched.model import api
from volsched.model.errors import ObjectError
from volsched.model.values import json_text

T = TypeVar("T")

_log = structlog.get_logger(__name__)


class WatchEvent(msgspec.Struct, Generic[T], gc=False):
    """One line of a watch."""

    type: str
    object: T


class Unread(api.ApiObject, frozen=True):
    """The identity of an unreadable object, the reason (`field`, `message`), and its node, if it has one."""

    field: str = ""
    message: str = ""
    node: str = ""


class ListMeta(msgspec.Struct, rename="camel", gc=False):
    """Where a list stands."""

    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class Page(msgspec.Struct, Generic[T]):
    """One page of a list."""

    metadata: ListMeta = msgspec.field(default_factory=ListMeta)
    items: list[T] | None = None


class KindReader:
    """Reads one kind. `unreadable` counts the objects that could not be read."""

    def __init__(self, resource: Resource) -> None:
        self.unreadable = 0
        self._resource = resource
        self._decoder: Any = msgspec.json.Decoder(WatchEvent[resource.struct])  # type: ignore[name-defined]
        self._pages: Any = msgspec.json.Decoder(Page[resource.struct])  # type: ignore[name-defined]

    def page(self, answer: bytes) -> Page[Any]:
        """Read a page of a list. Raises ApiError."""
        try:
            return json_text.decode_by(self._pages.decode, answer)
        except msgspec.ValidationError:
            return self._odd_page(parsed(answer))
        except (msgspec.DecodeError, UnicodeError) as error:
            raise ApiError(0, "Broken", f"a page is not JSON: {error}") from error

    def _odd_page(self, raw: Any) -> Page[Any]:
        """Read a page with something unexpected, most likely an object."""
        try:
            items = [self._repaired(item) for item in raw.get("items") or ()]
            return Page(msgspec.convert(raw.get("metadata") or {}, ListMeta), items)
        except (AttributeError, TypeError, msgspec.ValidationError) as error:
            raise ApiError(0, "Broken", f"a page is no list: {error}") from error

    def events(self, lines: bytes) -> Iterator[WatchEvent[Any]]:
        """Yield the events of whole lines. Raises ApiError after the events before an error line."""
        try:
            events = self._decoder.decode_lines(lines)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            yield from self._events_one_by_one(lines)
            return
        for event in events:
            if event.type == "ERROR":  # its Status was read as an object of this kind
                yield from self._events_one_by_one(lines)
                return
        yield from events

    def _events_one_by_one(self, lines: bytes) -> Iterator[WatchEvent[Any]]:
        """Read lines of which at least one is no object of this kind: a bookmark with nulls, or an error."""
        for line in lines.splitlines():
            if not line.strip():
                continue
            try:
                event = json_text.decode_by(self._decoder.decode, line)
            except (msgspec.DecodeError, UnicodeError):
                event = None
            yield self._odd_event(line) if event is None or event.type == "ERROR" else event

    def _odd_event(self, line: bytes) -> WatchEvent[Any]:
        """Read a line that is not as expected. Raises ApiError when it is an error."""
        try:
            raw = json_text.decode(line)
            kind, found = raw["type"], raw["object"]
        except (msgspec.DecodeError, UnicodeError, KeyError, TypeError) as error:
            raise ApiError(0, "Broken", f"a line of a watch is no event: {line[:200]!r}") from error
        if kind == "ERROR" or not isinstance(found, dict):
            raise _status_error(found)
        found = {"metadata": found.get("metadata")} if kind in ("DELETED", "BOOKMARK") else found
        return WatchEvent(str(kind), self._repaired(found))

    def _repaired(self, raw: Any) -> api.ApiObject:
        """Read an object that is not as expected: nulls count as absent."""
        try:
            return api.decode_as(self._resource.struct, raw)
        except ObjectError as error:
            self.unreadable += 1
            _log.error("an object cannot be read and is set aside", resource=self._resource.plural, error=str(error))
            return Unread(api.identity_of(raw), error.field, error.message, _node_of(raw))


def _node_of(raw: Any) -> str:
    """Return the node of an unchecked pod; empty if it holds nothing on a node."""
    spec, status = (raw.get(name) if isinstance(raw, dict) else None for name in ("spec", "status"))
    node = spec.get("nodeName") if isinstance(spec, dict) else None
    has_ended = isinstance(status, dict) and status.get("phase") in ("Succeeded", "Failed")
    return node if isinstance(node, str) and not has_ended else ""


def _status_error(status: Any) -> ApiError:
    """Turn the Status of an ERROR event into an exception."""
    if not isinstance(status, dict):
        return ApiError(0, "Broken", f"the server sent an error that is none: {str(status)[:200]}")
    code = status.get("code")
    return ApiError(
        code if isinstance(code, int) else 500, str(status.get("reason") or "Unknown"), str(status.get("message") or "")
    )
