"""The alert rules: they hold, each fires when it should and not before, and each is explained."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from monitoring.__main__ import RULES, files
from tests.docs.metrics import documented
from tests.docs.pages import DOCS, anchor, codes, headings, rows, section
from tools.documents import yaml_documents
from tools.prometheus import Programs, find_programs

PAGE = DOCS / "alerts.md"
CASES = Path(__file__).with_name("alerts.yaml")
ALERTS: dict[str, dict[str, Any]] = {
    rule["alert"]: rule
    for rules in yaml_documents(RULES.read_text())
    for group in rules["groups"]
    for rule in group["rules"]
}


@pytest.fixture(scope="module")
def programs(request: pytest.FixtureRequest) -> Programs:
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():  # a download says so
        return find_programs()


def promtool(programs: Programs, *arguments: str | Path) -> str:
    done = subprocess.run(
        [programs.promtool, *map(str, arguments)], cwd=CASES.parent, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.process
def test_promtool_finds_nothing_wrong_with_the_rules(programs: Programs) -> None:
    assert f"{len(ALERTS)} rules found" in promtool(programs, "check", "rules", "--lint-fatal", RULES)


@pytest.mark.process
def test_each_alert_fires_when_it_should_and_stays_silent_otherwise(programs: Programs) -> None:
    assert "SUCCESS" in promtool(programs, "test", "rules", CASES)


def test_each_alert_has_a_case_in_which_it_fires_and_one_in_which_it_does_not() -> None:
    cases = [
        case for file in yaml_documents(CASES.read_text()) for test in file["tests"] for case in test["alert_rule_test"]
    ]

    for outcome in (True, False):
        assert {case["alertname"] for case in cases if bool(case["exp_alerts"]) is outcome} == set(ALERTS)


def test_the_rule_of_the_operator_holds_the_same() -> None:
    for path, text in files().items():
        assert path.read_text() == text, f"{path.name} is out of date: make monitoring"


def test_each_alert_is_explained_where_it_says() -> None:
    explained = {text for level, text in headings(PAGE) if level == 3}

    assert explained == set(ALERTS)
    for name, rule in ALERTS.items():
        assert set(rule["annotations"]) == {"summary", "description", "runbook"}
        assert rule["annotations"]["runbook"] == f"docs/{PAGE.name}#{anchor(name)}"
        assert " ".join(section(PAGE, name)).strip(), name


def test_the_table_says_what_the_rules_say() -> None:
    listed = {
        match[1]: (lasting, severity)
        for name, _, lasting, severity in rows(section(PAGE, "Alerts"))
        if (match := re.match(r"\[(\w+)\]", name))
    }

    assert listed == {name: (rule.get("for", ""), rule["labels"]["severity"]) for name, rule in ALERTS.items()}


def test_metrics_that_the_pages_name_exist() -> None:
    known = set(documented())
    for word in codes(PAGE.read_text()):
        if word.startswith(("volsched_", "volcano_")):
            assert word in known, word
