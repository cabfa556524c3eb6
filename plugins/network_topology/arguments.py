"""What Volcano's plugin of that name can be told; all of it is about scores of HyperNodes."""

from __future__ import annotations

from typing import Any, Final

from volsched.plugin import Argument, ArgumentType

_WHY: Final = "volsched scores no HyperNodes"


def _argument(key: str, kind: ArgumentType, default: Any) -> Argument:
    return Argument(key, kind, default, f"Taken from Volcano; {_WHY}.", unused=_WHY)


ARGUMENTS: Final = (
    _argument("weight", "int", 1),
    _argument("hypernode.binpack.cpu", "int", 1),
    _argument("hypernode.binpack.memory", "int", 1),
    _argument("hypernode.binpack.resources", "names", ()),
    _argument("hypernode.binpack.resources.*", "int", 1),
    _argument("hypernode.binpack.normal-pod.enable", "bool", True),
    _argument("hypernode.binpack.normal-pod.fading", "float", 0.8),
    _argument("hypernode.gradient.evict.max-hypernodes", "int", 8),
)
