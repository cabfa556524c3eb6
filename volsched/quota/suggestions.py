"""Changes with which a waiting job could start, in the terms of the plugin that refuses it.

A plugin names objects that could be changed in the part ``suggestions`` of its ``Report``. `explain` runs sessions with
the changed objects, and shows the smallest change with which the job starts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from volsched.framework.quota_report import QUOTA, Suggestion
from volsched.model import api
from volsched.model.errors import QuantityError
from volsched.model.queues.queue import QueueInfo
from volsched.model.values.quantity import Unit, amount_of, format_amount, unit_of

Found = TypeVar("Found", bound=api.ApiObject)


def step_of(resource: str) -> int:
    """Return what counts as one more of a resource, in its unit: a core, a card, a GiB."""
    return 1 << 30 if unit_of(resource) is Unit.BYTE else amount_of(resource, 1)


def raises(queue: QueueInfo, field: str, resources: Iterable[str]) -> Iterator[Suggestion]:
    """Yield a remedy for each resource of which the spec of a queue, in one of its fields, is to grant more."""
    for resource in resources:
        yield _raise(queue.name, field, resource, step_of(resource))


def _raise(queue: str, field: str, resource: str, step: int) -> Suggestion:
    def changed(found: api.Queue, size: int) -> api.Queue:
        amounts: Mapping[str, Any] = getattr(found.spec, field)
        total = format_amount(resource, _counted(resource, amounts.get(resource, 0)) + size * step)
        return with_spec(found, **{field: {**amounts, resource: total}})

    def text(size: int, _: Sequence[str]) -> str:
        return f"{resource} of queue {queue} by {format_amount(resource, size * step)} (spec.{field})"

    return Suggestion(QUOTA, ((api.Queue, queue),), changed, text)


def _counted(resource: str, stated: Any) -> int:
    """Return an amount as quotas count it: what cannot be read, or is negative, counts as 0."""
    try:
        return max(0, amount_of(resource, stated))
    except QuantityError:
        return 0


def with_spec(queue: api.Queue, **fields: Any) -> api.Queue:
    """Return a Queue with another spec."""
    return msgspec.structs.replace(queue, spec=msgspec.structs.replace(queue.spec, **fields))


def with_annotation(found: Found, key: str, text: str) -> Found:
    """Return an object with an annotation."""
    annotations = {**found.metadata.annotations, key: text}
    return msgspec.structs.replace(found, metadata=msgspec.structs.replace(found.metadata, annotations=annotations))
