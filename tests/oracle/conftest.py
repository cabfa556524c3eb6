"""The oracle is built once and runs for the whole test run; it is built only where its tests run.

The oracle's own tests are tests of a judge. `python -m tests.judges` runs them, and so does a run that names
their file. All other runs leave them out as long as the recorded answers are of this very program.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .oracle import Oracle, build_oracle
from .questions import is_recorded

collect_ignore = ["test_oracle.py"] if is_recorded() else []


@pytest.fixture(scope="session")
def oracle(request: pytest.FixtureRequest) -> Iterator[Oracle]:
    """Kubernetes' own scheduler plugins."""
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():  # a first build takes a while and says so
        program = build_oracle()
    with Oracle(program) as running:
        yield running
