"""A home for a user without one, as in the image: kubernetes-asyncio, and so kopf, cannot be imported without."""

from __future__ import annotations

import os


def have_a_home() -> None:
    """Use `/` if neither HOME nor the user's entry in passwd names a home, as container engines do."""
    if os.path.expanduser("~") == "~":
        os.environ["HOME"] = "/"
