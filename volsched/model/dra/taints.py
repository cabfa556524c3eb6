"""DeviceTaintRules: taints that devices have beside those in their slices.

A rule may be met by any number of devices and a device by any number of rules, and either may come first. So rules are
found by the pool that they name, slices are kept as they were written, and what a change of a rule does to a slice is
a function of the two.

Rules: resourceslice/tracker of k8s.io/dynamic-resource-allocation 0.36.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from volsched.model.dra.device import Device, PoolId, Slice, TaintRule


class TaintRules:
    """All rules, by name and by the pool that they name."""

    def __init__(self) -> None:
        self._by_name: dict[str, TaintRule] = {}
        self._by_pool: dict[str | None, dict[str, TaintRule]] = {}

    def put(self, rule: TaintRule) -> Sequence[TaintRule]:
        """Take a rule in. What it was and what it is, nothing when it states what it did."""
        if self._by_name.get(rule.name) == rule:
            return ()
        before = self.drop(rule.name)
        self._by_name[rule.name] = rule
        self._by_pool.setdefault(rule.pool, {})[rule.name] = rule
        return (*before, rule)

    def drop(self, name: str) -> Sequence[TaintRule]:
        """Forget a rule; what it was."""
        rule = self._by_name.pop(name, None)
        if rule is None:
            return ()
        del self._by_pool[rule.pool][name]
        if not self._by_pool[rule.pool]:
            del self._by_pool[rule.pool]
        return (rule,)

    def about(self, pool: PoolId) -> list[TaintRule]:
        """Return the rules that may mean devices of a pool, by name."""
        found = [*self._by_pool.get(pool.pool, {}).values(), *self._by_pool.get(None, {}).values()]
        return sorted((rule for rule in found if rule.selects_of(pool)), key=lambda rule: rule.name)


def concerned_by(rules: Iterable[TaintRule], part: Slice) -> bool:
    """Return whether any of these rules means a device of a slice."""
    return any(rule.selects(device.id) for rule in rules for device in part.devices)


def tainted(part: Slice, rules: Sequence[TaintRule]) -> Slice:
    """Return a slice as it is with these rules. One of them that cannot be understood makes it unusable."""
    if not concerned_by(rules, part):
        return part
    faulty = [rule for rule in rules if rule.fault and concerned_by([rule], part)]
    fault = f"DeviceTaintRule {faulty[0].name}: {faulty[0].fault}" if faulty else ""
    devices = tuple(_tainted(device, rules) for device in part.devices)
    return replace(part, devices=devices, fault=part.fault or fault)


def _tainted(device: Device, rules: Iterable[TaintRule]) -> Device:
    """Return a device with more taints, or itself; what selectors found of it stays true."""
    more = tuple(rule.taint for rule in rules if rule.taint is not None and rule.selects(device.id))
    return replace(device, taints=(*device.taints, *more)) if more else device
