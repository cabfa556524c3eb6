"""The arguments of crossquota.

Keys and defaults are those of the design proposed for Volcano, and Volcano's own where it has more.

Quotas, percentages and weights that cannot be read are warnings and count as absent, as there: the next place with a
quota counts. An argument that would turn the protection off as a whole (no usable pattern), or on for other pods (the
label selector), is an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from plugins.crossquota.quota import HUGE_PAGES, PERCENTAGE, QUOTA, NodeQuotas, doubt_about
from volsched.framework.resource_patterns import DeviceNames
from volsched.plugin import EVERYTHING, Argument, ArgumentProblem, LabelSelector, amount_of, describe, hint

DEVICES: Final = "gpu-resource-names"
RESOURCES: Final = "quota-resources"
SCALE: Final = "crossQuotaWeight"
WEIGHT: Final = "weight."
SELECTOR: Final = "label-selector"
ELSEWHERE: Final = "non-gpu-node-score"
EXEMPTION: Final = "exempt-resource-claims"

DEFAULT_RESOURCES: Final = ("cpu",)
DEFAULT_WEIGHTS: Final[Mapping[str, float]] = {"cpu": 10.0, "memory": 1.0}
OTHER_WEIGHT: Final = 1.0

ARGUMENTS: tuple[Argument, ...] = (
    Argument(
        DEVICES,
        "names",
        (),
        "Regular expressions (RE2) on the names of resources that are accelerators.",
        holds=("resource pattern",),
    ),
    Argument(RESOURCES, "names", (), "The resources that have a quota; cpu alone when there are none."),
    Argument(f"{QUOTA}*", "quantity", None, "What CPU pods may hold of a resource on a GPU node.", lenient=True),
    Argument(f"{PERCENTAGE}*", "percentage", None, "The same as a part of what is allocatable there.", lenient=True),
    Argument(SCALE, "float", 10, "Score of a node that fits best; 0 or less: nodes are not scored.", lenient=True),
    Argument(f"{WEIGHT}*", "float", None, "How much a resource counts in the score.", minimum=0, lenient=True),
    Argument(SELECTOR, "selector", EVERYTHING, "Labels of the CPU pods that quotas and scores are for."),
    Argument(ELSEWHERE, "float", 0, "Score of nodes that are no GPU nodes, for the same pods.", minimum=0),
    Argument(EXEMPTION, "bool", False, "Whether pods with spec.resourceClaims are no CPU pods."),
)

_NAME: Final = re.compile(r"([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_ON_EVERY_NODE: Final = ("cpu", "memory", "pods", "ephemeral-storage")


@dataclass(frozen=True, slots=True)
class CrossQuotaArguments:
    """The arguments, read. ``weights`` are in the order of ``limits.resources``."""

    devices: DeviceNames
    limits: NodeQuotas
    scale: float
    weights: tuple[float, ...]
    selector: LabelSelector = EVERYTHING
    elsewhere: float = 0.0
    exempt_claims: bool = False


def parse(values: Mapping[str, Any]) -> CrossQuotaArguments:
    """Read checked arguments."""
    resources = _resources(values)
    amounts = {name: amount_of(name, text) for name, text in _family(values, QUOTA).items() if name in resources}
    weights = {**DEFAULT_WEIGHTS, **_family(values, WEIGHT)}
    return CrossQuotaArguments(
        devices=DeviceNames(values[DEVICES]),
        limits=NodeQuotas(resources, amounts, _family(values, PERCENTAGE)),
        scale=float(values[SCALE]),
        weights=tuple(weights.get(name, OTHER_WEIGHT) for name in resources),
        selector=values[SELECTOR],
        elsewhere=float(values[ELSEWHERE]),
        exempt_claims=values[EXEMPTION],
    )


def check_arguments(values: Mapping[str, Any]) -> Iterator[ArgumentProblem]:
    """Return what is wrong with the arguments together, or hardly meant."""
    yield from _about_devices(values[DEVICES])
    yield from _about_resources(values[RESOURCES])
    resources = _resources(values)
    for prefix in (QUOTA, PERCENTAGE, WEIGHT):
        for name in _family(values, prefix):
            if name not in resources:
                message = f"has no effect: {name} is not among {RESOURCES} ({', '.join(resources)})"
                yield _warning(prefix + name, message)
    for name, text in _family(values, QUOTA).items():
        doubt = doubt_about(name, amount_of(name, text))
        if doubt is not None:
            yield _warning(QUOTA + name, doubt)
    yield from _about_scores(values, parse(values).weights)


def _about_devices(patterns: Sequence[str]) -> Iterator[ArgumentProblem]:
    devices = DeviceNames(patterns)
    if not patterns:
        yield _warning(DEVICES, "is missing or empty: no node counts as a GPU node, so crossquota does nothing")
    faults = [f"{describe(pattern)} is no regular expression: {why}" for pattern, why in devices.faults.items()]
    if faults and not devices:
        message = "; ".join(faults)
        yield ArgumentProblem(DEVICES, f"{DEVICES} has no pattern that can be used: {message}")
    elif faults:
        yield from (_warning(DEVICES, f"has a pattern that is left out: {fault}") for fault in faults)
    everywhere = [name for name in _ON_EVERY_NODE if devices.include(name)]
    if everywhere:
        yield _warning(DEVICES, f"matches {', '.join(everywhere)}: every node counts as a GPU node")


def _about_resources(names: Sequence[str]) -> Iterator[ArgumentProblem]:
    for name in names:
        if not _NAME.fullmatch(name):
            yield ArgumentProblem(RESOURCES, f"{RESOURCES}: {describe(name)} is not the name of a resource")
        elif "/" not in name and name not in _ON_EVERY_NODE and not name.startswith(HUGE_PAGES):
            message = f"has {name}, which no node offers: resources have a domain, but for {', '.join(_ON_EVERY_NODE)}"
            yield _warning(RESOURCES, f"{message} and {HUGE_PAGES}*{hint(name, _ON_EVERY_NODE)}")


def _about_scores(values: Mapping[str, Any], weights: Sequence[float]) -> Iterator[ArgumentProblem]:
    if values[SCALE] < 0:
        yield _warning(SCALE, "is below 0, which counts as 0: nodes are not scored")
    if values[SCALE] <= 0 < values[ELSEWHERE]:
        yield _warning(ELSEWHERE, f"has no effect while {SCALE} is 0: nodes are not scored")
    if values[SCALE] > 0 and not any(weights):
        yield _warning(SCALE, "has no effect: the weight of every resource is 0")


def _resources(values: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the resources that have a quota, each once, in the order given."""
    return tuple(dict.fromkeys(values[RESOURCES])) or DEFAULT_RESOURCES


def _family(values: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    return {key.removeprefix(prefix): value for key, value in values.items() if key.startswith(prefix)}


def _warning(key: str, message: str) -> ArgumentProblem:
    return ArgumentProblem(key, f"{key} {message}", "warning")
