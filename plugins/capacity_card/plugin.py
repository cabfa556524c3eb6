"""capacity-card: quotas by card model, never exceeded (after the design of Volcano's plugin of that name)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from plugins.capacity_card.allocated import AllocatedCards
from plugins.capacity_card.card_quotas import CardRules
from plugins.capacity_card.cards.mapping import ARGUMENTS as MAPPING_ARGUMENTS
from plugins.capacity_card.cards.mapping import check_mapping, mapping_of
from plugins.capacity_card.demands import CardDemands
from plugins.capacity_card.lists import NamedCards
from plugins.capacity_card.ordering import CardScore, QueueShares
from plugins.capacity_card.quotas.quota import OF_QUEUES
from plugins.capacity_card.reclaim import CardReclaimView, CpuReclaimView
from plugins.capacity_card.refusals import NAME
from plugins.capacity_card.report import CardReport
from plugins.capacity_card.requests.requests import CARD_NAME, CARD_REQUEST
from plugins.capacity_card.series import CardSeries
from plugins.capacity_card.suggestions import CardSuggestions
from plugins.capacity_card.usage import CardUsage
from volsched.plugin import (
    AnnotationTypes,
    Argument,
    ArgumentProblem,
    Cluster,
    Deserved,
    JobInfo,
    NodeOrder,
    Registrar,
    Report,
    Rule,
    Session,
    Verdict,
    about_group,
    about_node,
    about_queue,
)
from volsched.plugin.cards import CARD_LISTS, UNMAPPED, CardLists, CardMapping
from volsched.plugin.quota import (
    HALF_LIFE_ARGUMENT,
    Consumer,
    Elastic,
    check_half_life,
    half_life_of,
    held_of_quota,
    order_queues,
    sharing_limit,
)

SPARES_CPU: Final = "cardUnlimitedCpuMemory"
WEIGHT: Final = "nodeOrderWeight"
STRICT: Final = "strictCardName"
ANCESTORS: Final = "checkAncestors"

DEFAULT_WEIGHT: Final = 1.0

BAD_QUOTA: Final = "InvalidCardQuota"
BAD_REQUEST: Final = "InvalidCardRequest"
BAD_LABELS: Final = "IncompleteCardLabels"


@dataclass(frozen=True, slots=True)
class CapacityCardArguments:
    """What the plugin was told; see ``CapacityCardPlugin.ARGUMENTS``."""

    spares_cpu: bool = False
    weight: float = DEFAULT_WEIGHT
    is_strict: bool = False
    checks_ancestors: bool = False
    half_life: float = 0.0
    mapping: CardMapping = UNMAPPED


def check_arguments(values: Mapping[str, Any]) -> Iterator[ArgumentProblem]:
    """Refuse a mapping of cards that is wrong. Warn of what Volcano passes over in silence, and of what is renamed."""
    yield from check_half_life(values)
    yield from check_mapping(values)
    if values[WEIGHT] <= 0:
        yield ArgumentProblem(WEIGHT, f"{WEIGHT} must be above 0; it counts as {DEFAULT_WEIGHT:g}", "warning")
    if values[ANCESTORS]:
        message = "is another name for the switch enableHierarchy; write enableHierarchy: true beside the plugin's name"
        yield ArgumentProblem(ANCESTORS, f"{ANCESTORS} {message}", "warning")


class CapacityCardPlugin:
    """Registers the rules; what they read follows the cluster from one session to the next."""

    name: ClassVar[str] = NAME
    POD_ANNOTATIONS: ClassVar[tuple[str, ...]] = (CARD_NAME,)
    GROUP_ANNOTATIONS: ClassVar[tuple[str, ...]] = (CARD_REQUEST,)
    QUEUE_ANNOTATIONS: ClassVar[tuple[str, ...]] = OF_QUEUES
    ANNOTATION_TYPES: ClassVar[AnnotationTypes] = {
        **dict.fromkeys((*OF_QUEUES, CARD_REQUEST), "card amounts"),
        CARD_NAME: "cards",
    }
    ASKING_ANNOTATIONS: ClassVar[tuple[str, ...]] = (CARD_NAME,)
    EXCLUDES: ClassVar[tuple[str, ...]] = ("capacity", "proportion")
    ARGUMENTS: ClassVar[tuple[Argument, ...]] = (
        Argument(
            SPARES_CPU, "bool", False, "Tasks with cards count for no cpu and memory of their queue.", lenient=True
        ),
        Argument(
            WEIGHT,
            "float",
            DEFAULT_WEIGHT,
            "How much the order of a list of cards counts; 0 and below, and a quoted number, count as 1.",
            lenient=True,
            bare=True,
        ),
        Argument(STRICT, "bool", False, "Refuse pods that ask for cards and do not name them."),
        Argument(ANCESTORS, "bool", False, "Another name for the switch `enableHierarchy`."),
        HALF_LIFE_ARGUMENT,
        *MAPPING_ARGUMENTS,
    )

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        weight = arguments[WEIGHT]
        self._arguments = CapacityCardArguments(
            spares_cpu=arguments[SPARES_CPU],
            weight=weight if weight > 0 else DEFAULT_WEIGHT,
            is_strict=arguments[STRICT],
            checks_ancestors=arguments[ANCESTORS],
            half_life=half_life_of(arguments),
            mapping=mapping_of(arguments),
        )

    def on_session_open(self, registrar: Registrar) -> None:
        """Register everything, and report what is wrong in objects."""
        above = registrar.checks_ancestors or self._arguments.checks_ancestors
        usage = registrar.account(f"{NAME}.ledger", lambda cluster: self._new_usage(cluster, above=above))
        usage.charges.begin(registrar.cluster.generations.template)
        demands = registrar.account(
            f"{NAME}.demands", lambda cluster: CardDemands(cluster, usage, spares_cpu=self._arguments.spares_cpu)
        )
        runtime = registrar.account(
            f"{NAME}.runtime",
            lambda cluster: _CardAccounts(cluster, usage, demands, self._arguments.weight),
        )
        registrar.account(CARD_LISTS, CardLists.of_cluster).sources[NAME] = runtime.named
        runtime.report_faults(registrar.session)
        self._order_queues(registrar, runtime)
        registrar.register(*runtime.registered())

    def _order_queues(self, registrar: Registrar, runtime: _CardAccounts) -> None:
        """Order queues by what they hold, or by the cards of any model that they held over time."""
        half_life, shares = self._arguments.half_life, runtime.queues
        past_use = (lambda _: shares.past_use(half_life)) if half_life else None
        order_queues(registrar, NAME, past_use, shares.key, shares.past_order)

    def _new_usage(self, cluster: Cluster, *, above: bool) -> CardUsage:
        told = self._arguments
        return CardUsage(
            cluster, told.mapping, spares_cpu=told.spares_cpu, is_strict=told.is_strict, is_hierarchical=above
        )


class _CardAccounts:
    """Everything that is kept beside usage and demands."""

    def __init__(self, cluster: Cluster, usage: CardUsage, demands: CardDemands, weight: float) -> None:
        self._cluster = cluster
        self._usage = usage
        self._demands = demands
        self.rules = CardRules(cluster, usage, demands)
        self.named = NamedCards(usage)
        self.nodes = CardScore(usage, weight)
        self.queues = QueueShares(cluster, usage)
        self.view = CardReclaimView(cluster, usage)
        self.series = CardSeries(cluster, usage, demands, self.view)
        self.report = CardReport(cluster, usage, demands, self.rules, self.view)
        self.allocated = AllocatedCards(usage)
        self.cards = Elastic(self.view)
        self.cpu = Elastic(CpuReclaimView(cluster, usage))
        self.suggestions = CardSuggestions(cluster, usage, demands)

    def registered(self) -> Iterator[Rule]:
        """Return what the plugin registers, the order of queues aside."""
        yield from self.rules.registered()
        yield Deserved(self.cards)
        yield Deserved(self.cpu, inside=False)
        score = self.nodes
        yield NodeOrder(score.score, vector=score.scores, applies_to=self.rules.has_list)
        yield Report(
            metrics=self.series.metrics(self.queues, self.rules),
            usage=self.report.usage,
            amounts=self.report.amounts,
            allocated=self.allocated,
            card_name=self._usage.catalogue.mapping.card_of,
            consumers=self.consumers,
            suggestions=self.suggestions.of,
        )

    def consumers(self, job: JobInfo, refusal: Verdict) -> Iterable[Consumer]:
        """What jobs of the queue that refused, in a hierarchy of those below it, hold of what it has too little of."""
        queues = sharing_limit(self._cluster, job, refusal, in_tree=self._usage.limits.is_hierarchical)
        return held_of_quota(self.report.usage(), queues, job, refusal)

    def report_faults(self, session: Session) -> None:
        """Report on queues, PodGroups and nodes what is wrong in their annotations and labels."""
        for queue, fault in self._usage.limits.take_faults():
            session.record_event(about_queue(queue, "Warning", BAD_QUOTA, f"{fault}; what is wrong counts as 0"))
        for job, fault in self._demands.take_faults():
            session.record_event(about_group(job, "Warning", BAD_REQUEST, f"{fault}; what is wrong is left out"))
        for node, fault in self._usage.catalogue.take_warnings():
            session.record_event(about_node(node, "Warning", BAD_LABELS, f"node {fault}"))
