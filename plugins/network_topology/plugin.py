"""network-topology-aware: for configurations that name it.

volsched knows no HyperNodes. A job that must be placed by them waits in every configuration (``model/unserved.py``), so
the plugin has nothing to add; a soft topology has no effect. All of its arguments are about scores of HyperNodes.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

from volsched.plugin import Argument, ArgumentType, Registrar

_WHY: Final = "volsched scores no HyperNodes"


def _argument(key: str, kind: ArgumentType, default: Any) -> Argument:
    return Argument(key, kind, default, f"Taken from Volcano; {_WHY}.", unused=_WHY)


class NetworkTopologyPlugin:
    """Registers nothing."""

    name: ClassVar[str] = "network-topology-aware"
    ARGUMENTS: ClassVar[tuple[Argument, ...]] = (
        _argument("weight", "int", 1),
        _argument("hypernode.binpack.cpu", "int", 1),
        _argument("hypernode.binpack.memory", "int", 1),
        _argument("hypernode.binpack.resources", "names", ()),
        _argument("hypernode.binpack.resources.*", "int", 1),
        _argument("hypernode.binpack.normal-pod.enable", "bool", True),
        _argument("hypernode.binpack.normal-pod.fading", "float", 0.8),
        _argument("hypernode.gradient.evict.max-hypernodes", "int", 8),
    )

    def on_session_open(self, registrar: Registrar) -> None:
        """Register nothing."""
