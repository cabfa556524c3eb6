"""From the text of a configuration to values: which actions and plugins run, with which arguments."""
