"""The page: queues, cards, waiting jobs and what-if of a live cluster, in a browser. Nothing is written."""
