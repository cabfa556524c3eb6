"""Registration of crossquota: a quota for CPU pods on every GPU node, and how GPU nodes are chosen for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from plugins.crossquota.arguments import ARGUMENTS, CrossQuotaArguments, check_arguments, parse
from plugins.crossquota.budget import NAME, NodeBudgets
from plugins.crossquota.numbers import FAULTS, QUOTA, REFUSALS, USED, Figures
from plugins.crossquota.scoring import STRATEGY, QuotaScore
from plugins.crossquota.selected import SelectedPods
from volsched.framework.callbacks import AppliesFn
from volsched.framework.reporter import about_node
from volsched.framework.session import Session
from volsched.model.pods.task import TaskInfo

__all__ = ["ARGUMENTS", "CrossQuotaPlugin", "build", "check_arguments"]

INVALID: Final = "InvalidCrossQuota"
DOUBTFUL: Final = "DoubtfulCrossQuota"


def build(arguments: Mapping[str, Any]) -> CrossQuotaPlugin:
    """Make the plugin from checked arguments."""
    return CrossQuotaPlugin(parse(arguments))


class CrossQuotaPlugin:
    """Cap what CPU pods may hold on nodes that carry accelerators."""

    name: ClassVar[str] = NAME
    POD_ANNOTATIONS: ClassVar[tuple[str, ...]] = (STRATEGY,)

    def __init__(self, arguments: CrossQuotaArguments) -> None:
        self._arguments = arguments

    def on_session_open(self, session: Session) -> None:
        """Register predicate, score, numbers, and the telling of what is wrong with nodes."""
        arguments = self._arguments
        budgets = session.account(NAME, lambda cluster: NodeBudgets(cluster, arguments))
        score = session.account(f"{NAME}.score", lambda _: QuotaScore(arguments, budgets))
        figures = session.account(f"{NAME}.figures", lambda _: Figures(budgets, len(arguments.devices.faults)))
        if budgets.pods.selects_all:
            self._register(session, budgets, score, budgets.applies)
        else:
            selected = SelectedPods(budgets, score)
            self._register(session, selected, selected, budgets.applies, key=selected.key, version=_never)
        session.add_series_fn(NAME, QUOTA, figures.quotas)
        session.add_series_fn(NAME, USED, figures.used)
        session.add_series_fn(NAME, REFUSALS, figures.refusals)
        session.add_series_fn(NAME, FAULTS, figures.faults)
        session.add_quota_table_fn(NAME, figures.table)
        session.add_close_fn(NAME, lambda: _tell(session, budgets))

    def _register(
        self,
        session: Session,
        rule: NodeBudgets | SelectedPods,
        score: QuotaScore | SelectedPods,
        applies: AppliesFn,
        **sharing: Any,
    ) -> None:
        """Register the rule and the score; ``sharing`` is the key and the version where these are for some pods."""
        session.add_predicate_fn(
            NAME, rule.refuse, vector=rule.admit_rows, wordings=rule.wordings, applies=applies, **sharing
        )
        if self._arguments.scale > 0:
            session.add_node_order_fn(NAME, score.score, vector=score.scores, applies=applies, **sharing)


def _never(_: TaskInfo) -> int:
    """What an answer is made from is on its node and in the key: it changes for no other reason."""
    return 0


def _tell(session: Session, budgets: NodeBudgets) -> None:
    """Record Events on nodes whose annotations cannot be read, or are hardly meant."""
    for node, quota in budgets.take_unsaid():
        for fault in quota.faults:
            session.tell(about_node(node, "Warning", INVALID, fault))
        for doubt in quota.doubts:
            session.tell(about_node(node, "Warning", DOUBTFUL, doubt))
