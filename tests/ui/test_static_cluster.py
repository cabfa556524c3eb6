"""A cluster that stands still, on the page: what manifests come to, what a snapshot was, and which flags there are."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.manifests.rendering import MANIFESTS
from tests.ui.worlds import read
from volsched.cli import volsched
from volsched.kube.errors import KubeSetupError
from volsched.kube.serve.listeners import Listeners
from volsched.ui.program import _check_loopback
from volsched.ui.static_cluster import SCHEDULED, SNAPSHOT, StaticCluster
from volsched.ui.waiting import STARTS

EXAMPLES = MANIFESTS / "examples"


def test_a_snapshot_is_shown_as_it_was() -> None:
    """What could start is said to start, and is on no card."""
    known = read(EXAMPLES)

    scheduled, still = StaticCluster(known, schedules=True), StaticCluster(known, schedules=False)

    assert (scheduled.about, still.about) == (SCHEDULED, SNAPSHOT)
    assert sum(each.used for each in scheduled._picture.cards) == 19
    assert sum(each.used for each in still._picture.cards) == 0
    assert {job.name for job in scheduled._picture.waiting} < {job.name for job in still._picture.waiting}
    assert any(job.step == STARTS for job in still._picture.waiting)


def test_nothing_that_could_start_is_left_after_a_run() -> None:
    picture = StaticCluster(read(EXAMPLES), schedules=True)._picture

    assert picture.waiting
    assert not [job for job in picture.waiting if job.step == STARTS]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (
            ["-f", EXAMPLES, "--auth"],
            "--auth asks the API server who may look, and with -f there is none",
        ),
        (["-f", EXAMPLES, "--context", "c"], "-f reads manifests and --context a cluster; give one of them"),
        (["-f", EXAMPLES, "--kubeconfig", "c"], "-f reads manifests and --kubeconfig a cluster; give one of them"),
        (["-f", EXAMPLES, "--master", "c"], "-f reads manifests and --master a cluster; give one of them"),
        (["-f", EXAMPLES, "--scheduler-configmap", "a/b"], "with -f, give --config FILE"),
        (["-f", EXAMPLES, "--listen-address", "0.0.0.0:1"], "can be reached from other machines"),
        (["--listen-address", ":8088"], "can be reached from other machines"),
        (["--listen-address", "8088"], "is no address to listen on; write host:port or :port"),
        (["-f", "nosuch.yaml"], "nosuch.yaml: there is no such file or folder"),
        (["-f", EXAMPLES, "--config", "nosuch.conf"], "nosuch.conf: there is no such file or folder"),
    ],
)
def test_flags_that_cannot_be_are_refused(flags: list[str | Path], said: str) -> None:
    answer = CliRunner().invoke(volsched, ["ui", *map(str, flags)], prog_name="volsched")

    assert answer.exit_code == 2
    assert said in re.sub(r"\s+", " ", answer.stderr)


def test_of_an_address_that_is_taken_it_is_not_said_that_it_is_served() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        flags = ["-f", str(EXAMPLES / "10-nodes.yaml"), "--listen-address", address]
        answer = CliRunner().invoke(volsched, ["ui", *flags], prog_name="volsched")

    assert answer.exit_code == 1
    assert f"error: cannot listen on {address}: Address already in use" in answer.stderr
    assert "serving" not in answer.stderr


def test_every_flag_that_manifests_may_have_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The configuration, the names of the scheduler and the default queue are those that flags name."""
    shown: list[tuple[StaticCluster, str]] = []

    async def serve_still(cluster: StaticCluster, address: str, *_: object) -> None:
        shown.append((cluster, address))

    monkeypatch.setattr("volsched.ui.program.serve_still", serve_still)
    configuration = tmp_path / "own.conf"
    configuration.write_text('actions: "allocate"\ntiers:\n- plugins: [{name: predicates}]\n')
    flags = ["--config", str(configuration), "--scheduler-name", "mine", "--default-queue", "vision"]

    done = CliRunner().invoke(volsched, ["ui", "-f", str(EXAMPLES), *flags, "--listen-address", "[::1]:9"])

    assert (done.exit_code, done.exception) == (0, None)
    [(cluster, address)] = shown
    known = cluster._live.known
    assert address == "[::1]:9"
    assert (known.scheduler_names, known.default_queue) == (("mine",), "vision")
    assert known.configuration == configuration.read_text()


def test_a_name_that_stands_for_another_address_than_loopback_is_refused() -> None:
    with pytest.raises(KubeSetupError, match="can be reached from other machines"):
        _check_loopback(Listeners().take("0.0.0.0:0"), "localhost:8088")
    own = Listeners().take("127.0.0.2:0")
    _check_loopback(own, "127.0.0.2:0")
    own.close()
