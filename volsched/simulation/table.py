"""A result for people: placed pods, free amounts of each node and queue, and reasons of waiting pods."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from volsched.model.values.quantity import format_amount
from volsched.model.verdict import Step
from volsched.simulation.result import Json
from volsched.simulation.runner import Simulation
from volsched.text_page import Part, Row, section

_COMMON: Final = ("cpu", "memory")
_GIBI: Final = 1 << 30
_UID: Final = re.compile(r"([0-9a-f]{8})(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")


def render(simulation: Simulation, result: Json) -> list[Part]:
    """Return the whole page."""
    parts: list[Part] = [_headline(simulation, result)]
    parts += section("Placed", _placed(result))
    parts += section("Evicted", _evicted(result))
    parts += section("Reservations", _reservations(result))
    parts += section("Waiting", _waiting(result))
    parts += section("Nodes", _nodes(simulation))
    parts += section("Queues", _queues(result))
    parts += section("Stranded cards", _cards(result))
    return parts


def _headline(simulation: Simulation, result: Json) -> str:
    pods, cycles = _count(len(result["binds"]), "pod"), _count(result["cycles"], "cycle")
    refused = len(simulation.api_server.history.refusals)
    of_kubelets = [f"{refused} refused by kubelets"] if refused else []
    text = ", ".join([f"{pods} placed", *of_kubelets, *_who_waits(result["pending"])]) + f" after {cycles}"
    return text + ("." if simulation.settled else "; not settled yet, allow more with --cycles.")


def _who_waits(pending: Sequence[Json]) -> Iterator[str]:
    """Yield how many pods wait, and how many PodGroups without pods: a Job's come once it is admitted."""
    pods = sum(1 for entry in pending if entry["pod"])
    steps = [entry["step"] for entry in pending if not entry["pod"] and "job" not in entry]
    not_run = sum(1 for entry in pending if "job" in entry)
    if pods or not (steps or not_run):
        yield f"{pods} waiting"
    refused = steps.count(Step.ENQUEUE)
    if refused:
        yield f"{_count(refused, 'PodGroup')} not admitted"
    if refused < len(steps):
        yield f"{_count(len(steps) - refused, 'PodGroup')} without pods"
    if not_run:
        yield f"{_count(not_run, 'Job')} not run"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _placed(result: Json) -> Iterator[Row]:
    yield "POD", "NODE", "QUEUE", "CYCLE", "PODGROUP"
    for bind in result["binds"]:
        pod: Mapping[str, Any] = result["pods"].get(bind["pod"], {})
        group = _short_group(pod.get("podGroup"))
        yield _short(bind["pod"]), bind["node"], pod.get("queue") or "-", str(bind["cycle"]), group


def _evicted(result: Json) -> Iterator[Row]:
    yield "POD", "CYCLE", "BY", "FOR"
    for eviction in result["evictions"]:
        yield _short(eviction["pod"]), str(eviction["cycle"]), eviction["action"], _short(eviction["for"] or "-")


def _waiting(result: Json) -> Iterator[Row]:
    yield "POD", "QUEUE", "STEP", "WHY"
    for entry in result["pending"]:
        yield _waiting_name(entry), entry["queue"] or "-", entry["step"], entry["message"]


def _waiting_name(entry: Json) -> str:
    if entry["pod"]:
        return _short(entry["pod"])
    return f"(Job {_short(entry['job'])})" if "job" in entry else f"(PodGroup {_short(entry['podGroup'])})"


def _nodes(simulation: Simulation) -> Iterator[Row]:
    """Yield the used part of each node's amounts. Other resources than cpu and memory only if a node has them."""
    yield "NODE", "PODS", "CPU", "MEMORY", "OTHER"
    cluster = simulation.mirror.cluster
    others = [name for name in cluster.columns.names if name not in (*_COMMON, "pods", "ephemeral-storage")]
    for node in cluster.rows:
        listed = [f"{name} {_share(node, name)}" for name in others if node.allocatable_of(name)]
        pods, cpu = _share(node, "pods"), _share(node, "cpu")
        yield node.name, pods, cpu, _share(node, "memory"), ", ".join(listed) or "-"


def _share(node: Any, resource: str) -> str:
    used, offered = node.used_of(resource), node.allocatable_of(resource)
    if resource == "memory":
        return f"{used / _GIBI:.4g}/{offered / _GIBI:.4g}Gi"
    return f"{format_amount(resource, used)}/{format_amount(resource, offered)}"


def _queues(result: Json) -> Iterator[Row]:
    yield "QUEUE", "STATE", "ALLOCATED"
    for name, queue in sorted(result["queues"].items()):
        allocated = ", ".join(_amount(queue, resource) for resource in queue["allocated"])
        yield name, queue["state"], allocated or "-"


def _amount(queue: Json, resource: str) -> str:
    limit = queue["capability"].get(resource)
    return f"{resource} {queue['allocated'][resource]}" + (f" of {limit}" if limit else "")


def _short(name: str) -> str:
    return name.removeprefix("default/")


def _short_group(name: str | None) -> str:
    """Return a PodGroup's name, with the uid at the end of a controller's name cut short."""
    return _UID.sub(r"\1…", _short(name)) if name else "-"


def _reservations(result: Json) -> Iterator[Row]:
    yield "JOB", "QUEUE", "START", "NODES"
    for found in result.get("reservations", ()):
        yield _short_group(found["job"]), found["queue"], found["start"] or "when they are free", found["nodes"]


def _cards(result: Json) -> Iterator[Row]:
    """Yield the cards of each model, and the free ones that no pod can use, with the causes."""
    yield "CARD", "CARDS", "FREE", "STRANDED", "WHY"
    for found in result.get("cards", ()):
        causes = [f"{name} {found[name]}" for name in list(found)[4:] if found[name]]
        figures = (str(found[name]) for name in ("cards", "free", "stranded"))
        yield found["card"] or "(all)", *figures, ", ".join(causes) or "-"
