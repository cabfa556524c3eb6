"""Cards and requests as short texts: "70/11013/1, idle" and "30/4096 full2 2x25/2048"."""

from __future__ import annotations

from plugins.mgpu.devices import FreeCard, NodeCardState
from plugins.mgpu.placement import ContainerRequest, Lists

T4, M = 15109, 16384


def state(text: str, memory: int = M) -> NodeCardState:
    """Free core / free MiB / instances of each card, or ``idle``; ``3 idle`` stands for three of them."""
    cards: list[FreeCard] = []
    for part in text.split(", "):
        if part.endswith("idle"):
            cards += [FreeCard(100, memory)] * int(part.removesuffix("idle") or 1)
        else:
            cards.append(FreeCard(*map(int, part.split("/"))))
    return NodeCardState(memory, tuple(cards))


def asks(text: str) -> tuple[ContainerRequest, ...]:
    """What each container wants: ``core/MiB``, ``fullK``, or ``GxC/M`` for that much on each of G cards."""
    return tuple(_ask(part) for part in text.split())


def _ask(text: str) -> ContainerRequest:
    if text.startswith("full"):
        return ContainerRequest(int(text[4:]), 100)
    count, _, amounts = text.rpartition("x")
    core, memory = map(int, amounts.split("/"))
    return ContainerRequest(int(count or 1), core, memory)


def shown(lists: Lists | None) -> str | None:
    """The card lists of all containers, as "0,1 ; 2"."""
    return None if lists is None else " ; ".join(",".join(map(str, cards)) for cards in lists)
