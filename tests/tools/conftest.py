"""An empty cache and programs that only pretend, for tests of what finds, builds and downloads programs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.fake_go import FAKE_GO, write_program


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The first folder of PATH, without any program, while the cache is empty."""
    monkeypatch.setenv("VOLSCHED_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    folder = tmp_path / "path"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder


@pytest.fixture
def traces(elsewhere: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A Go that only pretends, and the folder where it leaves its traces."""
    write_program(elsewhere, "go", FAKE_GO)
    (tmp_path / "traces").mkdir()
    monkeypatch.setenv("TRACES", str(tmp_path / "traces"))
    return tmp_path / "traces"
