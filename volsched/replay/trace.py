"""Jobs from a CSV file: one line a job, and every fault reported with its line and column."""

from __future__ import annotations

import csv
import difflib
import io
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from volsched.model import api
from volsched.model.errors import QuantityError, shortened
from volsched.model.values.quantity import QuantityText, amount_of
from volsched.replay.jobs import LONGEST_JOB, LONGEST_TRACE, ReplayJob, Role
from volsched.simulation.documents import InputError, InputProblem, read_text
from volsched.simulation.manifests import Inventory

CARD_NAME: Final = "volcano.sh/card.name"
"""The annotation by which a pod names the card models that it takes."""

REQUIRED: Final = ("name", "submit_s", "duration_s")
COLUMNS: Final = (
    *REQUIRED, "namespace", "queue", "declared_s", "pods", "min_pods", "priority", "card",
)  # fmt: skip
"""The names of columns. Any other one is a resource, in amounts of one pod."""

_PLAIN_RESOURCES: Final = ("cpu", "memory", "ephemeral-storage")
_MOST_PODS: Final = 100_000
_LONGEST_TEXT: Final = 64
"""Characters of a field that a fault shows."""


def read_trace(path: str, scheduler: str, inventory: Inventory) -> tuple[list[ReplayJob], list[api.PriorityClass]]:
    """Return what ``parse_trace`` finds in a file."""
    return parse_trace(read_text(path), path, scheduler, inventory)


def parse_trace(
    text: str, path: str, scheduler: str, inventory: Inventory
) -> tuple[list[ReplayJob], list[api.PriorityClass]]:
    """Return the jobs of a CSV text, and PriorityClasses for the priorities that it names; InputError with all faults.

    ``path`` is where it is from, ``scheduler`` the schedulerName of the pods; their queues must be in the inventory.
    """
    rows = _rows_of(text, path)
    _, header = next(rows, (1, []))
    problems = [InputProblem(path, "line 1", "", column, message) for column, message in _header_faults(header)]
    if problems:
        raise InputError(problems)
    queues = {"default", *(queue.metadata.name for queue in inventory.of(api.Queue))}
    reader = _TraceReader(path, header, scheduler, queues)
    jobs = [job for line, row in rows if row and (job := reader.job(row, line)) is not None]
    if reader.problems:
        raise InputError(reader.problems)
    return jobs, [priority_class(value) for value in sorted(reader.priorities)]


def _rows_of(text: str, path: str) -> Iterator[tuple[int, list[str]]]:
    """Return each row with the number of its last line. Raises InputError where the text is no CSV."""
    rows = csv.reader(io.StringIO(text, newline=""))
    try:
        for row in rows:
            yield rows.line_num, row
    except csv.Error as error:
        raise InputError([InputProblem(path, f"line {rows.line_num}", "", "", f"is no CSV: {error}")]) from error


def priority_class(value: int) -> api.PriorityClass:
    """Return a PriorityClass for a number."""
    return api.PriorityClass(metadata=api.ObjectMeta(name=f"replay-{value}", uid=f"replay-{value}"), value=value)


def _header_faults(header: Sequence[str]) -> Iterator[tuple[str, str]]:
    for name in REQUIRED:
        if name not in header:
            yield name, f"the column is missing; a trace has at least {', '.join(REQUIRED)}"
    for number, name in enumerate(header):
        if name in header[:number]:
            yield name, "the column is there twice"
        if name not in COLUMNS and name not in _PLAIN_RESOURCES and "/" not in name:
            close = difflib.get_close_matches(name, (*COLUMNS, *_PLAIN_RESOURCES), n=1)
            meant = f"; did you mean {close[0]}?" if close else f"; columns are {', '.join(COLUMNS)} and resources"
            yield name, f"is no column and no resource{meant}"


class _FieldFaultError(Exception):
    """A field cannot be read: its column, and why."""

    def __init__(self, column: str, message: str) -> None:
        super().__init__(message)
        self.column, self.message = column, message


class _TraceReader:
    """Reads the lines of one file. Lines that ask for the same share a template."""

    def __init__(self, path: str, header: Sequence[str], scheduler: str, queues: Collection[str]) -> None:
        self.problems: list[InputProblem] = []
        self.priorities: set[int] = set()
        self._path = path
        self._header = header
        self._scheduler = scheduler
        self._queues = queues
        self._resources = [name for name in header if name not in COLUMNS]
        self._roles: dict[tuple[str, ...], Role] = {}
        self._lines: dict[str, int] = {}

    def job(self, row: Sequence[str], line: int) -> ReplayJob | None:
        """Return the job of one line; None, and a problem more, when it cannot be read."""
        try:
            return self._job(row, line)
        except _FieldFaultError as fault:
            self.problems.append(InputProblem(self._path, f"line {line}", "", fault.column, fault.message))
            return None

    def _job(self, row: Sequence[str], line: int) -> ReplayJob:
        if len(row) != len(self._header):
            raise _FieldFaultError("", f"has {len(row)} fields, the header has {len(self._header)}")
        found = dict(zip(self._header, row, strict=True))
        pods = _whole(found, "pods", default=1, least=1, most=_MOST_PODS)
        priority = found.get("priority", "")
        return ReplayJob(
            name=self._name(found, line),
            namespace=found.get("namespace") or "default",
            queue=self._queue(found),
            submit=_seconds(found, "submit_s", LONGEST_TRACE),
            duration=_seconds(found, "duration_s", LONGEST_JOB),
            declared=_seconds(found, "declared_s", LONGEST_JOB) if found.get("declared_s") else None,
            min_pods=_whole(found, "min_pods", default=pods, least=1, most=pods),
            priority_class=self._priority(found) if priority else "",
            roles=(self._role(found, pods),),
        )

    def _name(self, found: Mapping[str, str], line: int) -> str:
        name = found["name"]
        if not name:
            raise _FieldFaultError("name", "is missing")
        first = self._lines.setdefault(f"{found.get('namespace') or 'default'}/{name}", line)
        if first != line:
            raise _FieldFaultError("name", f"{_shortened(name)} is there already, in line {first}")
        return name

    def _queue(self, found: Mapping[str, str]) -> str:
        queue = found.get("queue") or "default"
        if queue not in self._queues:
            raise _FieldFaultError(
                "queue", f"there is no Queue {_shortened(queue)} among the manifests; add it to what -f names"
            )
        return queue

    def _priority(self, found: Mapping[str, str]) -> str:
        value = _whole(found, "priority", default=0, least=-(2**31), most=2**31 - 1)
        self.priorities.add(value)
        return priority_class(value).metadata.name

    def _role(self, found: Mapping[str, str], pods: int) -> Role:
        asked = tuple(found[name] for name in self._resources)
        key = (*asked, found.get("card", ""), found.get("priority", ""), str(pods))
        if key not in self._roles:
            self._roles[key] = Role.of(self._template(found), pods)
        return self._roles[key]

    def _template(self, found: Mapping[str, str]) -> api.PodTemplateSpec:
        requests: dict[str, QuantityText] = {name: found[name] for name in self._resources if found[name]}
        for name, text in requests.items():
            _check_quantity(name, text)
        container = api.Container(name="main", resources=api.ResourceRequirements(requests=requests, limits=requests))
        priority = int(found["priority"]) if found.get("priority") else None
        annotations = {CARD_NAME: found["card"]} if found.get("card") else {}
        return api.PodTemplateSpec(
            metadata=api.ObjectMeta(annotations=annotations),
            spec=api.PodSpec(containers=(container,), scheduler_name=self._scheduler, priority=priority),
        )


def _check_quantity(name: str, text: QuantityText) -> None:
    try:
        amount = amount_of(name, text)
    except QuantityError as error:
        raise _FieldFaultError(name, str(error)) from error
    if amount < 0:
        raise _FieldFaultError(name, f"{_shortened(str(text))} is negative")


def _seconds(found: Mapping[str, str], column: str, most: float) -> float:
    text = found[column]
    try:
        value = float(text)
    except ValueError:
        raise _FieldFaultError(column, f"{_shortened(text)!r} is no number of seconds") from None
    if not 0 <= value <= most:
        raise _FieldFaultError(column, f"{_shortened(text)} must be a number of seconds from 0 to {most:.0f}")
    return value


def _whole(found: Mapping[str, str], column: str, *, default: int, least: int, most: int) -> int:
    text = found.get(column, "")
    if not text:
        return default
    try:
        value = int(text)
    except ValueError:
        raise _FieldFaultError(column, f"{_shortened(text)!r} is no whole number") from None
    if not least <= value <= most:
        raise _FieldFaultError(column, f"{_shortened(text)} must be from {least} to {most}")
    return value


def _shortened(text: str) -> str:
    return shortened(text, _LONGEST_TEXT)
