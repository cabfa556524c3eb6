"""What plugins and actions share beside quotas: gangs that leave together, admissions, cards that pods name."""

from volsched.framework.deprecated_names import moved_modules

moved_modules(
    {
        f"{__name__}.{before}": f"volsched.{now}"
        for before, now in {
            "division": "quota.division",
            "elastic": "quota.reclaim",
            "holdings": "quota.report",
            "past_use": "quota.past_use",
            "queue_demand": "quota.demand",
            "queue_status": "quota.status",
            "queue_tree": "quota.tree",
            "queue_usage": "quota.usage",
            "quota_report": "quota.report",
            "quotas": "quota.amounts",
            "remedies": "quota.report",
            "templates": "framework.templates",
        }.items()
    }
)
