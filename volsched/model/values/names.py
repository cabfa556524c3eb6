"""The form of names of objects: anything else names no object and is refused early."""

from __future__ import annotations

from typing import Final

LONGEST_NAME: Final = 253
"""Characters of a name, as the API server has it (RFC 1123 subdomains)."""


def is_name(text: str) -> bool:
    """Return whether an object could be called so. Manifests may hold names that the API server would refuse."""
    return 0 < len(text) <= LONGEST_NAME and text.isprintable() and "/" not in text
