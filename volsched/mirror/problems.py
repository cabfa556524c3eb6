"""The unreadable fields of objects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from volsched.mirror import reading
from volsched.mirror.events import MirrorEvents
from volsched.model import api, labels
from volsched.model.dra import api as dra
from volsched.model.plan import RecordEvent

_API_VERSIONS: Final = {kind: version for version, kind in api.KINDS} | dict.fromkeys(dra.KINDS, dra.GROUP_VERSION)

NO_EFFECT: Final = "it has no effect"


@dataclass(frozen=True, slots=True)
class ReadingProblem:
    """A field of an object that could not be read. ``outcome`` states what that comes to."""

    kind: str
    namespace: str
    name: str
    uid: str
    field: str
    message: str
    outcome: str = "it counts as 0"

    def event(self) -> RecordEvent:
        """Return the Event on the object."""
        message = f"{self.field}: {self.message}; {self.outcome}"
        version = _API_VERSIONS[self.kind]
        return RecordEvent(self.kind, version, self.namespace, self.name, self.uid, "Warning", "InvalidField", message)


@dataclass(frozen=True, slots=True)
class ReadingProblems:
    """Reports problems by object and field, each once."""

    _events: MirrorEvents

    def reporter(self, kind: str, found: api.ApiObject, outcome: str = "it counts as 0") -> reading.Report:
        """Return what takes the problems of one object: called with the field and the message."""
        meta = found.metadata

        def report(path: str, message: str) -> None:
            problem = ReadingProblem(kind, meta.namespace, meta.name, meta.uid, path, message, outcome)
            self._events.report(problem, problem)

        return report

    def report_labels(self, kind: str, found: api.ApiObject) -> None:
        """Take a problem if an object has more labels than are looked at."""
        if labels.are_too_many(found.metadata.labels):
            self.reporter(kind, found, labels.FIRST)("metadata.labels", labels.TOO_MANY)
