"""The nodes that a scheduler sees, if it is to see only some (`--node-selector`, as Volcano's scheduler has it)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from volsched.model import api
from volsched.model.changes import Change, Deleted, Put

Label = tuple[str, str]


class NodeSelection:
    """Passes nodes that have one of the labels, every node without labels, and all other changes.

    A node that loses its last such label is reported as gone. An unseen node is not reported, so its heartbeats cost no
    session.
    """

    def __init__(self, labels: Iterable[Label]) -> None:
        self._labels = frozenset(labels)
        self._seen: set[str] = set()

    def of(self, changes: Sequence[Change]) -> Sequence[Change]:
        """Return what there is to see of some changes, in order."""
        return list(self._pick(changes)) if self._labels else changes

    def _pick(self, changes: Iterable[Change]) -> Iterator[Change]:
        for change in changes:
            if isinstance(change, Put) and isinstance(change.object, api.Node):
                yield from self._pick_node(change, change.object)
            else:
                yield change

    def _pick_node(self, change: Put, node: api.Node) -> Iterator[Change]:
        meta = node.metadata
        if not self._labels.isdisjoint(meta.labels.items()):
            self._seen.add(meta.name)
            yield change
        elif meta.name in self._seen:
            self._seen.discard(meta.name)
            yield Deleted("Node", "", meta.name, meta.uid)
