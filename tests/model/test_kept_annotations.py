"""Annotations that are kept, and what becomes of a question about any other."""

from __future__ import annotations

import pytest

from volsched.model import api
from volsched.model.annotations import AnnotationKeys, KeptAnnotations, UndeclaredAnnotationError

KEYS = AnnotationKeys(["example.com/rack", "example.com/slot-*"], "GROUP_ANNOTATIONS")
GIVEN = {"example.com/rack": "r1", "example.com/slot-3": "x", "example.com/other": "y" * 1_000}


def test_no_more_is_kept_than_is_declared() -> None:
    assert KEYS.of(GIVEN) == {"example.com/rack": "r1", "example.com/slot-3": "x"}
    assert KEYS.of({"example.com/other": "y"}) == {}


def test_what_is_declared_and_absent_is_absent() -> None:
    kept = KEYS.of({})
    assert kept.get("example.com/rack", "none") == "none"
    assert "example.com/slot-4" not in kept
    with pytest.raises(KeyError):
        kept["example.com/rack"]


@pytest.mark.parametrize("ask", [lambda a: a.get("b/c"), lambda a: a["b/c"], lambda a: "b/c" in a])
def test_asking_for_what_nobody_declared_fails_with_who_asks_and_what_to_do(ask: object) -> None:
    with pytest.raises(UndeclaredAnnotationError) as failure:
        ask(KEYS.of(GIVEN))  # type: ignore[operator]
    message = str(failure.value)
    assert __name__ in message
    assert '"b/c"' in message
    assert "add it to GROUP_ANNOTATIONS of its class" in message


def test_what_is_kept_grows_with_other_declarations_and_never_shrinks() -> None:
    kept = KeptAnnotations({"Pod": AnnotationKeys(["a", "b/*"])})
    more = KeptAnnotations({"Pod": AnnotationKeys(["c"]), "Node": AnnotationKeys(["d"])})
    shown = kept.of_kind("Pod").of({})
    assert not kept.includes(more)
    kept.grow(more)
    assert kept.includes(more)
    assert all(kept.of_kind("Pod").covers(key) for key in ("a", "b/x", "c"))
    assert kept.of_kind("Node").covers("d")
    assert shown.get("c") is None  # what was read before is asked by the same keys


def test_an_object_loses_what_is_not_kept_of_its_kind() -> None:
    kept = KeptAnnotations({"Pod": AnnotationKeys(["a"])})
    pod, other = (api.Pod(api.ObjectMeta(annotations={"a": "1", "b": "2"})) for _ in range(2))
    kept.trim("Queue", other)
    kept.trim("Pod", pod)
    assert pod.metadata.annotations == {"a": "1"}
    assert other.metadata.annotations == {}
