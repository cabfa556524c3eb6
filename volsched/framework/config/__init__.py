"""Reads the text of a configuration: actions, plugins and their arguments."""
