"""What is shown of reservations: numbers by queue, what is idle on held nodes, and a table of who was promised what."""

from __future__ import annotations

from collections.abc import Callable

from actions.reserve.book import Book, Reservation
from volsched.framework.quota_report import RESERVATIONS, QuotaRow, QuotaTable
from volsched.model.held_nodes import stamp
from volsched.model.values.quantity import in_base_units
from volsched.model.values.series import Numbers


def by_queue(book: Book, number: Callable[[Reservation], float]) -> Numbers:
    """Return a number of each reservation, summed by queue."""
    found: dict[tuple[str, ...], float] = {}
    for reservation in book.kept.values():
        key = (reservation.job.queue,)
        found[key] = found.get(key, 0.0) + number(reservation)
    return found


def late(reservation: Reservation) -> float:
    """Return by how many seconds a start is later than it was first promised."""
    if reservation.first is None or reservation.start is None:
        return 0.0
    return max(0.0, reservation.start - reservation.first)


def idle(book: Book) -> Numbers:
    """Return what is free on nodes that are held, by resource, in cores, bytes or whole devices."""
    found: dict[tuple[str, ...], float] = {}
    for resource, amount in book.idle():
        found[resource,] = found.get((resource,), 0.0) + in_base_units(resource, amount)
    return found


def held(book: Book) -> dict[str, float]:
    """Return the nodes that are held: all free cards there are promised."""
    return {name: 1.0 for reservation in book.kept.values() for name in reservation.nodes}


def table(book: Book) -> QuotaTable:
    """Return who was promised which nodes, when that was stated and when it starts, in the order of promises."""
    rows = [
        QuotaRow(
            (reservation.job.queue, reservation.job.label),
            {
                "promised": stamp(reservation.at),
                "start": stamp(reservation.start) if reservation.start is not None else None,
                "nodes": ", ".join(reservation.nodes),
            },
        )
        for reservation in book.kept.values()
    ]
    return QuotaTable(RESERVATIONS, "Reservations", ("queue", "job"), ("promised", "start", "nodes"), rows)
