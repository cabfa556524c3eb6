"""What Volcano's actions can be told and has no effect here."""

from __future__ import annotations

from typing import Final

from volsched.framework.config.arguments import Argument

PREDICATE_ERROR_CACHE: Final = Argument(
    "predicateErrorCacheEnable",
    "bool",
    True,
    "Taken from Volcano; refusals of nodes are always kept.",
    unused="refusals of nodes are always kept",
)
"""Of all actions that look for nodes."""

_NOW_A_PLUGIN: Final = "Volcano reads it no more; the plugin overcommit has it"

OF_ENQUEUE: Final = (
    Argument("overcommit-factor", "float", 1.2, f"Taken from Volcano; {_NOW_A_PLUGIN}.", unused=_NOW_A_PLUGIN),
)

_ALL_NODES: Final = "every node is looked at"


def _number(key: str, default: int, why: str) -> Argument:
    return Argument(key, "int", default, f"Taken from Volcano; {why}.", unused=why)


OF_PREEMPT: Final = (
    PREDICATE_ERROR_CACHE,
    Argument(
        "enableTopologyAwarePreemption",
        "bool",
        False,
        "Taken from Volcano; victims are always tried as gone: rules about other pods see the node without them.",
        unused="victims are always tried as gone",
    ),
    _number("topologyAwarePreemptWorkerNum", 16, "there are no workers"),
    _number("minCandidateNodesPercentage", 10, _ALL_NODES),
    _number("minCandidateNodesAbsolute", 1, _ALL_NODES),
    _number("maxCandidateNodesAbsolute", 100, _ALL_NODES),
)
