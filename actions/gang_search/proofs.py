"""Proofs that a gang cannot fit, without a search: it does not fit even without most rules.

What is left of the rules is where each member could go if no other were there, and the amounts, one at a time. Then
members flow to nodes like water: a node takes as much as it has, and of each kind as much as whole members fit there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from actions.gang_search.members import Kind, Wanted
from actions.gang_search.teams import Domain
from volsched.framework.session import Session
from volsched.model.nodes.node import NodeInfo
from volsched.model.pods.task import TaskInfo

_MOST_KINDS: Final = 16
"""Of more kinds the flow is not worked out."""
_PLENTY: Final = 1 << 62


class _Stream(NamedTuple):
    """Equal members: how many, what each asks for, and how many of them fit on a node by its row."""

    members: int
    request: tuple[tuple[int, int], ...]
    room: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Proof:
    """Proof that a gang cannot fit: of some ``members`` only ``fitting`` fit on ``nodes``, the only ones for them.

    ``column`` is the amount of which there is too little; None where members are of one kind, and several may be short.
    """

    members: list[TaskInfo]
    fitting: int
    nodes: list[NodeInfo]
    column: int | None = None

    @property
    def lacking(self) -> int:
        """How many of them fit nowhere, at least."""
        return len(self.members) - self.fitting


def proof_of(session: Session, wanted: Wanted) -> Proof | None:
    """Return why a gang fits in no way, if that can be told."""
    lasting = [kind for kind in wanted.kinds if not kind.grows]
    if not wanted.spares:
        return overflow(session, lasting, {id(kind): kind.homes for kind in lasting})
    room = sum(len(k.members) if k.grows else _room_for(session, k) for k in wanted.kinds)
    if room >= len(wanted.needed):
        return None
    nodes = {node.row: node for kind in wanted.kinds for node in kind.homes}
    return Proof([*wanted.needed], room, list(nodes.values()))


def _room_for(session: Session, kind: Kind) -> int:
    """Return how many members of a kind fit on nodes, if no others are there; not more than there are."""
    request, most = session.request(kind.first), len(kind.members)
    return min(most, sum(_fit_on(node, request, most) for node in kind.homes))


def _fit_on(node: NodeInfo, request: Sequence[tuple[int, int]], most: int) -> int:
    counts = (
        (node.allocatable[column] - node.used[column]) // amount
        for column, amount in request
        if amount > 0 and not node.leaves_to_devices(column)
    )
    return max(0, min((most, *counts)))


def overflow(session: Session, kinds: Sequence[Kind], nodes: Mapping[int, Sequence[NodeInfo]]) -> Proof | None:
    """Return of which kinds too many members are for their nodes; ``nodes`` by id of kind."""
    streams = [_stream(session, kind, nodes[id(kind)]) for kind in kinds]
    for kind, stream in zip(kinds, streams, strict=True):
        fitting = sum(stream.room.values())
        if fitting < stream.members:
            return Proof(kind.members, fitting, list(nodes[id(kind)]))
    if len(streams) < 2 or len(streams) > _MOST_KINDS:
        return None
    rows = {node.row: node for kind in kinds for node in nodes[id(kind)]}
    for column in sorted({column for stream in streams for column, amount in stream.request if amount > 0}):
        asked = [dict(stream.request).get(column, 0) for stream in streams]
        missing = _missing(streams, asked, column, rows)
        if missing:
            members = [task for kind, amount in zip(kinds, asked, strict=True) if amount for task in kind.members]
            return Proof(members, len(members) + -missing // max(asked), list(rows.values()), column)
    return None


def _stream(session: Session, kind: Kind, nodes: Sequence[NodeInfo]) -> _Stream:
    request, count = session.request(kind.first), len(kind.members)
    return _Stream(count, request, {node.row: _fit_on(node, request, count) for node in nodes})


def _missing(streams: Sequence[_Stream], asked: Sequence[int], column: int, nodes: Mapping[int, NodeInfo]) -> int:
    """Return how much of an amount is missing for all: nodes that the same kinds can use are one basin."""
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
    return sum(wanted) - _flow(wanted, basins, pipes)


def _flow(sources: list[int], basins: dict[tuple[int, ...], int], pipes: dict[tuple[int, tuple[int, ...]], int]) -> int:
    """Return the most that can flow from sources through pipes into basins (augmenting paths)."""
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
    """Return how much more goes through each pipe of a path: every second one is run backwards."""
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
    """True if kinds may fit into a topology domain. Where some members need not start that is not told beforehand."""
    if wanted.spares:
        return True
    homes = {id(k): domain.nodes if k.waits else [n for n in k.homes if n.row in domain.rows] for k in kinds}
    return overflow(session, kinds, homes) is None
