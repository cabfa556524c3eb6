"""Arguments that configurations for the plugin proposed for Volcano have."""

from __future__ import annotations

import pytest

from volsched.framework.config.loading import ConfigurationError
from volsched.registry import load_profile


def configuration(place: str, most: str) -> str:
    arguments = f"predicate.MGPUEnable: true, predicate.MGPUMaxContainersNumPolicyValid: {most}"
    return f"actions: allocate\ntiers:\n- plugins:\n  - name: {place}\n    arguments: {{{arguments}}}\n"


@pytest.mark.parametrize("place", ["mgpu", "predicates"])
def test_an_argument_that_nothing_reads_there_is_taken_and_has_no_effect(place: str) -> None:
    _, warnings = load_profile(configuration(place, "5"))

    assert list(warnings) == []
    with pytest.raises(ConfigurationError, match="must be a whole number"):
        load_profile(configuration(place, "many"))
