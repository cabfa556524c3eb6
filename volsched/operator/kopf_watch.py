"""Follows Queues and Commands with kopf: kinds of which there are few, and of which some may not exist.

kopf sees kinds come and go with their CustomResourceDefinitions. Only `on.event` handlers are registered, so it writes
nothing. Both kinds have no free-form fields, so the API server has checked every field of them; a Volcano Job, whose
templates may be anything, would end kopf if it is nested too deep for Python's decoder.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import kopf

from volsched.controllers.writes import COMMAND, QUEUE, ApiKind
from volsched.kube.client.credentials import Source
from volsched.operator.kopf_thread import KopfThread

KINDS: Final = (QUEUE, COMMAND)

Json = dict[str, Any]
Sink = Callable[[ApiKind, bool, Json], None]
"""Takes a kind, whether the object is there (or gone), and the object."""


class KopfWatch(KopfThread):
    """A thread that hands every event over on the loop that started it."""

    def __init__(self, source: Source, sink: Sink, on_death: Callable[[str], None]) -> None:
        super().__init__("kopf", source, on_death)
        self._sink = sink

    def _register(self, registry: kopf.OperatorRegistry, settings: kopf.OperatorSettings) -> None:
        for kind in KINDS:
            group, _, version = kind.group_version.partition("/")
            kopf.on.event(group, version, kind.plural, id=f"seen-{kind.plural}", registry=registry)(self._handler(kind))

    def _handler(self, kind: ApiKind) -> Callable[..., Any]:
        async def seen(event: Any, **_: Any) -> None:
            is_there = event["type"] != "DELETED"
            self._loop.call_soon_threadsafe(self._sink, kind, is_there, dict(event["object"]))

        return seen
