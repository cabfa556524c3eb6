"""Names for plugins with quotas of queues, beside those of ``volsched.plugin``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from volsched.plugin import _on_first_use

if TYPE_CHECKING:
    from volsched.framework.dispatch.combining import ElasticQuota as ElasticQuota
    from volsched.framework.dispatch.combining import Number as Number
    from volsched.framework.eviction_units import departing as departing
    from volsched.framework.quota_report import CARD as CARD
    from volsched.framework.quota_report import IS_STRANDED as IS_STRANDED
    from volsched.framework.quota_report import NODE_QUOTA as NODE_QUOTA
    from volsched.framework.quota_report import QUOTA as QUOTA
    from volsched.framework.quota_report import STRANDED_CARDS as STRANDED_CARDS
    from volsched.framework.quota_report import CardUse as CardUse
    from volsched.framework.quota_report import Consumer as Consumer
    from volsched.framework.quota_report import Dimension as Dimension
    from volsched.framework.quota_report import JobUse as JobUse
    from volsched.framework.quota_report import JobUses as JobUses
    from volsched.framework.quota_report import PodUse as PodUse
    from volsched.framework.quota_report import QueueUse as QueueUse
    from volsched.framework.quota_report import QuotaRow as QuotaRow
    from volsched.framework.quota_report import QuotaTable as QuotaTable
    from volsched.framework.quota_report import Suggestion as Suggestion
    from volsched.framework.quota_report import Target as Target
    from volsched.framework.quota_report import Usage as Usage
    from volsched.framework.quota_report import Value as Value
    from volsched.framework.reports import QueueAllocation as QueueAllocation
    from volsched.quota.amounts import Amounts as Amounts
    from volsched.quota.amounts import Guarantees as Guarantees
    from volsched.quota.amounts import above as above
    from volsched.quota.amounts import capability_of as capability_of
    from volsched.quota.amounts import figures as figures
    from volsched.quota.amounts import guaranteed as guaranteed
    from volsched.quota.amounts import larger as larger
    from volsched.quota.amounts import left_by as left_by
    from volsched.quota.amounts import limits as limits
    from volsched.quota.amounts import named as named
    from volsched.quota.amounts import not_a_leaf as not_a_leaf
    from volsched.quota.amounts import not_admitted as not_admitted
    from volsched.quota.amounts import of_nodes as of_nodes
    from volsched.quota.amounts import request_with_slot as request_with_slot
    from volsched.quota.amounts import room as room
    from volsched.quota.amounts import share as share
    from volsched.quota.amounts import short_of_those_below as short_of_those_below
    from volsched.quota.amounts import there as there
    from volsched.quota.amounts import total_of as total_of
    from volsched.quota.checks import At as At
    from volsched.quota.checks import Exceeded as Exceeded
    from volsched.quota.checks import LeafQueues as LeafQueues
    from volsched.quota.checks import QueueQuotas as QueueQuotas
    from volsched.quota.checks import exceeded as exceeded
    from volsched.quota.demand import DEMANDS as DEMANDS
    from volsched.quota.demand import DEMANDS_ABOVE as DEMANDS_ABOVE
    from volsched.quota.demand import JobDemand as JobDemand
    from volsched.quota.demand import JobDemands as JobDemands
    from volsched.quota.demand import JobSums as JobSums
    from volsched.quota.demand import QueueDemand as QueueDemand
    from volsched.quota.demand import QueueDemands as QueueDemands
    from volsched.quota.demand import committed as committed
    from volsched.quota.demand import demands_of as demands_of
    from volsched.quota.division import Claim as Claim
    from volsched.quota.division import divide as divide
    from volsched.quota.division import limits_in as limits_in
    from volsched.quota.division import summed as summed
    from volsched.quota.faults import NO_PLACE as NO_PLACE
    from volsched.quota.faults import QUEUE_FAULTS as QUEUE_FAULTS
    from volsched.quota.faults import QueueFaults as QueueFaults
    from volsched.quota.faults import report_faults as report_faults
    from volsched.quota.order import nearest_first as nearest_first
    from volsched.quota.order import order_in_tree as order_in_tree
    from volsched.quota.order import path_key as path_key
    from volsched.quota.past_use import HALF_LIFE_ARGUMENT as HALF_LIFE_ARGUMENT
    from volsched.quota.past_use import PastUse as PastUse
    from volsched.quota.past_use import check_half_life as check_half_life
    from volsched.quota.past_use import half_life_of as half_life_of
    from volsched.quota.past_use import order_over_time as order_over_time
    from volsched.quota.past_use import order_queues as order_queues
    from volsched.quota.past_use import place_over_time as place_over_time
    from volsched.quota.reclaim import Elastic as Elastic
    from volsched.quota.reclaim import ReclaimView as ReclaimView
    from volsched.quota.reclaim import Remaining as Remaining
    from volsched.quota.reclaim import reclaimable_of as reclaimable_of
    from volsched.quota.report import CachedNumbers as CachedNumbers
    from volsched.quota.report import asked_of as asked_of
    from volsched.quota.report import held_in_cluster as held_in_cluster
    from volsched.quota.report import held_of_quota as held_of_quota
    from volsched.quota.report import jobs_by_queue as jobs_by_queue
    from volsched.quota.report import left as left
    from volsched.quota.report import node_name as node_name
    from volsched.quota.report import pods_of as pods_of
    from volsched.quota.report import queues_below as queues_below
    from volsched.quota.report import raises as raises
    from volsched.quota.report import sharing_limit as sharing_limit
    from volsched.quota.report import step_of as step_of
    from volsched.quota.report import usage_by_resource as usage_by_resource
    from volsched.quota.report import with_annotation as with_annotation
    from volsched.quota.report import with_spec as with_spec
    from volsched.quota.resources import NO_AMOUNTS as NO_AMOUNTS
    from volsched.quota.resources import QuotaAmounts as QuotaAmounts
    from volsched.quota.resources import ResourceQuotas as ResourceQuotas
    from volsched.quota.tree import QueueTree as QueueTree
    from volsched.quota.tree import Tree as Tree
    from volsched.quota.usage import JobCharges as JobCharges
    from volsched.quota.usage import QueueUsageObserver as QueueUsageObserver
else:
    __getattr__, __dir__ = _on_first_use(
        __name__,
        {
            "Holding": ("volsched.framework.quota_report:Consumer", "it is Consumer"),
            "Remedy": ("volsched.framework.quota_report:Suggestion", "it is Suggestion"),
            "Stakes": ("volsched.quota.reclaim:ReclaimView", "it is ReclaimView"),
        },
    )
