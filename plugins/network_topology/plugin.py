"""network-topology-aware: for configurations that name it.

volsched knows no HyperNodes. A job that must be placed by them waits in every configuration (``model/unserved.py``), so
the plugin has nothing to add; a soft topology has no effect.
"""

from __future__ import annotations

from typing import ClassVar

from plugins.network_topology.arguments import ARGUMENTS
from volsched.plugin import Argument, Registrar


class NetworkTopologyPlugin:
    """Registers nothing."""

    name: ClassVar[str] = "network-topology-aware"
    ARGUMENTS: ClassVar[tuple[Argument, ...]] = ARGUMENTS

    def on_session_open(self, registrar: Registrar) -> None:
        """Register nothing."""
