"""Runs the table of property tests, a cell at a time."""

from __future__ import annotations

import pytest

from tests.properties.lives import hold
from tests.properties.table import TABLE


@pytest.mark.slow(reason="each cell is forty random clusters, which three schedulers and more live through")
@pytest.mark.parametrize("cell", TABLE)
def test_all_properties_hold(cell: str) -> None:
    hold(TABLE[cell])
