"""What would help: the smallest change of each sort, each seen to help by sessions that were run with it."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import yaml

from volsched.asking.explain import Found
from volsched.asking.lists import jobs_in_order, requests
from volsched.asking.records import Advice, Help
from volsched.asking.trials import Change, TrialError, Trials
from volsched.model import api
from volsched.model.changes import Change as ObjectChange
from volsched.model.changes import Put
from volsched.model.queues.queue import levels
from volsched.model.status import IS_CHOSEN
from volsched.model.values.quantity import amount_of, format_amount
from volsched.simulation.manifests import completed
from volsched.simulation.runner import Simulation, Stage

MOST_NODES: Final = 64
MOST_MODELS: Final = 4
MOST_JOBS: Final = 8
MOST_TAINTS: Final = 5
CARD_QUOTA: Final = "volcano.sh/card.quota"
HOSTNAME: Final = "kubernetes.io/hostname"
_WHOLE: Final = {"cpu": 1000, "memory": 1 << 30, "ephemeral-storage": 1 << 30}
_THOUSANDTHS: Final = 1000

Search = Callable[[Trials], Iterator[Help]]


def advise(stage: Stage, found: Found, left: Callable[[], bool]) -> Advice:
    """Search for what would let a job, or one pod of it, start. ``left`` says whether there is time for more."""
    trials = Trials(stage, found, left)
    helps: list[Help] = []
    not_tried: list[str] = []
    for sort, search in _SEARCHES.items():
        if not left():
            not_tried.append(sort)
            continue
        try:
            helps.extend(search(trials))
        except TrialError as error:
            not_tried.append(f"{sort} ({error})")
    nothing = "" if helps or not_tried else _nothing(trials)
    return Advice(tuple(helps), trials.made, nothing, tuple(not_tried))


def _nothing(trials: Trials) -> str:
    return (
        f"None of {trials.made} changes that were tried, one sort at a time, lets it start: "
        "more quota, more nodes, other pods gone, a taint tolerated, a node selector dropped, a smaller gang."
    )


# --- quota ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Limit:
    """One amount of a Queue that may be raised; ``field``: capability, deserved, or the annotation of cards."""

    queue: str
    field: str
    name: str
    step: int
    """What counts as one more, in the resource's unit."""


def _quota(trials: Trials) -> Iterator[Help]:
    """Yield the smallest rise of the limits of its queue and those above that lets it start."""
    simulation = trials.stage.simulation
    queues = {queue.metadata.name: queue for queue in simulation.world.inventory.of(api.Queue)}
    limits = [limit for name in levels(simulation.mirror.cluster.queues, trials.found.job.queue) if name in queues
              for limit in _limits(queues[name])]  # fmt: skip
    wanted = _with_those_before(simulation, trials.found)
    most = max([1, *(-(-amount // _WHOLE.get(name, _THOUSANDTHS)) for name, amount in wanted.items())])
    rise = dict.fromkeys(limits, most)
    if not limits or not trials.starts(_raised(queues, rise)):
        return
    for limit in limits:
        rise[limit] = trials.smallest(lambda amount, at=limit: _raised(queues, {**rise, at: amount}), rise[limit])  # type: ignore[misc]
    rise = {limit: amount for limit, amount in rise.items() if amount}
    if rise:
        yield _quota_help(queues, rise)


def _wanted(found: Found) -> dict[str, int]:
    wanted = requests(found.job)
    if found.job.min_resources is not None:
        for name, amount in found.job.min_resources.items():
            wanted[name] = max(wanted.get(name, 0), amount)
    return wanted


def _with_those_before(simulation: Simulation, found: Found) -> Counter[str]:
    """Return what a job asks for with all that wait before it in its queue: they have their turns first."""
    order = jobs_in_order(simulation).get(found.job.queue, [])
    before = order[: order.index(found.job)] if found.job in order else []
    wanted = Counter(_wanted(found))
    for job in before:
        wanted.update(requests(job))
    return wanted


def _limits(queue: api.Queue) -> Iterator[_Limit]:
    name = queue.metadata.name
    for field in ("capability", "deserved"):
        for resource in getattr(queue.spec, field):
            yield _Limit(name, field, resource, _WHOLE.get(resource, _THOUSANDTHS))
    for card in _cards(queue):
        yield _Limit(name, CARD_QUOTA, card, 1)


def _cards(queue: api.Queue) -> dict[str, Any]:
    """Return the quotas of cards as they are written; none where they cannot be read."""
    try:
        found = json.loads(queue.metadata.annotations.get(CARD_QUOTA) or "{}")
    except ValueError:
        return {}
    return (
        {card: amount for card, amount in found.items() if isinstance(amount, int)} if isinstance(found, dict) else {}
    )


def _raised(queues: dict[str, api.Queue], rise: dict[_Limit, int]) -> Change:
    def change(simulation: Simulation) -> None:
        simulation.take([Put(queue) for queue in _with_rise(queues, rise).values()])

    return change


def _with_rise(queues: dict[str, api.Queue], rise: dict[_Limit, int]) -> dict[str, api.Queue]:
    found: dict[str, api.Queue] = {}
    for limit, amount in rise.items():
        if amount:
            found[limit.queue] = _raise(found.get(limit.queue, queues[limit.queue]), limit, amount)
    return found


def _raise(queue: api.Queue, limit: _Limit, amount: int) -> api.Queue:
    meta, spec = queue.metadata, queue.spec
    if limit.field == CARD_QUOTA:
        cards = _cards(queue)
        cards[limit.name] += amount
        meta = msgspec.structs.replace(meta, annotations={**meta.annotations, CARD_QUOTA: json.dumps(cards)})
    else:
        amounts = dict(getattr(spec, limit.field))
        total = amount_of(limit.name, amounts[limit.name]) + amount * limit.step
        spec = msgspec.structs.replace(spec, **{limit.field: {**amounts, limit.name: format_amount(limit.name, total)}})
    return msgspec.structs.replace(queue, metadata=meta, spec=spec)


def _quota_help(queues: dict[str, api.Queue], rise: dict[_Limit, int]) -> Help:
    raised = _with_rise(queues, rise)
    words = [
        f"{limit.name} of queue {limit.queue} by {_by(limit, amount)} ({_where(limit)})"
        for limit, amount in rise.items()
    ]
    commands = []
    for name, queue in raised.items():
        limits = [limit for limit in rise if limit.queue == name]
        spec: dict[str, dict[str, Any]] = {}
        for limit in limits:
            if limit.field != CARD_QUOTA:
                spec.setdefault(limit.field, {})[limit.name] = getattr(queue.spec, limit.field)[limit.name]
        body: dict[str, Any] = {"spec": spec} if spec else {}
        if any(limit.field == CARD_QUOTA for limit in limits):
            body["metadata"] = {"annotations": {CARD_QUOTA: queue.metadata.annotations[CARD_QUOTA]}}
        commands.append(_patch("queue", name, body))
    return Help("quota", f"Raise {', '.join(words)}.", " && ".join(commands))


def _by(limit: _Limit, amount: int) -> str:
    return str(amount) if limit.field == CARD_QUOTA else str(format_amount(limit.name, amount * limit.step))


def _where(limit: _Limit) -> str:
    return f"annotation {CARD_QUOTA}" if limit.field == CARD_QUOTA else f"spec.{limit.field}"


def _patch(kind: str, name: str, body: dict[str, Any], namespace: str = "") -> str:
    where = f" -n {shlex.quote(namespace)}" if namespace else ""
    return f"kubectl patch {kind} {shlex.quote(name)}{where} --type merge -p {shlex.quote(json.dumps(body))}"


# --- the gang -------------------------------------------------------------------------------------------------------


def _min_member(trials: Trials) -> Iterator[Help]:
    """Yield the largest gang that starts."""
    job = trials.found.job
    group = trials.stage.simulation.world.groups.get(job.key)
    if group is None or job.min_available <= 1 or not trials.starts(_of_size(group, 1)):
        return
    fewer = trials.smallest(lambda less: _of_size(group, job.min_available - less), job.min_available - 1, 1)
    size = job.min_available - fewer
    body = {"spec": {"minMember": size}}
    said = f"Let the gang start with {size} in place of {job.min_available} (minMember)."
    yield Help("minMember", said, _patch("podgroup", job.name, body, job.namespace))


def _of_size(group: api.PodGroup, size: int) -> Change:
    spec = msgspec.structs.replace(group.spec, min_member=size)
    return lambda simulation: simulation.take(simulation.world.write_group(msgspec.structs.replace(group, spec=spec)))


# --- the pods themselves --------------------------------------------------------------------------------------------


def _tolerations(trials: Trials) -> Iterator[Help]:
    """Yield each taint that, tolerated by the job's waiting pods, lets it start."""
    pods = _pods(trials)
    known = {(t.key, t.value, t.effect) for pod in pods for t in pod.spec.tolerations}
    nodes = trials.stage.simulation.world.inventory.of(api.Node)
    taints = Counter((t.key, t.value, t.effect) for node in nodes for t in node.spec.taints)
    for (key, value, effect), count in taints.most_common(MOST_TAINTS):
        if (key, value, effect) in known or effect == "PreferNoSchedule" or not pods or not trials.left():
            continue
        added = api.Toleration(key=key, operator="Equal", value=value, effect=effect)
        if trials.starts(_rewritten(pods, lambda spec, new=added: {"tolerations": (*spec.tolerations, new)})):  # type: ignore[misc]
            patch = yaml.safe_dump({"tolerations": [{"key": key, "value": value, "effect": effect}]})
            said = f"Tolerate the taint {key}={value}:{effect} of {count} node{'s' * (count > 1)} in the pod template."
            yield Help("toleration", said, patch=patch)


def _selector(trials: Trials) -> Iterator[Help]:
    """Yield each label of the node selector that, left out, lets it start; else all of what selects nodes."""
    pods = _pods(trials)
    keys = sorted({key for pod in pods for key in pod.spec.node_selector})
    for key in keys:
        if trials.left() and trials.starts(_rewritten(pods, lambda spec, key=key: {"node_selector": {k: v for k, v in spec.node_selector.items() if k != key}})):  # type: ignore[misc]  # fmt: skip  # noqa: E501
            value = next(pod.spec.node_selector[key] for pod in pods if key in pod.spec.node_selector)
            said = f"Leave {key}: {value} out of the node selector of its pods, or give that label to more nodes."
            yield Help("selector", said, f"kubectl label node NODE {shlex.quote(f'{key}={value}')}")
    if any(pod.spec.affinity is not None for pod in pods) and trials.left():
        free = _rewritten(pods, lambda _: {"affinity": None, "node_selector": {}})
        if trials.starts(free):
            yield Help("selector", "Leave the affinity out of the pod template, or loosen it.")


def _pods(trials: Trials) -> list[api.Pod]:
    keys = [task.key for task in trials.found.job.waiting.values()]
    pods = trials.stage.simulation.world.pods
    return [pods[key] for key in keys if key in pods]


def _rewritten(pods: list[api.Pod], fields: Callable[[api.PodSpec], dict[str, Any]]) -> Change:
    changed = [msgspec.structs.replace(p, spec=msgspec.structs.replace(p.spec, **fields(p.spec))) for p in pods]
    return lambda simulation: simulation.take(simulation.world.write_pods(changed))


# --- nodes ----------------------------------------------------------------------------------------------------------


def _nodes(trials: Trials) -> Iterator[Help]:
    """Yield for each common model of node how many more of it let the job start."""
    for node, count in _models(trials.stage.simulation):
        if not trials.left():
            return
        if trials.starts(_more(node, MOST_NODES)):
            number = trials.smallest(lambda amount, of=node: _more(of, amount), MOST_NODES, 1)  # type: ignore[misc]
            name = node.metadata.name
            said = f"Add {number} node{'s' * (number > 1)} like {name} ({count} there now)."
            yield Help("nodes", said, patch=_node_text(_clone(node, 1)))


def _models(simulation: Simulation) -> list[tuple[api.Node, int]]:
    """Return one node of each of the commonest models (of what it offers and its taints), and how many there are."""
    alike: dict[Any, list[api.Node]] = {}
    for node in simulation.world.inventory.of(api.Node):
        offers = tuple(sorted((name, str(amount)) for name, amount in node.status.allocatable.items()))
        taints = tuple((taint.key, taint.value, taint.effect) for taint in node.spec.taints)
        if not node.spec.unschedulable:
            alike.setdefault((offers, taints), []).append(node)
    models = sorted(alike.values(), key=lambda nodes: (-len(nodes), nodes[0].metadata.name))
    return [(nodes[0], len(nodes)) for nodes in models[:MOST_MODELS]]


def _more(node: api.Node, number: int) -> Change:
    changes: list[ObjectChange] = [Put(_clone(node, place)) for place in range(1, number + 1)]
    return lambda simulation: simulation.take(changes)


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


def _pods_gone(trials: Trials) -> Iterator[Help]:
    """Yield the smallest job (then so many of its pods) without which this one starts."""
    cluster, world = trials.stage.simulation.mirror.cluster, trials.stage.simulation.world
    wanted = set(_wanted(trials.found)) - {"pods"}
    scarce = {name for name in wanted if "/" in name} or wanted
    placed: dict[str, list[str]] = {}
    for task in cluster.tasks.values():
        if IS_CHOSEN[task.status] and task.job is not trials.found.job and scarce & set(task.template.request):
            placed.setdefault(task.job.key if task.job is not None else task.key, []).append(task.key)
    for job, keys in sorted(placed.items(), key=lambda one: (len(one[1]), one[0]))[:MOST_JOBS]:
        pods = [world.pods[key] for key in sorted(keys) if key in world.pods]
        if not trials.left():
            return
        if trials.starts(_gone(pods)):
            number = trials.smallest(lambda amount, of=pods: _gone(of[:amount]), len(pods), 1)  # type: ignore[misc]
            names = " ".join(shlex.quote(pod.metadata.name) for pod in pods[:number])
            command = f"kubectl delete pod -n {shlex.quote(pods[0].metadata.namespace)} {names}"
            yield Help("pods", f"It starts without {number} of the {len(pods)} pods of {job}.", command)
            return


def _gone(pods: list[api.Pod]) -> Change:
    return lambda simulation: simulation.take([change for pod in pods for change in simulation.world.drop_pod(pod)])


_SEARCHES: Final[dict[str, Search]] = {
    "quota": _quota,
    "minMember": _min_member,
    "toleration": _tolerations,
    "selector": _selector,
    "nodes": _nodes,
    "pods": _pods_gone,
}
"""What is searched for, in this order."""
