"""Registration of the binpack score."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from plugins.binpack.arguments import ARGUMENTS, BinpackArguments, parse
from plugins.binpack.score import BinpackScore
from volsched.plugin import NodeOrder, Registrar

__all__ = ["ARGUMENTS", "BinpackPlugin", "build"]

NAME = "binpack"


def build(arguments: Mapping[str, Any]) -> BinpackPlugin:
    """Make the plugin from checked arguments."""
    return BinpackPlugin(parse(arguments))


class BinpackPlugin:
    """Prefer the node that a task fills most."""

    name: ClassVar[str] = NAME

    def __init__(self, arguments: BinpackArguments) -> None:
        self._arguments = arguments

    def on_session_open(self, registrar: Registrar) -> None:
        """Register the score, unless its weight is 0."""
        if self._arguments.weight:
            packing = registrar.account("binpack", lambda cluster: BinpackScore(self._arguments, cluster.columns))
            registrar.register(NodeOrder(packing.score, vector=packing.scores, applies_to=packing.applies))
