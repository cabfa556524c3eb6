"""What plugins and actions share beside quotas: gangs that leave together, admissions, cards that pods name."""
