"""What a plugin of another distribution reports is shown wherever the project's own is, without further changes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.cli.calls import call, text_of
from tests.simulation.clusters import node, pod, queue
from tests.test_registry import added
from tests.ui.worlds import NOW, known_of, live_of, picture_of, read
from volsched import registry
from volsched.diagnose.anonymous import anonymised
from volsched.diagnose.cards import NodeCards
from volsched.diagnose.restarted_pods import restarted
from volsched.framework import rules
from volsched.framework.quota_report import QuotaRow, QuotaTable
from volsched.framework.registration import Registrar
from volsched.framework.reports import Report
from volsched.model import api
from volsched.model.errors import ConfigError
from volsched.model.values.series import Series

BOARD, LOOM, SLOTS = "example.com/board", "example.com/loom", "example.com/loom-slots"
CONFIGURATION = """
actions: allocate
tiers:
- plugins:
  - name: gang
  - name: predicates
  - name: boards
"""
ROW = QuotaRow(("l1",), {"threads": 7})
THREADS = Series("threads", "Threads that are left.")


class Boards:
    """Knows looms: their boards by a label of nodes, and slots that containers share."""

    name = "boards"
    TASK_ANNOTATIONS = ("example.com/slot", "example.com/cloth", "example.com/patterns-*")
    RESULT_ANNOTATIONS = ("example.com/slot",)
    ANNOTATION_TYPES = {  # noqa: RUF012 - as a plugin of somebody else has it
        "example.com/slot": "digits",
        "example.com/patterns-*": ("cards", "card amounts"),
    }

    def on_session_open(self, registrar: Registrar) -> None:
        registrar.register(
            Report(
                metrics={THREADS: lambda: {(): 7.0}},
                table=lambda: QuotaTable("looms", "Looms", ("loom",), ("threads",), [ROW]),
                card_name=board_of,
                shared_cards={SLOTS: "slots"},
            )
        )


def board_of(resource: str, labels: Mapping[str, str]) -> str:
    return labels.get(BOARD, "") if resource == LOOM else ""


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Boards is installed, by another distribution."""
    added(monkeypatch, boards=f"{__name__}:Boards")
    caches = (registry.installed_annotations, registry.result_annotations, registry.annotation_types)
    for cached in caches:
        cached.cache_clear()
    yield
    for cached in caches:
        cached.cache_clear()


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """A node with three looms of which two are taken, and slots; the configuration that names the plugin."""
    weaver = pod("weaver", on="mill", status={"phase": "Running"})
    weaver["spec"]["containers"][0]["resources"] = {"limits": {LOOM: 2, SLOTS: 5}, "requests": {LOOM: 2, SLOTS: 5}}
    world, configuration = tmp_path / "world.yaml", tmp_path / "scheduler.conf"
    mill = node("mill", labels={BOARD: "Jacquard"}, extended={LOOM: "3", SLOTS: "20"})
    world.write_text(text_of(mill, queue("default"), weaver))
    configuration.write_text(CONFIGURATION)
    return world, configuration


def cards_on_the_page(world: Path, configuration: str) -> list[tuple[str, str, int, int]]:
    known = replace(read(world), configuration=configuration)
    return [_short(each) for each in picture_of(known).cards]


def _short(cards: NodeCards) -> tuple[str, str, int, int]:
    return cards.sort, cards.model, cards.used, cards.total


def test_its_cards_and_tables_are_shown_by_volsched_cards(files: tuple[Path, Path]) -> None:
    world, configuration = files

    found = json.loads(call("cards", "-f", world, "--config", configuration, "-o", "json").stdout)
    shown = call("cards", "-f", world, "--config", configuration).stdout

    assert found["nodes"] == {"mill": {"Jacquard": 3}}
    assert found["total"] == {"Jacquard": 3}
    assert found["resourceNames"] == {"Jacquard": LOOM}
    assert found["looms"] == [{"loom": "l1", "threads": 7}]
    assert ["Jacquard", "3", "1", LOOM] in [line.split() for line in shown.splitlines()]
    assert "Looms" in shown or "LOOMS" in shown


def test_its_cards_are_on_the_page_with_those_who_hold_them(files: tuple[Path, Path]) -> None:
    world, _ = files

    assert cards_on_the_page(world, CONFIGURATION) == [("card", "Jacquard", 2, 3), ("shared", "shared cards", 1, 1)]


def test_without_the_plugin_nobody_names_its_cards(files: tuple[Path, Path]) -> None:
    world, _ = files

    assert cards_on_the_page(world, CONFIGURATION.replace("  - name: boards\n", "")) == []


def test_the_page_follows_a_configuration_that_begins_to_name_the_plugin(files: tuple[Path, Path]) -> None:
    world, _ = files
    live = live_of(replace(read(world), configuration=CONFIGURATION.replace("  - name: boards\n", "")))
    before = live.look(NOW).cards

    live.use(CONFIGURATION)

    assert before == ()
    assert [each.model for each in live.look(NOW + 1).cards] == ["Jacquard", "shared cards"]


def test_its_cards_are_those_of_the_cluster_beside_queues(files: tuple[Path, Path]) -> None:
    world, configuration = files

    found = json.loads(call("queue", "list", "-f", world, "--config", configuration, "-o", "json").stdout)

    assert found["cards"] == {"Jacquard": {"total": 3, "idle": 1, "quota": None, "used": 2}}


def test_its_cards_can_be_freed_by_moves(files: tuple[Path, Path]) -> None:
    world, configuration = files

    moves = json.loads(
        call("cards", "--suggest-moves", "1", "-f", world, "--config", configuration, "-o", "json").stdout
    )

    assert [each["node"] for each in moves["passedOver"]] == ["mill"]


def test_its_numbers_are_metrics_and_each_part_is_what_it_reports() -> None:
    reports = registry.reports_in(registry.load_configuration(CONFIGURATION).configuration)

    numbers = {series.name: fn() for report in reports for series, fn in report.metrics.items()}
    assert numbers.pop("volsched_device_searches")[("found",)] == 0.0  # of predicates
    assert numbers == {"threads": {(): 7.0}}


def test_a_pod_that_is_made_again_has_no_results_of_it() -> None:
    found = api.convert(
        {
            "metadata": {
                "name": "p", "namespace": "n", "uid": "u",
                "annotations": {"example.com/slot": "3", "example.com/cloth": "wool"},
            },
            "spec": {"nodeName": "mill", "containers": [{"name": "c", "image": "c"}]},
        },
        api.Pod,
    )  # fmt: skip

    [again] = restarted(known_of([found]), {"n/p": "mill"}, ())

    assert again.metadata.annotations == {"example.com/cloth": "wool"}


def test_an_anonymous_snapshot_reads_its_annotations_by_their_types() -> None:
    annotations = {
        "example.com/slot": "3",
        "example.com/cloth": "linen",
        "example.com/patterns-Jacquard": '{"Jacquard": 2}',
        "example.com/undeclared": "secret",
    }
    meta: dict[str, Any] = {"name": "p", "namespace": "n", "annotations": annotations}
    found = api.convert({"metadata": meta, "spec": {"containers": [{"name": "c", "image": "c"}]}}, api.Pod)

    known, names = anonymised(known_of([found], CONFIGURATION))

    [other] = known.objects
    jacquard = names.card("Jacquard")
    assert jacquard != "Jacquard"
    assert other.metadata.annotations == {
        "example.com/slot": "3",
        "example.com/cloth": names.name("linen"),
        f"example.com/patterns-{jacquard}": json.dumps({jacquard: 2}),
    }


def test_a_type_of_annotations_that_there_is_not_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Boards, "ANNOTATION_TYPES", {"example.com/slot": "colour"})

    with pytest.raises(ConfigError, match=r"example\.com/slot of the type colour; there are name, word,"):
        registry.annotation_types()


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("ShownAmounts", "amounts"),
        ("ShownHoldings", "allocated"),
        ("ShownUsage", "usage"),
        ("ShownTable", "table"),
        ("Holders", "consumers"),
        ("Remedies", "suggestions"),
    ],
)
def test_a_rule_of_before_becomes_a_report_and_says_so(name: str, part: str) -> None:
    given = SimpleNamespace()

    with pytest.warns(
        DeprecationWarning, match=rf"\.{name} ends with the next minor version; register Report\({part}="
    ):
        made = getattr(rules, name)(given)

    assert made == Report(**{part: given})


def test_a_metric_of_before_becomes_a_report_and_says_so() -> None:
    def count() -> dict[tuple[str, ...], float]:
        return {}

    with pytest.warns(DeprecationWarning, match="Metric ends with the next minor version"):
        made = rules.Metric(THREADS, count)  # type: ignore[attr-defined,operator]  # a name of before

    assert made == Report(metrics={THREADS: count})
