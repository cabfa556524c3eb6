"""Profiles of the property tests: quick and always the same by default, long and ever new with ``thorough``.

pytest tests/properties --hypothesis-profile=thorough
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings

SLOW_ON_PURPOSE = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)

settings.register_profile("default", deadline=None, derandomize=True, print_blob=True)
settings.register_profile(
    "thorough", deadline=None, max_examples=2_000, print_blob=True, suppress_health_check=SLOW_ON_PURPOSE
)
settings.load_profile("default")
