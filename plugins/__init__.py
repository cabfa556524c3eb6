"""The plugins of volsched, one package each. Importing this registers nothing; the command line reads ``BUILDERS``."""

from typing import Final

from volsched.framework.entries import PluginEntry, ValidatorEntry

BUILDERS: Final[dict[str, PluginEntry]] = {
    "priority": PluginEntry("plugins.priority.plugin", "PriorityPlugin"),
    "gang": PluginEntry("plugins.gang.plugin", "GangPlugin"),
    "conformance": PluginEntry("plugins.conformance.plugin", "ConformancePlugin"),
    "overcommit": PluginEntry("plugins.overcommit.plugin", "OvercommitPlugin"),
    "drf": PluginEntry("plugins.drf.plugin", "DrfPlugin"),
    "proportion": PluginEntry("plugins.proportion.plugin", "ProportionPlugin"),
    "capacity-card": PluginEntry("plugins.capacity_card.plugin", "CapacityCardPlugin"),
    "predicates": PluginEntry("plugins.predicates.plugin", "build"),
    "nodeorder": PluginEntry("plugins.nodeorder.plugin", "build"),
    "binpack": PluginEntry("plugins.binpack.plugin", "build"),
}

VALIDATORS: Final[dict[str, ValidatorEntry]] = {
    "capacity-card": ValidatorEntry("plugins.capacity_card.validation", "validate"),
}
"""What plugins say about objects with annotations or fields of theirs."""
