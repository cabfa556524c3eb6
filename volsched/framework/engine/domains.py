"""Counts of pods by topology domain, for pod affinity and topology spreading.

These rules ask how many pods of some kind are in the domain of a node: in its zone, on its host. Looking through all
pods for each question is slow, so counts are kept for each (kind of pods, topology key, domain) that a rule asked
about. They follow every move of a task, and a move back restores them. A cluster without such rules keeps nothing and
pays one comparison for a move.

Terms: a *selection* is a kind of pods (a label selector in some namespaces); its *census* counts them; a *table* counts
them by domain. A *placed term* is the reverse: a term of a placed pod, which repels or attracts others.

``stamp`` changes when answers about other nodes than that of the moved task may have changed. It does not change for a
domain of a single node, because the row of that node is asked again anyway.

``Domains`` is one large class: all its tables follow the same move, and are right only together. ``placed_pods`` has
what it needs of nodes and of placed pods.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from volsched.framework.columns.arrays import Mask, Rows
from volsched.framework.columns.tables import PropertyColumns
from volsched.framework.engine.domain_counts import (
    Census,
    DomainTable,
    EligibleNodes,
    Finder,
    Labels,
    PlacedTerm,
    Selection,
    add_to,
)
from volsched.framework.engine.placed_pods import DomainNodes, PlacedTerms, PodIndex
from volsched.model.cluster import Cluster
from volsched.model.generations import ClusterEvent
from volsched.model.nodes.node import NodeInfo, NodeProperties
from volsched.model.observers import Observer
from volsched.model.pods.placement_rules import PodTerm, SpreadConstraint
from volsched.model.pods.task import TaskInfo
from volsched.model.pods.template import PodTemplate
from volsched.model.selectors import NAMESPACE_NAME, LabelSelector
from volsched.model.status import ON_NODE, TaskStatus

NAME = "framework.domains"
_MOST_CENSUSES = 4096
_MOST_ELIGIBLE = 512
_IDLE_TERMS = 256


class _TemplateTerms(NamedTuple):
    """The terms of a template that count wherever its pods are placed."""

    template: PodTemplate
    apart: tuple[PlacedTerm, ...]
    liked: tuple[tuple[PlacedTerm, int], ...]


class Near(NamedTuple):
    """The required terms of a template: domains with pods of one census, domains without pods of others."""

    template: PodTemplate
    affinity: tuple[DomainTable, ...]
    anti_affinity: tuple[DomainTable, ...]

    @property
    def tables(self) -> tuple[DomainTable, ...]:
        """Return all tables."""
        return self.affinity + self.anti_affinity


class Spread(NamedTuple):
    """A template's spread constraints of one kind, each with the table that it is judged by."""

    template: PodTemplate
    constraints: tuple[tuple[SpreadConstraint, DomainTable], ...]
    keys: tuple[str, ...]


class PreferredTerms(NamedTuple):
    """A template's own preferred terms, each with its table and weight (below 0 for anti-affinity)."""

    template: PodTemplate
    terms: tuple[tuple[DomainTable, int], ...]


class Domains(Observer):
    """The account: obtained with ``domains_of``, kept from session to session, following every change."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._namespaces_version = cluster.generations.namespace
        self._clock = 0
        self._nodes = DomainNodes(cluster)
        self._template_generation = cluster.generations.template
        self._censuses: dict[Selection, Census] = {}
        self._finder: Finder[Census] = Finder()
        self._index = PodIndex(cluster)
        self._apart = PlacedTerms()
        self._liked = PlacedTerms()
        self._near: dict[int, Near] = {}
        self._hard: dict[int, Spread] = {}
        self._soft: dict[int, Spread] = {}
        self._preferred_terms: dict[int, PreferredTerms] = {}
        self._claims: dict[int, _TemplateTerms] = {}
        self._next_claim = 0
        for task in cluster.tasks.values():
            if task.node is not None and ON_NODE[task.status] and _claims_anything(task.template):
                self._count_claims(task, task.node.spec, 1)

    # -- following the cluster ----------------------------------------------------------------------------------------

    def task_moved(self, task: TaskInfo, before: TaskStatus, node_before: NodeInfo | None) -> None:
        """Follow one task."""
        if not self._concerns(task):
            return
        self._follow_namespaces()
        status, node = task.status, task.node
        was = node_before if node_before is not None and ON_NODE[before] else None
        now = node if node is not None and ON_NODE[status] else None
        was_live = was is not None and before is not TaskStatus.RELEASING
        now_live = now is not None and status is not TaskStatus.RELEASING
        if was is not now:
            if was is not None:
                self._index.note(task, None)
                self._count(task, was.spec, -1, was_live)
            if now is not None:
                self._index.note(task, now)
                self._count(task, now.spec, 1, now_live)
        elif was is not None and was_live != now_live:
            for census in self._matching(task):
                if census.selection.live:
                    self._add(census, was.spec, 1 if now_live else -1)

    def run_allocated(self, tasks: Sequence[TaskInfo]) -> None:
        """Follow equal tasks."""
        if self._concerns(tasks[0]):
            super().run_allocated(tasks)

    def _concerns(self, task: TaskInfo) -> bool:
        """True if moves of the task matter: its template has terms, or some census counts pods."""
        return bool(self._censuses or self._index.by_label or _claims_anything(task.template))

    def node_changed(self, node: NodeInfo, before: NodeProperties | None) -> None:
        """Follow a node's own properties: its tasks may be in other domains now."""
        properties = node.spec
        if before is None:
            self._nodes.enter(properties)
            return
        if before.labels == properties.labels and before.taints == properties.taints:
            return
        self._follow_namespaces()
        tasks = [task for task in node.tasks.values() if ON_NODE[task.status]]
        for task in tasks:
            self._count(task, before, -1, task.status is not TaskStatus.RELEASING)
        self._nodes.leave(before)
        self._nodes.enter(properties)
        for task in tasks:
            self._count(task, properties, 1, task.status is not TaskStatus.RELEASING)

    def node_removed(self, node: NodeInfo) -> None:
        """Forget a node."""
        self._nodes.leave(node.spec)

    def _count(self, task: TaskInfo, properties: NodeProperties, by: int, live: bool) -> None:
        for census in self._matching(task):
            if live or not census.selection.live:
                self._add(census, properties, by)
        if _claims_anything(task.template):
            self._count_claims(task, properties, by)

    def _add(self, census: Census, properties: NodeProperties, by: int) -> None:
        name, labels = properties.name, properties.labels
        add_to(census.by_node, name, by)
        for table in census.tables.values():
            eligible = table.eligible
            if eligible is not None:
                if name in eligible.names:
                    self._spread_out(table, labels[table.key], by)
            elif not table.key:
                table.count(name, by)
            elif table.key in labels:
                self._count_affinity(table, labels[table.key], by)

    def _count_affinity(self, table: DomainTable, value: str, by: int) -> None:
        """Count for affinity, where it matters whether there is any pod in a domain."""
        before, after = table.count(value, by)
        if (before == 0) == (after == 0):
            return
        if self._nodes.counts[table.key].get(value, 0) > 1 or (table.draws and len(table.counts) <= 1):
            table.stamp = self._tick()
        if after and table.draws:
            self._cluster.wake(ClusterEvent.NEIGHBOURS_CHANGED)

    def _spread_out(self, table: DomainTable, value: str, by: int) -> None:
        """Count for spreading, where it matters how many pods a domain has and how few another."""
        if not table.binds:
            table.count(value, by)
            return
        lowest = table.lowest()
        table.count(value, by)
        raised = table.lowest() - lowest
        if raised or self._nodes.counts[table.key].get(value, 0) > 1:
            table.stamp = self._tick()
        if raised > 0:
            self._cluster.wake(ClusterEvent.NEIGHBOURS_CHANGED)

    def _count_claims(self, task: TaskInfo, properties: NodeProperties, by: int) -> None:
        claims = self._claims_of(task.template)
        labels = properties.labels
        for placed_term in claims.apart:
            if placed_term.term.topology_key in labels:
                self._count_affinity(placed_term.table, labels[placed_term.term.topology_key], by)
        for placed_term, weight in claims.liked:
            if placed_term.term.topology_key in labels:
                placed_term.table.count(labels[placed_term.term.topology_key], by * weight)

    def _tick(self) -> int:
        self._clock += 1
        return self._clock

    # -- namespaces and pods ------------------------------------------------------------------------------------------

    def namespace_labels(self, namespace: str) -> Labels:
        """Return the labels of a namespace; only its name if its object is not known."""
        found = self._cluster.queue_cache.namespaces.get(namespace)
        return {NAMESPACE_NAME: namespace} if found is None else found

    def _matching(self, task: TaskInfo) -> tuple[Census, ...]:
        if not self._censuses:
            return ()
        return self._finder.find(task.namespace, task.spec.labels, self.namespace_labels(task.namespace))

    def _follow_namespaces(self) -> None:
        """Count again what depends on labels of namespaces when these have changed."""
        if self._namespaces_version == self._cluster.generations.namespace:
            return
        self._namespaces_version = self._cluster.generations.namespace
        for finder in (self._finder, self._apart, self._liked):
            finder.forget_answers()
        for selection, census in list(self._censuses.items()):
            if any(term.namespace_selector is not None for term in selection.terms):
                self._finder.remove(census)
                del self._censuses[selection]
        for rules in (self._near, self._preferred_terms):
            rules.clear()

    # -- what rules ask for -------------------------------------------------------------------------------------------

    def sweep(self) -> None:
        """Forget what has not been needed for long: called when a session opens."""
        is_full = len(self._censuses) > _MOST_CENSUSES or len(self._nodes.eligible) > _MOST_ELIGIBLE
        if is_full or self._template_generation != self._cluster.generations.template:
            self._template_generation = self._cluster.generations.template
            self._forget_questions()
            self._forget_idle_terms(most=0)
            self._nodes.keep({term.topology_key for placed in (self._apart, self._liked) for term in placed.known})
        else:
            self._forget_idle_terms(max(_IDLE_TERMS, (self._apart.size + self._liked.size) // 2))

    def _forget_questions(self) -> None:
        """Forget what templates ask for: those that are still there ask again."""
        self._censuses.clear()
        self._finder = Finder()
        self._index.by_label.clear()
        self._nodes.eligible.clear()
        for rules in (self._near, self._hard, self._soft, self._preferred_terms):
            rules.clear()

    def _forget_idle_terms(self, most: int) -> None:
        """Forget the terms that no placed pod has, when there are more than so many."""
        for placed in (self._apart, self._liked):
            if placed.forget_idle(most):
                self._claims.clear()

    def near(self, template: PodTemplate) -> Near:
        """Return the tables of a template's required affinity and anti-affinity."""
        self._follow_namespaces()
        found = self._near.get(template.id)
        if found is None or found.template is not template:
            affinity: tuple[DomainTable, ...] = ()
            if template.affinity:
                selection = Selection(tuple(_anywhere(term) for term in template.affinity))
                keys = dict.fromkeys(term.topology_key for term in template.affinity)
                affinity = tuple(self._table(selection, key) for key in keys)
                for table in affinity:
                    table.draws = True
            apart = tuple(self._table(Selection((_anywhere(t),)), t.topology_key) for t in template.anti_affinity)
            found = self._near[template.id] = Near(template, affinity, apart)
            self._claims_of(template)
        return found

    def keeping_away(self, task: TaskInfo) -> tuple[PlacedTerm, ...]:
        """Return the anti-affinity terms of pods placed so far that mean this task."""
        if not self._apart.size:
            return ()
        self._follow_namespaces()
        return self._apart.find(task.namespace, task.spec.labels, self.namespace_labels(task.namespace))

    def drawing(self, task: TaskInfo) -> tuple[PlacedTerm, ...]:
        """Return the preferred terms of placed pods that select this task. Their tables hold weights."""
        if not self._liked.size:
            return ()
        self._follow_namespaces()
        return self._liked.find(task.namespace, task.spec.labels, self.namespace_labels(task.namespace))

    def preferred_terms(self, template: PodTemplate) -> PreferredTerms:
        """Return the tables of a template's preferred affinity and anti-affinity."""
        self._follow_namespaces()
        found = self._preferred_terms.get(template.id)
        if found is None or found.template is not template:
            terms = [(item.term, item.weight) for item in template.preferred_affinity]
            terms += [(item.term, -item.weight) for item in template.preferred_anti_affinity]
            tables = tuple((self._table(Selection((_anywhere(t),)), t.topology_key), weight) for t, weight in terms)
            found = self._preferred_terms[template.id] = PreferredTerms(template, tables)
        return found

    def must_spread(self, template: PodTemplate) -> Spread:
        """Return the tables of a template's DoNotSchedule constraints."""
        return self._spread(self._hard, template, hard=True)

    def likes_spread(self, template: PodTemplate) -> Spread:
        """Return the tables of a template's ScheduleAnyway constraints; that of hosts counts by node."""
        return self._spread(self._soft, template, hard=False)

    def _spread(self, known: dict[int, Spread], template: PodTemplate, hard: bool) -> Spread:
        found = known.get(template.id)
        if found is None or found.template is not template:
            constraints = tuple(item for item in template.spread if item.hard is hard)
            keys = tuple(dict.fromkeys(item.topology_key for item in constraints))
            tables = tuple((item, self._spread_table(template, item, keys)) for item in constraints)
            for _, table in tables:
                table.binds |= hard
            found = known[template.id] = Spread(template, tables, keys)
        return found

    def _spread_table(self, template: PodTemplate, item: SpreadConstraint, keys: tuple[str, ...]) -> DomainTable:
        selector = item.selector if not item.selector.is_empty else LabelSelector(matches_nothing=True)
        selection = Selection((PodTerm("", selector, frozenset((template.namespace_of_terms,))),), live=True)
        if not item.hard and item.topology_key == "kubernetes.io/hostname":
            return self._table(selection, "")
        nodes = template.required_nodes if item.honor_affinity else None
        tolerations = template.tolerations if item.honor_taints else None
        return self._table(selection, item.topology_key, self._nodes.eligible_for(keys, nodes, tolerations))

    def _table(self, selection: Selection, key: str, eligible: EligibleNodes | None = None) -> DomainTable:
        census = self._census(selection)
        which = (key, id(eligible))
        table = census.tables.get(which)
        if table is None:
            self._nodes.watch(key)
            table = census.tables[which] = DomainTable(key, eligible, self._tick())
            for name, count in census.by_node.items():
                labels = self._cluster.nodes[name].labels
                if eligible is None or name in eligible.names:
                    value = labels.get(key) if key else name
                    if value is not None:
                        table.count(value, count)
        return table

    def _census(self, selection: Selection) -> Census:
        census = self._censuses.get(selection)
        if census is None:
            census = self._censuses[selection] = Census(selection)
            self._finder.add(census)
            for task in self._index.candidates(selection):
                if selection.live and task.status is TaskStatus.RELEASING:
                    continue
                node = task.node
                if node is not None and selection.matches(
                    task.namespace, task.spec.labels, self.namespace_labels(task.namespace)
                ):
                    add_to(census.by_node, node.name, 1)
        return census

    def _claims_of(self, template: PodTemplate) -> _TemplateTerms:
        found = self._claims.get(template.id)
        if found is None or found.template is not template:
            apart = tuple(self._claim(self._apart, term) for term in template.anti_affinity)
            liked = [(item.term, item.weight) for item in template.preferred_affinity]
            liked += [(item.term, -item.weight) for item in template.preferred_anti_affinity]
            weighed = tuple((self._claim(self._liked, term), weight) for term, weight in liked)
            found = self._claims[template.id] = _TemplateTerms(template, apart, weighed)
        return found

    def _claim(self, placed: PlacedTerms, term: PodTerm) -> PlacedTerm:
        found = placed.known.get(term)
        if found is None:
            self._nodes.watch(term.topology_key)
            self._next_claim += 1
            found = PlacedTerm(self._next_claim, term, self._tick())
            placed.add(found)
        return found


class _AccountProvider(Protocol):
    """A source of accounts, such as a registrar."""

    def account(self, name: str, make: Callable[[Cluster], Domains]) -> Domains: ...


def domains_of(accounts: _AccountProvider) -> Domains:
    """Return the account of a session's cluster, tidied up."""
    found = accounts.account(NAME, Domains)
    found.sweep()
    return found


def has_label(key: str, properties: PropertyColumns, rows: Rows) -> Mask:
    """Mark those of some rows whose node has a label."""
    absent = properties.names(("label", key)).get(None, -1)
    found: Mask = properties.ids(("label", key))[rows] != absent
    return found


def _anywhere(term: PodTerm) -> PodTerm:
    """Return the selection of a term, whatever its topology."""
    return PodTerm("", term.selector, term.namespaces, term.namespace_selector)


def _claims_anything(template: PodTemplate) -> bool:
    return bool(template.anti_affinity or template.preferred_affinity or template.preferred_anti_affinity)
