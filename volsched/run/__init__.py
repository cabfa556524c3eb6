"""The long-running verbs: what `volsched run` is wired from, and what it shares with `volsched controllers`."""
