"""What pods and jobs ask for of cards, and what a task counts for in quotas."""
