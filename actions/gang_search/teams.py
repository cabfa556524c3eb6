"""Teams: members that have to be in one topology domain. Domains are tried in turn.

A team is made of members that want to be near members with a label, one of which has that label itself: it may go
anywhere, and the others follow it. The rules about pods on nodes decide in the end; a team only says what to try.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from actions.gang_search.members import Kind, Wanted
from volsched.framework.session import Session
from volsched.model.nodes.node import NodeInfo
from volsched.model.pods.placement_rules import PodTerm
from volsched.model.pods.task import TaskInfo
from volsched.model.selectors import NAMESPACE_NAME


class Team(NamedTuple):
    """Kinds of members that have to be in one domain of a topology key. ``first`` is of those that may come first."""

    key: str
    first: Kind
    kinds: list[Kind]

    def has(self, kind: Kind) -> bool:
        """True if members of a kind are in the team."""
        return any(kind is other for other in self.kinds)


class Domain(NamedTuple):
    """The nodes with one value of a label, and their rows."""

    nodes: list[NodeInfo]
    rows: frozenset[int]


def teams_of(session: Session, wanted: Wanted) -> Iterator[Team]:
    """Yield the teams of a gang, in the order of their first members."""
    known: set[PodTerm] = set()
    for kind in wanted.kinds:
        for term in kind.first.template.affinity:
            if term not in known and _means(session, term, kind.first):
                known.add(term)
                near = [other for other in wanted.kinds if term in other.first.template.affinity]
                yield Team(term.topology_key, kind, near)


def _means(session: Session, term: PodTerm, task: TaskInfo) -> bool:
    described = session.labels_of_namespace(task.namespace)
    labels = {NAMESPACE_NAME: task.namespace} if described is None else described
    return term.matches(task.namespace, task.spec.labels, labels)


def domains_of(session: Session, team: Team) -> Iterator[Domain]:
    """Yield the domains where the first member of a team could go, in the order of its best nodes there."""
    by_value: dict[str, list[NodeInfo]] = {}
    for node in session.rows:
        by_value.setdefault(node.labels.get(team.key, ""), []).append(node)
    for value in dict.fromkeys(node.labels.get(team.key, "") for node in team.first.homes):
        if value:
            yield Domain(by_value[value], frozenset(node.row for node in by_value[value]))
