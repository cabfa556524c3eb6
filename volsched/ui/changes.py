"""What-if changes: the quotas of a queue and the nodes that may be changed, and the resulting objects."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from volsched.diagnose.cluster_snapshot import ClusterSnapshot
from volsched.diagnose.records import Figures, QueueState
from volsched.diagnose.restarted_pods import restarted
from volsched.model import api
from volsched.model.cards.names import CARD_QUOTA
from volsched.model.errors import VolschedError
from volsched.model.values import json_text
from volsched.model.values.quantity import parse
from volsched.simulation.manifests import completed

CAPABILITY, DESERVED, CARDS, DEVICES = "capability", "deserved", "cards", "devices"
"""Where a quota stands: fields of the Queue's spec, its annotation of cards, ``spec.dra``."""

MOST: Final = 1_000_000
MOST_NODES: Final = 64
MOST_MODELS: Final = 12
HOSTNAME: Final = "kubernetes.io/hostname"
_GIB: Final = 1 << 30
_BY_GIB: Final = ("memory", "ephemeral-storage")


class ChangeError(VolschedError):
    """A change cannot be tried. The text states why."""


@dataclass(frozen=True, slots=True)
class EditableQuota:
    """A quota that can be changed. ``now`` and ``most`` are in whole units, memory in GiB; None: there is none now."""

    field: str
    name: str
    now: int | None
    most: int

    @property
    def key(self) -> str:
        """Return the name in a form."""
        return f"{self.field}:{self.name}"

    @property
    def unit(self) -> str:
        """Return the unit, if it is not the thing itself."""
        return "GiB" if self.name in _BY_GIB else ""


@dataclass(frozen=True, slots=True)
class Model:
    """Nodes that offer the same and have the same taints. ``name`` is that of the first, ``offers`` is for people."""

    name: str
    offers: str
    nodes: tuple[str, ...]

    @property
    def lowest_change(self) -> int:
        """Return the largest number of nodes that can be removed, as a negative number."""
        return -min(len(self.nodes), MOST_NODES)


# --- what there is --------------------------------------------------------------------------------------------------


def limits_of(queue: api.Queue, state: QueueState | None) -> tuple[EditableQuota, ...]:
    """Return the quotas of a queue, and possible ones for the resources that it uses."""
    quotas = [*_stated_quotas(queue)]
    known = {limit.name for limit in quotas if limit.field != DESERVED}
    for figures in state.figures if state is not None else ():
        if figures.resource not in known:
            field = CAPABILITY if _is_resource(figures.resource) else CARDS
            quotas.append(EditableQuota(field, figures.resource, None, _most_of(figures)))
    return tuple(quotas)


def _stated_quotas(queue: api.Queue) -> Iterator[EditableQuota]:
    for field in (CAPABILITY, DESERVED):
        for name, amount in getattr(queue.spec, field).items():
            units = _units(name, str(amount))
            if units is not None:
                yield EditableQuota(field, name, units, _room(units))
    for card, amount in _cards(queue).items():
        yield EditableQuota(CARDS, card, amount, _room(amount))
    for device, amount in _devices(queue):
        yield EditableQuota(DEVICES, device, amount, _room(amount))


def _most_of(figures: Figures) -> int:
    """Return the largest quota to try for a resource without one: its other bound, else more than its usage."""
    bound = _units(figures.resource, figures.quota) if figures.quota is not None else None
    return bound or _room(_units(figures.resource, figures.used) or 0)


def _room(amount: int) -> int:
    return 2 * amount + 16


def _is_resource(name: str) -> bool:
    return "/" in name or name in ("cpu", "pods", *_BY_GIB)


def _units(name: str, quantity: str) -> int | None:
    """Return an amount in whole units, more rather than less, or None for what is no quantity."""
    try:
        amount = parse(quantity)
    except ValueError:
        return None
    return int(-(-amount // (_GIB if name in _BY_GIB else 1)))


def _cards(queue: api.Queue) -> dict[str, int]:
    try:
        found = json_text.decode(queue.metadata.annotations.get(CARD_QUOTA) or "{}")
    except (msgspec.MsgspecError, UnicodeError):
        return {}
    return {card: n for card, n in found.items() if isinstance(n, int)} if isinstance(found, dict) else {}


def _devices(queue: api.Queue) -> Iterator[tuple[str, int]]:
    found = queue.spec.dra.get("capability") if isinstance(queue.spec.dra, Mapping) else None
    for name, amounts in found.items() if isinstance(found, Mapping) else ():
        count = amounts.get("count") if isinstance(amounts, Mapping) else None
        if isinstance(count, int):
            yield str(name), count


def models_of(nodes: Iterable[api.Node]) -> tuple[Model, ...]:
    """Return the commonest models of nodes."""
    alike: dict[tuple[Any, ...], list[str]] = {}
    for node in nodes:
        offers = tuple(
            sorted((name, str(amount)) for name, amount in node.status.allocatable.items() if name != "pods")
        )
        taints = tuple((taint.key, taint.value, taint.effect) for taint in node.spec.taints)
        alike.setdefault((offers, taints), []).append(node.metadata.name)
    found = sorted(alike.items(), key=lambda one: (-len(one[1]), min(one[1])))[:MOST_MODELS]
    return tuple(Model(min(names), _offers(offers), tuple(sorted(names))) for (offers, _), names in found)


def _offers(offers: Iterable[tuple[str, str]]) -> str:
    """Return what a node offers, cards first."""
    ordered = sorted(offers, key=lambda one: ("/" not in one[0], one[0]))
    return ", ".join(f"{amount} {name}" for name, amount in ordered)


# --- what is changed ------------------------------------------------------------------------------------------------


def changed(
    known: ClusterSnapshot, queue: str, amounts: Mapping[str, int], nodes: Mapping[str, int]
) -> ClusterSnapshot:
    """Return the cluster with other quotas of a queue, by ``EditableQuota.key``, and more or fewer nodes by name.

    Raises ChangeError for unknown names and values out of bounds.
    """
    objects = [*_with_quotas(known, queue, amounts), *_with_nodes(known, nodes)]
    return known.with_objects(objects)


def _with_quotas(known: ClusterSnapshot, name: str, amounts: Mapping[str, int]) -> Iterator[api.ApiObject]:
    if amounts:
        found = next((q for q in known.objects if isinstance(q, api.Queue) and q.metadata.name == name), None)
        if found is None:
            raise ChangeError(f"there is no queue {name}")
        for key, amount in amounts.items():
            field, _, limit = key.partition(":")
            found = _with_quota(found, field, limit, amount)
        yield found


def _with_quota(queue: api.Queue, field: str, name: str, amount: int) -> api.Queue:
    if not 0 <= amount <= MOST:
        raise ChangeError(f"the quota {name} must be from 0 to {MOST}, not {amount}")
    spec, meta = queue.spec, queue.metadata
    if field in (CAPABILITY, DESERVED):
        text = f"{amount}Gi" if name in _BY_GIB else str(amount)
        spec = msgspec.structs.replace(spec, **{field: {**getattr(spec, field), name: text}})
    elif field == CARDS:
        text = json.dumps({**_cards(queue), name: amount})
        meta = msgspec.structs.replace(meta, annotations={**meta.annotations, CARD_QUOTA: text})
    elif field == DEVICES and name in dict(_devices(queue)):
        capability = spec.dra["capability"]
        capability = {**capability, name: {**capability[name], "count": amount}}
        spec = msgspec.structs.replace(spec, dra={**spec.dra, "capability": capability})
    else:
        raise ChangeError(f"queue {meta.name} has no quota {name} of {field or 'nothing'}")
    return msgspec.structs.replace(queue, spec=spec, metadata=meta)


def _with_nodes(known: ClusterSnapshot, wanted: Mapping[str, int]) -> Iterator[api.ApiObject]:
    models = {model.name: model for model in models_of(each for each in known.objects if isinstance(each, api.Node))}
    for name, count in wanted.items():
        model = models.get(name)
        if model is None or not model.lowest_change <= count <= MOST_NODES:
            raise ChangeError(f"there are no nodes like {name} of which to have {count:+d}")
        if count > 0:
            yield from _more(known, name, count)
        elif count < 0:
            yield from _fewer(known, model, -count)


def _more(known: ClusterSnapshot, name: str, count: int) -> Iterator[api.Node]:
    like = next(each for each in known.objects if isinstance(each, api.Node) and each.metadata.name == name)
    for number in range(1, count + 1):
        called = f"{name}-more-{number}"
        labels = {**like.metadata.labels, HOSTNAME: called}
        meta = api.ObjectMeta(name=called, labels=labels, annotations=like.metadata.annotations)
        yield completed(msgspec.structs.replace(like, metadata=meta))


def _fewer(known: ClusterSnapshot, model: Model, count: int) -> Iterator[api.ApiObject]:
    """Yield so many of a model's nodes as drained, those with the fewest pods, and their pods as made again."""
    pods: dict[str, list[str]] = {name: [] for name in model.nodes}
    for pod in known.objects:
        if isinstance(pod, api.Pod) and pod.spec.node_name in pods:
            pods[pod.spec.node_name].append(pod.key)
    closed = sorted(pods, key=lambda node: (len(pods[node]), node))[:count]
    going = {key: node for node in closed for key in pods[node]}
    yield from restarted(known, going, closed)
