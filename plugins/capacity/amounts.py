"""What each queue may have, deserves and is guaranteed: from what Queues state and what there is.

For each queue and resource::

    capability  the most that its spec names (cpu and memory of 0: unset); over a hierarchy, else its parent's
    limit       what is there less what all queues beside it are guaranteed, plus its own guarantee; at most capability
    deserved    what its spec names, never less than its guarantee; without a hierarchy, at most its limit

What is there is the cluster; over a hierarchy, the limit of the queue above. There the root has no limit but its own
capability, so that work may be admitted for which nodes are still to come, and it deserves what its children do. The
rules are those of Volcano's plugin of this name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from volsched.model.values.resources import UNLIMITED
from volsched.plugin import CPU, MEMORY, ROOT, QueueInfo, format_amount
from volsched.plugin.quota import (
    Amounts,
    QuotaAmounts,
    Tree,
    above,
    capability_of,
    larger,
    of_nodes,
    room,
    short_of_those_below,
    total_of,
)

Queues = Mapping[str, QueueInfo]


def side_by_side(queues: Queues, total: Amounts) -> dict[str, QuotaAmounts]:
    """Return the amounts of queues that share the cluster without a hierarchy."""
    kept = total_of(of_nodes(queue.spec.guarantee) for queue in queues.values())
    found: dict[str, QuotaAmounts] = {}
    for name, queue in queues.items():
        capability, guarantee = capability_of(queue), of_nodes(queue.spec.guarantee)
        limit = room(total, kept, guarantee, capability)
        wanted = of_nodes(queue.spec.deserved)
        bounded = {resource: min(amount, limit.get(resource, 0)) for resource, amount in wanted.items()}
        found[name] = QuotaAmounts(capability, limit, larger(bounded, guarantee), guarantee)
    return found


def in_a_tree(queues: Queues, total: Amounts) -> dict[str, QuotaAmounts]:
    """Return the amounts of queues in a hierarchy, the root's among them. Queues that hang nowhere have none."""
    tree = tree_of(queues)
    found = {ROOT: _root(queues, _placed_below(tree, ROOT), total)}
    for name in tree.top_down():
        if name in found:
            found.update(_below(queues, _placed_below(tree, name), found[name]))
    return found


def tree_of(queues: Queues) -> Tree:
    """Return the tree of queues by what they state."""
    return Tree({name: queue.spec.parent for name, queue in queues.items()})


def _placed_below(tree: Tree, name: str) -> list[str]:
    """Return the queues right below one, without those that the tree has there for want of another place."""
    return [child for child in tree.below(name) if child not in tree.missing and child not in tree.circular]


def _root(queues: Queues, listed: list[str], total: Amounts) -> QuotaAmounts:
    capability = capability_of(queues[ROOT]) if ROOT in queues else {}
    unlimited = dict.fromkeys((*total, CPU, MEMORY), UNLIMITED)
    deserved = total_of(_wanted(queues[name]) for name in listed)
    guarantee = total_of(of_nodes(queues[name].spec.guarantee) for name in listed)
    return QuotaAmounts(capability, {**unlimited, **capability}, deserved, guarantee)


def _below(queues: Queues, listed: list[str], above: QuotaAmounts) -> Iterator[tuple[str, QuotaAmounts]]:
    kept = total_of(of_nodes(queues[name].spec.guarantee) for name in listed)
    for name in listed:
        queue, guarantee = queues[name], of_nodes(queues[name].spec.guarantee)
        capability = {**above.capability, **capability_of(queue)}
        yield name, QuotaAmounts(capability, room(above.limit, kept, guarantee, capability), _wanted(queue), guarantee)


def _wanted(queue: QueueInfo) -> Amounts:
    return larger(of_nodes(queue.spec.deserved), of_nodes(queue.spec.guarantee))


# -- what is wrong with a hierarchy -----------------------------------------------------------------------------------


def lost(queues: Queues) -> dict[str, str]:
    """Return why queues are outside the hierarchy: a parent that is not there, or queues above in a circle."""
    tree = tree_of(queues)
    found = {name: _why_lost(tree, name) for name in queues if name != ROOT}
    return {name: why for name, why in found.items() if why}


def _why_lost(tree: Tree, name: str) -> str:
    top = tree.levels(name)[-2]
    if top in tree.circular:
        return f'it is below "{top}", which is below itself'
    if top not in tree.missing:
        return ""
    parent = tree.missing[top]
    return f'its parent "{parent}" does not exist' if top == name else f'"{parent}" above it does not exist'


def doubts(queues: Queues, amounts: Mapping[str, QuotaAmounts]) -> dict[str, tuple[str, ...]]:
    """Return what cannot be kept of what each queue and its children state. Nothing is refused for that."""
    tree = tree_of(queues)
    found: dict[str, tuple[str, ...]] = {}
    for name, queue in queues.items():
        if name == ROOT:
            continue
        above = amounts[queue.spec.parent].capability if queue.spec.parent in amounts else {}
        listed = [queues[child] for child in _placed_below(tree, name)]
        message = (*_above_parent(queue, above), *_promised_twice(queue, listed))
        if message:
            found[name] = message
    return found


def _above_parent(queue: QueueInfo, limit: Amounts) -> Iterator[str]:
    for resource, amount, most in above(capability_of(queue), limit):
        message = f"{format_amount(resource, amount)} is more than {format_amount(resource, most)}"
        yield f'spec.capability[{resource}]: {message}, the capability of "{queue.spec.parent}"; the smaller counts'


def _promised_twice(queue: QueueInfo, listed: list[QueueInfo]) -> Iterator[str]:
    for field, own, below in (
        ("spec.deserved", queue.spec.deserved, [child.spec.deserved for child in listed]),
        ("spec.guarantee.resource", queue.spec.guarantee, [child.spec.guarantee for child in listed]),
    ):
        for resource, amount, together in short_of_those_below(of_nodes(own), map(of_nodes, below)):
            message = f"{format_amount(resource, amount)} is less than {format_amount(resource, together)}"
            yield f"{field}[{resource}]: {message}, what its children name together"
