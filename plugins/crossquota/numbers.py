"""The metrics of crossquota: quota and usage of GPU nodes, refusals, ignored settings."""

from __future__ import annotations

from plugins.crossquota.budget import NodeBudgets
from volsched.plugin import Numbers, Series, format_amount, in_base_units
from volsched.plugin.quota import QuotaRow, QuotaTable, left

_OF_NODES = ("node", "resource")

QUOTA = Series("volsched_crossquota_quota", "What CPU pods may hold on a GPU node", _OF_NODES)
USED = Series("volsched_crossquota_used", "What CPU pods hold on a GPU node", _OF_NODES)
REFUSALS = Series(
    "volsched_crossquota_refusals",
    "Answers of GPU nodes that a kind of CPU pods would take them above the quota",
    ("resource",),
    counts=True,
)
FAULTS = Series(
    "volsched_crossquota_faults", "Settings that cannot be read and are passed over, by where they stand", ("source",)
)

Labels = tuple[str, ...]


class QuotaSeries:
    """The numbers of each series; only changed nodes are read again."""

    def __init__(self, budgets: NodeBudgets, patterns: int) -> None:
        self._budgets = budgets
        self._patterns = patterns
        self._faulty: dict[str, int] = {}
        self._quotas: dict[Labels, float] = {}
        self._used: dict[Labels, float] = {}
        self._shown: tuple[Numbers, Numbers] = ({}, {})

    def quotas(self) -> Numbers:
        """Cores, bytes and whole devices by node and resource."""
        self._refresh()
        return self._shown[0]

    def used(self) -> Numbers:
        """Return the same of what is used."""
        self._refresh()
        return self._shown[1]

    def refusals(self) -> Numbers:
        """Answers by resource since the configuration came into force."""
        return {(resource,): count for resource, count in self._budgets.refusals.items()}

    def faults(self) -> Numbers:
        """Patterns and annotations of nodes."""
        self._refresh()
        return {("pattern",): self._patterns, ("annotation",): sum(self._faulty.values())}

    def table(self) -> QuotaTable:
        """Quota, use and rest of each GPU node by resource, and of all of them together."""
        budgets = self._budgets
        nodes = [(name, account) for name, account in sorted(budgets.accounts.items()) if account.amounts]
        rows = [
            _row(name, resource, account.amounts[place], account.used[place])
            for name, account in nodes
            for place, resource in enumerate(budgets.resources)
        ]
        if nodes:
            rows += [
                _row(
                    None,
                    resource,
                    sum(account.amounts[place] for _, account in nodes),
                    sum(account.used[place] for _, account in nodes),
                    sum(left(account.amounts[place], account.used[place]) for _, account in nodes),
                )
                for place, resource in enumerate(budgets.resources)
            ]
        return QuotaTable("cpuPods", "CPU pods on GPU nodes", ("node", "resource"), ("quota", "used", "headroom"), rows)

    def _refresh(self) -> None:
        changed = list(self._budgets.take_changed())
        for name in changed:
            self._take(name)
        if changed:
            self._shown = (self._quotas.copy(), self._used.copy())

    def _take(self, name: str) -> None:
        account = self._budgets.accounts.get(name)
        quota = account.quota if account is not None else None
        self._faulty.pop(name, None)
        if quota is not None and quota.faults:
            self._faulty[name] = len(quota.faults)
        for place, resource in enumerate(self._budgets.resources):
            labels = (name, resource)
            if account is None or quota is None:
                self._quotas.pop(labels, None)
                self._used.pop(labels, None)
            else:
                self._quotas[labels] = in_base_units(resource, quota.amounts[place])
                self._used[labels] = in_base_units(resource, account.used[place])


def _row(node: str | None, resource: str, quota: int, used: int, rest: int | None = None) -> QuotaRow:
    headroom = left(quota, used) if rest is None else rest
    amounts = {"quota": quota, "used": used, "headroom": headroom}
    return QuotaRow((node, resource), {name: format_amount(resource, amount) for name, amount in amounts.items()})
