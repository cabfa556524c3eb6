"""Queues in the order of what they held over time (``accounts.past_use``): all that a plugin registers for that."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from volsched.framework.accounts.past_use import MEAN_USE, PastUse
from volsched.framework.callbacks import QueueKeyFn
from volsched.framework.registration import Registrar
from volsched.framework.reports import CountedOverTime, Report
from volsched.framework.rules import QueueOrder
from volsched.model.values.series import Numbers


def order_over_time(registrar: Registrar, past: PastUse, order: QueueKeyFn | QueueOrder) -> None:
    """Order queues by a key that is made from their past, which is counted up to now, kept in statuses and shown."""
    rule = order if isinstance(order, QueueOrder) else QueueOrder(order)
    past.settle(registrar.session.now)
    counted: list[PastUse] = registrar.session.rules.of[CountedOverTime]
    if not counted:
        registrar.register(Report(metrics={MEAN_USE: lambda: _numbers(counted)}))
    registrar.register(rule, CountedOverTime(past), Report(table=partial(past.table, rule.key)))


def _numbers(counted: Sequence[PastUse]) -> Numbers:
    """Return the numbers of all plugins that count over time as those of one metric."""
    return {labels: number for past in counted for labels, number in past.numbers().items()}
