"""Finds nodes for tasks: answers of rules about nodes are kept until their inputs change."""
