"""The contract of engines finds what is decided differently, and says where."""

from __future__ import annotations

from typing import Any

import pytest

from volsched.framework.engine.fast import FastEngine
from volsched.testing.checked import CheckedEngine
from volsched.testing.contract import engine_contract
from volsched.testing.naive import NaiveEngine


def test_what_all_engines_decide_is_returned() -> None:
    played: list[Any] = []

    def play(engine: Any) -> str:
        played.append(engine)
        return "as ever"

    assert engine_contract(play) == "as ever"
    assert played == [FastEngine, NaiveEngine, CheckedEngine]


@pytest.mark.parametrize(("odd", "name"), [(FastEngine, "fast"), (CheckedEngine, "checked")])
def test_an_engine_that_decides_otherwise_is_named_with_the_first_difference(odd: Any, name: str) -> None:
    with pytest.raises(AssertionError) as raised:
        engine_contract(lambda engine: ["same", ["same", "odd" if engine is odd else "right"]])

    said = f"the {name} engine decides otherwise than the naive one[1][1]:\n  odd\ninstead of\n  right"
    assert str(raised.value) == said
