"""The plugins of volsched, one package each. Importing this registers nothing; the registry reads ``BUILDERS``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from volsched.framework.config.entries import CatalogueEntry

if TYPE_CHECKING:
    from volsched.framework.plugin import Plugin
    from volsched.framework.validation import Fault

BUILDERS: Final[dict[str, CatalogueEntry[Plugin]]] = {
    "priority": CatalogueEntry("plugins.priority.plugin", "PriorityPlugin"),
    "gang": CatalogueEntry("plugins.gang.plugin", "GangPlugin"),
    "conformance": CatalogueEntry("plugins.conformance.plugin", "ConformancePlugin"),
    "sla": CatalogueEntry("plugins.sla.plugin", "SlaPlugin"),
    "network-topology-aware": CatalogueEntry("plugins.network_topology.plugin", "NetworkTopologyPlugin"),
    "overcommit": CatalogueEntry("plugins.overcommit.plugin", "OvercommitPlugin"),
    "drf": CatalogueEntry("plugins.drf.plugin", "DrfPlugin"),
    "proportion": CatalogueEntry("plugins.proportion.plugin", "ProportionPlugin"),
    "capacity": CatalogueEntry("plugins.capacity.plugin", "CapacityPlugin"),
    "capacity-card": CatalogueEntry("plugins.capacity_card.plugin", "CapacityCardPlugin"),
    "capacity-dra": CatalogueEntry("plugins.capacity_dra.plugin", "CapacityDRAPlugin"),
    "predicates": CatalogueEntry("plugins.predicates.plugin", "build"),
    "mgpu": CatalogueEntry("plugins.mgpu.plugin", "MGPUPlugin"),
    "crossquota": CatalogueEntry("plugins.crossquota.plugin", "build"),
    "nodeorder": CatalogueEntry("plugins.nodeorder.plugin", "build"),
    "fragmentation": CatalogueEntry("plugins.fragmentation.plugin", "FragmentationPlugin"),
    "binpack": CatalogueEntry("plugins.binpack.plugin", "build"),
}

ALSO_UNDER: Final[dict[str, str]] = {"mgpu": "predicates", "capacity-dra": "capacity"}
"""Plugins whose arguments may stand under another plugin, as in Volcano's configurations."""

COMES_ALONG: Final = frozenset({"capacity-dra"})
"""Of these, the ones that run with the other plugin even where they are not configured, as a part of it in Volcano."""

VALIDATORS: Final[dict[str, CatalogueEntry[Iterable[Fault]]]] = {
    "capacity-card": CatalogueEntry("plugins.capacity_card.validation", "validate"),
    "capacity-dra": CatalogueEntry("plugins.capacity_dra.validation", "validate"),
    "crossquota": CatalogueEntry("plugins.crossquota.validation", "validate"),
    "drf": CatalogueEntry("plugins.drf.validation", "validate"),
    "mgpu": CatalogueEntry("plugins.mgpu.validation", "validate"),
}
"""What plugins report about objects with annotations or fields of theirs."""
