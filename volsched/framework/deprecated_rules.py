"""Rules of one minor version ago. Each makes a ``Report`` of one part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from volsched.framework.reports import Report, SeriesFn
from volsched.model.values.series import Series


def _of(part: str) -> Callable[[Any], Report]:
    return lambda given: Report(**{part: given})


def _of_metric(series: Series, fn: SeriesFn) -> Report:
    return Report(metrics={series: fn})


Metric = _of_metric
ShownAmounts = _of("amounts")
ShownHoldings = _of("allocated")
ShownUsage = _of("usage")
ShownTable = _of("table")
Holders = _of("consumers")
Remedies = _of("suggestions")
