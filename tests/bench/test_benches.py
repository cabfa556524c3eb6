"""The benches that need no control plane run, on sizes that say nothing: what nobody runs breaks unseen."""

from __future__ import annotations

import gc
import json
import sys
from importlib import import_module
from pathlib import Path

import pytest

from bench import common
from bench.__main__ import NAMES, main

ON_SMALL_SIZES = {
    "decisions": ["--nodes", "100", "--repeats", "1", "--no-naive"],
    "sessions": ["--nodes", "700", "--running", "200", "--gangs", "50", "--turns", "2"],
    "sharing": ["--draws", "1"],
    "dra": ["--contestants", "decisions", "--nodes", "10", "--claims", "100"],
    "preemption": ["--nodes", "20", "--preemptors", "20"],
}


@pytest.mark.parametrize("name", ON_SMALL_SIZES)
@pytest.mark.process
def test_a_bench_prints_a_table_and_leaves_a_file(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(common, "RESULTS", tmp_path)
    monkeypatch.setattr(sys, "argv", ["python -m bench", name, *ON_SMALL_SIZES[name]])

    before = gc.get_threshold()
    assert main() == 0
    gc.unfreeze()
    gc.set_threshold(*before)

    left = json.loads((tmp_path / f"{name}.json").read_text())
    assert left["bench"] == name
    assert left["rows"]
    assert left["machine"]["commit"] in capsys.readouterr().out


@pytest.mark.parametrize("name", NAMES)
def test_every_bench_says_what_it_measures(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [f"python -m bench {name}", "-h"])

    with pytest.raises(SystemExit) as ended:
        import_module(f"bench.{name}").main()

    assert ended.value.code == 0
    assert len(capsys.readouterr().out.splitlines()) > 5
