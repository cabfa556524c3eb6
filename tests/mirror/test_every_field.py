"""A later event that changes one field of an object changes what the mirror holds of the object.

Tests that apply each object once miss a field that is read when the object comes, and forgotten when the object
changes. So every field of every kind is changed alone. Then the mirror must hold what another mirror holds that never
saw the earlier object, and something else than before.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import msgspec
import pytest

from tests.mirror import field_changes
from tests.mirror.field_changes import (
    KEPT,
    NEVER_READ,
    ONE_WAY,
    Change,
    Example,
    changes_of,
    examples,
    fields_of,
    reason_in,
)
from tests.mirror.records import Plain, differences, record_of
from volsched.mirror.apply import Mirror
from volsched.model import api
from volsched.model.changes import Put
from volsched.simulation.manifests import decode
from volsched.testing.recount import faults

TABLES = "tests/mirror/field_changes.py"
KEPT_ANNOTATION = "example.com/kept"
TEXT = re.compile(r"^(metadata\.(?:labels|annotations))\[.*\]$")
"""The path of one label or annotation."""

MOST_TOLD = 3
"""Differences of two records that are told; the others are of the same cause."""

EXAMPLES = examples()
KINDS = {kind.__name__: kind for kind in dict.fromkeys(example.kind for example in EXAMPLES)}


def examples_of(kind: type[api.ApiObject]) -> list[Example]:
    return [example for example in EXAMPLES if example.kind is kind]


def mirror_of(example: Example, found: api.ApiObject) -> Mirror:
    """Return a mirror that knows what is beside an example, and sees the object for the first time."""
    mirror = Mirror()
    mirror.keep_annotations([KEPT_ANNOTATION])
    mirror.apply(map(Put, (*example.others, found)))
    return mirror


# --- labels and annotations with a meaning ---------------------------------------------------------------------------


class Asked(dict[str, str]):
    """Labels or annotations that note for which keys they are asked."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        super().__init__(texts)
        self.keys_asked: set[object] = set()

    def get(self, key: str, default: Any = None) -> Any:
        self.keys_asked.add(key)
        return super().get(key, default)

    def __getitem__(self, key: str) -> str:
        self.keys_asked.add(key)
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self.keys_asked.add(key)
        return super().__contains__(key)


def texts_read(kind: type[api.ApiObject]) -> list[str]:
    """Return the paths of the labels and annotations that the mirror asks objects of a kind for."""
    found = set()
    for example in examples_of(kind):
        read = decode(example.raw)
        for name in ("labels", "annotations"):
            asked = Asked(getattr(read.metadata, name))
            msgspec.structs.force_setattr(read.metadata, name, asked)
            mirror_of(example, read)
            found |= {f"metadata.{name}[{key}]" for key in asked.keys_asked}
    return sorted(found)


# --- one change ------------------------------------------------------------------------------------------------------


class Known:
    """A mirror that has seen an example, and what it holds."""

    def __init__(self, example: Example) -> None:
        self.mirror = mirror_of(example, example.object)
        self.record = record_of(self.mirror)
        self.read = record_of(self.mirror, texts=False)

    def see(self, found: api.ApiObject) -> Plain:
        self.mirror.apply([Put(found)])
        return record_of(self.mirror)

    def differs(self, now: Plain, change: Change) -> bool:
        """Return whether a change is seen; of a label or annotation, whether what is read of it is another."""
        is_text = change.path not in fields_of(change.example.kind)
        return bool(record_of(self.mirror, texts=False) != self.read if is_text else now != self.record)


def wrong_with(change: Change, known: Known, now: Plain) -> list[str]:
    """Return what a mirror that knew the example holds wrongly after a change."""
    found = faults(known.mirror.cluster)
    if not reason_in(KEPT, str(change.example), change.path):
        found += told(now, record_of(mirror_of(change.example, change.object)))
    return [f"{change}: {each}" for each in found]


def wrong_after(change: Change, known: Known, again: Plain) -> list[str]:
    """Return what a mirror holds wrongly after the example has come back in the place of a change."""
    found = faults(known.mirror.cluster)
    if not reason_in(ONE_WAY, change.example.kind.__name__, change.path):
        found += told(again, known.record)
    return [f"{change}, and changed back: {each}" for each in found]


def told(held: Plain, fresh: Plain) -> list[str]:
    found = differences(held, fresh)
    return [f"{place} is {one!r}, in a new mirror {other!r}" for place, one, other in islice(found, MOST_TOLD)]


def unreached(kind: str, reached: Mapping[str, int]) -> Iterator[str]:
    """Yield the fields whose change is not seen although it should be, and those of which the reverse is true."""
    for path, count in reached.items():
        reason = reason_in(NEVER_READ, kind, path)
        if not count and not reason:
            yield (
                f"{kind} {path}: a change of the field alone does not reach the record. If the mirror loses it, mend "
                f"the mirror. If the field counts only beside others, or must be understood, give it a value in "
                f"{field_changes.EXAMPLES.name} (or in CHANGES, {TABLES}). If no record has it, say why in NEVER_READ"
            )
        if count and reason:
            yield f'{kind} {path}: NEVER_READ in {TABLES} says "{reason}", but a change reaches the record'


@pytest.mark.parametrize("kind", KINDS)
def test_a_change_of_any_field_alone_reaches_the_record(kind: str) -> None:
    known: dict[int, Known] = {}
    reached: Counter[str] = Counter()
    found: list[str] = []
    for change in changes_of(examples_of(KINDS[kind]), texts_read(KINDS[kind])):
        place = EXAMPLES.index(change.example)
        held = known.pop(place, None) or Known(change.example)
        now = held.see(change.object)
        if not change.removes:
            reached[change.path] += held.differs(now, change)
        found += wrong_with(change, held, now)
        again = held.see(change.example.object)
        found += wrong_after(change, held, again)
        if again == held.record:  # it serves for the next change
            known[place] = held

    found += unreached(kind, reached)
    assert not found, "\n".join(("", *found))


# --- nothing is left out ---------------------------------------------------------------------------------------------


def kinds_of_objects() -> list[type[api.ApiObject]]:
    """Return the classes of all objects that there are structs for, but for those that others are derived from."""
    found: list[type[api.ApiObject]] = []
    left = [api.ApiObject]
    while left:
        kind = left.pop()
        below = kind.__subclasses__()
        left += below
        if not below and kind.__module__.startswith("volsched.model."):
            found.append(kind)
    return sorted(found, key=lambda kind: kind.__name__)


@pytest.mark.parametrize("kind", [kind for kind in kinds_of_objects() if kind.__name__ not in KINDS])
def test_a_kind_without_an_example_reaches_no_record(kind: type[api.ApiObject]) -> None:
    mirror = Mirror()
    before = record_of(mirror)

    mirror.apply([Put(kind(metadata=api.ObjectMeta(name="a", namespace="b", uid="c")))])

    assert record_of(mirror) == before, f"give {kind.__name__} an example in {field_changes.EXAMPLES.name}"


def test_exceptions_are_of_fields_and_examples_that_there_are() -> None:
    for table in (field_changes.NEVER_CHANGES, NEVER_READ, ONE_WAY):
        for kind, paths in table.items():
            for path in paths:
                among = [KINDS[kind]] if kind else KINDS.values()
                field = TEXT.sub(r"\1", path)
                assert all(field in fields_of(each) for each in among), f"{kind} has no field {path}"
    assert set(KEPT) <= set(map(str, EXAMPLES))
