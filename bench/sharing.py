"""How long it takes to find the best cards for the containers of a pod (plugin mgpu), on one node.

Random cards and random shares; nothing is remembered from one search to the next. ``best`` is what a node is asked for
its score, ``place`` also says which cards. In milliseconds of CPU: the middle and the worst of all draws.

  empty       all cards idle: the most combinations
  different   no two cards in the same state
  tight       little is free: most combinations do not fit
"""

from __future__ import annotations

import gc
import random
from collections.abc import Iterator

from bench.common import Report, Stopwatch, parser, quantile
from plugins.mgpu import placement
from plugins.mgpu.devices import FreeCard, NodeCardState
from plugins.mgpu.placement import CardPlacementSearch, ContainerRequest, alike
from plugins.mgpu.scoring import Strategy

MEMORY = 16384
SIZES = ((8, 1, 1), (8, 2, 1), (16, 5, 1), (16, 8, 1), (16, 6, 2), (16, 4, 4), (16, 8, 4))
"""Cards of the node, containers of the pod, cards of each container."""


def a_card(rng: random.Random, kind: str) -> FreeCard:
    """Draw a card."""
    if kind == "empty":
        return FreeCard(100, MEMORY)
    if kind == "tight":
        return FreeCard(rng.randint(10, 60), rng.randint(1000, 9000), rng.randint(1, 5))
    return FreeCard(rng.randint(20, 100), rng.randint(4000, MEMORY), rng.randint(0, 3))


def a_problem(
    rng: random.Random, kind: str, cards: int, containers: int, each: int
) -> tuple[NodeCardState, tuple[ContainerRequest, ...]]:
    """Draw a node and a pod."""
    most = rng.choice((12, 25, 60))
    state = NodeCardState(MEMORY, tuple(a_card(rng, kind) for _ in range(cards)))
    return state, tuple(ContainerRequest(each, rng.randint(1, most), rng.randint(256, 4000)) for _ in range(containers))


def searched(kind: str, size: tuple[int, int, int], draws: int) -> Iterator[tuple[float, float, bool]]:
    """Yield for each draw how long both questions took, and whether the search was given up."""
    for seed in range(draws):
        rng = random.Random(seed)  # noqa: S311 - a bench
        state, asks = a_problem(rng, kind, *size)
        search = CardPlacementSearch(Strategy(packs=bool(seed % 2)))
        placement.forget()
        watch = Stopwatch()
        search.best(alike(state), tuple(sorted(asks)))
        best = watch.cpu()
        search.place(state, asks)
        yield best * 1000, watch.cpu() * 1000, search.truncations > 0


def main() -> None:
    """Run the bench."""
    options = parser(__doc__)
    options.add_argument("--draws", type=int, default=100)
    given = options.parse_args()
    report = Report("sharing", "the best cards for all containers of a pod")
    gc.freeze()
    for size in SIZES:
        for kind in ("empty", "different", "tight"):
            found = list(searched(kind, size, given.draws))
            report.add(
                cards=size[0],
                containers=size[1],
                each=size[2],
                node=kind,
                best=quantile([best for best, _, _ in found], 0.5),
                place=quantile([both for _, both, _ in found], 0.5),
                worst=max(both for _, both, _ in found),
                truncated=sum(given_up for _, _, given_up in found),
            )
    report.note("each: cards of each container; truncated: searches that were given up at their limit")
    report.finish()


if __name__ == "__main__":
    main()
