"""``volsched version``."""

from __future__ import annotations

import platform

import click

from volsched import __version__
from volsched.cli.printing import say


@click.command()
def version() -> None:
    """Print the version of volsched and of the Python that runs it."""
    say(f"volsched {__version__} (Python {platform.python_version()}, {platform.system()})")
