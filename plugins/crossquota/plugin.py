"""Registers crossquota: a quota for CPU pods on every GPU node, and the choice among GPU nodes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar, Final

from plugins.crossquota.arguments import ARGUMENTS, CrossQuotaArguments, check_arguments, parse
from plugins.crossquota.asked import QuotaExplainer
from plugins.crossquota.budget import NAME, NodeBudgets
from plugins.crossquota.numbers import FAULTS, QUOTA, REFUSALS, USED, QuotaSeries
from plugins.crossquota.quota import ANNOTATION, PERCENTAGE_ANNOTATION
from plugins.crossquota.scoring import STRATEGY, QuotaScore
from plugins.crossquota.selected import rules_for_pods
from volsched.plugin import AnnotationTypes, Registrar, Report, Session, SessionClose, about_node

__all__ = ["ARGUMENTS", "CrossQuotaPlugin", "build", "check_arguments"]

INVALID: Final = "InvalidCrossQuota"
DOUBTFUL: Final = "DoubtfulCrossQuota"


def build(arguments: Mapping[str, Any]) -> CrossQuotaPlugin:
    """Make the plugin from checked arguments."""
    return CrossQuotaPlugin(parse(arguments))


class CrossQuotaPlugin:
    """Limits the amounts of CPU pods on nodes with accelerators."""

    name: ClassVar[str] = NAME
    POD_ANNOTATIONS: ClassVar[tuple[str, ...]] = (STRATEGY,)
    NODE_ANNOTATIONS: ClassVar[tuple[str, ...]] = (f"{ANNOTATION}*",)
    ANNOTATION_TYPES: ClassVar[AnnotationTypes] = {
        STRATEGY: "word",
        f"{PERCENTAGE_ANNOTATION}*": ("resource", "amount"),
        f"{ANNOTATION}*": ("resource", "amount"),
    }

    def __init__(self, arguments: CrossQuotaArguments) -> None:
        self._arguments = arguments

    def on_session_open(self, registrar: Registrar) -> None:
        """Register predicate, score and numbers, and report what is wrong with nodes."""
        budgets, score, figures = self._accounts(registrar)
        explainer = QuotaExplainer(registrar.cluster, budgets)
        registrar.register(
            *rules_for_pods(budgets, score, scores=self._arguments.scale > 0),
            Report(
                metrics={
                    QUOTA: figures.quotas,
                    USED: figures.used,
                    REFUSALS: figures.refusals,
                    FAULTS: figures.faults,
                },
                table=figures.table,
                consumers=explainer.holders,
                suggestions=explainer.suggestions,
            ),
            SessionClose(partial(_report, registrar.session, budgets)),
        )

    def _accounts(self, registrar: Registrar) -> tuple[NodeBudgets, QuotaScore, QuotaSeries]:
        arguments = self._arguments
        budgets = registrar.account(NAME, lambda cluster: NodeBudgets(cluster, arguments))
        score = registrar.account(f"{NAME}.score", lambda _: QuotaScore(arguments, budgets))
        figures = registrar.account(f"{NAME}.figures", lambda _: QuotaSeries(budgets, len(arguments.devices.faults)))
        return budgets, score, figures


def _report(session: Session, budgets: NodeBudgets) -> None:
    """Record Events on nodes whose annotations cannot be read, or are hardly meant."""
    for node, quota in budgets.take_unreported():
        for fault in quota.faults:
            session.record_event(about_node(node, "Warning", INVALID, fault))
        for doubt in quota.doubts:
            session.record_event(about_node(node, "Warning", DOUBTFUL, doubt))
