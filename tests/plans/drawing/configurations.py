"""Configurations of scenarios: the actions and plugins that a theme is about, with some of their arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import yaml

Arguments = dict[str, Any]


@dataclass(frozen=True)
class Theme:
    """What a scenario is about: its features, the plugins that it needs, the actions of which one is taken."""

    features: frozenset[str]
    plugins: tuple[str, ...]
    actions: tuple[str, ...]
    scenarios: int


PLAIN = ("allocate, backfill", "enqueue, allocate, backfill")
PREEMPTING = (
    "enqueue, allocate, preempt, backfill",
    "allocate, backfill, preempt",
    "enqueue, allocate, backfill, preempt",
)
RECLAIMING = ("enqueue, allocate, preempt, reclaim, backfill", "enqueue, reclaim, allocate, backfill")
RESERVING = ("enqueue, reserve, allocate, backfill", "reserve, allocate, backfill, preempt")


def _theme(features: str, plugins: str, actions: tuple[str, ...], scenarios: int) -> Theme:
    return Theme(frozenset(features.split()), tuple(plugins.split()), actions, scenarios)


THEMES = {
    "nodes": _theme("zones taints near spread ports images roles idle", "predicates nodeorder", PLAIN, 140),
    "packing": _theme("gpus roles idle wide", "predicates binpack nodeorder", PLAIN, 70),
    "volumes": _theme("volumes zones", "predicates nodeorder", PLAIN + PREEMPTING[:1], 80),
    "preemption": _theme(
        "old classes budgets owners ports", "priority conformance predicates nodeorder", PREEMPTING, 180
    ),
    "shares": _theme(
        "old classes queues owners", "proportion predicates nodeorder", (*RECLAIMING, *RECLAIMING, *PREEMPTING), 170
    ),
    "capacity": _theme("old queues limits owners gates", "capacity predicates nodeorder", RECLAIMING + PLAIN, 130),
    "hierarchy": _theme("old queues limits tree owners", "capacity predicates nodeorder", RECLAIMING, 100),
    "cards": _theme(
        "cards queues old gates roles classes", "capacity-card predicates nodeorder", PREEMPTING + PLAIN, 140
    ),
    "deserved cards": _theme(
        "cards queues deserved old owners classes tree", "capacity-card predicates", RECLAIMING, 110
    ),
    "devices": _theme("devices queues old idle", "capacity-dra predicates nodeorder", PLAIN + PREEMPTING[:1], 110),
    "deserved devices": _theme("devices queues deserved old owners", "capacity-dra predicates", RECLAIMING, 40),
    "shared cards": _theme("mgpu old classes", "mgpu predicates nodeorder", PLAIN + PREEMPTING, 110),
    "cpu on gpu nodes": _theme("gpus crossquota old", "crossquota predicates", PLAIN + PREEMPTING, 80),
    "fragmentation": _theme("gpus devices mgpu old", "fragmentation predicates", PLAIN, 70),
    "gangs": _theme("native racks old classes", "predicates nodeorder", PREEMPTING + PLAIN, 140),
    "gangs in queues": _theme("native racks queues limits old", "capacity predicates", RECLAIMING + PLAIN, 50),
    "reservations": _theme("durations whole old classes queues", "predicates binpack proportion", RESERVING, 120),
    "reserved gangs": _theme("durations whole native racks old", "predicates nodeorder", RESERVING, 40),
    "admission": _theme("queues waiting topology old", "sla overcommit network-topology-aware", PLAIN + PREEMPTING, 50),
    "mistakes": _theme("wrong queues old tree cards", "capacity-card predicates", PLAIN + RECLAIMING, 40),
    "refusals": _theme("refusals devices mgpu native queues old", "capacity-dra mgpu predicates", PLAIN, 40),
    "full shares": _theme("exact queues wide", "proportion predicates", PLAIN, 40),
    "full queues": _theme("exact queues wide", "capacity predicates", PLAIN, 40),
    "full queues of cards": _theme("exact queues wide cards", "capacity-card predicates", PLAIN, 40),
    "wrong devices": _theme(
        "wrong queues old tree devices gpus crossquota", "capacity crossquota predicates", PLAIN, 30
    ),
}
"""What scenarios are about, by the first word of their names."""

FIRST = ("priority", "gang", "conformance", "sla", "drf")
"""Plugins of the first tier."""
OTHERS = ("overcommit", "predicates", "nodeorder", "binpack")
"""Plugins that any configuration may have besides."""
SCORES = ("leastrequested", "mostrequested", "nodeaffinity", "podaffinity", "balancedresource", "tainttoleration",
          "imagelocality", "podtopologyspread")  # fmt: skip


def configuration(rng: Random, theme: Theme, number: int) -> str:
    """Return a configuration for a theme; the actions are taken in turn by its number."""
    names = {"gang", *theme.plugins}
    names |= {name for name in (*FIRST, *OTHERS) if name not in ("sla", "drf", "overcommit") and rng.random() < 0.6}
    names |= {name for name in ("drf", "overcommit", "sla") if rng.random() < 0.08}
    if "gang" not in theme.plugins and rng.random() < 0.08:
        names.remove("gang")
    first = [name for name in FIRST if name in names]
    second = sorted(sorted(names - set(first)), key=lambda name: (name not in OTHERS[:2], rng.random()))
    tiers = [tier for tier in _tiers(rng, first, second) if tier]
    text: dict[str, Any] = {"actions": theme.actions[number % len(theme.actions)]}
    text["tiers"] = [{"plugins": [_plugin(rng, theme, name) for name in tier]} for tier in tiers]
    of_actions = [{"name": name, "arguments": _ACTIONS[name](rng)} for name in _ACTIONS if name in text["actions"]]
    text["configurations"] = [found for found in of_actions if found["arguments"]]
    return yaml.safe_dump(text, sort_keys=False)


def _tiers(rng: Random, first: list[str], second: list[str]) -> list[list[str]]:
    """Return the tiers: fairness and quotas often beside gang, as they vote about victims with it."""
    voting = [name for name in second if name in ("proportion", "capacity", "capacity-card", "capacity-dra")]
    if voting and rng.random() < 0.5:
        return [[*first, *voting], [name for name in second if name not in voting]]
    if rng.random() < 0.15:
        return [[*first, *second]]
    return [first, second]


def _plugin(rng: Random, theme: Theme, name: str) -> Arguments:
    found: Arguments = {"name": name}
    if name == "gang":
        found |= {switch: False for switch in ("enablePreemptable", "enableReclaimable") if rng.random() < 0.8}
    if name in ("capacity", "capacity-card", "capacity-dra") and "tree" in theme.features:
        found["enableHierarchy"] = True
    arguments = _PLUGINS[name](rng) if name in _PLUGINS else {}
    return {**found, "arguments": arguments} if arguments else found


def _some(rng: Random, part: float, **choices: list[Any]) -> Arguments:
    """Return some of these arguments; names are written with ``__`` for a dot and ``_`` for a dash."""
    found = {name: rng.choice(values) for name, values in choices.items() if rng.random() < part}
    return {name.replace("__", ".").replace("_", "-"): value for name, value in found.items()}


def _nodeorder(rng: Random) -> Arguments:
    return {f"{name}.weight": rng.choice([0, 1, 3]) for name in SCORES if rng.random() < 0.4}


def _binpack(rng: Random) -> Arguments:
    found = _some(rng, 0.5, binpack__weight=[0, 1, 10], binpack__cpu=[0, 1, 5], binpack__memory=[0, 1, 5])
    if rng.random() < 0.4:
        found |= {"binpack.resources": "nvidia.com/gpu", "binpack.resources.nvidia.com/gpu": rng.choice([1, 8])}
    return found


def _predicates(rng: Random) -> Arguments:
    checks = ("NodeAffinity", "NodePorts", "TaintToleration", "PodAffinity", "PodTopologySpread", "VolumeZone")
    found: Arguments = {f"predicate.{name}Enable": False for name in checks if rng.random() < 0.03}
    return found | ({"predicate.DynamicResourceAllocationEnable": False} if rng.random() < 0.04 else {})


def _crossquota(rng: Random) -> Arguments:
    found: Arguments = {"gpu-resource-names": "nvidia.com/gpu", "quota-resources": rng.choice(["cpu", "cpu,memory"])}
    found |= _some(rng, 0.5, quota__cpu=["2", "4"], crossQuotaWeight=[0, 10, 50], non_gpu_node_score=[0, 20])
    found |= _some(rng, 0.5, quota_percentage__memory=["25", "50"], weight__cpu=[1, 10], weight__memory=[1, 5])
    return found | ({"label-selector": {"matchLabels": {"app": "x"}}} if rng.random() < 0.2 else {})


def _mgpu(rng: Random) -> Arguments:
    found: Arguments = {"predicate.MGPUEnable": True, "predicate.MGPUPolicy": rng.choice(["binpack", "spread"])}
    choices: dict[str, list[Any]] = {
        "WeightOfCore": [0, 20, 100],
        "MaxContainersPerCard": [2, 16],
        "NodeOrderWeight": [0, 1, 5],
    }
    choices["ScheduleMode"] = ["index", "id"]
    return found | {f"predicate.MGPU{name}": rng.choice(of) for name, of in choices.items() if rng.random() < 0.4}


def _fragmentation(rng: Random) -> Arguments:
    found = {f"fragmentation.{name}": rng.choice([0, 1, 3]) for name in ("balance", "block", "parts", "model")}
    found = {name: value for name, value in found.items() if rng.random() < 0.3}
    return {**found, "fragmentation.drivers": ["gpu.example.com"]}


def _dra(rng: Random) -> Arguments:
    found = _some(rng, 0.2, draStrictCapacity=[True], chargeAdminAccess=[True])
    return found | ({"capacity-dra.unlistedClasses": "deny"} if rng.random() < 0.2 else {})


_PLUGINS: dict[str, Callable[[Random], Arguments]] = {
    "nodeorder": _nodeorder,
    "binpack": _binpack,
    "predicates": _predicates,
    "crossquota": _crossquota,
    "mgpu": _mgpu,
    "fragmentation": _fragmentation,
    "capacity-dra": _dra,
    "capacity": lambda rng: _some(rng, 0.3, ancestorReclaimLevel=[1, 2]),
    "capacity-card": lambda rng: _some(
        rng, 0.4, cardUnlimitedCpuMemory=[True, True], nodeOrderWeight=[1.0, 3.0], strictCardName=[False, True]
    ),
    "proportion": lambda rng: _some(rng, 0.25, reclaimLeavesDeserved=[True], usage__halfLife=["30s", "1h"]),
    "drf": lambda rng: _some(rng, 0.2, usage__halfLife=["30s"]),
    "sla": lambda rng: _some(rng, 0.7, sla_waiting_time=["10s", "2m"]),
    "overcommit": lambda rng: _some(rng, 0.7, overcommit_factor=[1.0, 1.2, 2.0]),
}


def _evicting(rng: Random) -> Arguments:
    return _some(rng, 0.3, respectDisruptionBudgets=[True], leastImportantVictims=[True])


def _reserve(rng: Random) -> Arguments:
    found: Arguments = {"reserve.after": rng.choice(["0s", "3s", "1m"])}
    found["reserve.minNodes"] = rng.choice([0.0, 0.5, 1.0])
    choices: dict[str, list[Any]] = {
        "jobs": [1, 2],
        "drains": [0, 1, 3],
        "overestimate": [0.5, 2.0],
        "defaultDuration": ["0s", "1m"],
    }
    choices["outlived"] = [0, 1]
    return found | {f"reserve.{name}": rng.choice(of) for name, of in choices.items() if rng.random() < 0.4}


_ACTIONS: dict[str, Callable[[Random], Arguments]] = {
    "preempt": _evicting,
    "reclaim": _evicting,
    "reserve": _reserve,
}
