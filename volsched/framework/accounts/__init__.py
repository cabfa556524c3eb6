"""State that plugins and actions share beside quotas: whole gangs, admissions, cards that pods name."""
