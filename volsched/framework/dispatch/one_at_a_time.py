"""Decides which equal tasks of a job are placed in one step, from the registered rules.

The engine places many of them at once if only the nodes' amounts decide. The result must be the same as one at a time,
so no rule may refuse one of them, or answer differently for the next.
"""

from __future__ import annotations

from volsched.framework.callbacks import AppliesFn, KeyFn
from volsched.framework.rules import EventHandler, NodeRule, Rule, always, never
from volsched.model.pods.task import TaskInfo


class OneAtATime:
    """What the rules of a session state about equal tasks that must be placed one at a time.

    ``rules`` are those not read yet, each with its plugin. ``left_out`` names plugins whose refusing rules a switch
    turned off: ``for_each_pod`` of their other rules may rely on them, and does not hold then.
    """

    def __init__(self) -> None:
        self.left_out: set[str] = set()
        self.rules: list[tuple[Rule, str]] = []
        self._templates: list[AppliesFn] = []
        self._keyed: list[tuple[AppliesFn | None, KeyFn]] = []

    def applies_to(self, task: TaskInfo) -> bool:
        """True if tasks that are equal to this one are placed one at a time."""
        if self.rules:
            self._read()
        template = task.template
        for templates in self._templates:  # generators cost twice as much
            if templates(template):
                return True
        for applies, key in self._keyed:  # noqa: SIM110
            if (applies is None or applies(template)) and key(task) is not None:
                return True
        return False

    def _read(self) -> None:
        """Read of the rules which templates, and which keys, have tasks placed one at a time."""
        for rule, plugin in self.rules:
            is_left_out = plugin in self.left_out
            if isinstance(rule, NodeRule) and rule.key is not None and (rule.for_each_pod is None or is_left_out):
                self._keyed.append((rule.applies_to, rule.key))
                continue
            templates = always if is_left_out and isinstance(rule, EventHandler) else rule.placed_singly()
            if templates is not never and templates not in self._templates:
                self._templates.append(templates)
        self.rules.clear()
