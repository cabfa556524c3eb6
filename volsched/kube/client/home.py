"""A home for a user who has none, as that of the image: kubernetes-asyncio, and so kopf, cannot be imported without."""

from __future__ import annotations

import os


def have_a_home() -> None:
    """Take `/` for it where neither HOME nor the user's entry in passwd names one, as container engines do."""
    if os.path.expanduser("~") == "~":
        os.environ["HOME"] = "/"
