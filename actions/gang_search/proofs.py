"""Proofs that a gang fits in no way, which cost no search: it does not even fit when most rules are left out.

What is left of the rules is where each member could go if no other were there, and the amounts, one at a time. Then
members flow to nodes like water: a node takes as much as it has, and of each kind as much as whole members fit there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from actions.gang_search.members import Kind, Wanted
from actions.gang_search.teams import Domain
from volsched.framework.session import Session
from volsched.model.nodes.node import NodeInfo

_MOST_KINDS: Final = 16
"""Of more kinds the flow is not worked out."""
_PLENTY: Final = 1 << 62


class _Stream(NamedTuple):
    """Equal members: how many, what each asks for, and how many of them fit on a node by its row."""

    members: int
    request: tuple[tuple[int, int], ...]
    room: Mapping[int, int]


def cannot_fit(session: Session, wanted: Wanted) -> bool:
    """Whether a gang fits in no way."""
    lasting = [kind for kind in wanted.kinds if not kind.grows]
    if not wanted.spares:
        return overflows(session, lasting, {id(kind): kind.homes for kind in lasting})
    room = (_room_for(session, kind, kind.homes) if not kind.grows else len(kind.members) for kind in wanted.kinds)
    return sum(room) < len(wanted.needed)


def _room_for(session: Session, kind: Kind, nodes: Sequence[NodeInfo]) -> int:
    """How many members of a kind fit on some nodes, if no others are there; not more than there are."""
    request, found, most = session.cluster.columns.request(kind.first.template), 0, len(kind.members)
    for node in nodes:
        found += _fit_on(node, request, most)
        if found >= most:
            return most
    return found


def _fit_on(node: NodeInfo, request: Sequence[tuple[int, int]], most: int) -> int:
    counts = (
        (node.allocatable[column] - node.used[column]) // amount
        for column, amount in request
        if amount > 0 and not node.leaves_to_devices(column)
    )
    return max(0, min((most, *counts)))


def overflows(session: Session, kinds: Sequence[Kind], nodes: Mapping[int, Sequence[NodeInfo]]) -> bool:
    """Whether all members of some kinds together are too much for their nodes, by one amount; ``nodes`` by id of kind.

    Of each kind alone so many fit as there are.
    """
    streams = [_stream(session, kind, nodes[id(kind)]) for kind in kinds]
    if any(sum(stream.room.values()) < stream.members for stream in streams):
        return True
    if len(streams) < 2 or len(streams) > _MOST_KINDS:
        return False
    rows = {node.row: node for kind in kinds for node in nodes[id(kind)]}
    columns = {column for stream in streams for column, amount in stream.request if amount > 0}
    return any(_is_too_much(streams, column, rows) for column in sorted(columns))


def _stream(session: Session, kind: Kind, nodes: Sequence[NodeInfo]) -> _Stream:
    request, count = session.cluster.columns.request(kind.first.template), len(kind.members)
    return _Stream(count, request, {node.row: _fit_on(node, request, count) for node in nodes})


def _is_too_much(streams: Sequence[_Stream], column: int, nodes: Mapping[int, NodeInfo]) -> bool:
    """Whether an amount is not enough: nodes that the same kinds can use are one basin."""
    asked = [dict(stream.request).get(column, 0) for stream in streams]
    basins: dict[tuple[int, ...], int] = {}
    pipes: dict[tuple[int, tuple[int, ...]], int] = {}
    for row, node in nodes.items():
        users = tuple(n for n, stream in enumerate(streams) if asked[n] and stream.room.get(row))
        if not users:
            continue
        free = _PLENTY if node.leaves_to_devices(column) else node.allocatable[column] - node.used[column]
        basins[users] = basins.get(users, 0) + free
        for n in users:
            pipes[n, users] = pipes.get((n, users), 0) + asked[n] * streams[n].room[row]
    wanted = [asked[n] * stream.members for n, stream in enumerate(streams)]
    return _flow(wanted, basins, pipes) < sum(wanted)


def _flow(sources: list[int], basins: dict[tuple[int, ...], int], pipes: dict[tuple[int, tuple[int, ...]], int]) -> int:
    """The most that can flow from sources through pipes into basins (augmenting paths)."""
    used = dict.fromkeys(pipes, 0)
    free = dict(basins)
    total = 0
    for source, amount in enumerate(sources):
        left = amount
        while left:
            path = _path(source, used, pipes, free)
            if path is None:
                break
            width = min(left, free[path[-1][1]], *_widths(path, used, pipes))
            for n, (pipe_source, basin) in enumerate(path):
                used[pipe_source, basin] += width if n % 2 == 0 else -width
            free[path[-1][1]] -= width
            left -= width
            total += width
    return total


def _widths(
    path: list[tuple[int, tuple[int, ...]]],
    used: Mapping[tuple[int, tuple[int, ...]], int],
    pipes: Mapping[tuple[int, tuple[int, ...]], int],
) -> list[int]:
    """How much more goes through each pipe of a path: every second one is run backwards."""
    return [used[pipe] if n % 2 else pipes[pipe] - used[pipe] for n, pipe in enumerate(path)]


def _path(
    source: int,
    used: Mapping[tuple[int, tuple[int, ...]], int],
    pipes: Mapping[tuple[int, tuple[int, ...]], int],
    free: Mapping[tuple[int, ...], int],
) -> list[tuple[int, tuple[int, ...]]] | None:
    """Find the shortest way from a source to a basin with room: forwards through pipes, backwards through used ones."""
    ways: list[tuple[int, list[tuple[int, tuple[int, ...]]]]] = [(source, [])]
    seen: set[tuple[int, ...]] = set()
    sources = {source}
    for place, way in ways:
        for basin in free:
            pipe = (place, basin)
            if basin in seen or pipe not in pipes or pipes[pipe] <= used[pipe]:
                continue
            seen.add(basin)
            path = [*way, pipe]
            if free[basin] > 0:
                return path
            for other in basin:
                if other not in sources and used[other, basin] > 0:
                    sources.add(other)
                    ways.append((other, [*path, (other, basin)]))
    return None


def may_fit_within(session: Session, wanted: Wanted, kinds: Sequence[Kind], domain: Domain) -> bool:
    """Whether kinds may fit into a topology domain; where some members need not start that is not told beforehand."""
    if wanted.spares:
        return True
    homes = {id(k): domain.nodes if k.waits else [n for n in k.homes if n.row in domain.rows] for k in kinds}
    return not overflows(session, kinds, homes)
