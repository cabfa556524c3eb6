"""The accounts of mgpu and its rules, loaded when the plugin is switched on."""

from __future__ import annotations

from dataclasses import dataclass

from plugins.mgpu.callbacks import NAME, MgpuRules
from plugins.mgpu.node_events import NodeEvents
from plugins.mgpu.parts import FreeParts
from plugins.mgpu.placement import CardPlacementSearch
from plugins.mgpu.scoring import Strategy
from plugins.mgpu.series import MgpuSeries
from plugins.mgpu.usage import NodeCardUsage, Requests
from volsched.plugin import Registrar, Session
from volsched.plugin.cards import CARD_PARTS, CardParts


@dataclass(frozen=True, slots=True)
class MgpuAccounts:
    """The rules, and what is kept beside the usage of cards."""

    usage: NodeCardUsage
    rules: MgpuRules
    series: MgpuSeries
    node_events: NodeEvents
    source: FreeParts

    @classmethod
    def of(cls, usage: NodeCardUsage, strategy: Strategy, *, weight: int, by_id: bool) -> MgpuAccounts:
        """Return the accounts of a cluster whose usage of cards is followed."""
        search = CardPlacementSearch(strategy)
        rules = MgpuRules(usage, search, weight=weight, by_id=by_id)
        return cls(usage, rules, MgpuSeries(usage, search), NodeEvents(usage, by_id=by_id), FreeParts(usage))

    def report(self, session: Session) -> None:
        """Tell what is new about nodes."""
        changed = self.usage.take_changed()
        self.node_events.report(session, changed)
        self.series.note(changed)


def register(registrar: Registrar, strategy: Strategy, *, least_memory: int, weight: int, by_id: bool) -> None:
    """Register everything for one session. ``least_memory`` is in MiB."""
    usage = registrar.account(f"{NAME}.ledger", lambda cluster: NodeCardUsage(cluster, Requests(least_memory)))
    accounts = registrar.account(NAME, lambda _: MgpuAccounts.of(usage, strategy, weight=weight, by_id=by_id))
    accounts.report(registrar.session)
    registrar.account(CARD_PARTS, CardParts.of_cluster).sources[NAME] = accounts.source
    registrar.register(*accounts.rules.registered(), accounts.series.report())
