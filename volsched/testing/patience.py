"""How long tests and drills wait. Waiting ends when the thing has come, so a long limit costs a green test nothing."""

from __future__ import annotations

from typing import Final

PATIENCE: Final = 300.0
"""Seconds that what has to come is waited for: so many that only a hang takes them, however slow the machine."""
