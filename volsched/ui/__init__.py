"""The page: queues, cards, waiting jobs and what-if of a live cluster, for people with a browser. Nothing is written."""
