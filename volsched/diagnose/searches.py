"""Which changes are tried, sort by sort: of objects that plugins name, of the job, of its pods, and of nodes."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec
import yaml

from volsched.diagnose import options
from volsched.diagnose.options import Option
from volsched.diagnose.plugin_suggestions import option_of, suggestions_of
from volsched.diagnose.records import Help
from volsched.diagnose.what_if import Change, WhatIf
from volsched.framework.quota_report import CARD, NODE_QUOTA, QUOTA
from volsched.model import api
from volsched.model.changes import Change as ObjectChange
from volsched.model.changes import Put
from volsched.model.pods.task import ADMISSION_GATE
from volsched.model.status import IS_CHOSEN
from volsched.quota.report import asked_of
from volsched.simulation.manifests import completed
from volsched.simulation.runner import Simulation

MOST_NODES: Final = 512
MOST_MODELS: Final = 4
MOST_JOBS: Final = 8
MOST_TAINTS: Final = 5
HOSTNAME: Final = "kubernetes.io/hostname"

Search = Callable[[WhatIf], Iterator[Option]]


# --- what plugins name ----------------------------------------------------------------------------------------------


def _quota(what_if: WhatIf) -> Iterator[Option]:
    return _together(what_if, QUOTA)


def _node_quota(what_if: WhatIf) -> Iterator[Option]:
    return _together(what_if, NODE_QUOTA)


def _together(what_if: WhatIf, sort: str) -> Iterator[Option]:
    """Yield all suggestions of a sort as one change, each as small as possible."""
    if found := [suggestion for suggestion in suggestions_of(what_if) if suggestion.sort == sort]:
        yield option_of(what_if, found)


def _cards(what_if: WhatIf) -> Iterator[Option]:
    """Yield each other card that the job could name."""
    return (option_of(what_if, [suggestion]) for suggestion in suggestions_of(what_if) if suggestion.sort == CARD)


# --- the gang -------------------------------------------------------------------------------------------------------


def _min_member(what_if: WhatIf) -> Iterator[Option]:
    """Yield a smaller gang."""
    job = what_if.found.job
    if job.key not in what_if.stage.simulation.api_server.groups or job.spec.min_available <= 1:
        return

    def change(less: int) -> Change:
        return lambda simulation: _resize(simulation, job.key, job.spec.min_available - less)

    def helps(less: int) -> Help:
        size = job.spec.min_available - less
        merge = options.merge_flags({"spec": {"minMember": size}})
        command = f"kubectl patch podgroup {shlex.quote(job.name)} -n {shlex.quote(job.namespace)} {merge}"
        sentence = f"Let the gang start with {size} in place of {job.spec.min_available} (minMember)."
        return Help("minMember", sentence, command)

    yield options.sized("minMember", job.spec.min_available - 1, change, helps)


def _resize(simulation: Simulation, key: str, size: int) -> None:
    group = simulation.api_server.groups[key]
    spec = msgspec.structs.replace(group.spec, min_member=size)
    simulation.take(simulation.api_server.write_group(msgspec.structs.replace(group, spec=spec)))


# --- the pods themselves --------------------------------------------------------------------------------------------


def _gates(what_if: WhatIf) -> Iterator[Option]:
    """Yield the scheduling gates of others than schedulers, lifted."""
    pods = [pod for pod in _pods(what_if) if _gates_of(pod)]
    names = sorted({name for pod in pods for name in _gates_of(pod).values()})
    if names:
        what = f"the scheduling gate{'s' * (len(names) > 1)} {', '.join(names)}"
        sentence = f"Lift {what} of {len(pods)} pod{'s' * (len(pods) > 1)}, or have that done by whoever set it."
        change = _rewritten(
            pods, lambda s: {"scheduling_gates": [g for g in s.scheduling_gates if g.name not in names]}
        )
        yield options.whether("gate", change, Help("gate", sentence, _lift_commands(pods)))


def _gates_of(pod: api.Pod) -> dict[int, str]:
    """Return the gates that no scheduler lifts, by their place."""
    gates = enumerate(pod.spec.scheduling_gates)
    return {place: gate.name for place, gate in gates if gate.name != ADMISSION_GATE}


def _lift_commands(pods: list[api.Pod]) -> str:
    alike: dict[str, list[str]] = {}
    for pod in pods:
        patch = [{"op": "remove", "path": f"/spec/schedulingGates/{place}"} for place in sorted(_gates_of(pod))[::-1]]
        alike.setdefault(shlex.quote(json.dumps(patch)), []).append(pod.metadata.name)
    within = f"-n {shlex.quote(pods[0].metadata.namespace)} --type json"
    lift = (options.for_each(found, f"kubectl patch pod {{}} {within} -p {patch}") for patch, found in alike.items())
    return " && ".join(lift)


def _tolerations(what_if: WhatIf) -> Iterator[Option]:
    """Yield each of the commonest taints, tolerated by the job's waiting pods."""
    pods = _pods(what_if)
    known = {(t.key, t.value, t.effect) for pod in pods for t in pod.spec.tolerations}
    nodes = what_if.stage.simulation.api_server.inventory.of(api.Node)
    taints = Counter((t.key, t.value, t.effect) for node in nodes for t in node.spec.taints)
    for (key, value, effect), count in taints.most_common(MOST_TAINTS):
        if (key, value, effect) not in known and effect != "PreferNoSchedule" and pods:
            yield _toleration(pods, api.Toleration(key=key, operator="Equal", value=value, effect=effect), count)


def _toleration(pods: list[api.Pod], new: api.Toleration, nodes: int) -> Option:
    patch = yaml.safe_dump({"tolerations": [{"key": new.key, "value": new.value, "effect": new.effect}]})
    taint = f"{new.key}={new.value}:{new.effect}"
    sentence = f"Tolerate the taint {taint} of {nodes} node{'s' * (nodes > 1)} in the pod template."
    change = _rewritten(pods, lambda spec: {"tolerations": (*spec.tolerations, new)})
    return options.whether("toleration", change, Help("toleration", sentence, patch=patch))


def _selectors(what_if: WhatIf) -> Iterator[Option]:
    """Yield each label of the node selector, left out, and all of what selects nodes."""
    pods = _pods(what_if)
    for key in sorted({key for pod in pods for key in pod.spec.node_selector}):
        yield _without_label(pods, key)
    if any(pod.spec.affinity is not None for pod in pods):
        patch = yaml.safe_dump({"affinity": None, "nodeSelector": None})
        helps = Help("selector", "Leave what selects nodes out of the pod template, or loosen it.", patch=patch)
        yield options.whether("selector", _rewritten(pods, lambda _: {"affinity": None, "node_selector": {}}), helps)


def _without_label(pods: list[api.Pod], key: str) -> Option:
    value = next(pod.spec.node_selector[key] for pod in pods if key in pod.spec.node_selector)
    sentence = f"Leave {key}: {value} out of the node selector of its pods, or give that label to more nodes."
    command = f"kubectl label node NODE {shlex.quote(f'{key}={value}')}"
    change = _rewritten(pods, lambda s: {"node_selector": {k: v for k, v in s.node_selector.items() if k != key}})
    return options.whether("selector", change, Help("selector", sentence, command))


def _pods(what_if: WhatIf) -> list[api.Pod]:
    keys = [task.key for task in what_if.found.job.waiting.values()]
    pods = what_if.stage.simulation.api_server.pods
    return [pods[key] for key in keys if key in pods]


def _rewritten(pods: list[api.Pod], fields: Callable[[api.PodSpec], dict[str, Any]]) -> Change:
    """Have pods state something else in their spec, whatever was changed of them before."""
    keys = [pod.key for pod in pods]

    def change(simulation: Simulation) -> None:
        found = [simulation.api_server.pods[key] for key in keys if key in simulation.api_server.pods]
        changed = [msgspec.structs.replace(p, spec=msgspec.structs.replace(p.spec, **fields(p.spec))) for p in found]
        simulation.take(simulation.api_server.write_pods(changed))

    return change


# --- nodes ----------------------------------------------------------------------------------------------------------


def _nodes(what_if: WhatIf) -> Iterator[Option]:
    """Yield for each common model of node more nodes of it."""
    for node, count in _models(what_if.stage.simulation):
        yield options.sized("nodes", MOST_NODES, _more_like(node), _help_of_nodes(node, count))


def _more_like(node: api.Node) -> Callable[[int], Change]:
    def change(number: int) -> Change:
        changes: list[ObjectChange] = [Put(_clone(node, place)) for place in range(1, number + 1)]
        return lambda simulation: simulation.take(changes)

    return change


def _help_of_nodes(node: api.Node, count: int) -> Callable[[int], Help]:
    def helps(number: int) -> Help:
        sentence = f"Add {number} node{'s' * (number > 1)} like {node.metadata.name} ({count} there now)."
        return Help("nodes", sentence, patch=_node_text(_clone(node, 1)))

    return helps


def _models(simulation: Simulation) -> list[tuple[api.Node, int]]:
    """Return one node of each of the commonest models (of what it offers and its taints), and how many there are."""
    alike: dict[Any, list[api.Node]] = {}
    for node in simulation.api_server.inventory.of(api.Node):
        offers = tuple(sorted((name, str(amount)) for name, amount in node.status.allocatable.items()))
        taints = tuple((taint.key, taint.value, taint.effect) for taint in node.spec.taints)
        if not node.spec.unschedulable:
            alike.setdefault((offers, taints), []).append(node)
    models = sorted(alike.values(), key=lambda nodes: (-len(nodes), nodes[0].metadata.name))
    return [(nodes[0], len(nodes)) for nodes in models[:MOST_MODELS]]


def _clone(node: api.Node, place: int) -> api.Node:
    meta = node.metadata
    name = f"{meta.name}-more-{place}"
    labels = {key: name if key == HOSTNAME else value for key, value in meta.labels.items()}
    new = api.ObjectMeta(name=name, labels=labels, annotations=meta.annotations)
    return completed(msgspec.structs.replace(node, metadata=new))


def _node_text(node: api.Node) -> str:
    body = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node.metadata.name, "labels": node.metadata.labels},
        "spec": {"taints": msgspec.to_builtins(node.spec.taints)},
        "status": {"allocatable": dict(node.status.allocatable)},
    }
    return yaml.safe_dump(body, sort_keys=False)


# --- other pods -----------------------------------------------------------------------------------------------------


def _deleted_pods(what_if: WhatIf) -> Iterator[Option]:
    """Yield the smallest jobs that hold what is asked for, gone."""
    api_server = what_if.stage.simulation.api_server
    holding = _jobs_holding(what_if)
    for job, keys in sorted(holding.items(), key=lambda one: (len(one[1]), one[0]))[:MOST_JOBS]:
        if pods := [api_server.pods[key] for key in sorted(keys) if key in api_server.pods]:
            yield _without(job, pods)


def _jobs_holding(what_if: WhatIf) -> dict[str, list[str]]:
    """Return the placed pods that request what the job requests, by job; only cards if it requests cards."""
    wanted = set(asked_of(what_if.found.job)) - {"pods"}
    scarce = {name for name in wanted if "/" in name} or wanted
    placed: dict[str, list[str]] = {}
    for task in what_if.stage.simulation.mirror.cluster.tasks.values():
        if IS_CHOSEN[task.status] and task.job is not what_if.found.job and scarce & set(task.template.request):
            placed.setdefault(task.job.key if task.job is not None else task.key, []).append(task.key)
    return placed


def _without(job: str, pods: list[api.Pod]) -> Option:
    def change(number: int) -> Change:
        return lambda simulation: _drop(simulation, pods[:number])

    def helps(number: int) -> Help:
        names = " ".join(shlex.quote(pod.metadata.name) for pod in pods[:number])
        command = f"kubectl delete pod -n {shlex.quote(pods[0].metadata.namespace)} {names}"
        return Help("pods", f"It starts without {number} of the {len(pods)} pods of {job}.", command)

    return options.sized("pods", len(pods), change, helps)


def _drop(simulation: Simulation, pods: list[api.Pod]) -> None:
    simulation.take([change for pod in pods for change in simulation.api_server.drop_pod(pod)])


SEARCHES: Final[dict[str, Search]] = {
    QUOTA: _quota,
    NODE_QUOTA: _node_quota,
    CARD: _cards,
    "minMember": _min_member,
    "gate": _gates,
    "toleration": _tolerations,
    "selector": _selectors,
    "nodes": _nodes,
    "pods": _deleted_pods,
}
"""What is searched for, in this order."""

ONE_WILL_DO: Final = ("pods",)
"""Sorts of which the first change that helps is told, and no other."""
