"""Recorded plans: what sessions decide in stored random scenarios, and every reason that they state.

A scenario is plain Kubernetes objects, a configuration, and what happens before each cycle. Its plan is what each cycle
decided, in the terms of users: pods, nodes, reasons, messages. A redesign of the code leaves all plans unchanged. Only
``sessions.py`` knows classes of the product.
"""
