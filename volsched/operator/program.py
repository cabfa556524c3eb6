"""`volsched controllers` wired together."""

from __future__ import annotations

from volsched.operator.options import Options


def run(options: Options) -> int:
    """Run the controllers until they end; return the exit status."""
    raise NotImplementedError(options)
