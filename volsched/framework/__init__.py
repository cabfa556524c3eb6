"""The contract between the scheduling loop, its actions and its plugins.

Plugins are written against the modules here; rooms below have what they need not know: the engine, its columns, the
configuration, accounts and devices.
"""

from volsched.framework.deprecated_names import moved_modules

moved_modules(
    {
        f"volsched.{before}": f"volsched.{now}"
        for before, now in {
            "framework.accounts.division": "quota.division",
            "framework.accounts.gangs": "framework.eviction_units",
            "framework.accounts.elastic": "quota.reclaim",
            "framework.accounts.holdings": "quota.report",
            "framework.accounts.past_use": "quota.past_use",
            "framework.accounts.queue_demand": "quota.demand",
            "framework.accounts.queue_status": "quota.status",
            "framework.accounts.queue_tree": "quota.tree",
            "framework.accounts.queue_usage": "quota.usage",
            "framework.accounts.quota_report": "quota.report",
            "framework.accounts.quotas": "quota.amounts",
            "framework.accounts.remedies": "quota.report",
            "framework.accounts.templates": "framework.templates",
            "framework.columns.columns": "framework.columns.tables",
            "framework.dispatch.steps": "framework.dispatch.one_at_a_time",
            "framework.discretion": "framework.redaction",
            "framework.engine.engine": "framework.engine.fast",
            "framework.leaving": "framework.terminating",
            "framework.outcome.permission": "framework.outcome.refusals",
            "framework.released_reservations": "framework.admission_reservations",
            "model.cards.offers": "model.cards.node_cards",
            "model.cards.stock": "model.cards.inventory",
            "model.clocks": "model.generations",
            "model.native.api": "model.api.native_groups",
            "model.native.group": "model.native_group",
            "model.nodes.ledger": "model.nodes.cache",
            "model.pods.rules": "model.pods.placement_rules",
            "model.queues.ledger": "model.queues.cache",
            "model.reservation": "model.held_nodes",
        }.items()
    }
)
