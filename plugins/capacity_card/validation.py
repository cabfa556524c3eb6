"""What is wrong with annotations of cards, on every kind of object that may carry them, found before scheduling.

Errors are what can be right on no cluster: bad JSON, amounts that are none, a pod that names a card and asks for no
device. Cards come and go with their nodes, so a name that no node offers is a warning, and is held against the Nodes
only when there are any beside the object.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from plugins.capacity_card.cards.mapping import mapping_of
from plugins.capacity_card.quotas.deserved import deserved_faults
from plugins.capacity_card.quotas.quota import OF_QUEUES, amounts_of, path_of, quota_of
from plugins.capacity_card.refusals import NAME
from plugins.capacity_card.requests.requests import (
    CARD_NAME,
    CARD_REQUEST,
    NAME_PATH,
    REQUEST_PATH,
    Names,
    are_too_many,
    card_names_of,
    job_request_of,
)
from volsched.model.pods.requests import of_pod
from volsched.plugin import FieldError, hint, shortened
from volsched.plugin.cards import (
    CARD_QUOTA,
    UNMAPPED,
    CardInventory,
    CardMapping,
    at,
    card_inventory_of,
    is_plain,
    joined,
    resource_by_name,
    whole,
)
from volsched.plugin.objects import (
    FORBIDDEN,
    INVALID,
    NOT_FOUND,
    NOT_SUPPORTED,
    REQUIRED,
    Fault,
    Faults,
    PodIn,
    Surroundings,
    api,
    pods_in,
    warning,
)

QUOTA_PATH: Final = path_of(CARD_QUOTA)
_PREFIXES: Final = ("volcano.sh/card.", "volsched.io/card.")
_READ: Final = (*OF_QUEUES, CARD_REQUEST, CARD_NAME)
_BELONGS: Final[Mapping[str, str]] = {
    **dict.fromkeys(OF_QUEUES, "it belongs to a Queue"),
    CARD_REQUEST: "it belongs to a PodGroup, or to the Job or workload that makes one",
    CARD_NAME: "it belongs to a pod, or to metadata.annotations of a workload's pod template",
}


def validate(found: api.ApiObject, beside: Surroundings) -> Faults:
    """Yield what is wrong with an object's annotations of cards; see ``framework.validation.Validator``."""
    if isinstance(found, api.Queue):
        yield from _placed_wrong(found.metadata.annotations, OF_QUEUES)
        yield from _quota_faults(found, beside)
        yield from deserved_faults(found, beside)
        return
    pods = list(pods_in(found))
    if not pods and not isinstance(found, api.PodGroup):
        return
    own = (CARD_REQUEST, CARD_NAME) if isinstance(found, api.Pod) else (CARD_REQUEST,)
    yield from _placed_wrong(found.metadata.annotations, own)
    yield from _request_faults(found, beside)
    for pod in pods:
        if pod.prefix:
            yield from pod.under(_placed_wrong(pod.metadata.annotations, (CARD_NAME,)))
        yield from pod.under(_pod_faults(pod, beside))


def _placed_wrong(annotations: Mapping[str, str], read_here: tuple[str, ...]) -> Faults:
    """Yield annotations of cards that are not read, as their name is unknown or the kind is wrong."""
    for key in annotations:
        if key.startswith(_PREFIXES) and key not in read_here:
            path = f"metadata.annotations[{shortened(key)}]"
            if key in _READ:
                yield warning(path, FORBIDDEN, f"has no effect here; {_BELONGS[key]}")
            else:
                meant = hint(key, (known for known in read_here if known not in annotations))
                yield warning(path, NOT_SUPPORTED, f"is not read by capacity-card{meant}")


def _errors(errors: Iterable[FieldError]) -> Faults:
    return (Fault(error.path, INVALID, error.message) for error in errors)


# --- quotas and requests --------------------------------------------------------------------------------------------


def _quota_faults(queue: api.Queue, beside: Surroundings) -> Faults:
    quota = quota_of(queue.metadata.annotations)
    yield from _errors(quota.errors)
    for annotation in OF_QUEUES:
        for name in amounts_of(queue.metadata.annotations, annotation)[0]:
            yield from _unknown(at(path_of(annotation), name), (name,), beside)
    yield from _beyond_parent(queue, quota.cards, beside)
    yield from _children_beyond(queue, quota.cards, beside)


def _beyond_parent(queue: api.Queue, cards: Mapping[str, int], beside: Surroundings) -> Faults:
    """Yield quotas that a parent with quotas of its own cuts short, where queues above count."""
    parent = beside.queues.get(queue.spec.parent)
    if parent is None or CARD_QUOTA not in parent.metadata.annotations:
        return
    bounds = quota_of(parent.metadata.annotations).cards
    for name, amount in cards.items():
        bound = bounds.get(name, 0)
        if amount > bound:
            message = f"{whole(amount)} is more than the {whole(bound)} of its parent {queue.spec.parent!r}"
            yield warning(at(QUOTA_PATH, name), INVALID, f"{message}, which bounds it where enableHierarchy is on")


def _children_beyond(queue: api.Queue, cards: Mapping[str, int], beside: Surroundings) -> Faults:
    """Yield quotas that the queues right below share, of which each would fit and all together do not."""
    children = beside.derived(_quotas_by_parent).get(queue.metadata.name, ())
    for name, amount in cards.items():
        shares = [quotas.get(name, 0) for quotas in children]
        if max(shares, default=0) <= amount < sum(shares):
            message = f"the queues below may hold {whole(sum(shares))} together, more than the {whole(amount)} here"
            yield warning(
                at(QUOTA_PATH, name), INVALID, f"{message}, for which they compete where enableHierarchy is on"
            )


def _quotas_by_parent(beside: Surroundings) -> Mapping[str, Sequence[Mapping[str, int]]]:
    found: defaultdict[str, list[Mapping[str, int]]] = defaultdict(list)
    for queue in beside.queues.values():
        found[queue.spec.parent].append(quota_of(queue.metadata.annotations).cards)
    return found


def _request_faults(found: api.ApiObject, beside: Surroundings) -> Faults:
    request = job_request_of(found.metadata.annotations)
    yield from _errors(request.errors)
    quotas = _quotas_for(found, beside)
    for names, amount in request.lists.items():
        path = at(REQUEST_PATH, joined(names))
        yield from _unknown(path, names, beside)
        if quotas is not None:
            yield from _beyond(path, names, amount, *quotas)


def _quotas_for(found: api.ApiObject, beside: Surroundings) -> tuple[str, Mapping[str, int]] | None:
    """Return the queue of a PodGroup or Job and its quotas, or None if the Queue is not among the given objects."""
    if not isinstance(found, api.PodGroup | api.Job):
        return None
    name = found.spec.queue or "default"
    queue = beside.queues.get(name)
    return (name, quota_of(queue.metadata.annotations).cards) if queue is not None else None


def _beyond(path: str, names: Names, amount: int, queue: str, quotas: Mapping[str, int]) -> Faults:
    """Yield that a job wants more than its queue may ever hold, so that it would wait for good."""
    quota = sum(quotas.get(name, 0) for name in names)
    if amount > quota:
        message = f"{whole(amount)} is more than the {whole(quota)} that {CARD_QUOTA} of queue {queue!r} allows"
        yield warning(path, INVALID, f"{message}, so the job is not admitted")


# --- pods -----------------------------------------------------------------------------------------------------------


def _pod_faults(pod: PodIn, beside: Surroundings) -> Faults:
    annotations = pod.metadata.annotations
    names = card_names_of(annotations)
    if not names:
        if annotations.get(CARD_NAME, "").strip():
            yield Fault(NAME_PATH, INVALID, f"{shortened(annotations[CARD_NAME])!r} names no card")
        return
    if too_many := are_too_many(names):
        yield Fault(NAME_PATH, INVALID, too_many)
        return
    odd = [name for name in names if not is_plain(name)]
    if odd:
        yield Fault(NAME_PATH, INVALID, f"{shortened(odd[0])!r} is no name of a card")
        return
    yield from _unknown(NAME_PATH, names, beside)
    yield from _device_faults(pod, names, beside)


def _device_faults(pod: PodIn, names: Names, beside: Surroundings) -> Faults:
    """Yield faults of the resources of a list of cards, and of the pod's request of them."""
    stock = beside.derived(_stock)
    offered = {name: stock.resources[name] for name in names if name in stock.resources}
    if len(set(offered.values())) > 1:
        message = ", ".join(f"{name} is {resource}" for name, resource in offered.items())
        yield Fault(NAME_PATH, INVALID, f"lists cards of different resources: {message}; list cards of one resource")
        return
    told = {name: offered.get(name) or beside.derived(_mapping).resource_of(name) for name in names}
    is_mixed = len(offered) < len(names) and _differ(told)
    if is_mixed:
        message = "lists cards that are shared in different ways, so of different resources; list cards of one resource"
        yield warning(NAME_PATH, INVALID, message)
    known = offered or ({} if is_mixed else told)
    yield from _asked_faults(_asked_devices(pod.spec), *next(iter(known.items()), ("", None)))


def _differ(told: Mapping[str, str | None]) -> bool:
    """Return whether cards are surely of different resources; that of whole cards is often not known (None)."""
    return len(set(told.values()) - {None}) > 1 or len(set(map(resource_by_name, told))) > 1


def _asked_faults(asked: frozenset[str] | None, card: str, resource: str | None) -> Faults:
    """Yield that a pod does not ask for the resource of its card, which may be unknown (None)."""
    if asked is None:
        return
    if resource is not None and resource not in asked:
        message = f"names {card}, and no container asks for its resource {resource}; set it in resources.limits"
        yield Fault(NAME_PATH, REQUIRED, message)
    elif not asked:
        message = "names a card, and no container asks for its resource (as nvidia.com/gpu); set it in resources.limits"
        yield Fault(NAME_PATH, REQUIRED, message)


def _asked_devices(spec: api.PodSpec) -> frozenset[str] | None:
    """Return the extended resources that a pod asks for.

    None when its quantities cannot be read, which others report.
    """
    try:
        request = of_pod(api.Pod(spec=spec)).request
    except FieldError:
        return None
    return frozenset(name for name, amount in request.items() if "/" in name and amount > 0)


# --- names ----------------------------------------------------------------------------------------------------------


def _stock(beside: Surroundings) -> CardInventory:
    return card_inventory_of(beside.of(api.Node), beside.derived(_mapping).card_of)


def _mapping(beside: Surroundings) -> CardMapping:
    """Return the mapping in force, none where that is not known."""
    return mapping_of(beside.arguments_of(NAME)) if beside.arguments_of is not None else UNMAPPED


def _may_be_mapped(beside: Surroundings) -> bool:
    """True if an unknown configuration may name cards: there are resources that have no name without it."""
    return beside.arguments_of is None and beside.derived(_stock).has_unnamed


def _unknown(path: str, names: Names, beside: Surroundings) -> Faults:
    """Yield each name that no Node offers, with what may have been meant. Nothing is known when there are no Nodes."""
    if not beside.of(api.Node) or _may_be_mapped(beside):
        return
    stock = beside.derived(_stock)
    for name in names:
        if name not in stock.totals:
            yield warning(path, NOT_FOUND, f'no node offers the card "{shortened(name)}"{_instead(name, stock)}')


def _instead(name: str, stock: CardInventory) -> str:
    if not stock.totals:
        return "; no node has labels and allocatable devices that make cards, see `volsched cards`"
    meant = stock.meant_by(name)
    if meant:
        return f"; did you mean {' or '.join(meant)}?"
    others = ", and cards without a name, see `volsched cards`" if stock.has_unnamed else ""
    return f"; there are {', '.join(_some(stock.totals))}{others}"


def _some(names: Iterable[str]) -> Iterator[str]:
    """Yield names, the end of a long list left out."""
    listed = list(names)
    yield from listed[:8]
    if len(listed) > 8:
        yield f"{len(listed) - 8} more"
