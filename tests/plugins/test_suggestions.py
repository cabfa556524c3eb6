"""Of an argument that is misspelt: what is suggested in its place is an argument."""

from __future__ import annotations

import re

import pytest

from volsched.framework.config.arguments import Schema, check, find
from volsched.registry import ACTIONS, PLUGINS

SCHEMAS: list[tuple[str, Schema]] = [
    (name, schema) for of in (PLUGINS, ACTIONS) for name in of.names() if (schema := of.schema(name))
]


def misspelt(key: str) -> list[str]:
    """Return a key with a letter left out, two in another order, in other letters, and with one too many."""
    middle = len(key) // 2
    swapped = key[: middle - 1] + key[middle] + key[middle - 1] + key[middle + 1 :]
    return [key[:middle] + key[middle + 1 :], swapped, key.upper(), f"{key}s", key.replace(".", "", 1)]


@pytest.mark.parametrize(("owner", "schema"), SCHEMAS)
def test_what_is_suggested_is_accepted_when_it_is_typed(owner: str, schema: Schema) -> None:
    keys = [argument.key for argument in schema]
    whole = [key.replace("*", "nvidia.com/gpu") for key in keys]
    for given in (word for key in (*keys, *whole) for word in misspelt(key.removesuffix("*"))):
        for problem in check(owner, schema, {given: 1}).problems:
            for meant in re.findall(r"did you mean (.*)\?", problem.message if find(schema, given) is None else ""):
                assert find(schema, meant) is not None
                assert "*" not in meant


def test_the_name_behind_a_prefix_that_is_misspelt_stays() -> None:
    schema = PLUGINS.schema("overcommit")
    assert schema is not None
    for given, meant in {
        "overcommit-factors.nvidia.com/gpu": "overcommit-factor.nvidia.com/gpu",
        "overcommit_factor.cpu": "overcommit-factor.cpu",
        "overcommit-factr": "overcommit-factor",
    }.items():
        [problem] = check("plugin overcommit", schema, {given: 1.5}).problems
        assert problem.message.endswith(f"did you mean {meant}?")
    [problem] = check("plugin overcommit", schema, {"overcommit-factor": 1, "overcommit-factr": 1}).problems
    assert "overcommit-factor.*?" not in problem.message
