"""All names that a plugin imports, in one place. Each is imported on its first use.

``volsched.plugin`` has rules and the views of their callbacks. Beside it there are ``quota`` (plugins that limit
queues), ``cards`` (accelerator cards by name), ``devices`` (ResourceClaims) and ``objects`` (validators).

A small plugin imports few modules this way: a scheduler that starts, and each command, imports all plugins. The blocks
below are the lists; a type checker reads them, and at run time `_on_first_use` does.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from opcode import EXTENDED_ARG, opmap
from types import MappingProxyType
from typing import TYPE_CHECKING

_MODULE, _NAME = opmap["IMPORT_NAME"], opmap["IMPORT_FROM"]


def _on_first_use(
    module: str, renamed: Mapping[str, tuple[str, str]] = MappingProxyType({})
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a module; the former imports what its TYPE_CHECKING block names.

    ``renamed`` has names of one minor version ago, as ``deprecated_names.former`` takes them.

    The block is found in the compiled module, so that no source file is needed.
    """
    places: dict[str, str] = {}
    place, more = "", 0
    code = sys.modules[module].__spec__.loader.get_code(module)  # type: ignore[union-attr]  # every loader of code has it
    for operation, low in zip(
        code.co_code[::2], code.co_code[1::2], strict=True
    ):  # as dis does, in a tenth of the time
        number = more << 8 | low
        more = number if operation == EXTENDED_ARG else 0
        if operation == _MODULE:
            place = code.co_names[number]
        elif operation == _NAME and place.startswith("volsched.") and code.co_names[number] != _on_first_use.__name__:
            places[code.co_names[number]] = place
    names = sorted(places)

    def on_first_use(name: str) -> object:
        if name == "__all__":
            return names
        if name in renamed:
            return import_module("volsched.framework.deprecated_names").former(module, renamed)(name)
        if name not in places:
            raise AttributeError(f"module {module!r} has no attribute {name!r}", name=name, obj=sys.modules[module])
        found = vars(import_module(places[name]))
        value = found[name] if name in found else import_module(f"{places[name]}.{name}")
        setattr(sys.modules[module], name, value)
        return value

    return on_first_use, lambda: sorted({*names, *vars(sys.modules[module])})


if TYPE_CHECKING:
    from volsched.framework.annotation_types import AnnotationType as AnnotationType
    from volsched.framework.annotation_types import AnnotationTypes as AnnotationTypes
    from volsched.framework.callbacks import ABSTAIN as ABSTAIN
    from volsched.framework.callbacks import NO_LIMIT as NO_LIMIT
    from volsched.framework.callbacks import PERMIT as PERMIT
    from volsched.framework.callbacks import AppliesFn as AppliesFn
    from volsched.framework.callbacks import Ballot as Ballot
    from volsched.framework.callbacks import Headroom as Headroom
    from volsched.framework.callbacks import KeyFn as KeyFn
    from volsched.framework.callbacks import NodeOrderFn as NodeOrderFn
    from volsched.framework.callbacks import NodeOrderVectorFn as NodeOrderVectorFn
    from volsched.framework.callbacks import QueueLevel as QueueLevel
    from volsched.framework.callbacks import TaskEvents as TaskEvents
    from volsched.framework.callbacks import VersionFn as VersionFn
    from volsched.framework.callbacks import Vote as Vote
    from volsched.framework.columns.arrays import Floats as Floats
    from volsched.framework.columns.arrays import Mask as Mask
    from volsched.framework.columns.arrays import Rows as Rows
    from volsched.framework.columns.node_terms import selector_mask as selector_mask
    from volsched.framework.columns.node_terms import selects as selects
    from volsched.framework.columns.node_terms import term_mask as term_mask
    from volsched.framework.columns.node_terms import term_selects as term_selects
    from volsched.framework.columns.tables import ChangedNodes as ChangedNodes
    from volsched.framework.columns.tables import NodeColumns as NodeColumns
    from volsched.framework.columns.tables import PropertyColumns as PropertyColumns
    from volsched.framework.columns.views import NodePropertiesView as NodePropertiesView
    from volsched.framework.columns.views import NodeTable as NodeTable
    from volsched.framework.config.arguments import Argument as Argument
    from volsched.framework.config.arguments import ArgumentProblem as ArgumentProblem
    from volsched.framework.config.arguments import ArgumentType as ArgumentType
    from volsched.framework.config.arguments import Place as Place
    from volsched.framework.config.arguments import Schema as Schema
    from volsched.framework.config.arguments import describe as describe
    from volsched.framework.config.arguments import hint as hint
    from volsched.framework.config.configuration import PluginOption as PluginOption
    from volsched.framework.plugin import Action as Action
    from volsched.framework.plugin import Plugin as Plugin
    from volsched.framework.registration import Registrar as Registrar
    from volsched.framework.reporter import about_group as about_group
    from volsched.framework.reporter import about_node as about_node
    from volsched.framework.reporter import about_pod as about_pod
    from volsched.framework.reporter import about_queue as about_queue
    from volsched.framework.reporter import gang_message as gang_message
    from volsched.framework.reports import ConsumersFn as ConsumersFn
    from volsched.framework.reports import QueueAmounts as QueueAmounts
    from volsched.framework.reports import QueueAmountsFn as QueueAmountsFn
    from volsched.framework.reports import QueueUsageFn as QueueUsageFn
    from volsched.framework.reports import QuotaTableFn as QuotaTableFn
    from volsched.framework.reports import Report as Report
    from volsched.framework.reports import SeriesFn as SeriesFn
    from volsched.framework.reports import SuggestionsFn as SuggestionsFn
    from volsched.framework.rules import Allocatable as Allocatable
    from volsched.framework.rules import BatchNodeOrder as BatchNodeOrder
    from volsched.framework.rules import BestNode as BestNode
    from volsched.framework.rules import Deserved as Deserved
    from volsched.framework.rules import DeviceLimits as DeviceLimits
    from volsched.framework.rules import EventHandler as EventHandler
    from volsched.framework.rules import JobEnqueueable as JobEnqueueable
    from volsched.framework.rules import JobEnqueued as JobEnqueued
    from volsched.framework.rules import JobOrder as JobOrder
    from volsched.framework.rules import JobPipelined as JobPipelined
    from volsched.framework.rules import JobReady as JobReady
    from volsched.framework.rules import JobStarving as JobStarving
    from volsched.framework.rules import JobValid as JobValid
    from volsched.framework.rules import NodeOrder as NodeOrder
    from volsched.framework.rules import Overused as Overused
    from volsched.framework.rules import Predicate as Predicate
    from volsched.framework.rules import Preemptable as Preemptable
    from volsched.framework.rules import Preemptive as Preemptive
    from volsched.framework.rules import PrePredicate as PrePredicate
    from volsched.framework.rules import Protected as Protected
    from volsched.framework.rules import QueueOrder as QueueOrder
    from volsched.framework.rules import Reclaimable as Reclaimable
    from volsched.framework.rules import Rule as Rule
    from volsched.framework.rules import SessionClose as SessionClose
    from volsched.framework.rules import TaskOrder as TaskOrder
    from volsched.framework.rules import VictimQueueOrder as VictimQueueOrder
    from volsched.framework.rules import Wake as Wake
    from volsched.framework.rules import WithinDeserved as WithinDeserved
    from volsched.framework.rules import always as always
    from volsched.framework.rules import never as never
    from volsched.framework.session import Session as Session
    from volsched.framework.signature import SignatureError as SignatureError
    from volsched.framework.templates import MOST_KEPT as MOST_KEPT
    from volsched.framework.templates import keep as keep
    from volsched.framework.terminating import terminating_on as terminating_on
    from volsched.model.cluster import Cluster as Cluster
    from volsched.model.errors import FieldError as FieldError
    from volsched.model.errors import QuantityError as QuantityError
    from volsched.model.errors import VolschedError as VolschedError
    from volsched.model.errors import nearest as nearest
    from volsched.model.errors import shortened as shortened
    from volsched.model.generations import ClusterEvent as ClusterEvent
    from volsched.model.job import INQUEUE as INQUEUE
    from volsched.model.job import JobInfo as JobInfo
    from volsched.model.job import JobProperties as JobProperties
    from volsched.model.job import PodGroupCondition as PodGroupCondition
    from volsched.model.nodes.columns import ResourceColumns as ResourceColumns
    from volsched.model.nodes.node import NodeAmounts as NodeAmounts
    from volsched.model.nodes.node import NodeInfo as NodeInfo
    from volsched.model.nodes.node import NodeProperties as NodeProperties
    from volsched.model.observers import Observer as Observer
    from volsched.model.plan import ClaimWrite as ClaimWrite
    from volsched.model.plan import ReleaseClaim as ReleaseClaim
    from volsched.model.plan import VolumeWrite as VolumeWrite
    from volsched.model.pods.task import PodProperties as PodProperties
    from volsched.model.pods.task import TaskInfo as TaskInfo
    from volsched.model.pods.template import PodConstraints as PodConstraints
    from volsched.model.pods.template import PodRequest as PodRequest
    from volsched.model.pods.template import PodTemplate as PodTemplate
    from volsched.model.queues.queue import ROOT as ROOT
    from volsched.model.queues.queue import QueueInfo as QueueInfo
    from volsched.model.queues.queue import QueueProperties as QueueProperties
    from volsched.model.queues.queue import levels as levels
    from volsched.model.selectors import EVERYTHING as EVERYTHING
    from volsched.model.selectors import LabelSelector as LabelSelector
    from volsched.model.selectors import NodeSelector as NodeSelector
    from volsched.model.status import HOLDS_ROOM as HOLDS_ROOM
    from volsched.model.status import IS_ALLOCATED as IS_ALLOCATED
    from volsched.model.status import IS_CHOSEN as IS_CHOSEN
    from volsched.model.status import IS_FINISHED as IS_FINISHED
    from volsched.model.status import IS_READY as IS_READY
    from volsched.model.status import ON_NODE as ON_NODE
    from volsched.model.status import TaskStatus as TaskStatus
    from volsched.model.storage import Storage as Storage
    from volsched.model.values.bounded import Bounded as Bounded
    from volsched.model.values.duration import seconds_of as seconds_of
    from volsched.model.values.quantity import Unit as Unit
    from volsched.model.values.quantity import amount_of as amount_of
    from volsched.model.values.quantity import as_float as as_float
    from volsched.model.values.quantity import format_amount as format_amount
    from volsched.model.values.quantity import in_base_units as in_base_units
    from volsched.model.values.quantity import unit_of as unit_of
    from volsched.model.values.resources import CPU as CPU
    from volsched.model.values.resources import MAX_AMOUNT as MAX_AMOUNT
    from volsched.model.values.resources import MEMORY as MEMORY
    from volsched.model.values.resources import PODS as PODS
    from volsched.model.values.resources import Resources as Resources
    from volsched.model.values.resources import accumulate as accumulate
    from volsched.model.values.seen import Seen as Seen
    from volsched.model.values.series import Numbers as Numbers
    from volsched.model.values.series import Series as Series
    from volsched.model.verdict import ConditionReason as ConditionReason
    from volsched.model.verdict import Scope as Scope
    from volsched.model.verdict import Shortfall as Shortfall
    from volsched.model.verdict import Step as Step
    from volsched.model.verdict import Verdict as Verdict
    from volsched.model.waiting_time import WAITING_TIME as WAITING_TIME
    from volsched.model.waiting_time import WAITING_TIMES as WAITING_TIMES
    from volsched.model.waiting_time import agreed_waiting_time as agreed_waiting_time
else:
    __getattr__, __dir__ = _on_first_use(
        __name__,
        {
            "Due": ("volsched.framework.rules:WithinDeserved", "it is WithinDeserved"),
            "FactColumns": ("volsched.framework.columns.tables:PropertyColumns", "it is PropertyColumns"),
            "NodeFacts": ("volsched.framework.columns.views:NodePropertiesView", "it is NodePropertiesView"),
        },
    )
