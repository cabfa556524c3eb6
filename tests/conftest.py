"""Profiles of the property tests: quick and always the same by default, long and ever new with ``thorough``.

make thorough
"""

from __future__ import annotations

import gc
import os
from collections.abc import Generator, Iterator
from typing import Any, Final

import pytest
import structlog
from hypothesis import HealthCheck, settings

from tests.container import why_not
from tools.controlplane.binaries import cache_root

pytest_plugins = ("tests.processes", "tests.suite.plugin")

SLOW_ON_PURPOSE = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)

NO_CLOCK = (HealthCheck.too_slow,)
"""A busy machine is no fault of a test."""

settings.register_profile(
    "default", deadline=None, derandomize=True, max_examples=40, print_blob=True, suppress_health_check=NO_CLOCK
)
settings.register_profile(
    "thorough", deadline=None, max_examples=2_000, print_blob=True, suppress_health_check=SLOW_ON_PURPOSE
)
settings.load_profile("default")

OF_GO: Final = {"GOMAXPROCS": "1", "GOGC": "400"}
"""For the Go programs that tests start. With more cores, threads that have nothing to do look for work all the time: an
idle control plane takes a quarter more CPU time, and a busy one a tenth. A kubectl that collects garbage less often
takes a quarter less."""

RARELY: Final = 50_000
"""Objects between two collections of garbage."""

KEPT_TABLES: Final = {"HYPOTHESIS_STORAGE_DIRECTORY": str(cache_root() / "hypothesis")}
"""What Hypothesis finds out once of Unicode and of the constants in our modules: five CPU seconds for each worker."""

os.environ.update(OF_GO | KEPT_TABLES | os.environ)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect garbage rarely, and never look at the modules and tests, which are there all the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(RARELY, *gc.get_threshold()[1:])
        gc.enable()


def pytest_report_header() -> str:
    """Say how processes of volsched are started, since that depends on the machine."""
    how = f"with your user and file system, and tests of the image are left out: {why_not()}"
    return f"processes: {how if why_not() else 'in containers by hand, as the image'}"


@pytest.fixture(scope="session", autouse=True)
def loggers_follow_their_configuration() -> Iterator[None]:
    """Have no logger keep the configuration that it was first used with, as it does in a program.

    What a test captures would else depend on which tests had logged before it.
    """
    configure = structlog.configure

    def without_cache(*args: Any, **given: Any) -> None:
        configure(*args, **{**given, "cache_logger_on_first_use": False})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(structlog, "configure", without_cache)
        yield
