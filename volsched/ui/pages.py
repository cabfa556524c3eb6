"""From a picture to HTML: whole pages, and the rows of a view by name, of which those that differ are sent."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined

from volsched.asking.records import Figures, QueueState
from volsched.model.values.quantity import parse
from volsched.ui.picture import Picture

VIEWS: Final = ("queues", "cards", "waiting")
"""The views that are followed live."""

Filters = Mapping[str, str]


def percent(figures: Figures) -> int | None:
    """Return which part of its quota is used, 100 at most; None without a quota."""
    if figures.quota is None:
        return None
    quota, used = parse(figures.quota), parse(figures.used)
    return min(100, int(100 * used / quota)) if quota else 100


def age(since: float | None) -> str:
    """Return how long ago a moment was, in one unit."""
    if since is None:
        return ""
    seconds = max(0, int(time.time() - since))
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"


def row_id(*names: str) -> str:
    """Return what a row is called in HTML, whatever its object is called."""
    return "row-" + hashlib.sha256("\0".join(names).encode()).hexdigest()[:16]


def environment() -> Environment:
    """Return the templates; everything that they print is escaped."""
    made = Environment(loader=PackageLoader("volsched.ui"), autoescape=True, undefined=StrictUndefined)
    made.filters.update(percent=percent, age=age, moment=_moment)
    made.trim_blocks = made.lstrip_blocks = True
    return made


def _moment(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))


@dataclass(frozen=True, slots=True)
class Pages:
    """Renders views."""

    templates: Environment = field(default_factory=environment)

    def page(self, template: str, /, **values: Any) -> str:
        """Return a whole page, or a part of one."""
        return self.templates.get_template(f"{template}.html").render(view=template, **values)

    def rows(self, view: str, picture: Picture, filters: Filters) -> dict[str, str]:
        """Return the rows of a view in order, by their names."""
        template = self.templates.get_template(f"{view}_row.html")
        return {
            name: template.render(id=name, picture=picture, **values).strip()
            for name, values in _rows_of(view, picture, filters)
        }


def _rows_of(view: str, picture: Picture, filters: Filters) -> Iterator[tuple[str, dict[str, Any]]]:
    if view == "queues":
        for queue, depth in tree(picture.queues):
            yield row_id("queue", queue.name), {"queue": queue, "depth": depth}
    elif view == "cards":
        for cards in picture.cards:
            yield row_id("cards", cards.model, cards.node, cards.sort), {"cards": cards}
    else:
        for job in picture.waiting:
            if _is_meant(job, filters):
                yield row_id("job", job.namespace, job.name), {"job": job}


def _is_meant(job: Any, filters: Filters) -> bool:
    return all(
        filters.get(name, "").lower() in getattr(job, name if name != "reason" else "message").lower()
        for name in ("namespace", "queue", "reason")
    )


def tree(queues: Iterable[QueueState]) -> Iterator[tuple[QueueState, int]]:
    """Yield queues with their depth, parents before children; one whose parent is not there stands at the top."""
    by_parent: dict[str, list[QueueState]] = {}
    known = {queue.name: queue for queue in queues}
    for queue in known.values():
        parent = queue.parent if queue.parent in known and queue.parent != queue.name else ""
        by_parent.setdefault(parent, []).append(queue)

    def below(name: str, depth: int) -> Iterator[tuple[QueueState, int]]:
        for queue in sorted(by_parent.pop(name, ()), key=lambda queue: queue.name):
            yield queue, depth
            yield from below(queue.name, depth + 1)

    yield from below("", 0)
    for name in sorted(by_parent):  # circles, which the scheduler refuses, too
        yield from below(name, 0)
