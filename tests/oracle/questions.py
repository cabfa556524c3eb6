"""What Kubernetes' own code is asked about random worlds, and the answers that volsched is compared with.

The answers have only what tests compare. What an allocation draws by lot (the ids of shares) is left out.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any, Final

from tests.judges.answers import Answers, Cases, Question
from tools.controlplane.binaries import KUBERNETES_VERSION, STAGING_VERSION, Report
from volsched.model.values.quantity import parse

from . import device_worlds, oracle, worlds
from .device_worlds import ATOMS, DEVICE, Json
from .oracle import SOURCES, Judgement, Oracle, build_oracle

WORLDS: Final = 2_000
DEVICE_WORLDS: Final = 1_000
SELECTORS_BESIDE_ATOMS: Final = 1_000
DRIVER: Final = "gpu.example.com"

SCORES: Final = {
    "NodeResourcesFit": "normalized",
    "NodeResourcesBalancedAllocation": "normalized",
    "ImageLocality": "normalized",
    "NodeAffinity": "raw",
    "TaintToleration": "normalized",
    "InterPodAffinity": "normalized",
    "PodTopologySpread": "normalized",
}
"""The plugins whose scores are compared, and which of their numbers."""

_KEPT: Final = ("request", "driver", "pool", "device", "adminAccess", "bindingConditions", "bindingFailureConditions")
_PROGRAM: Final = (*sorted(SOURCES.glob("*.go")), Path(oracle.__file__), Path(__file__))
_FOLDER: Final = Path(__file__).with_name("answers")
_ALLOCATOR: Final = "k8s.io/dynamic-resource-allocation"


# -- nodes for a pod --------------------------------------------------------------------------------------------------


def _worlds() -> Cases:
    return {f"world {seed}": worlds.a_world(seed) for seed in range(WORLDS)}


def _ask_about_nodes(cases: Cases, report: Report) -> Answers:
    with Oracle(build_oracle(report)) as running:
        judgements = running.judge_many(list(cases.values()))
    return {name: _compared(judgement) for name, judgement in zip(cases, judgements, strict=True)}


def _compared(judgement: Judgement) -> Json:
    """Return the feasible nodes, and by plugin the score of each."""
    scores: Json = {}
    for node, of_plugins in judgement["scores"].items():
        for plugin, score in of_plugins.items():
            if plugin in SCORES:
                scores.setdefault(plugin, {})[node] = score["raw" if SCORES[plugin] == "raw" else "normalized"]
    return {"feasible": judgement["feasible"], "scores": scores}


# -- devices for claims -----------------------------------------------------------------------------------------------


def _device_worlds() -> Cases:
    return {f"world {seed}": device_worlds.a_world(Random(seed)) for seed in range(DEVICE_WORLDS)}  # noqa: S311


def _ask_about_devices(cases: Cases, report: Report) -> Answers:
    with Oracle(build_oracle(report)) as running:
        served = running.serve(list(cases.values()))
    return {
        name: {node: _given(answer) for node, answer in nodes.items()}
        for name, nodes in zip(cases, served, strict=True)
    }


def _given(answer: Json) -> str | list[Json]:
    """Return what the claims get on a node, nothing when they get none, and why they can be served nowhere."""
    return "error" if "error" in answer else [simplified(found) for found in answer.get("allocations", ())]


def simplified(allocation: Json) -> Json:
    """Return an allocation without what is drawn by lot, and with amounts as numbers."""
    results = []
    for result in allocation["devices"].get("results", ()):
        consumed = {key: str(parse(text)) for key, text in result.get("consumedCapacity", {}).items()}
        kept = {key: result.get(key) for key in _KEPT}
        tolerations = [
            {k: v for k, v in t.items() if (k, v) != ("operator", "Equal")} for t in result.get("tolerations", ())
        ]
        results.append({**kept, "consumed": consumed, "isShare": "shareID" in result, "tolerations": tolerations})
    config = [
        {"source": c["source"], "requests": c.get("requests", []), "parameters": c["opaque"]["parameters"]}
        for c in allocation["devices"].get("config", ())
    ]
    return {"results": results, "config": config, "nodeSelector": allocation.get("nodeSelector")}


# -- selectors of devices ---------------------------------------------------------------------------------------------


def _selectors() -> Cases:
    """Return selectors by themselves: all atoms, and that many different ones made of them."""
    rng = Random(1)  # noqa: S311 - not a secret
    found: dict[str, Any] = dict.fromkeys(ATOMS, DEVICE)
    while len(found) < len(ATOMS) + SELECTORS_BESIDE_ATOMS:
        found[device_worlds.an_expression(rng)] = DEVICE
    return found


def _ask_about_selectors(cases: Cases, report: Report) -> Answers:
    with Oracle(build_oracle(report)) as running:
        verdicts = running.select(DRIVER, DEVICE, list(cases))
    return {selector: verdict.partition(":")[0] for selector, verdict in zip(cases, verdicts, strict=True)}


NODES: Final = Question(
    name="nodes",
    about="random worlds: which nodes fit a pod, and how kube-scheduler's plugins score them",
    judge=f"kube-scheduler {KUBERNETES_VERSION}",
    file=_FOLDER / "nodes.jsonl.xz",
    asking=_PROGRAM,
    cases=_worlds,
    ask=_ask_about_nodes,
)
DEVICES: Final = Question(
    name="devices",
    about="random worlds: which devices claims get on each node",
    judge=f"{_ALLOCATOR} {STAGING_VERSION}",
    file=_FOLDER / "devices.jsonl.xz",
    asking=_PROGRAM,
    cases=_device_worlds,
    ask=_ask_about_devices,
)
SELECTORS: Final = Question(
    name="selectors",
    about="random selectors in CEL: whether they mean a device",
    judge=f"{_ALLOCATOR} {STAGING_VERSION}",
    file=_FOLDER / "selectors.jsonl.xz",
    asking=_PROGRAM,
    cases=_selectors,
    ask=_ask_about_selectors,
)
QUESTIONS: Final = (NODES, DEVICES, SELECTORS)


def is_recorded() -> bool:
    """Whether all recorded answers are of this very program: its own tests have passed before they were recorded."""
    return all(question.is_asked_as_recorded() for question in QUESTIONS)
