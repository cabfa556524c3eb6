"""Count requests by what they do, so that a test can state how many writes a pod may cost."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

NO_ANSWER = 0
"""The status of a request that got none."""

WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})


class RequestKind(NamedTuple):
    """What is counted together."""

    verb: str
    """A verb as in RBAC: get, list, watch, create, update, patch, delete, deletecollection."""
    shape: str
    """The path with ``*`` for names: ``/api/v1/namespaces/*/pods/*/binding``."""
    status: int
    """The API server's answer; the proxy's own, or NO_ANSWER, when it was not asked."""
    forwarded: bool
    """Whether the API server has got it. When it has, a client may still have been told something else."""


@dataclass(slots=True)
class Write:
    """One write that was sent on to the API server; of those that a fault kept from it there is none."""

    at: float
    """When it was sent on, in seconds of the monotonic clock."""
    verb: str
    path: str
    status: int = NO_ANSWER
    """The API server's answer; NO_ANSWER until there is one, and for ever when the client left before."""


class RequestCounts:
    """Counts since they were last cleared; and a journal of the writes, once it is asked for."""

    def __init__(self) -> None:
        self._counts: Counter[RequestKind] = Counter()
        self._journal: list[Write] | None = None

    def keep_journal(self) -> None:
        """Keep every write from now on, until `take_journal` takes it away."""
        self._journal = []

    def take_journal(self) -> list[Write]:
        """Return the writes since the last call, in the order in which they were sent on."""
        if self._journal is None:
            raise RuntimeError("no journal is kept")
        taken, self._journal = self._journal, []
        return taken

    def sending(self, method: str, path: str) -> Write | None:
        """Note a write that is about to be sent on; None when it is none, or no journal is kept."""
        verb = _verb(method, False, path_shape(path)[1])
        if self._journal is None or verb not in WRITES:
            return None
        written = Write(time.monotonic(), verb, path)
        self._journal.append(written)
        return written

    def add(self, method: str, path: str, *, is_watch: bool, status: int, forwarded: bool) -> None:
        """Count one request."""
        shape, is_named = path_shape(path)
        self._counts[RequestKind(_verb(method, is_watch, is_named), shape, status, forwarded)] += 1

    def clear(self) -> None:
        """Start again."""
        self._counts = Counter()

    def all(self) -> dict[RequestKind, int]:
        """Return a copy of the counts."""
        return dict(self._counts)

    def count(
        self,
        verb: str | None = None,
        shape: str = "",
        *,
        status: int | None = None,
        forwarded: bool | None = True,
    ) -> int:
        """Return how many requests fit; `shape` is the end of a path's shape, None fits everything."""
        return sum(
            number
            for kind, number in self.all().items()
            if verb in {None, kind.verb}
            and kind.shape.endswith(shape)
            and status in {None, kind.status}
            and forwarded in {None, kind.forwarded}
        )

    def writes(self, *, excluding: Collection[str] = ("/leases", "/leases/*", "/events", "/events/*")) -> int:
        """Return how many writes reached the API server, those to paths with the excluded ends aside."""
        ends = tuple(excluding)
        return sum(
            number
            for kind, number in self.all().items()
            if kind.forwarded and kind.verb in WRITES and not kind.shape.endswith(ends)
        )

    def table(self) -> str:
        """Return the counts as lines, the largest first, for the message of a failed assertion."""
        rows = sorted(self.all().items(), key=lambda row: (-row[1], row[0]))
        return "\n".join(
            f"{number:7d}  {kind.verb:16} {kind.shape}  {kind.status or 'no answer'}"
            f"{'' if kind.forwarded else '  (not forwarded)'}"
            for kind, number in rows
        )


def path_shape(path: str) -> tuple[str, bool]:
    """Return a path with ``*`` in place of names, and whether it names one object."""
    parts = path.strip("/").split("/")
    root = {"api": 2, "apis": 3}.get(parts[0])
    if root is None or len(parts) <= root:
        return path, True
    rest = parts[root:]
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in _NAMESPACE_SUBRESOURCES:
        base, rest = ["namespaces", "*"], rest[2:]
    else:
        base = []
    is_named = len(rest) > 1
    shaped = [rest[0], "*", *rest[2:]] if is_named else rest
    return "/" + "/".join([*parts[:root], *base, *shaped]), is_named


def _verb(method: str, is_watch: bool, is_named: bool) -> str:
    if method == "GET":
        return "watch" if is_watch else "get" if is_named else "list"
    if method == "DELETE" and not is_named:
        return "deletecollection"
    return _VERBS.get(method, method.lower())
