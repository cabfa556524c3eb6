"""`volsched cards --suggest-moves`: which pods to restart so that whole nodes of cards are free."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from volsched.cli.inputs.known import Progress, known
from volsched.cli.output import is_for_people, print_page, print_result
from volsched.diagnose.defragment import Moves, suggest_moves
from volsched.text_page import Part, section

SECONDS: Final = 60.0
"""For which sets of moves are tried; what was found until then is shown."""


def show_moves(paths: Sequence[str], flags: Mapping[str, Any], number: int, output: str) -> None:
    """Search, and print what was found."""
    end = time.monotonic() + SECONDS
    progress = Progress()
    found = known(paths, {**flags, "scheduler_names": (), "default_queue": ""}, progress)
    progress.begin("searching for moves")

    def has_time() -> bool:
        progress.tick()
        return time.monotonic() < end

    moves = suggest_moves(found, number, has_time)
    if not is_for_people(output):
        print_result(msgspec.to_builtins(moves), output)
    else:
        print_page(_page(moves, number), output)


def _page(moves: Moves, number: int) -> Iterator[Part]:
    yield _summary(moves, number)
    yield from section("Moves", _moves(moves) if moves.moves else ())
    yield from section("Passed over", _passed_over(moves) if moves.passed_over else ())


def _summary(moves: Moves, number: int) -> str:
    if not moves.nodes:
        return f"No set of moves frees all cards of a node ({moves.tried} tried)."
    pods, nodes = len(moves.moves), len(moves.nodes)
    of = f" of the {number} asked for" if nodes < number else ""
    opened = f"{nodes} node{'s' * (nodes > 1)}{of}: {', '.join(moves.nodes)}"
    return (
        f"Restart {pods} pod{'s' * (pods > 1)} to free all cards of {opened}. "
        f"Before: kubectl cordon {' '.join(moves.nodes)}"
    )


def _moves(moves: Moves) -> Iterator[Sequence[str]]:
    yield "POD", "WORKLOAD", "FROM", "TO"
    for move in moves.moves:
        yield move.pod, move.workload or "-", move.node, move.to


def _passed_over(moves: Moves) -> Iterator[Sequence[str]]:
    yield "NODE", "WHY"
    for each in moves.passed_over:
        yield each.node, each.why
