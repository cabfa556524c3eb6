"""Annotations, and messages of conditions, under other names: those that some rule reads. All others are left out.

Each is read as its rule reads it and written anew. One that its rule cannot read is replaced by one that it cannot
read either, since to be unreadable decides something, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from volsched.controllers import grouping, jobs
from volsched.controllers.queues import CLOSED_BY_PARENT
from volsched.diagnose.anonymous.names import Names
from volsched.mirror.reading import GROUP_NAME, MIRROR, PREEMPTABLE, ROLE, TASK_PRIORITY
from volsched.model import held_nodes
from volsched.model.annotations import EVERY
from volsched.model.dra.announced import ANNOTATION as ANNOUNCED
from volsched.model.dra.announced import announced_by
from volsched.model.dra.api import EXTENDED_CLAIM
from volsched.model.errors import FieldError
from volsched.model.job import PodGroupCondition
from volsched.model.lost_pods import LostPod, lost_pods_in
from volsched.model.lost_pods import condition_of as lost_pods_condition
from volsched.model.queues import kept_queue
from volsched.model.queues.allowed_namespaces import ALLOWED_NAMESPACES, parse
from volsched.model.selectors import IN, LabelSelector, Requirement
from volsched.model.storage import BIND_COMPLETED, OLD_CLASS, SELECTED_NODE
from volsched.model.unserved import NUMA_POLICY, REVOCABLE_ZONE
from volsched.model.values.duration import seconds_of
from volsched.model.waiting_time import WAITING_TIMES
from volsched.registry import annotation_types
from volsched.simulation.claims import ENTRY
from volsched.simulation.volumes import DEFAULT_CLASS

UNREADABLE: Final = "?"
"""The replacement that rules can read only as a name."""

_DIGITS: Final = re.compile(r"[+-]?[0-9]{1,18}")
_NUMBERS: Final = re.compile(r"[0-9, ]*")
_AMOUNT: Final = re.compile(r"[0-9.eE+-]{1,40}[numkKMGTPE]?i?|[0-9.]{1,40}%?")

Note: TypeAlias = Callable[[Names, str], str]


def _name(names: Names, text: str) -> str:
    """Replace a name."""
    return names.name(text)


def _word(names: Names, text: str) -> str:
    return names.word(text)


def _only(shape: re.Pattern[str]) -> Note:
    return lambda _, text: text if not text.strip() or shape.fullmatch(text.strip()) else UNREADABLE


def _presence(_: Names, __: str) -> str:
    return ""


def _truth(_: Names, text: str) -> str:
    return text if text in _TRUTHS else UNREADABLE


_TRUTHS: Final = frozenset(("1", "t", "T", "true", "TRUE", "True", "0", "f", "F", "false", "FALSE", "False", "yes"))


def _duration(_: Names, text: str) -> str:
    return text if seconds_of(text) is not None else UNREADABLE


def _namespaces(names: Names, text: str) -> str:
    try:
        allowed = parse(text)
    except FieldError:
        return UNREADABLE
    if allowed.names:
        return json.dumps([names.name(name) for name in sorted(allowed.names)])
    return json.dumps(_selector(names, allowed.selector))


def _selector(names: Names, selector: LabelSelector) -> dict[str, Any]:
    """Return a selector as JSON. A label may have to have two values, so that a mapping of labels will not do."""
    conditions = [*(Requirement(key, IN, (value,)) for key, value in selector.equal), *selector.requirements]
    return {
        "matchExpressions": [
            {
                "key": names.key(each.key),
                "operator": each.operator,
                "values": [names.value(each.key, value) for value in each.values],
            }
            for each in conditions
        ]
    }


def _announced(names: Names, text: str) -> str:
    found = announced_by({ANNOUNCED: text})
    if found.fault:
        return UNREADABLE
    roles = {
        names.name(role): [
            {
                key: names.name(value)
                for key, value in (("name", use.name), ("claim", use.claim), ("template", use.template))
                if value
            }
            for use in uses
        ]
        for role, uses in found.roles.items()
    }
    return json.dumps(roles)


def _amounts_of_cards(names: Names, text: str) -> str:
    """Return a JSON object of cards. A value that is no whole number becomes another invalid value."""
    if not text.strip():
        return ""
    try:
        read = json.loads(text)
    except (ValueError, RecursionError):
        return UNREADABLE
    if read is None:
        return "null"
    if not isinstance(read, dict):
        return UNREADABLE
    return json.dumps({names.cards(name) or name.strip(): _number(value) for name, value in read.items()})


def _number(value: Any) -> Any:
    return value if isinstance(value, int) else UNREADABLE


def _ids(names: Names, text: str) -> str:
    """Return ids of cards, or indexes, with commas between them: a number stays one, an invalid text stays invalid."""
    return ",".join(item if item.strip().isdecimal() else names.name(item) for item in text.split(","))


_TYPES: Final[Mapping[str, Note]] = {
    "name": _name,
    "word": _word,
    "truth": _truth,
    "digits": _only(_DIGITS),
    "numbers": _only(_NUMBERS),
    "amount": _only(_AMOUNT),
    "duration": _duration,
    "resource": lambda names, text: names.resource(text),
    "cards": lambda names, text: names.cards(text),
    "card amounts": _amounts_of_cards,
    "ids": _ids,
}
"""The types that a plugin declares for its annotations (`framework.annotation_types`), with their replacements."""

NOTES: Final[Mapping[str, Note]] = {
    **dict.fromkeys((GROUP_NAME, ROLE, grouping.QUEUE_NAME, jobs.QUEUE_NAME, jobs.JOB_NAME, jobs.JOB_NAMESPACE), _name),
    **dict.fromkeys((jobs.TEMPLATE_UID, SELECTED_NODE, OLD_CLASS, ENTRY, REVOCABLE_ZONE), _name),
    **dict.fromkeys(
        (TASK_PRIORITY, grouping.GROUP_MIN_MEMBER, grouping.TOPOLOGY_TIER, jobs.TASK_INDEX), _only(_DIGITS)
    ),
    **dict.fromkeys((jobs.JOB_VERSION, jobs.RETRY_COUNT, jobs.PARTITION), _only(_DIGITS)),
    **dict.fromkeys((PREEMPTABLE, EXTENDED_CLAIM, DEFAULT_CLASS, BIND_COMPLETED), _truth),
    **dict.fromkeys((MIRROR, CLOSED_BY_PARENT), _presence),
    **dict.fromkeys((grouping.TOPOLOGY_MODE, NUMA_POLICY), _word),
    **dict.fromkeys((held_nodes.EXPECTED_DURATION, held_nodes.DEFAULT_DURATION, held_nodes.RESERVE_AFTER), _duration),
    **dict.fromkeys((*WAITING_TIMES, "volcano.sh/cooldown-time"), _duration),
    **dict.fromkeys(("volcano.sh/jdb-min-available", "volcano.sh/jdb-max-unavailable"), _only(_AMOUNT)),
    ALLOWED_NAMESPACES: _namespaces,
    ANNOUNCED: _announced,
}
"""The replacement of each annotation that the core reads, by its key."""


def note(names: Names, key: str, text: str) -> tuple[str, str] | None:
    """Return the replacement of an annotation, or None for one that no rule of ours reads."""
    known = NOTES.get(key)
    if known is not None:
        return key, known(names, text)
    declared = annotation_types()
    type_ = declared.get(key)
    if isinstance(type_, str):
        return key, _TYPES[type_](names, text)
    families = [each for each in declared if each.endswith(EVERY) and key.startswith(each.removesuffix(EVERY))]
    if not families:
        return None
    family = max(families, key=len)
    start, types = family.removesuffix(EVERY), declared[family]
    of_rest, of_text = types if isinstance(types, tuple) else ("name", types)
    return start + _TYPES[of_rest](names, key.removeprefix(start)), _TYPES[of_text](names, text)


def message(names: Names, condition: PodGroupCondition) -> str:
    """Return the message of a condition from which something is read again; empty for all others."""
    is_reserved = condition.type == held_nodes.RESERVED
    if is_reserved and held_nodes.pause_in(condition.message) is not None:
        return condition.message
    promise = held_nodes.stated_reservation_in(condition.message) if is_reserved else None
    if promise is not None:
        nodes = [names.name(node) for node in promise.nodes]
        return held_nodes.condition_of(promise.at, promise.start, nodes).message
    lost = lost_pods_in(condition)
    if lost:
        return lost_pods_condition(
            LostPod(names.name(each.pod), names.name(each.node), each.until) for each in lost
        ).message
    nowhere, queue = kept_queue.named_nowhere([condition]), kept_queue.queue_in([condition])
    if nowhere:
        return kept_queue.nowhere_condition(names.name(nowhere)).message
    return kept_queue.condition_of(names.name(queue), "").message if queue else ""
