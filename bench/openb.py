"""A trace of a real cluster with cards, and lists of pods derived from it.

Files are those of Alibaba's cluster-trace-gpu-v2023: ``openb_node_list_gpu_node.csv`` and ``openb_pod_list_NAME.csv``.
A list that is not there is derived from ``default``, and its name gets a star: ``gpushareNN`` (NN percent of the demand
for cards is in parts of one), ``multigpuNN`` (NN percent is of pods with several cards) and ``cpuNNN`` (NNN of a
thousand pods want no card).
"""

from __future__ import annotations

import csv
import random
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle
from pathlib import Path
from typing import Final, NamedTuple

NODES: Final = "openb_node_list_gpu_node.csv"
CARD: Final = 1000
"""A whole card, as parts of cards count."""
_DERIVED: Final = re.compile(r"(gpushare|multigpu|cpu)([0-9]+)\*?")


class Machine(NamedTuple):
    """A node: thousandths of a core, MiB, cards, and their model."""

    name: str
    cpu: int
    memory: int
    cards: int
    model: str


class Wish(NamedTuple):
    """What a pod wants: ``share`` thousandths of each of ``cards``; ``models`` that would do, none for any."""

    cpu: int
    memory: int
    cards: int
    share: int
    models: tuple[str, ...]

    @property
    def demand(self) -> int:
        """Thousandths of cards in all."""
        return self.cards * self.share


def machines(folder: Path, seed: int) -> list[Machine]:
    """Read the nodes with cards, in the order of names that a seed gives them."""
    with (folder / NODES).open() as file:
        rows = sorted(csv.DictReader(file), key=lambda row: row["sn"])
    order = random.Random(seed + 1000).sample(range(len(rows)), len(rows))  # noqa: S311 - a bench
    named = sorted(zip(order, rows, strict=True), key=lambda pair: pair[0])
    return [
        Machine(f"{n:04d}-{row['sn']}", int(row["cpu_milli"]), int(row["memory_mib"]), int(row["gpu"]), row["model"])
        for n, row in named
        if int(row["gpu"])
    ]


def wishes(folder: Path, name: str) -> tuple[str, list[Wish]]:
    """Read or derive a list of pods; its name has a star when it was derived."""
    path = folder / f"openb_pod_list_{name}.csv"
    if path.exists():
        return name, _read(path)
    found = _DERIVED.fullmatch(name)
    if found is None:
        raise SystemExit(f"{path} does not exist, and only gpushareNN, multigpuNN and cpuNNN can be derived")
    sort, share = found[1], int(found[2])
    return f"{name.rstrip('*')}*", derived(_read(folder / "openb_pod_list_default.csv"), sort, share)


def derived(rows: Sequence[Wish], sort: str, share: int) -> list[Wish]:
    """Return the pods with so many of a sort among them: percent of the demand, or of a thousand pods without cards."""
    if sort == "cpu":
        return _mixed(rows, lambda wish: not wish.cards, lambda _: 1, share / 1000)
    if sort == "gpushare":
        return _mixed(rows, lambda wish: 0 < wish.demand < CARD, lambda wish: wish.demand, share / 100)
    return _mixed(rows, lambda wish: wish.cards > 1, lambda wish: wish.demand, share / 100)


def _mixed(
    rows: Sequence[Wish], is_meant: Callable[[Wish], bool], size: Callable[[Wish], int], share: float
) -> list[Wish]:
    """Repeat those that are meant until they are such a share; as many of a thousand pods as before want no card."""
    meant, others = [r for r in rows if is_meant(r)], [r for r in rows if not is_meant(r)]
    if share >= 1:
        return _with_others(meant, [r for r in others if not r.cards], rows)
    wanted, found = share / (1 - share) * sum(map(size, others)), 0
    kept = []
    for wish in cycle(meant):
        if found >= wanted:
            break
        kept.append(wish)
        found += size(wish)
    return [*others, *kept]


def _with_others(kept: list[Wish], without: list[Wish], rows: Sequence[Wish]) -> list[Wish]:
    return [*kept, *without[: len(without) * len(kept) // (len(rows) - len(without))]]


def _read(path: Path) -> list[Wish]:
    with path.open() as file:
        return [_wish(row) for row in csv.DictReader(file)]


def _wish(row: dict[str, str]) -> Wish:
    cards = int(row["num_gpu"])
    models = tuple(m for m in (row.get("gpu_spec") or "").split("|") if m) if cards else ()
    return Wish(int(row["cpu_milli"]), int(row["memory_mib"]), cards, int(row["gpu_milli"]) if cards else 0, models)


def arrivals(rows: Sequence[Wish], most: float, seed: int) -> Iterator[Wish]:
    """Yield pods, shuffled, then drawn again, until the next one would pass so many thousandths of cards."""
    rng, total = random.Random(seed), 0  # noqa: S311 - a bench
    order = list(rows)
    rng.shuffle(order)
    while True:
        for wish in order:
            if total + wish.share > most:
                return
            total += wish.demand
            yield wish
        order = [rng.choice(rows) for _ in rows]
