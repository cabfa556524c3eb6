"""docs/events.md has every reason, step and sentence that the code can emit, and no other."""

from __future__ import annotations

import importlib
import pkgutil
from collections import defaultdict
from types import SimpleNamespace

import actions.victims.search
import plugins.predicates
from plugins.predicates.node_properties import tolerates_taints
from tests.docs.pages import DOCS, codes, headings, rows, section
from tests.docs.reasons import emitted
from volsched.model.api import Taint
from volsched.model.pods.template import PodTemplate
from volsched.model.verdict import ConditionReason, Scope, Step, Verdict

PAGE = DOCS / "events.md"
UNTOLERATED = "node(s) had untolerated taint {<key>: <value>}"
LACKING = "Insufficient <resource>"


def test_every_reason_of_the_code_has_a_heading_and_every_heading_a_reason() -> None:
    places = defaultdict(list)
    for found in emitted():
        places[found.reason].append(found.where)
    documented = {text for level, text in headings(PAGE) if level == 3}

    assert {reason: where for reason, where in places.items() if reason not in documented} == {}
    assert documented - set(places) - set(ConditionReason) == set()


def test_every_reason_of_a_pods_condition_is_explained_with_the_steps_that_have_it() -> None:
    table = rows(section(PAGE, "Conditions of pods"))
    documented = {next(codes(reason)): set(codes(steps)) for reason, _, steps in table}

    assert sorted(documented) == sorted(ConditionReason)
    assert set().union(*documented.values()) == set(Step)
    for step in Step:
        assert step in documented[Verdict(step, "", Scope.POD, "", "").condition_reason], step


def test_every_step_is_explained() -> None:
    documented = [next(codes(cells[0])) for cells in rows(section(PAGE, "Steps"))]

    assert sorted(documented) == sorted(Step)


def test_every_sentence_about_nodes_is_explained() -> None:
    documented = {next(codes(words)): final == "yes" for words, final, _ in rows(section(PAGE, "What nodes say"))}
    said = {verdict.message: not verdict.resolvable for verdict in _constant_verdicts()}

    assert documented == said | {UNTOLERATED: True, LACKING: False}


def test_words_about_taints_and_resources_are_those_of_the_code() -> None:
    template = PodTemplate(0)
    node = SimpleNamespace(taints=(Taint("<key>", "<value>", "NoSchedule"),))

    verdict = tolerates_taints(template, node)  # type: ignore[arg-type]  # of a node only its taints are asked

    assert verdict is not None
    assert (verdict.message, verdict.resolvable) == (UNTOLERATED, False)


def test_every_word_about_evictions_that_do_not_help_is_explained() -> None:
    text = " ".join(PAGE.read_text().split())
    said = [
        value
        for value in vars(actions.victims.search).values()
        if isinstance(value, str) and value.count(" ") in range(3, 20)
    ]
    words = [sentence for sentence in said if "\n" not in sentence]

    assert len(words) >= 4
    for sentence in words:
        assert f"`{sentence}`" in text, sentence


def _constant_verdicts() -> list[Verdict]:
    found = []
    for module in pkgutil.walk_packages(plugins.predicates.__path__, "plugins.predicates."):
        names = vars(importlib.import_module(module.name)).values()
        found += [value for value in names if isinstance(value, Verdict)]
    assert found
    return found
