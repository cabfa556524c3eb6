"""The contract between the scheduling loop, its actions and its plugins."""
