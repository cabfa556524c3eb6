"""What plugins with quotas of queues import beside ``volsched.plugin``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from volsched.plugin import _on_first_use

if TYPE_CHECKING:
    from volsched.framework.accounts.division import Claim as Claim
    from volsched.framework.accounts.division import divide as divide
    from volsched.framework.accounts.division import limits_in as limits_in
    from volsched.framework.accounts.division import summed as summed
    from volsched.framework.accounts.elastic import Elastic as Elastic
    from volsched.framework.accounts.elastic import ElasticQuota as ElasticQuota
    from volsched.framework.accounts.elastic import Stakes as Stakes
    from volsched.framework.accounts.elastic import reclaimable_of as reclaimable_of
    from volsched.framework.accounts.gangs import departing as departing
    from volsched.framework.accounts.holdings import Holding as Holding
    from volsched.framework.accounts.holdings import asked_of as asked_of
    from volsched.framework.accounts.holdings import held_in_cluster as held_in_cluster
    from volsched.framework.accounts.holdings import held_of_quota as held_of_quota
    from volsched.framework.accounts.holdings import queues_below as queues_below
    from volsched.framework.accounts.past_use import HALF_LIFE_ARGUMENT as HALF_LIFE_ARGUMENT
    from volsched.framework.accounts.past_use import PastUse as PastUse
    from volsched.framework.accounts.past_use import check_half_life as check_half_life
    from volsched.framework.accounts.past_use import half_life_of as half_life_of
    from volsched.framework.accounts.past_use import place_over_time as place_over_time
    from volsched.framework.accounts.queue_demand import DEMANDS as DEMANDS
    from volsched.framework.accounts.queue_demand import DEMANDS_ABOVE as DEMANDS_ABOVE
    from volsched.framework.accounts.queue_demand import QueueDemand as QueueDemand
    from volsched.framework.accounts.queue_demand import QueueDemands as QueueDemands
    from volsched.framework.accounts.queue_status import QueueHoldings as QueueHoldings
    from volsched.framework.accounts.queue_tree import QueueTree as QueueTree
    from volsched.framework.accounts.queue_tree import Tree as Tree
    from volsched.framework.accounts.queue_usage import QueueUsageObserver as QueueUsageObserver
    from volsched.framework.accounts.quota_report import STRANDED_CARDS as STRANDED_CARDS
    from volsched.framework.accounts.quota_report import CardUse as CardUse
    from volsched.framework.accounts.quota_report import Dimension as Dimension
    from volsched.framework.accounts.quota_report import JobUse as JobUse
    from volsched.framework.accounts.quota_report import JobUses as JobUses
    from volsched.framework.accounts.quota_report import PodUse as PodUse
    from volsched.framework.accounts.quota_report import QueueUse as QueueUse
    from volsched.framework.accounts.quota_report import QuotaRow as QuotaRow
    from volsched.framework.accounts.quota_report import QuotaTable as QuotaTable
    from volsched.framework.accounts.quota_report import Usage as Usage
    from volsched.framework.accounts.quota_report import Value as Value
    from volsched.framework.accounts.quota_report import jobs_by_queue as jobs_by_queue
    from volsched.framework.accounts.quota_report import left as left
    from volsched.framework.accounts.quota_report import node_name as node_name
    from volsched.framework.accounts.quota_report import pods_of as pods_of
    from volsched.framework.accounts.quota_report import usage_by_resource as usage_by_resource
    from volsched.framework.accounts.quotas import capability_of as capability_of
    from volsched.framework.accounts.quotas import figures as figures
    from volsched.framework.accounts.quotas import guaranteed as guaranteed
    from volsched.framework.accounts.quotas import larger as larger
    from volsched.framework.accounts.quotas import limits as limits
    from volsched.framework.accounts.quotas import named as named
    from volsched.framework.accounts.quotas import not_a_leaf as not_a_leaf
    from volsched.framework.accounts.quotas import not_admitted as not_admitted
    from volsched.framework.accounts.quotas import of_nodes as of_nodes
    from volsched.framework.accounts.quotas import room as room
    from volsched.framework.accounts.quotas import share as share
    from volsched.framework.accounts.quotas import there as there
    from volsched.framework.accounts.quotas import total_of as total_of
    from volsched.framework.accounts.remedies import CARD as CARD
    from volsched.framework.accounts.remedies import NODE_QUOTA as NODE_QUOTA
    from volsched.framework.accounts.remedies import QUOTA as QUOTA
    from volsched.framework.accounts.remedies import Remedy as Remedy
    from volsched.framework.accounts.remedies import Target as Target
    from volsched.framework.accounts.remedies import raises as raises
    from volsched.framework.accounts.remedies import step_of as step_of
    from volsched.framework.accounts.remedies import with_annotation as with_annotation
    from volsched.framework.accounts.remedies import with_spec as with_spec
    from volsched.framework.over_time import order_over_time as order_over_time
    from volsched.framework.queue_faults import NO_PLACE as NO_PLACE
    from volsched.framework.queue_faults import QUEUE_FAULTS as QUEUE_FAULTS
    from volsched.framework.queue_faults import QueueFaults as QueueFaults
else:
    __getattr__, __dir__ = _on_first_use(__name__)
