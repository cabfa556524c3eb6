"""The CPU pods, those of them with quotas, and their requests of the resources with a quota."""

from __future__ import annotations

from typing import TypeAlias

from plugins.crossquota.arguments import CrossQuotaArguments
from volsched.plugin import PodTemplate, TaskInfo, keep

Amounts: TypeAlias = tuple[int, ...]
"""One for each resource that has a quota, in their order, in the resource's unit."""

NEGLIGIBLE = 10
"""Thousandths of a device up to which a pod requests none, as in Volcano. The API server takes whole ones only."""

NEVER_DEVICES = ("cpu", "memory")
"""Every pod requests these, so they do not distinguish pods."""


class CpuPods:
    """Answers about pods by their template, worked out once for each."""

    def __init__(self, arguments: CrossQuotaArguments) -> None:
        self._devices = arguments.devices
        self._resources = arguments.limits.resources
        self._exempt_claims = arguments.exempt_claims
        self._selector = arguments.selector
        self.selects_all = arguments.selector.is_empty
        self._known: dict[int, tuple[PodTemplate, Amounts | None]] = {}

    def include(self, template: PodTemplate) -> bool:
        """Return whether pods of this template ask for no accelerator."""
        return self.request(template) is not None

    def selects(self, task: TaskInfo) -> bool:
        """Return whether a CPU pod is one of those that quotas and scores are for."""
        return self.selects_all or self._selector.matches(task.spec.labels)

    def request(self, template: PodTemplate) -> Amounts | None:
        """Return what a CPU pod of this template asks for, or None when its pods are no CPU pods.

        A template's request covers init containers, sidecars and overhead; a pod takes one of ``pods``.
        """
        found = self._known.get(template.id)
        if found is None or found[0] is not template:
            found = keep(self._known, template, (template, self._work_out(template)))
        return found[1]

    def _work_out(self, template: PodTemplate) -> Amounts | None:
        if not self._devices or (self._exempt_claims and template.has_resource_claims):
            return None
        asked = template.request
        if any(n not in NEVER_DEVICES and a > NEGLIGIBLE and self._devices.include(n) for n, a in asked.items()):
            return None
        return tuple(1 if name == "pods" else asked.amount(name) for name in self._resources)
