"""Where Prometheus comes from, and what the tests' handle on it says when a query is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import prometheus
from tools.controlplane.binaries import go_arch
from tools.controlplane.errors import BuildError
from tools.prometheus import Programs, Prometheus, PrometheusError, find_programs


@pytest.fixture
def empty_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder that is all of PATH, and a cache of its own."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("VOLSCHED_CACHE", str(tmp_path / "cache"))
    return folder


def test_programs_on_path_are_taken(empty_path: Path) -> None:
    for program in prometheus.PROGRAMS:
        (empty_path / program).write_text("#!/bin/sh\n")
        (empty_path / program).chmod(0o755)

    assert find_programs() == Programs(empty_path / "prometheus", empty_path / "promtool")


def test_without_a_package_manager_the_error_says_what_to_do(empty_path: Path) -> None:
    with pytest.raises(BuildError, match=r"no apt-get.*; install Prometheus .* on PATH"):
        find_programs()


def test_what_was_fetched_once_is_found_again_without_a_word(
    empty_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "cache" / f"prometheus-2.42.0-{go_arch()}" / "usr" / "bin"
    folder.mkdir(parents=True)

    assert find_programs() == Programs(folder / "prometheus", folder / "promtool")
    assert capsys.readouterr().err == ""


@pytest.mark.process
def test_a_query_is_answered_and_a_wrong_one_refused_in_prometheus_words(tmp_path: Path) -> None:
    with Prometheus(tmp_path, {"nobody": ["127.0.0.1:1"]}) as server:
        assert server.query("vector(7)")[0]["value"][1] == "7"
        with pytest.raises(PrometheusError, match="parse error"):
            server.query("sum(")
