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
    "page_browser": ["--nodes", "16", "--turns", "1", "--seconds", "1"],
    "page_crowd": ["--nodes", "16", "--running", "32", "--waiting", "2", "--seconds", "1"],
    "decisions": ["--nodes", "100", "--repeats", "1", "--no-naive"],
    "sessions": ["--nodes", "700", "--running", "200", "--gangs", "50", "--turns", "2"],
    "sharing": ["--draws", "1"],
    "dra": ["--contestants", "decisions", "--decided-nodes", "10", "--repeats", "1"],
    "packing": ["--trace", "TRACE", "--lists", "default", "multigpu50", "--seeds", "1", "--arrivals", "60"],
    "preemption": ["--nodes", "20", "--preemptors", "20"],
}


def with_trace(options: list[str], folder: Path) -> list[str]:
    """Put a trace of four nodes and thirty pods in the place of the published one."""
    nodes = [f"n{number},64000,262144,{2 * number},M{number % 2}" for number in range(1, 5)]
    (folder / "openb_node_list_gpu_node.csv").write_text("\n".join(["sn,cpu_milli,memory_mib,gpu,model", *nodes]))
    sorts = ("0,0,", "1,460,", "1,1000,M0", "2,1000,M0|M1")
    pods = [f"p{number},4000,8192,{sorts[number % 4]}" for number in range(30)]
    head = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec"
    (folder / "openb_pod_list_default.csv").write_text("\n".join([head, *pods]))
    return [str(folder) if option == "TRACE" else option for option in options]


@pytest.mark.parametrize("name", ON_SMALL_SIZES)
@pytest.mark.process
def test_a_bench_prints_a_table_and_leaves_a_file(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(common, "RESULTS", tmp_path)
    monkeypatch.setattr(sys, "argv", ["python -m bench", name, *with_trace(ON_SMALL_SIZES[name], tmp_path)])

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
