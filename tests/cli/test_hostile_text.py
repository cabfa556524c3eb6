"""Text of a tenant that would act on a terminal, or look like a line of ours, shows and does neither, in every verb."""

from __future__ import annotations

import ast
import io
import json
import unicodedata
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.calls import call
from tests.simulation.clusters import Manifest, group, node, pod, queue
from volsched import logs
from volsched.cli.output import print_result
from volsched.cli.printing import say
from volsched.model.values.visible import visible, visible_lines

FORGED: Final = "Pod is RUNNING"
EVIL: Final = (
    f"\x1b]0;owned\x07\x1b[2J\x1b[31mfine\x1b[0m\r\n{FORGED}\u202e\u2028{FORGED}"
    f"\u2029{FORGED}\x85{FORGED}\x9b5n\u2066\u200b\ufeffx\tz"
)
LONE: Final = "\ud800"
"""Half of a surrogate pair: JSON and YAML can state it, and no encoding of a terminal has it."""

CLI: Final = Path(__file__).parents[2] / "volsched" / "cli"
CONFIGURATION: Final = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: predicates
  - name: PLUGIN
  - name: mgpu
    arguments: {predicate.MGPUEnable: true}
"""


def world(folder: Path, plugin: str, evil: str) -> Path:
    """Write manifests of which every text that a tenant chooses freely is evil."""
    cards = {"volcano.sh/card.name": evil}
    labels = {"nvidia.com/gpu.product": evil}
    taints = [{"key": "k", "value": evil, "effect": "NoSchedule"}]
    gates = [{"name": evil}]
    objects = [
        node("n1", labels=labels, extended={"nvidia.com/gpu": 8}),
        node("n2", taints=taints),
        queue("team", capability={"cpu": "1"}),
        group("g", q=evil),
        group("h", q="team", minResources={"cpu": "3"}),
        pod("in-queue", "g"),
        pod("in-team", "h", cpu=3),
        pod("in-group", evil),
        pod("named", annotations={"scheduling.volcano.sh/queue-name": evil}),
        pod("carded", annotations=cards, containers=[_card()]),
        pod("shared", annotations={"vke.volcengine.com/mgpu-compute-policy": evil}),
        pod("lasting", annotations={"volsched.io/expected-duration": evil}),
        pod("gated", schedulingGates=gates),
        pod("choosy", nodeSelector={"a": evil}),
        pod("told", status={"conditions": [_condition(evil)]}),
        pod("others", scheduler=evil),
    ]
    configured = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "c", "namespace": "d"}}
    configured["data"] = {"volsched.conf": CONFIGURATION.replace("PLUGIN", plugin)}
    file = folder / "world.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [configured, *objects]}))
    return file


def _card() -> Manifest:
    return {"name": "c", "resources": {"requests": {"cpu": 1}, "limits": {"nvidia.com/gpu": 1}}}


def _condition(evil: str) -> Manifest:
    return {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": evil}


PODS: Final = (
    *("in-queue", "in-group", "in-team", "named", "carded", "shared"),
    *("lasting", "gated", "choosy", "told", "others", EVIL),
)
QUESTIONS: Final = (
    *(("explain", "pod", name, "--nodes", "--help-seconds", "0") for name in PODS),
    ("explain", "podgroup", "g", "--help-seconds", "0"),
    ("explain", "queue", "team"),
    ("explain", "queue", EVIL),
    ("simulate",),
    ("validate",),
    ("cards",),
    ("queue", "list"),
    ("queue", "describe", "team"),
    ("queue", "describe", EVIL),
    ("diff", "--without", "Node/n2"),
    ("diff", "--without", EVIL),
    ("replay",),
    ("ui", "--listen-address", EVIL),
)


def check_harmless(text: str) -> None:
    """Check that a text has nothing but characters that show, and no line of a tenant."""
    for line in text.split("\n"):
        assert line.isprintable(), ascii(line)
        assert not line.strip().startswith(FORGED), line


@pytest.mark.parametrize("plugin", ["capacity-card", "proportion"])
def test_what_tenants_write_shows_and_does_nothing(tmp_path: Path, plugin: str) -> None:
    file = world(tmp_path, plugin, EVIL)
    shown = ""
    for words in QUESTIONS:
        done = call(*words, "-f", file)
        assert done.exception is None or isinstance(done.exception, SystemExit), words
        check_harmless(done.stdout)
        check_harmless(done.stderr)
        shown += done.stdout
    assert visible(EVIL) in shown


@pytest.mark.parametrize("words", [("simulate",), ("explain", "pod", "in-queue", "--help-seconds", "0")])
def test_outputs_for_programs_are_valid_and_have_the_text_as_it_is(tmp_path: Path, words: Any) -> None:
    file = world(tmp_path, "capacity-card", EVIL)
    as_json, as_yaml = (call(*words, "-f", file, "-o", form).stdout for form in ("json", "yaml"))

    for line in (as_json + as_yaml).split("\n"):
        assert line.isprintable(), ascii(line)
    assert json.loads(as_json) == yaml.safe_load(as_yaml)
    assert EVIL in _texts(json.loads(as_json))


@pytest.mark.parametrize("form", ["json", "yaml"])
@pytest.mark.parametrize("text", [EVIL, LONE, "\u4e2d\u6587", "\U0001f600"])
def test_a_result_for_programs_is_harmless_and_says_the_same(
    capsys: pytest.CaptureFixture[str], form: str, text: str
) -> None:
    print_result({"text": text}, form)
    said = capsys.readouterr().out

    check_harmless(said)
    assert (json.loads(said) if form == "json" else yaml.safe_load(said)) == {"text": text}


def _texts(found: Any) -> str:
    if isinstance(found, dict):
        return "".join(map(_texts, (*found, *found.values())))
    return "".join(map(_texts, found)) if isinstance(found, list) else str(found)


def test_names_of_files_and_faults_of_their_text_show_too(tmp_path: Path) -> None:
    odd = tmp_path / f"{EVIL.replace('/', '')}.yaml"
    odd.write_text(f"actions: {json.dumps(EVIL)}\ntiers: []\n")
    for words in (("validate", "-f", odd), ("simulate", "-f", odd), ("simulate", "-f", tmp_path, "--config", odd)):
        done = call(*words)
        assert done.exit_code != 0
        check_harmless(done.stdout + done.stderr)
    check_harmless(call("simulate", "-f", tmp_path / f"no{EVIL}").stderr)
    check_harmless(call("explain", EVIL, "x").stderr)
    check_harmless(call(EVIL).stderr)


def test_lines_of_the_log_on_a_terminal_show_it_and_json_states_it() -> None:
    lines = {}
    for form in ("console", "json"):
        stream = io.StringIO()
        logs.setup("info", form, stream)
        logs.structlog.get_logger("t").info(f"evicted {EVIL}", pod=EVIL, names=[EVIL])
        lines[form] = stream.getvalue()
    check_harmless(lines["console"])
    assert lines["console"].count("\n") == 1
    assert json.loads(lines["json"])["pod"] == EVIL


@given(st.text(st.characters()))
def test_visible_text_is_one_line_of_characters_that_show(text: str) -> None:
    seen = visible(text)
    assert seen.isprintable()
    assert visible(seen) == seen
    assert all(unicodedata.category(found) not in ("Cc", "Cf", "Cs", "Zl", "Zp") for found in seen)
    assert text == seen or not text.isprintable()
    assert visible_lines(f"{text}\n").endswith("\n")


def test_a_line_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    say("one\ntwo", "three\x1b[2J")
    assert capsys.readouterr().out == "one\\ntwo\nthree\\x1b[2J\n"


def test_all_that_verbs_print_goes_one_way() -> None:
    ways = {"printing.py": {"echo"}, "terminal.py": {"print"}, "man.py": {"echo"}, "completion.py": {"echo"}}
    for file in CLI.rglob("*.py"):
        found = {_called(node) for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))) if _prints(node)}
        assert found <= ways.get(file.name, set()), file


def _prints(found: ast.AST) -> bool:
    return isinstance(found, ast.Call) and _called(found) in ("echo", "secho", "print", "print_exc", "write")


def _called(found: Any) -> str:
    name = getattr(found.func, "attr", getattr(found.func, "id", ""))
    return str(name)
