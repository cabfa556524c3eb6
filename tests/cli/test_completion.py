"""What shells and kubectl complete, and the manual page."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.cli.calls import call
from tools import debian
from tools.prometheus import print_progress
from volsched.cli import _VERBS, completion, names, volsched


def completed(words: str) -> list[str]:
    """What bash is told for the words so far; the last of them is completed."""
    environment = {
        "_VOLSCHED_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
    }
    done = CliRunner().invoke(volsched, env=environment, prog_name="volsched")
    return done.stdout.split()


def test_every_verb_is_completed() -> None:
    assert completed("volsched ") == [f"plain,{verb}" for verb in _VERBS]


def test_flags_and_files_are_completed() -> None:
    assert completed("volsched simulate --fail") == ["plain,--fail-on-pending"]
    assert completed("volsched simulate -f man") == ["file,man"]


def test_contexts_of_the_kubeconfig_are_completed(tmp_path: Path) -> None:
    file = tmp_path / "config"
    context = "{name: %s, context: {cluster: here, user: me}}"
    both = f"[{context % 'production'}, {context % 'test'}]"
    file.write_text(
        f"{{apiVersion: v1, kind: Config, current-context: test, contexts: {both},"
        " clusters: [{name: here, cluster: {server: 'https://127.0.0.1:1'}}], users: [{name: me, user: {}}]}"
    )

    assert completed(f"volsched cards --kubeconfig {file} --context p") == ["plain,production"]


def test_names_come_from_the_cluster_and_none_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "_listed", lambda *_: [("", "vision"), ("", "video"), ("", "audio")])

    assert completed("volsched queue describe vi") == ["plain,video", "plain,vision"]
    assert completed("volsched queue describe vision vi") == ["plain,video"]


def test_cluster_that_does_not_answer_completes_nothing(tmp_path: Path) -> None:
    assert completed(f"volsched queue describe --kubeconfig {tmp_path / 'none'} vi") == []
    assert completed("volsched queue describe --master http://127.0.0.1:1 vi") == []
    assert completed(f"volsched explain --kubeconfig {tmp_path / 'none'} pod vi") == []


@pytest.mark.process
def test_completion_without_a_cluster_does_not_wait_for_its_client(tmp_path: Path) -> None:
    environment = os.environ | {
        "_VOLSCHED_COMPLETE": "bash_complete",
        "COMP_WORDS": f"volsched explain --kubeconfig {tmp_path / 'none'} pod ",
        "COMP_CWORD": "5",
    }
    command = [sys.executable, "-X", "importtime", "-m", "volsched"]

    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)

    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if "|" in line}
    assert "volsched.cli.inputs.known" in imported
    assert "kubernetes_asyncio" not in imported
    assert done.stdout.strip() == ""


def test_kubectl_is_answered_in_its_own_way(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["kubectl_complete-volsched", "queue", "desc"])
    completion.for_kubectl()
    monkeypatch.setattr("sys.argv", ["kubectl_complete-volsched", "simulate", "-f", ""])
    completion.for_kubectl()

    first, *rest = capsys.readouterr().out.splitlines()
    assert first.startswith("describe\t")
    assert rest == [":4", ":0"]


@pytest.mark.process
@pytest.mark.parametrize("shell", completion.SHELLS)
def test_script_is_the_shells(shell: str) -> None:
    done = call("completion", shell)

    assert done.exit_code == 0
    assert f"_VOLSCHED_COMPLETE={shell}_complete" in done.stdout


def test_manual_page_has_every_verb_and_flag() -> None:
    page = call("man").stdout.replace("\\-", "-")

    for verb in ("run", "simulate", "queue describe", "completion", "man"):
        assert f".SS volsched {verb} " in page
    assert ".B --fail-on-pending" in page


def test_manual_page_leaves_the_verbs_as_they_are() -> None:
    call("man")

    assert call("queue", "list", "-h").exit_code == 0


@pytest.mark.process
def test_manual_page_is_well_formed(tmp_path: Path) -> None:
    file = tmp_path / "volsched.1"
    file.write_text(call("man").stdout)
    program = debian.unpacked("mandoc", ["mandoc"], print_progress) / "usr/bin/mandoc"

    done = subprocess.run([program, "-T", "lint", "-W", "warning", file], capture_output=True, text=True, check=False)

    assert [line for line in done.stdout.splitlines() if "missing date" not in line] == []
