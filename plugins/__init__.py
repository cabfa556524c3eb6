"""The plugins of volsched, one package each. Importing this registers nothing; the command line reads ``BUILDERS``."""

from typing import Final

from volsched.framework.plugin import PluginEntry, ValidatorEntry

BUILDERS: Final[dict[str, PluginEntry]] = {
    "priority": PluginEntry("plugins.priority.plugin", "PriorityPlugin"),
    "gang": PluginEntry("plugins.gang.plugin", "GangPlugin"),
    "conformance": PluginEntry("plugins.conformance.plugin", "ConformancePlugin"),
    "sla": PluginEntry("plugins.sla.plugin", "SlaPlugin"),
    "network-topology-aware": PluginEntry("plugins.network_topology.plugin", "NetworkTopologyPlugin"),
    "overcommit": PluginEntry("plugins.overcommit.plugin", "OvercommitPlugin"),
    "drf": PluginEntry("plugins.drf.plugin", "DrfPlugin"),
    "proportion": PluginEntry("plugins.proportion.plugin", "ProportionPlugin"),
    "capacity": PluginEntry("plugins.capacity.plugin", "CapacityPlugin"),
    "capacity-card": PluginEntry("plugins.capacity_card.plugin", "CapacityCardPlugin"),
    "capacity-dra": PluginEntry("plugins.capacity_dra.plugin", "CapacityDRAPlugin"),
    "predicates": PluginEntry("plugins.predicates.plugin", "build"),
    "mgpu": PluginEntry("plugins.mgpu.plugin", "MGPUPlugin"),
    "crossquota": PluginEntry("plugins.crossquota.plugin", "build"),
    "nodeorder": PluginEntry("plugins.nodeorder.plugin", "build"),
    "fragmentation": PluginEntry("plugins.fragmentation.plugin", "FragmentationPlugin"),
    "binpack": PluginEntry("plugins.binpack.plugin", "build"),
}

ALSO_UNDER: Final[dict[str, str]] = {"mgpu": "predicates", "capacity-dra": "capacity"}
"""Plugins whose arguments may stand under another plugin, as in Volcano's configurations."""

COMES_ALONG: Final = frozenset({"capacity-dra"})
"""Of these, the ones that run with the other plugin even where they are not configured, as a part of it in Volcano."""

VALIDATORS: Final[dict[str, ValidatorEntry]] = {
    "capacity-card": ValidatorEntry("plugins.capacity_card.validation", "validate"),
    "capacity-dra": ValidatorEntry("plugins.capacity_dra.validation", "validate"),
    "crossquota": ValidatorEntry("plugins.crossquota.validation", "validate"),
    "mgpu": ValidatorEntry("plugins.mgpu.validation", "validate"),
}
"""What plugins report about objects with annotations or fields of theirs."""
