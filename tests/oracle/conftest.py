"""The oracle is built once and runs for the whole test run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .oracle import Oracle, build_oracle


@pytest.fixture(scope="session")
def oracle(request: pytest.FixtureRequest) -> Iterator[Oracle]:
    """Kubernetes' own scheduler plugins."""
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():  # a first build takes a while and says so
        program = build_oracle()
    with Oracle(program) as running:
        yield running
