"""Configurations that do not hold, of many kinds.

In none of them is there a plugin that keeps quotas: a scheduler that takes over a part of one lets go of what it must
hold, and the quota that a drill watches is overrun.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from volsched.framework.config.loading import LONGEST_TEXT

KEY: Final = "volcano-scheduler.conf"

Data: TypeAlias = Mapping[str, str] | None
"""What is in the ConfigMap; None: there is none."""

_LAX: Final = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: gang
  - name: predicates
  - name: nodeorder
"""
"""This one holds: what breaks it is added."""

_DEEP: Final = 20_000
_LAUGHS: Final = 12


def _text(text: str) -> Callable[[], Data]:
    return lambda: {KEY: text}


def _with_plugin(lines: str) -> Callable[[], Data]:
    return _text(f"{_LAX}  - name: binpack\n{lines}")


def _bomb() -> Data:
    """Each line names the one before it ten times."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, _LAUGHS)]
    return {KEY: "\n".join([*lines, _LAX])}


WAYS: Final[Mapping[str, Callable[[], Data]]] = {
    "not YAML": _text(f"{_LAX}  - {{name: [\n"),
    "a tab": _text(_LAX.replace("  - name: gang", "\t- name: gang")),
    "unknown action": _text(_LAX.replace("allocate", "alocate")),
    "unknown plugin": _text(f"{_LAX}  - name: capacities\n"),
    "plugin of Volcano": _text(f"{_LAX}  - name: numaaware\n"),
    "unknown argument": _with_plugin("    arguments: {binpack.wieght: 5}\n"),
    "argument of another type": _with_plugin("    arguments: {binpack.weight: [5]}\n"),
    "number of 5,000 digits": _with_plugin(f"    arguments: {{binpack.weight: {'9' * 5_000}}}\n"),
    "not a number": _with_plugin("    arguments: {binpack.weight: .nan}\n"),
    "unknown switch": _with_plugin("    enabledPreemptable: true\n"),
    "switch of another type": _with_plugin("    enablePreemptable: maybe\n"),
    "plugin twice": _text(f"{_LAX}  - name: gang\n"),
    "key twice": _text(f"{_LAX}actions: allocate\n"),
    "unknown key": _text(f"{_LAX}teirs: []\n"),
    "tiers are a number": _text('actions: "allocate"\ntiers: 5\n'),
    "plugins are a text": _text('actions: "allocate"\ntiers:\n- plugins: gang\n'),
    "a list": _text("- actions\n- tiers\n"),
    "no actions": _text("tiers:\n- plugins:\n  - name: gang\n"),
    "two documents": _text(f"{_LAX}---\n{_LAX}"),
    "characters that YAML has not": _text(f"{_LAX}# \x07\n"),
    "empty text": _text(""),
    "no data": dict,
    "another key": lambda: {"note": "the configuration is elsewhere"},
    "two keys to choose from": lambda: {"one": _LAX, "two": _LAX},
    "deleted": lambda: None,
    "one character too long": lambda: {KEY: _LAX + "#" * (LONGEST_TEXT + 1 - len(_LAX))},
    "nearly as long as there may be": lambda: {KEY: _LAX + "#" * 1_000_000},
    "lists 20,000 deep": lambda: {KEY: f"{_LAX}configurations: {'[' * _DEEP}{']' * _DEEP}\n"},
    "mappings 20,000 deep": lambda: {KEY: f"{_LAX}configurations: {'{a: ' * _DEEP}{'}' * _DEEP}\n"},
    "anchors that grow": _bomb,
    "an anchor in itself": _text(f"{_LAX}configurations: &a [*a]\n"),
    "merge of itself": _text(f"{_LAX}metrics: &m\n  <<: *m\n"),
    "40,000 plugins without a name": lambda: {KEY: "actions: allocate\ntiers:\n- plugins: [" + "{}," * 40_000 + "]\n"},
}
