"""What could not be read of objects, until somebody tells it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from volsched.mirror import reading
from volsched.model import api, labels
from volsched.model.values.bounded import Bounded

MOST_PROBLEMS: Final = 4096
"""Fields that could not be read and that nobody was told of yet; a follower tells nobody for as long as it follows."""

NO_EFFECT: Final = "it has no effect"


@dataclass(frozen=True, slots=True)
class ReadingProblem:
    """A field of an object that could not be read; ``outcome`` states what that comes to."""

    kind: str
    namespace: str
    name: str
    uid: str
    field: str
    message: str
    outcome: str = "it counts as 0"


class ReadingProblems:
    """Problems by object and field, each once."""

    def __init__(self) -> None:
        self._found: Bounded[ReadingProblem, None] = Bounded(MOST_PROBLEMS)

    def __len__(self) -> int:
        return len(self._found)

    def reporter(self, kind: str, found: api.ApiObject, outcome: str = "it counts as 0") -> reading.Report:
        """Return what takes the problems of one object: called with the field and the message."""
        meta = found.metadata

        def report(path: str, message: str) -> None:
            self._found[ReadingProblem(kind, meta.namespace, meta.name, meta.uid, path, message, outcome)] = None

        return report

    def report_labels(self, kind: str, found: api.ApiObject) -> None:
        """Take a problem if an object has more labels than are looked at."""
        if labels.are_too_many(found.metadata.labels):
            self.reporter(kind, found, labels.FIRST)("metadata.labels", labels.TOO_MANY)

    def take(self) -> list[ReadingProblem]:
        """Return the problems found since this was last called."""
        found = list(self._found)
        self._found.clear()
        return found
