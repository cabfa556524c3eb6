"""Profiles of the property tests: quick and always the same by default, long and ever new with ``thorough``.

pytest tests/properties --hypothesis-profile=thorough
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings

from tests.container import why_not

SLOW_ON_PURPOSE = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)

settings.register_profile("default", deadline=None, derandomize=True, print_blob=True)
settings.register_profile(
    "thorough", deadline=None, max_examples=2_000, print_blob=True, suppress_health_check=SLOW_ON_PURPOSE
)
settings.load_profile("default")


def pytest_report_header() -> str:
    """Say how processes of volsched are started, since that depends on the machine."""
    how = f"with your user and file system, and tests of the image are left out: {why_not()}"
    return f"processes: {how if why_not() else 'in containers by hand, as the image'}"
