"""The condition ``LostPods`` of a PodGroup whose gang has lost pods.

Its message is for people. A new leader reads from it the pods for which room is kept, their nodes and until when, and
what the gang held when it was whole.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import cache
from types import MappingProxyType
from typing import Final, NamedTuple

from volsched.model.conditions import LOST_PODS
from volsched.model.errors import QuantityError
from volsched.model.job import PodGroupCondition
from volsched.model.values.quantity import amount_of, format_amount

_STAMP: Final = "%Y-%m-%dT%H:%M:%SZ"
_BEGINNING: Final = "the gang has lost pods and comes first in its queue; "
_NO_ROOM: Final = "no room is kept for them"
_ROOM: Final = "room is kept for "
_HELD: Final = "; when it was whole it held "
_MOST_HELD: Final = 32
"""Of a gang that held more different resources it is not stated what it held."""


NOTHING: Final[Mapping[str, int]] = MappingProxyType({})


class LostPod(NamedTuple):
    """A pod that was lost on a node. ``until`` is when its room is kept no longer, in seconds since the epoch.

    Without end it is still being deleted.
    """

    pod: str
    node: str
    until: float


def condition_of(lost: Iterable[LostPod], held: Mapping[str, int] = NOTHING) -> PodGroupCondition:
    """Return the condition of a gang that has lost pods, with those for which room is kept, and what it held before."""
    listed = ", ".join(f"{pod} on node {node} {_how_long(until)}" for pod, node, until in lost)
    message = f"{_BEGINNING}{f'{_ROOM}{listed}' if listed else _NO_ROOM}"
    if 0 < len(held) <= _MOST_HELD:
        message += _HELD + ", ".join(f"{name} {format_amount(name, amount)}" for name, amount in sorted(held.items()))
    return PodGroupCondition(LOST_PODS, "True", LOST_PODS, message)


def held_in(condition: PodGroupCondition) -> dict[str, int]:
    """Return what a gang held when it was whole, from a condition; nothing if it does not state that."""
    if condition.type != LOST_PODS or not condition.message.startswith(_BEGINNING):
        return {}
    stated = condition.message.partition(_HELD)[2]
    pairs = [each.rpartition(" ") for each in stated.split(", ")] if stated else []
    try:
        return {name: amount_of(name, text) for name, _, text in pairs}
    except QuantityError:
        return {}


def lost_pods_in(condition: PodGroupCondition) -> list[LostPod]:
    """Return the pods for which room is kept, from a condition; none for other conditions."""
    if condition.type != LOST_PODS or not condition.message.startswith(f"{_BEGINNING}{_ROOM}"):
        return []
    found = _pattern().findall(condition.message)
    return [LostPod(pod, node, seconds) for pod, node, text in found if (seconds := _seconds(text)) is not None]


@cache
def _pattern() -> re.Pattern[str]:
    return re.compile(r"([a-z0-9.-]+) on node ([a-z0-9.-]+) until (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)")


def _how_long(until: float) -> str:
    return f"until {_stamp(until)}" if until < math.inf else "while it is being deleted"


def _stamp(seconds: float) -> str:
    return datetime.fromtimestamp(math.ceil(seconds), UTC).strftime(_STAMP)


def _seconds(text: str) -> float | None:
    """Return a time in seconds since the epoch, or None for a day or an hour that does not exist."""
    try:
        return datetime.strptime(text, _STAMP).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None
