"""Which free cards cannot be used, and why; in the series, the table, simulate and cards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from plugins.fragmentation.average_demand import AverageDemand
from plugins.fragmentation.stranded import Lines
from tests.plugins.fragmentation.worlds import a_plain_rig, cards
from volsched.cli import volsched
from volsched.registry import load_profile
from volsched.testing.builders import ClusterBuilder, a_cluster

ALONE = 'actions: "allocate"\ntiers:\n- plugins: [{name: predicates}, {name: fragmentation}]\n'
CARD = {"nvidia.com/gpu.product": "A100"}
MEANS = AverageDemand(8000.0, float(8 << 30), ((1, 20),), ((50, 12),))


@pytest.mark.parametrize(
    ("free", "cpu", "memory", "remainders", "cause", "amount"),
    [
        (4000, 8000, 64, 0, "cpu", 3000),
        (4000, 64_000, 8, 0, "memory", 3000),
        (300, 64_000, 64, 300, "parts", 300),
        (800, 64_000, 64, 0, "parts", 0),
        (1000, -5, 64, 1000, "cpu", 1000),
        (1000, -5, 64, 1000, "parts", 0),
    ],
)
def test_each_free_card_counts_for_the_first_cause(
    free: int, cpu: int, memory: int, remainders: int, cause: str, amount: int
) -> None:
    row = (np.array([value]) for value in (8000, free, cpu, memory << 30, remainders, free // 1000))
    line = Lines._make((*row, np.array([True])))

    assert line.losses(MEANS, is_scattered=False)[cause].tolist() == [amount]


def scattered() -> ClusterBuilder:
    """Two nodes with four cards free each, and pods that want eight."""
    world = a_cluster()
    for name in ("a", "b"):
        world.node(name, cpu=96, labels=CARD, **cards(8)).pod(f"on-{name}", on=name, cpu=4, memory="1Gi", **cards(4))
    return world.pod("w0", cpu=4, memory="1Gi", **cards(8)).pod("w1", cpu=4, memory="1Gi", **cards(8))


def numbers(world: ClusterBuilder) -> dict[str, dict[tuple[str, ...], float]]:
    report = a_plain_rig(world, ALONE).cycle().report
    return {series.name: dict(found) for series, found in report.series if series.name.startswith("volsched_cards")}


def test_cards_are_scattered_when_no_node_has_as_many_as_pods_want() -> None:
    found = numbers(scattered())

    assert found["volsched_cards"] == {("A100",): 16.0}
    assert found["volsched_cards_free"] == {("A100",): 8.0}
    assert found["volsched_cards_stranded"][("A100", "scattered")] == 8.0


def test_cards_of_a_model_that_no_waiting_pod_takes_are_told() -> None:
    world = a_cluster().node("a", cpu=96, labels=CARD, **cards(2))
    world.pod("waits", cpu=4, spec={"nodeSelector": {"nvidia.com/gpu.product": "H100"}}, **cards(1))

    assert numbers(world)["volsched_cards_stranded"][("A100", "model")] == 2.0


def written(world: ClusterBuilder, tmp_path: Path) -> list[str]:
    (tmp_path / "world.json").write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": world.objects}))
    (tmp_path / "scheduler.conf").write_text(ALONE)
    return ["-f", str(tmp_path / "world.json"), "--config", str(tmp_path / "scheduler.conf")]


def ran(*arguments: str) -> Any:
    return CliRunner().invoke(volsched, list(arguments), catch_exceptions=False)


def test_simulate_and_cards_show_the_same(tmp_path: Path) -> None:
    given = written(scattered(), tmp_path)

    simulated = json.loads(ran("simulate", *given, "-o", "json").stdout)["cards"]
    shown = json.loads(ran("cards", *given, "--stranded", "-o", "json").stdout)["strandedCards"]

    assert simulated == shown
    assert shown[0] == {"card": "A100", "cards": 16, "free": 8, "stranded": 8, "scattered": 8,
                        "cpu": 0, "memory": 0, "parts": 0, "model": 0}  # fmt: skip
    assert "scattered 8" in ran("simulate", *given).stdout
    assert "STRANDED CARDS" in ran("cards", *given, "--stranded").stdout


def test_without_the_plugin_nothing_is_said(tmp_path: Path) -> None:
    given = written(scattered(), tmp_path)
    (tmp_path / "scheduler.conf").write_text(ALONE.replace(", {name: fragmentation}", ""))

    refused = ran("cards", *given, "--stranded")

    assert refused.exit_code == 2
    assert "plugin fragmentation" in refused.stderr
    assert "cards" not in json.loads(ran("simulate", *given, "-o", "json").stdout)


def test_validate_warns_of_scores_that_work_against_it() -> None:
    _, warnings = load_profile(ALONE.replace("{name: fragmentation}", "{name: fragmentation}, {name: binpack}"))

    assert any("plugin binpack work against those of fragmentation" in str(warning) for warning in warnings)
    assert not load_profile(ALONE)[1]
