"""The tests of a tool are left out only while nothing has changed since all of them passed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from tests.tools import passed
from tests.tools.passed import ALWAYS, ROOT, TOOLS, Tool, files_of, files_to_run, remember, stale_tools
from tests.tools.remembering import Outcomes, chooses

CHECKOUT = {
    "tests/tools/test_proxy.py": "import yaml\nfrom tools.proxy import serve\nfrom ..waiting import wait\n",
    "tests/waiting.py": "def wait(): ...\n",
    "tests/test_other.py": "",
    "tools/proxy.py": "import time\nimport volsched.model\nfrom tools import rules\n",
    "tools/rules.py": "RULES = ()\n",
    "tools/other.py": "",
    "volsched/model.py": "",
    "tools/guard/main.py": "",
    "requirements/dev.lock": "pyyaml==6.0.2 \\\n    --hash=sha256:1\naiohttp==3.14.5 \\\n    --hash=sha256:2\n",
}


@pytest.fixture
def checkout(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A small checkout with one tool, and an empty cache."""
    for name, text in CHECKOUT.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(passed, "ROOT", tmp_path)
    monkeypatch.setattr(passed, "LOCK", tmp_path / "requirements/dev.lock")
    monkeypatch.setattr(
        passed, "TOOLS", {"the proxy": Tool(tests=("tests/tools/test_proxy.py",), sources=("tools/guard",))}
    )
    monkeypatch.setenv("VOLSCHED_CACHE", str(tmp_path / "cache"))
    return tmp_path


def remember_all() -> None:
    for name, digest in stale_tools().items():
        remember(name, digest)


def test_a_tool_is_stale_until_it_has_passed(checkout: Path) -> None:
    assert files_to_run(stale_tools()) == ["tests/tools/test_proxy.py"]

    remember_all()

    assert stale_tools() == {}


@pytest.mark.parametrize(
    ("name", "is_stale"),
    [
        ("tests/tools/test_proxy.py", True),
        ("tools/proxy.py", True),
        ("tools/rules.py", True),
        ("tools/guard/main.py", True),
        ("tests/waiting.py", True),
        ("tools/other.py", False),
        ("volsched/model.py", False),
        ("tests/test_other.py", False),
    ],
)
def test_a_change_of_what_a_tool_and_its_tests_use_makes_it_stale(checkout: Path, name: str, is_stale: bool) -> None:
    remember_all()

    (checkout / name).write_text(CHECKOUT[name] + "# changed\n")

    assert bool(stale_tools()) is is_stale


@pytest.mark.parametrize(("old", "new", "is_stale"), [("6.0.2", "6.0.3", True), ("3.14.5", "3.14.6", False)])
def test_another_version_of_a_package_that_it_uses_makes_it_stale(
    checkout: Path, old: str, new: str, is_stale: bool
) -> None:
    remember_all()
    lock = checkout / "requirements/dev.lock"

    lock.write_text(lock.read_text().replace(old, new))

    assert bool(stale_tools()) is is_stale


def test_another_python_makes_it_stale(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    remember_all()

    monkeypatch.setattr("platform.python_version", lambda: "3.99.0")

    assert stale_tools()


def test_a_change_while_the_tests_run_leaves_it_stale(checkout: Path) -> None:
    before = stale_tools()

    (checkout / "tools/rules.py").write_text("RULES = (1,)\n")
    remember("the proxy", before["the proxy"])

    assert stale_tools()


@pytest.mark.parametrize("content", [b"\xff\xfe", b"", None])
def test_what_cannot_be_read_counts_as_stale(checkout: Path, content: bytes | None) -> None:
    remember_all()
    [file] = (checkout / "cache").rglob("the-proxy")

    file.unlink()
    if content is None:
        file.mkdir()
    else:
        file.write_bytes(content)

    assert stale_tools()


# ------------------------------------------------------------------------------------------------------- the real tools


def test_each_module_of_tools_belongs_to_a_tool() -> None:
    known = {path.relative_to(ROOT).as_posix() for tool in TOOLS.values() for path in files_of(tool)}
    for path in (ROOT / "tools").rglob("*.py"):
        name = path.relative_to(ROOT).as_posix()
        assert name in known or name.startswith(tuple(ALWAYS)), f"{name}: name it in {passed.__file__}"


def test_each_file_of_tests_belongs_to_one_tool() -> None:
    there = [path.relative_to(ROOT).as_posix() for path in (ROOT / "tests/tools").glob("test_*.py")]

    assert sorted(files_to_run(TOOLS)) == sorted(there)


def test_what_the_table_names_exists() -> None:
    named = [*ALWAYS, *ALWAYS.values(), *(source for tool in TOOLS.values() for source in tool.sources)]

    assert [name for name in named if not (ROOT / name).exists()] == []


def test_the_product_makes_no_tool_stale() -> None:
    for name, tool in TOOLS.items():
        files = {path.relative_to(ROOT).as_posix() for path in files_of(tool)}
        assert [file for file in files if file.startswith(("volsched/", "actions/", "plugins/"))] == [], name


# ---------------------------------------------------------------------------------------------------------- remembering


def outcomes(*reports: tuple[str, str, str], collected: Sequence[str] = ("a.py::one", "a.py::two")) -> Outcomes:
    found = Outcomes()
    found.collect(collected)
    for test, when, outcome in reports:
        report = SimpleNamespace(nodeid=test, when=when, passed=outcome == "passed")
        found.add(cast("pytest.TestReport", report))
    return found


BOTH = (("a.py::one", "call", "passed"), ("a.py::two", "call", "passed"))


def test_files_passed_when_all_their_tests_passed() -> None:
    assert outcomes(*BOTH).passed(["a.py"])
    assert not outcomes(*BOTH).passed(["a.py", "b.py"])


@pytest.mark.parametrize(
    "reports",
    [
        BOTH[:1],
        (*BOTH[:1], ("a.py::two", "call", "failed")),
        (*BOTH[:1], ("a.py::two", "setup", "skipped")),
        (*BOTH, ("a.py::two", "teardown", "failed")),
        (),
    ],
)
def test_files_have_not_passed_while_a_test_is_missing_fails_or_is_skipped(
    reports: Sequence[tuple[str, str, str]],
) -> None:
    assert not outcomes(*reports).passed(["a.py"])


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, False),
        ({"markexpr": "process"}, False),
        ({"markexpr": "not process"}, True),
        ({"keyword": "proxy"}, True),
        ({"deselect": ["tests/tools/test_proxy.py::test_it"]}, True),
        ({"args": ["tests/tools/test_proxy.py::test_it"]}, True),
    ],
)
def test_a_run_that_chooses_tests_is_told_from_one_that_does_not(given: dict[str, object], expected: bool) -> None:
    chosen = {"keyword": "", "markexpr": "", "deselect": None, "args": ["tests/tools"]} | given
    args = chosen.pop("args")

    assert chooses(cast("pytest.Config", SimpleNamespace(option=SimpleNamespace(**chosen), args=args))) is expected
