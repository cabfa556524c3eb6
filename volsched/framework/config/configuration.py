"""A scheduler configuration as values: actions, tiers of plugins, and their arguments.

The form and the spelling of the switches are Volcano's. ``loading`` makes these values from YAML and checks them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

SWITCHES: Mapping[str, bool] = {
    "enableJobOrder": True,
    "enableTaskOrder": True,
    "enableQueueOrder": True,
    "enabledClusterOrder": False,
    "enabledSubJobOrder": True,
    "enableHierarchy": False,
    "enableJobReady": True,
    "enableJobPipelined": True,
    "enableJobStarving": True,
    "enabledSubJobReady": True,
    "enabledSubJobPipelined": True,
    "enablePredicate": True,
    "enableBestNode": True,
    "enableNodeOrder": True,
    "enabledHyperNodeOrder": True,
    "enabledHyperNodeGradient": True,
    "enablePreemptable": True,
    "enableReclaimable": True,
    "enablePreemptive": True,
    "enabledVictim": True,
    "enableJobEnqueued": True,
    "enabledOverused": True,
    "enabledAllocatable": True,
    "enableTargetJob": True,
    "enableReservedNodes": True,
}
"""Every switch of a plugin entry, in Volcano's exact (and uneven) spelling, with its default."""

_NO_HYPER_NODES: Final = "volsched scores no HyperNodes"
_NO_SUB_JOBS: Final = "volsched orders no parts of jobs by themselves"
_NO_PLUGIN: Final = "no plugin of volsched registers what it switches"

UNUSED_SWITCHES: Final[Mapping[str, str]] = {
    "enabledHyperNodeOrder": _NO_HYPER_NODES,
    "enabledHyperNodeGradient": _NO_HYPER_NODES,
    "enabledSubJobOrder": _NO_SUB_JOBS,
    "enabledSubJobReady": _NO_SUB_JOBS,
    "enabledSubJobPipelined": _NO_SUB_JOBS,
    "enabledClusterOrder": _NO_PLUGIN,
    "enabledVictim": _NO_PLUGIN,
    "enableTargetJob": _NO_PLUGIN,
    "enableReservedNodes": _NO_PLUGIN,
}
"""Switches that change nothing here, and why."""

FORMER_SWITCHES: Final[Mapping[str, str]] = dict.fromkeys(
    ("enableNamespaceOrder", "EnabledClusterOrder"), "Volcano reads it no more"
)
"""Switches of earlier versions of Volcano."""


@dataclass(frozen=True, slots=True)
class PluginOption:
    """One plugin of a tier. ``arguments`` are complete, ``given`` are the keys of those that were not left out."""

    name: str
    switches: Mapping[str, bool] = field(default_factory=dict)
    arguments: Mapping[str, Any] = field(default_factory=dict)
    given: frozenset[str] = frozenset()

    def allows(self, switch: str) -> bool:
        """True if a switch is on. An absent switch has its default."""
        return self.switches.get(switch, SWITCHES[switch])


@dataclass(frozen=True, slots=True)
class Configuration:
    """Actions in order, tiers of plugins in order, and arguments of actions."""

    actions: tuple[str, ...]
    tiers: tuple[tuple[PluginOption, ...], ...]
    action_arguments: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def arguments_of(self, plugin: str) -> Mapping[str, Any] | None:
        """Return the arguments of a plugin, or None when it is not configured."""
        options = (option for tier in self.tiers for option in tier)
        return next((option.arguments for option in options if option.name == plugin), None)

    @property
    def has_enqueue(self) -> bool:
        """True if PodGroups have to be admitted before their pods are placed."""
        return "enqueue" in self.actions
