"""The registrar: through it a plugin registers rules; it knows the plugin, its tier and its switches."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from volsched.framework.callbacks import KeyFn, QueueKeyOfPodsFn
from volsched.framework.misdeclarations import check_accounts, check_rule
from volsched.framework.rules import (
    Allocatable,
    Deserved,
    NodeRule,
    Predicate,
    Preemptive,
    Reclaimable,
    Rule,
    WithinDeserved,
)
from volsched.framework.signature import is_of_queue as is_keyed_by_queue
from volsched.framework.signature import signature_of, slower_without_types
from volsched.model.observers import Observer
from volsched.model.pods.task import TaskInfo
from volsched.model.values.bounded import entries_of

if TYPE_CHECKING:
    from volsched.framework.config.configuration import PluginOption
    from volsched.framework.session import Session
    from volsched.model.cluster import Cluster

T = TypeVar("T")

_REGISTERED: Final = "framework.registered"
"""The account of the plugins that have registered with this configuration."""


def _nobody(_cluster: Cluster) -> set[str]:
    return set()


class Accounts:
    """Observers of the cluster that plugins keep from one session to the next, by name."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._kept: dict[str, Any] = {}

    def get(self, name: str, make: Callable[[Cluster], T]) -> T:
        """Return the account of that name. The first call makes it, and it follows every change from then on."""
        account: T | None = self._kept.get(name)
        if account is None:
            account = self._kept[name] = make(self._cluster)
            if isinstance(account, Observer):
                self._cluster.observe(account)
        return account

    def sizes(self) -> dict[str, int]:
        """Return how many entries each account keeps, by name; may be asked on any thread."""
        kept = dict(self._kept)
        apart = {id(self._cluster), *map(id, kept.values())}
        return {name: entries_of(account, apart) for name, account in kept.items()}

    def drop(self) -> None:
        """Forget all accounts: the configuration that they were made for is gone."""
        for account in self._kept.values():
            if isinstance(account, Observer):
                self._cluster.ignore(account)
        self._kept.clear()


class Registrar:
    """The argument of ``on_session_open``: the session, the accounts, and the place for rules.

    ``checks_ancestors``: True if the plugin also checks the queues above a queue (the switch `enableHierarchy`).
    """

    __slots__ = ("_is_first", "_option", "_tier", "cluster", "session")

    def __init__(self, session: Session, tier: int, option: PluginOption) -> None:
        self.session = session
        self.cluster = session.cluster
        self._tier = tier
        self._option = option
        known = session.account(_REGISTERED, _nobody)
        self._is_first = option.name not in known
        known.add(option.name)

    @property
    def checks_ancestors(self) -> bool:
        """True if the plugin also checks the queues above a queue."""
        return self._option.allows("enableHierarchy")

    def account(self, name: str, make: Callable[[Cluster], T]) -> T:
        """Return an account that outlives the session; if it is an ``Observer`` it follows every change."""
        return self.session.account(name, make)

    def register(self, *rules: Rule) -> None:
        """Register rules, in order. Rules that a switch of the configuration turns off are left out.

        Raises SignatureError for anything that is no rule, and for a callback that cannot be called. This is checked
        when a plugin registers for the first time with a configuration: later sessions run the same code.
        """
        option = self._option
        for rule in rules:
            if self._is_first:
                check_rule(option.name, rule)
            if rule.switch and not option.allows(rule.switch):
                if isinstance(rule, Allocatable | Predicate):
                    self.session.rules.one_at_a_time.left_out.add(option.name)
            elif isinstance(rule, Deserved):
                self._register_deserved(rule)
            else:
                self.session.rules.add(self._completed(rule) if rule.is_about_nodes else rule, option.name, self._tier)

    if not TYPE_CHECKING:  # a type checker finds the mistake itself

        def __getattr__(self, name: str) -> object:
            raise AttributeError(
                f"Registrar has no {name}: rules are registered by register(), as register(NodeOrder(score)), see "
                "volsched.framework.rules; the session is registrar.session"
            )

    def _register_deserved(self, rule: Deserved) -> None:
        quota, allows = rule.quota, self._option.allows
        self.register(Preemptive(quota.may_take_room), Reclaimable(quota.victims), WithinDeserved(quota.is_within))
        preempts = rule.inside and allows("enablePreemptable")
        self.session.rules.elastic.add(quota, reclaims=allows("enableReclaimable"), preempts=preempts)

    def _completed(self, rule: Rule) -> Rule:
        """Return a rule about nodes with its plugin, the views that its callback reads, and its key made of a task."""
        plugin = self._option.name
        if not isinstance(rule, NodeRule):
            return msgspec.structs.replace(rule, plugin=plugin)
        signature, key, is_of_queue = signature_of(plugin, rule.fn), rule.key, False
        if self._is_first:
            check_accounts(plugin, rule, signature)
        if key is None:
            if not signature.is_typed:
                self.session.stats.hints.append(slower_without_types(plugin, rule.fn))
        elif is_of_queue := is_keyed_by_queue(plugin, key):
            key = self._key_by_queue(key)
        return rule.reading(signature, plugin=plugin, key=key, is_keyed_by_queue=is_of_queue)

    def _key_by_queue(self, key: QueueKeyOfPodsFn) -> KeyFn:
        queues = self.cluster.queues

        def of_task(task: TaskInfo) -> Hashable | None:
            queue = queues.get(task.queue)
            return None if queue is None else key(task.template, queue)

        return of_task
