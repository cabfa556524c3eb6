"""The node map: one cell per card, in tiles of nodes, grouped by model or by a label of the nodes.

Names that the reader may not see are left out before filters are applied. Only changed nodes are made again.
"""

from __future__ import annotations

import hashlib
import math
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, Final, NamedTuple
from zlib import crc32

from volsched.diagnose.cards import Cell, NodeCards, Share
from volsched.diagnose.nodes import NodeState
from volsched.framework.redaction import ANOTHER
from volsched.ui.access import Visibility
from volsched.ui.picture import Picture
from volsched.ui.table import Event

MODEL: Final = "model"
"""The grouping by card model; every other grouping is a label of nodes."""

NO_CARDS: Final = "no cards"
NO_LABEL: Final = "without this label"

MOST_TILES: Final = 1024
"""Nodes that are shown at once. If there are more, groups are shown closed, and opened on demand."""

_AT_ONCE: Final = 100
"""Tiles in one event, when everything is sent."""

_MOST_KNOWN: Final = 1024
"""Equal values of which a map keeps one object each."""

MOST_LEGEND: Final = 24
COLOURS: Final = 12
FILTERS: Final = ("model", "node", "holder", "queue")
COLOURED_BY: Final = ("queue", "job")

_LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_NUMBERS: Final = re.compile(r"(\d+)")


class Mark(NamedTuple):
    """How a cell is drawn: a letter, and the number of a colour from 1; 0 for jobs that may not be named."""

    letter: str
    colour: int


UNNAMED: Final = Mark("?", 0)


class CardHolder(NamedTuple):
    """The job on a card as the reader may see it. ``job`` is its ``namespace/name``; empty: it has no page."""

    workload: str
    namespace: str = ""
    queue: str = ""
    job: str = ""

    @property
    def sentence(self) -> str:
        """Return the holder in words."""
        where = f" in {self.namespace}" if self.namespace else ""
        return f"{self.workload}{where}{f', queue {self.queue}' if self.queue else ''}"


@dataclass(frozen=True, slots=True)
class Run:
    """Cells in a row with the same holders. ``mark`` is None for free cells, and ``state`` is theirs."""

    count: int
    label: str
    job: str
    mark: Mark | None
    is_dim: bool
    is_own: bool = False
    state: str = ""


class Tile(NamedTuple):
    """A node on the map. Without a name it has the reader's own cells on all nodes of a group."""

    id: str
    node: str
    states: tuple[str, ...]
    promised: int
    pods: int | None
    used: int
    total: int
    runs: tuple[Run, ...]
    shares: tuple[Share, ...]


class LegendEntry(NamedTuple):
    """One queue or job of the legend, and its cards on the map."""

    name: str
    namespace: str
    mark: Mark
    cards: int


LegendKey = tuple[str, str, Mark]
"""The name, namespace and mark of a queue or job."""


class GroupHead(NamedTuple):
    """The sums of a group, and whether its nodes are shown. ``more`` nodes are not, although it is open."""

    id: str
    name: str
    nodes: int
    used: int
    total: int
    unusable: int
    states: tuple[tuple[str, int], ...]
    is_open: bool
    more: int = 0

    @property
    def used_percent(self) -> int:
        """Return the used part of the cards."""
        return 100 * self.used // self.total if self.total else 0

    @property
    def unusable_percent(self) -> int:
        """Return the part of free cards on nodes that get no pods."""
        return -(-100 * self.unusable // self.total) if self.total else 0


class Colouring:
    """The marks of queues or of jobs. Queues have a letter of their own names each, while there are letters."""

    def __init__(self, by: str, queues: Iterable[str]) -> None:
        self._is_by_job = by == "job"
        self._of_queue: dict[str, Mark] = {}
        taken: set[str] = set()
        for number, queue in enumerate(sorted(queues)):
            wanted = [letter for letter in queue.upper() if letter in _LETTERS] or ["Q"]
            letter = next((letter for letter in [*wanted, *_LETTERS] if letter not in taken), wanted[0])
            taken.add(letter)
            self._of_queue[queue] = Mark(letter, number % COLOURS + 1)

    def of(self, holder: CardHolder) -> tuple[Mark, tuple[str, str]]:
        """Return the mark of a holder, and its name and namespace in the legend."""
        if not self._is_by_job:
            found = self._of_queue.get(holder.queue)
            return (found, (holder.queue, "")) if found is not None else (UNNAMED, (ANOTHER, ""))
        if not holder.namespace:
            return UNNAMED, (ANOTHER, "")
        name = holder.workload.rpartition("/")[2].upper()
        letter = next((letter for letter in name if letter in _LETTERS), "J")
        key = holder.job or f"{holder.namespace}/{holder.workload}"
        return Mark(letter, crc32(key.encode()) % COLOURS + 1), (holder.workload, holder.namespace)


def holder_for(scope: Visibility, state: NodeState, pod: str) -> CardHolder:
    """Return the job of a pod on a card without the names that the reader may not see."""
    owner, (namespace, _, name) = state.owners.get(pod), pod.partition("/")
    queue = owner.queue if owner is not None and scope.names_queue(owner.queue) else ""
    if not scope.names(namespace):
        return CardHolder(ANOTHER, queue=queue)
    if owner is None:
        return CardHolder(f"Pod/{name}", namespace)
    return CardHolder(owner.workload, namespace, queue, owner.job)


# --- tiles ----------------------------------------------------------------------------------------------------------


class _Part(NamedTuple):
    """What a node adds to the sums of one group. Equal ones are one object, as a map has thousands."""

    used: int
    total: int
    unusable: int
    states: tuple[str, ...]
    legend: tuple[tuple[LegendKey, int], ...]


@dataclass(frozen=True, slots=True)
class Query:
    """The reader's question: the grouping, the colours, filters in lower case, and opened groups."""

    group: str = MODEL
    colour: str = COLOURED_BY[0]
    filters: Mapping[str, str] = field(default_factory=dict)
    open: frozenset[str] = frozenset()

    @classmethod
    def read(cls, values: Mapping[str, str], opened: Iterable[str]) -> Query:
        """Read the query of an address."""
        colour = values.get("colour", "")
        filters = {name: values.get(name, "").strip().lower() for name in FILTERS}
        return cls(
            values.get("group") or MODEL,
            colour if colour in COLOURED_BY else COLOURED_BY[0],
            {name: text for name, text in filters.items() if text},
            frozenset(opened),
        )


def _pairs(state: NodeState, query: Query, scope: Visibility, colours: Colouring) -> Iterator[tuple[str, _Part, Tile]]:
    """Yield the groups of a node with its parts and tiles there; none if the filters leave it out."""
    if scope.nodes and query.filters.get("node", "") not in state.name.lower():
        return
    model = query.filters.get("model", "")
    shown = [cards for cards in state.cards if model in cards.model.lower()]
    groups: dict[str, list[NodeCards]] = {}
    if query.group == MODEL or not scope.nodes:
        for cards in shown:
            groups.setdefault(cards.model, []).append(cards)
        if not state.cards and model in NO_CARDS:
            groups[NO_CARDS] = []
    elif shown or not model:
        groups[state.labels.get(query.group, NO_LABEL)] = shown
    for group, of_group in groups.items():
        found = _part(state, group, of_group, query, scope, colours)
        if found is not None:
            yield group, *found


def tiles_of(state: NodeState, query: Query, scope: Visibility, colours: Colouring) -> dict[str, Tile]:
    """Return the tiles of one node by group."""
    return {group: tile for group, _, tile in _pairs(state, query, scope, colours)}


def _part(
    state: NodeState, group: str, shown: Sequence[NodeCards], query: Query, scope: Visibility, colours: Colouring
) -> tuple[_Part, Tile] | None:
    wanted = query.filters.get("holder", ""), query.filters.get("queue", "")
    legend: Counter[LegendKey] = Counter()
    runs = [run for cards in shown for run in _runs(state, cards, wanted, scope, colours, legend)]
    is_filtered = any(wanted)
    if is_filtered and not any(run.mark is not None and not run.is_dim for run in runs):
        return None
    counted = [cards for cards in shown if cards.sort != "shared"]
    used, total = sum(cards.used for cards in counted), sum(cards.total for cards in counted)
    if not scope.nodes:
        runs = [run for run in runs if run.is_own]
    tile = Tile(
        tile_id(state.name, group) if scope.nodes else "",
        state.name if scope.nodes else "",
        state.states if scope.nodes else (),
        len(state.promised),
        None if state.cards else state.pods,
        used,
        total,
        tuple(runs),
        tuple(share for cards in shown for share in cards.shares) if scope.nodes else (),
    )
    unusable = total - used if state.states else 0
    return _Part(used, total, unusable, tile.states, tuple(sorted(legend.items()))), tile


def _runs(
    state: NodeState,
    cards: NodeCards,
    wanted: tuple[str, str],
    scope: Visibility,
    colours: Colouring,
    legend: Counter[LegendKey],
) -> Iterator[Run]:
    """Yield the runs of a node's cards of one model, and count them in the legend."""
    known: dict[str, tuple[CardHolder, ...]] = {"": ()}

    def holders(cell: Cell) -> tuple[CardHolder, ...]:
        if cell.holder not in known:
            found = {holder_for(scope, state, pod): None for pod in cell.holder.split(", ")}
            known[cell.holder] = tuple(sorted(found, key=lambda each: not each.namespace))
        return known[cell.holder]

    for who, group in groupby(cards.cells, holders):
        cells = list(group)
        if not who:
            yield from _free_runs(cards, cells, is_dim=any(wanted))
            continue
        mark, name = colours.of(who[0])
        legend[(*name, mark)] += len(cells)
        text, queues = " ".join(each.sentence for each in who).lower(), " ".join(each.queue for each in who).lower()
        is_dim = wanted[0] not in text or wanted[1] not in queues
        label = f"{_places(cards, cells)}: {'; '.join(each.sentence for each in who)}"
        drawn = mark if len(who) == 1 else mark._replace(letter="+")
        yield Run(len(cells), label, who[0].job, drawn, is_dim, is_own=bool(who[0].namespace))


def _free_runs(cards: NodeCards, cells: Sequence[Cell], *, is_dim: bool) -> Iterator[Run]:
    """Yield the runs of free cells: those that are promised or stranded come first."""
    rest = list(cells)
    for state, amount, words in (
        ("promised", cards.promised, "kept for a job that waits"),
        ("stranded", cards.stranded, "stranded, as no pod can use it now"),
    ):
        found, rest = rest[: math.ceil(amount)], rest[math.ceil(amount) :]
        if found:
            yield Run(len(found), f"{_places(cards, found)}: {words}", "", None, is_dim, state=state)
    if rest:
        words = "free, but the node gets no pods" if cards.unavailable else "free"
        yield Run(len(rest), f"{_places(cards, rest)}: {words}", "", None, is_dim)


def _places(cards: NodeCards, cells: Sequence[Cell]) -> str:
    """Return which cards a run has, in words."""
    first, last = cells[0].name, cells[-1].name
    if cards.sort == "shared":
        return "shares cards" if len(cells) == 1 else f"{len(cells)} pods share cards"
    if len(cells) == 1:
        return f"{cards.model}, {first if cards.sort == 'device' else f'card {first}'}"
    return f"{cards.model}, {'' if cards.sort == 'device' else 'cards '}{first} to {last}"


def tile_id(*names: str) -> str:
    """Return the HTML id of a tile."""
    return "n-" + hashlib.sha256("\0".join(names).encode()).hexdigest()[:12]


def group_id(name: str) -> str:
    """Return the HTML id of a group."""
    return tile_id("group", name)


def natural(text: str) -> list[tuple[int, int, str]]:
    """Return a sort key by which `node-2` comes before `node-10`."""
    parts = _NUMBERS.split(text)
    return [(1, int(part), "") if part.isdecimal() else (0, 0, part) for part in parts]


# --- the map in one browser -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MapTemplates:
    """What makes the HTML of the parts of a map."""

    tile: Callable[..., str]
    group: Callable[..., str]
    legend: Callable[..., str]
    caption: Callable[..., str]


class _Group:
    """The parts of one group by node, with its sums."""

    def __init__(self) -> None:
        self.parts: dict[str, _Part] = {}
        self.sums = Counter[str]()
        self.states = Counter[str]()
        self._order: list[str] | None = None

    @property
    def order(self) -> list[str]:
        """Return the nodes in the natural order of their names."""
        if self._order is None:
            self._order = sorted(self.parts, key=natural)
        return self._order

    def put(self, node: str, part: _Part | None) -> None:
        """Replace the part of a node."""
        before = self.parts.pop(node, None)
        for sign, each in ((-1, before), (1, part)):
            if each is not None:
                self.sums["used"] += sign * each.used
                self.sums["total"] += sign * each.total
                self.sums["unusable"] += sign * each.unusable
                for state in each.states:
                    self.states[state] += sign
        if part is not None:
            self.parts[node] = part
        if (before is None) != (part is None):
            self._order = None


_NO_NODE: Final = NodeState("", (), {}, (), {}, 0)
"""Stands for the nodes that the reader may not see."""


class MapView:
    """The map in one browser: ``show`` a picture, and send the events that it returns."""

    def __init__(self, query: Query, templates: MapTemplates, address: Callable[..., str]) -> None:
        """Begin with an empty map. ``address`` returns the address of the map with one group open or closed."""
        self.query = query
        self._templates = templates
        self._address = address
        self._scope = Visibility(frozenset(), frozenset(), nodes=False)
        self._is_new = True
        self._queues: frozenset[str] = frozenset()
        self._colours = Colouring(query.colour, ())
        self._nodes: tuple[NodeState, ...] = ()
        self._groups: dict[str, _Group] = {}
        self._groups_of: dict[str, tuple[str, ...]] = {}
        self._known: dict[Any, Any] = {}
        self._fresh: dict[tuple[str, str], Tile] = {}
        self._legend = Counter[LegendKey]()
        self._is_all_open = True
        self._tiles: dict[str, dict[str, tuple[NodeState, str]]] = {}
        self._heads: dict[str, str] = {}
        self._rest: dict[str, str] = {}
        self.labels: tuple[str, ...] = ()

    # -- pictures -----------------------------------------------------------------------------------------------------

    def show(self, scope: Visibility, picture: Picture) -> list[Event]:
        """Show something else. The events that do so where the former picture is shown."""
        queues = frozenset(queue.name for queue in picture.queues if scope.names_queue(queue.name))
        self.labels = picture.group_labels if scope.nodes else ()
        if self._is_new or scope != self._scope or queues != self._queues:
            return self._show_all(scope, queues, picture.nodes)
        touched: set[str] = set()
        for name, state in _changed(self._nodes, picture.nodes):
            touched |= self._put(name, state)
        self._nodes = picture.nodes
        events = [*self._differences(touched), *self._rest_events()] if touched else []
        self._fresh.clear()
        return events

    def _show_all(self, scope: Visibility, queues: frozenset[str], nodes: tuple[NodeState, ...]) -> list[Event]:
        """Show everything anew."""
        self._is_new, self._scope, self._queues = False, scope, queues
        self._nodes = nodes
        self._colours = Colouring(self.query.colour, queues)
        self._groups, self._groups_of, self._legend, self._known = {}, {}, Counter(), {}
        self._tiles, self._heads, self._rest = {}, {}, {}
        for state in nodes:
            self._put(state.name, state)
        self._is_all_open = not scope.nodes or sum(len(group.parts) for group in self._groups.values()) <= MOST_TILES
        for name in self._groups:
            self._make(name)
        self._fresh.clear()
        self._rest_events()
        return list(self.everything())

    def _node(self, name: str) -> NodeState:
        """Return a node."""
        return self._nodes[bisect_left(self._nodes, name, key=lambda state: state.name)]

    def _put(self, name: str, state: NodeState | None) -> set[str]:
        """Replace a node. Return the groups that it touches."""
        pairs = _pairs(state, self.query, self._scope, self._colours) if state is not None else ()
        parts = {}
        for group, part, tile in pairs:
            parts[group] = self._one(part)
            self._fresh[group, name] = tile
        touched = {*self._groups_of.pop(name, ()), *parts}
        if parts:
            self._groups_of[name] = self._one(tuple(parts))
        for group in touched:
            found = self._groups.setdefault(group, _Group())
            self._count(found.parts.get(name), -1)
            self._count(parts.get(group), 1)
            found.put(name, parts.get(group))
            if not found.parts:
                del self._groups[group]
        return touched

    def _one(self, value: Any) -> Any:
        """Return the one object that stands for all equal values."""
        if len(self._known) > _MOST_KNOWN:
            self._known.clear()
        return self._known.setdefault(value, value)

    def _count(self, part: _Part | None, sign: int) -> None:
        for key, count in part.legend if part is not None else ():
            self._legend[key] += sign * count
            if not self._legend[key]:
                del self._legend[key]

    # -- HTML ---------------------------------------------------------------------------------------------------------

    def _make(self, name: str) -> None:
        """Make the HTML of a group. Tiles of nodes that are the same objects as before are the same text."""
        known = self._tiles.get(name, {})
        self._tiles[name] = {}
        if self._is_open(name):
            shown = self._named_tiles(name, known) if self._has_names else self._own_tile(name)
            self._tiles[name] = dict(shown)
        self._make_head(name)

    def _named_tiles(
        self, name: str, known: Mapping[str, tuple[NodeState, str]]
    ) -> Iterator[tuple[str, tuple[NodeState, str]]]:
        """Yield the nodes of a group with their tiles."""
        for node in self._groups[name].order[:MOST_TILES]:
            state = self._node(node)
            before = known.get(node)
            if before is None or before[0] is not state:
                tile = self._fresh.get((name, node)) or tiles_of(state, self.query, self._scope, self._colours)[name]
                before = state, self._templates.tile(tile=tile)
            yield node, before

    def _own_tile(self, name: str) -> Iterator[tuple[str, tuple[NodeState, str]]]:
        """Yield one tile with all cards of the reader in a group, without names of nodes."""
        states = [state for state in self._nodes if name in self._groups_of.get(state.name, ())]
        tiles = [
            tiles_of(state, self.query, self._scope, self._colours)[name] for state in states if self._has_own(state)
        ]
        own = tuple(_joined(run for tile in tiles for run in tile.runs))
        if own:
            tile = Tile(tile_id("own", name), "", (), 0, None, 0, 0, own, ())
            yield "", (_NO_NODE, self._templates.tile(tile=tile))

    def _make_head(self, name: str) -> None:
        group, is_open = self._groups[name], self._is_open(name)
        more = max(0, len(group.parts) - MOST_TILES) if is_open and self._has_names else 0
        head = GroupHead(
            group_id(name),
            name,
            len(group.parts),
            group.sums["used"],
            group.sums["total"],
            group.sums["unusable"],
            tuple(sorted((state, count) for state, count in group.states.items() if count)),
            is_open,
            more,
        )
        self._heads[name] = self._templates.group(
            head=head, address=self._address(name, is_open=is_open), can_close=not self._is_all_open
        )

    @property
    def _has_names(self) -> bool:
        return self._scope.nodes

    def _is_open(self, name: str) -> bool:
        return self._is_all_open or name in self.query.open

    def _has_own(self, state: NodeState) -> bool:
        """True if cards of a node may be those of pods that the reader may see."""
        if any(cards.sort == "device" and cards.used for cards in state.cards):
            return True
        return any(self._scope.names(pod.partition("/")[0]) for pod in state.owners)

    def _group_html(self, name: str, tiles: Iterable[tuple[NodeState, str]] | None = None) -> str:
        """Return a group with some of its tiles, by default with all."""
        html = "\n".join(html for _, html in (self._tiles[name].values() if tiles is None else tiles))
        body = f'<ul class="node-tiles" id="{group_id(name)}-tiles">\n{html}\n</ul>' if html else ""
        return f'<section class="nodes" id="{group_id(name)}">{self._heads[name]}{body}</section>'

    def everything(self) -> Iterator[Event]:
        """Yield the events that show everything, whatever is shown: some tiles each, so that none is large."""
        yield "map", "<!-- the groups follow -->"
        for name in sorted(self._groups, key=natural):
            tiles = list(self._tiles[name].values())
            first = f'<div hx-swap-oob="beforeend:#map">{self._group_html(name, tiles[:_AT_ONCE])}</div>'
            yield "new", first
            for start in range(_AT_ONCE, len(tiles), _AT_ONCE):
                html = "\n".join(html for _, html in tiles[start : start + _AT_ONCE])
                yield "new", f'<ul hx-swap-oob="beforeend:#{group_id(name)}-tiles">{html}</ul>'
        yield from self._rest.items()

    @property
    def html(self) -> str:
        """Return the groups with their nodes."""
        return "\n".join(self._group_html(name) for name in sorted(self._groups, key=natural))

    @property
    def legend(self) -> str:
        """Return the legend."""
        return self._rest.get("legend", "")

    @property
    def caption(self) -> str:
        """Return the words above the map."""
        return self._rest.get("said", "")

    @property
    def digest(self) -> str:
        """Return a short name of what is shown."""
        return hashlib.sha256("\0".join([self.html, *self._rest.values()]).encode()).hexdigest()[:16]

    # -- what changes -------------------------------------------------------------------------------------------------

    def _differences(self, touched: set[str]) -> list[Event]:
        """Return the events for groups of which nodes changed, came or went."""
        gone = sorted(name for name in touched if name not in self._groups and name in self._heads)
        for name in gone:
            del self._tiles[name], self._heads[name]
        new = sorted((name for name in touched if name in self._groups and name not in self._heads), key=natural)
        changed = [html for name in sorted(touched - {*new}) if name in self._groups for html in self._changes_of(name)]
        for name in new:
            self._make(name)
        events = [
            ("gone", "\n".join(f'<section id="{group_id(name)}" hx-swap-oob="delete"></section>' for name in gone)),
            ("new", "\n".join(map(self._insertion, new))),
            ("changed", "\n".join(changed)),
        ]
        return [(event, html) for event, html in events if html]

    def _insertion(self, name: str) -> str:
        """Return the HTML that puts a new group behind the one before it."""
        names = sorted(self._heads, key=natural)
        at = names.index(name)
        place = f"afterend:#{group_id(names[at - 1])}" if at else "afterbegin:#map"
        return f'<div hx-swap-oob="{place}">{self._group_html(name)}</div>'

    def _changes_of(self, name: str) -> Iterable[str]:
        """Return the HTML of what changed in a group: its head and tiles, or the group if it has other nodes."""
        head, tiles = self._heads[name], self._tiles[name]
        self._make(name)
        if list(tiles) != list(self._tiles[name]):
            return [self._group_html(name).replace("<section ", '<section hx-swap-oob="true" ', 1)]
        found = [html for node, (_, html) in self._tiles[name].items() if html != tiles[node][1]]
        changed = [html.replace("<li ", '<li hx-swap-oob="true" ', 1) for html in found]
        if head != self._heads[name]:
            changed.insert(0, self._heads[name].replace("<header ", '<header hx-swap-oob="true" ', 1))
        return changed

    def _rest_events(self) -> list[Event]:
        """Make legend and caption again. Return the events of those that changed."""
        entries = [LegendEntry(*key, count) for key, count in self._legend.items()]
        entries.sort(key=lambda entry: (entry.mark == UNNAMED, -entry.cards, entry.name))
        groups = self._groups.values()
        sums = {name: sum(group.sums[name] for group in groups) for name in ("used", "total", "unusable")}
        nodes = len(self._groups_of)
        made = {
            "legend": self._templates.legend(
                entries=entries[:MOST_LEGEND], more=max(0, len(entries) - MOST_LEGEND), query=self.query
            ),
            "said": self._templates.caption(nodes=nodes, groups=len(self._groups), query=self.query, **sums),
        }
        events = [(name, html) for name, html in made.items() if html != self._rest.get(name)]
        self._rest = made
        return events


def _joined(runs: Iterable[Run]) -> Iterator[Run]:
    """Yield one run for each holder, whatever cards it has."""

    def who(run: Run) -> str:
        return run.label.partition(": ")[2]

    for holder, found in groupby(sorted(runs, key=who), who):
        same = list(found)
        count = sum(run.count for run in same)
        yield replace(same[0], count=count, label=f"{count} {'card' if count == 1 else 'cards'}: {holder}")


def _changed(before: Sequence[NodeState], after: Sequence[NodeState]) -> Iterator[tuple[str, NodeState | None]]:
    """Yield the nodes that are not the same objects as before, None for those that are gone."""
    if len(before) == len(after) and all(a.name == b.name for a, b in zip(before, after, strict=True) if a is not b):
        yield from ((b.name, b) for a, b in zip(before, after, strict=True) if a is not b)
        return
    known = {state.name: state for state in before}
    for state in after:
        if known.pop(state.name, None) is not state:
            yield state.name, state
    yield from ((name, None) for name in known)
