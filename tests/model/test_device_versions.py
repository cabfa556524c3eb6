"""Which of two versions of a claim is the earlier one, whatever an API server writes there."""

from __future__ import annotations

import pytest

from volsched.model.dra.devices import _older


@pytest.mark.parametrize(
    ("version", "than", "is_older"),
    [
        ("9", "10", True),
        ("10", "9", False),
        ("10", "10", False),
        ("9", "1" * 5000, True),
        ("", "1", False),
        ("x", "1", False),
        ("1", "²", True),
    ],
)
def test_versions_are_compared_as_numbers(version: str, than: str, *, is_older: bool) -> None:
    assert _older(version, than) is is_older
