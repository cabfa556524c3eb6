"""The contract between the scheduling loop, its actions and its plugins.

Plugins are written against the modules here; rooms below have what they need not know: the engine, its columns, the
configuration, accounts and devices.
"""
