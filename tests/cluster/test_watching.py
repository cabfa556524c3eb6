"""`--watch` on a real API server: what changes is shown, a lost connection is told, and Ctrl-C ends it as kubectl."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.on_terminal import STYLE, command, environment, open_terminal
from tests.cluster.control_plane import MakeNodes
from tests.cluster.scheduling import GROUPS, Json
from tests.cluster.test_showing import product, reader, stranger  # noqa: F401 - fixtures
from tests.plugins.capacity_card.nodes import GPU, card_labels
from tools.controlplane import ControlPlane
from tools.controlplane.faults import FaultProxy

pytest_plugins = ["tests.cluster.scheduling_fixtures"]

QUOTA = "volcano.sh/card.quota"
LOST = "the connection to the API server is lost, trying again"
AGAIN = "the API server answers again"
PATIENCE = 120.0
"""Seconds of silence after which a text is not waited for any more."""


class Watched:
    """A process that is read until it says something."""

    def __init__(self, process: subprocess.Popen[bytes], ours: int) -> None:
        self.process = process
        self._ours = ours
        self.raw = b""

    @property
    def text(self) -> str:
        return STYLE.sub("", self.raw.decode(errors="replace").replace("\r\n", "\n"))

    def wait_for(self, *texts: str, since: int = 0) -> str:
        """Read until all of these texts have come after a place; a process that ends before is a failure."""
        while not all(text in self.text[since:] for text in texts):
            assert select.select([self._ours], [], [], PATIENCE)[0], f"silent without {texts}: {self.text}"
            try:
                came = os.read(self._ours, 1 << 16)
            except OSError:
                came = b""
            assert came, f"ended without {texts}: {self.text}"
            self.raw += came
        return self.text[since:]

    def interrupt(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.end()

    def end(self) -> int:
        while True:
            assert select.select([self._ours], [], [], PATIENCE)[0], f"does not end: {self.text}"
            try:
                came = os.read(self._ours, 1 << 16)
            except OSError:
                break
            if not came:
                break
            self.raw += came
        return self.process.wait(PATIENCE)


@contextmanager
def watching(*args: str | Path, terminal: int = 0, program: list[str] | None = None) -> Iterator[Watched]:
    """A verb on a pipe, with standard error in it, or on a terminal of so many columns."""
    ours, theirs = open_terminal(terminal) if terminal else os.pipe()
    words = [*program, *map(str, args)] if program else command(*args)
    # a run in the background ignores Ctrl-C, and so would all that it starts
    process = subprocess.Popen(
        ["env", "--default-signal=INT", *words],
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        env=environment(PYTHONUNBUFFERED="1"),
    )
    os.close(theirs)
    try:
        yield Watched(process, ours)
    finally:
        process.kill()
        process.wait()
        os.close(ours)


@pytest.fixture
def team(manifests_applied: ControlPlane, product: str) -> Iterator[str]:  # noqa: F811 - the fixture
    """A queue that may hold four cards of the product."""
    name = f"team-{uuid.uuid4().hex[:6]}"
    body = {"metadata": {"name": name, "annotations": {QUOTA: json.dumps({product: 4})}}, "spec": {"weight": 1}}
    manifests_applied.api.create(f"{GROUPS}/queues", {"apiVersion": GROUPS[6:], "kind": "Queue", **body})
    yield name
    manifests_applied.api.delete(f"{GROUPS}/queues/{name}")


def change_quota(plane: ControlPlane, queue: str, card: str, cards: int) -> None:
    found: Json = plane.api.get(f"{GROUPS}/queues/{queue}")
    found["metadata"]["annotations"][QUOTA] = json.dumps({card: cards})
    plane.api.replace(f"{GROUPS}/queues/{queue}", found)


def test_a_pipe_gets_the_page_and_then_the_rows_that_change(
    manifests_applied: ControlPlane,
    reader: Path,  # noqa: F811 - the fixture
    team: str,
    product: str,  # noqa: F811 - the fixture
) -> None:
    with watching("queue", "list", "--watch", "--kubeconfig", reader) as seen:
        seen.wait_for("CARDS\n", product)
        before = len(seen.text)
        change_quota(manifests_applied, team, product, 9)
        told = seen.wait_for("QUEUES\n", "  9 ", since=before)

        [row] = [line.split() for line in told.splitlines() if line.startswith(team)]
        assert row[-5:] == [product, "9", "0", "0", "9"]
        assert "default " not in told
        assert seen.interrupt() == status_of_kubectl(manifests_applied, team, product)
        assert "Traceback" not in seen.text


def status_of_kubectl(plane: ControlPlane, queue: str, card: str) -> int:
    """The exit status of `kubectl get --watch` after Ctrl-C, once it has shown a change."""
    asked = ("get", "queues.scheduling.volcano.sh", queue, "--watch", "--output-watch-events")
    with watching(program=["kubectl", "--kubeconfig", str(plane.kubeconfig), *asked]) as seen:
        seen.wait_for("ADDED")
        change_quota(plane, queue, card, 3)
        seen.wait_for("MODIFIED")
        return seen.interrupt()


def test_a_terminal_is_drawn_again_in_place(
    manifests_applied: ControlPlane,
    reader: Path,  # noqa: F811 - the fixture
    team: str,
    product: str,  # noqa: F811 - the fixture
) -> None:
    with watching("queue", "describe", team, "-w", "--kubeconfig", reader, terminal=80) as seen:
        seen.wait_for(f"Name:    {team}", product)
        before = len(seen.text)
        change_quota(manifests_applied, team, product, 7)
        told = seen.wait_for("QUOTA", "7", since=before)

        assert "\x1b[1A" in told, "the cursor goes up"
        assert seen.interrupt() == 1
        assert seen.text.endswith("\x1b[?25h"), "the cursor is shown again"


def test_an_explanation_and_cards_follow_objects(
    manifests_applied: ControlPlane,
    namespace: str,
    make_nodes: MakeNodes,
    product: str,  # noqa: F811 - the fixture
) -> None:
    admin = ("--kubeconfig", manifests_applied.kubeconfig)
    body = {
        "metadata": {"name": "train-0"},
        "spec": {
            "schedulerName": "volsched",
            "containers": [{"name": "main", "image": "train", "resources": {"requests": {"cpu": "100k"}}}],
        },
    }
    with (
        watching("explain", "pod", "train-0", "-n", namespace, "-w", *admin) as explained,
        watching("cards", "--watch", *admin, "-o", "json") as cards,
    ):
        explained.wait_for(f"there is no pod {namespace}/train-0")
        cards.wait_for('"warnings"')
        manifests_applied.api.create(f"/api/v1/namespaces/{namespace}/pods", body)
        explained.wait_for(f"pod {namespace}/train-0 waits")
        make_nodes(1, labels=card_labels(product), **{GPU: 8})
        cards.wait_for(f'"{product}": 8')


def test_a_lost_connection_is_told_and_survived(
    manifests_applied: ControlPlane,
    namespace: str,
    reader: Path,  # noqa: F811 - the fixture
    team: str,
    product: str,  # noqa: F811 - the fixture
    fault_proxy: FaultProxy,
) -> None:
    del reader
    kubeconfig = fault_proxy.kubeconfig_for("reader", namespace)
    with watching("queue", "list", "-w", "--kubeconfig", kubeconfig) as seen:
        seen.wait_for(team)
        fault_proxy.partition(True, reset=True)
        seen.wait_for(LOST)
        change_quota(manifests_applied, team, product, 5)
        before = len(seen.text)
        fault_proxy.partition(False)
        told = seen.wait_for(AGAIN, f"{product}  5", since=before)

        assert told.count(AGAIN) == 1
        assert seen.text.count(LOST) == 1


def test_without_the_right_or_with_files_it_ends_with_a_word(stranger: Path) -> None:  # noqa: F811 - the fixture
    with watching("cards", "-w", "--kubeconfig", stranger) as seen:
        assert seen.end() == 1
        assert 'cannot list resource "nodes"' in seen.text or "nodes is forbidden" in seen.text
    with watching("queue", "list", "-w", "-f", "manifests/examples") as seen:
        assert seen.end() == 2
        assert "--watch follows a cluster, and -f reads files once; leave one of them out" in seen.text
