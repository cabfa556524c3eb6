"""Writes conditions of a PodGroup of scheduling.k8s.io: only ours, to ``/status``.

A strategic merge patch merges conditions by type on the API server's side. If a CustomResourceDefinition serves the
kind there is none (415): then the list is merged here. True never goes back: the state of the API server is checked
right before the write.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

import msgspec

from volsched.kube.client.rest import MERGE_PATCH, STRATEGIC_PATCH, path_segment
from volsched.kube.errors import ApiError
from volsched.kube.write.views import Views
from volsched.model import api
from volsched.model.api import native_groups as native
from volsched.model.conditions import REMEMBERED
from volsched.model.job import PodGroupCondition
from volsched.model.plan import WriteNativeStatus

UNSUPPORTED: Final = 415
MADE_ANEW: Final = 422

Patch: TypeAlias = Callable[[str, str, bytes, str], Awaitable[bytes]]
"""Sends a patch: path, resource, body, content type; returns the answer."""


class NativeStatuses:
    """Writes conditions of native groups. ``views`` has what the API server is known to have."""

    def __init__(self, views: Views, patch: Patch) -> None:
        self._views = views
        self._patch = patch
        self._merges_here = False

    async def write(self, step: WriteNativeStatus) -> bool:
        """Write the conditions that state something new. Return True if there were any, and they were written."""
        known = self._views.native_groups.get(f"{step.namespace}/{step.name}")
        if known is None or known.metadata.uid != step.uid:
            return False
        generation = known.metadata.generation
        news = [merged(condition_of(known, one.type), one, generation) for one in news_for(known, step)]
        if not news:
            return False
        answer = await self._send(step, known, news)
        if answer:
            self._views.wrote(api.decode_text(type(known), answer))
        return bool(answer)

    async def _send(self, step: WriteNativeStatus, known: native.PodGroup, news: list[api.Condition]) -> bytes:
        """Send the patch; empty when the group is gone, or was made anew."""
        place = f"namespaces/{path_segment(step.namespace)}/podgroups/{path_segment(step.name)}/status"
        path = f"/apis/{step.version}/{place}"
        try:
            if not self._merges_here:
                return await self._patch(path, "podgroups/status", _body(step.uid, news), STRATEGIC_PATCH)
        except ApiError as error:
            if error.status == MADE_ANEW:
                return b""
            if error.status != UNSUPPORTED:
                raise
            self._merges_here = True
        written = {condition.type for condition in news}
        others = [other for other in known.status.conditions if other.type not in written]
        body = _body(step.uid, [*others, *news], known.metadata.resource_version)
        return await self._patch(path, "podgroups/status", body, MERGE_PATCH)


def condition_of(group: native.PodGroup, kind: str) -> api.Condition | None:
    """Return a group's condition of a type, None when it has none."""
    return next((condition for condition in group.status.conditions if condition.type == kind), None)


def news_for(group: native.PodGroup, step: WriteNativeStatus) -> list[PodGroupCondition]:
    """Return the conditions that must be written. True stays True, except for ``REMEMBERED``."""
    before = [condition_of(group, condition.type) for condition in step.conditions]
    return [
        condition
        for condition, known in zip(step.conditions, before, strict=True)
        if known is None or (not _states(known, condition) and (known.status != "True" or condition.type in REMEMBERED))
    ]


def merged(before: api.Condition | None, wanted: PodGroupCondition, generation: int) -> api.Condition:
    """Return the condition to write: its time changes with its status alone."""
    is_same = before is not None and before.status == wanted.status
    return api.Condition(
        type=wanted.type,
        status=wanted.status,
        reason=wanted.reason,
        message=wanted.message,
        last_transition_time=before.last_transition_time if before is not None and is_same else _now_text(),
        observed_generation=generation,
    )


def _states(known: api.Condition, wanted: PodGroupCondition) -> bool:
    return (known.status, known.reason, known.message) == (wanted.status, wanted.reason, wanted.message)


def _body(uid: str, conditions: list[api.Condition], version: str = "") -> bytes:
    metadata = {"uid": uid} | ({"resourceVersion": version} if version else {})
    body: dict[str, Any] = {"metadata": metadata, "status": {"conditions": [_written(one) for one in conditions]}}
    return msgspec.json.encode(body)


def _written(condition: api.Condition) -> dict[str, Any]:
    """Return the message is required, be it empty."""
    return {**msgspec.to_builtins(condition), "message": condition.message, "reason": condition.reason}


def _now_text() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
