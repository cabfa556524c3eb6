"""How soon a browser hears of a change, on a real control plane with `volsched ui` as a process.

Nodes have eight cards. Pods are gangs of eight: four in five of them run with a card each, the others wait. For
each view a stream of server-sent events is read, as a browser does. Then changes are written, one at a time, and timed
from the moment before the write until the row with it has come:

  bound   a pod that is new, on a node: the cards
  waits   a job that is new and finds no room: the list of jobs that wait
  quota   another quota of a queue: the queues

Seconds are of the clock on the wall, so the machine should be quiet: etcd, the API server and the page share it.
"""

from __future__ import annotations

import http.client
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench import live
from bench.common import Report, Stopwatch, cpu_seconds, memory_mib, parser, quantile
from bench.page import CONFIGURATION
from tools.controlplane import ControlPlane, a_pod
from tools.controlplane.plane import free_port

GANG: Final = 8
NAMESPACE: Final = "shown"
LATE: Final = "late"
PODS: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"
VOLCANO: Final = "/apis/scheduling.volcano.sh/v1beta1"
PATIENCE_SECONDS: Final = 300.0


@dataclass(frozen=True, slots=True)
class Served:
    """Where a page is, its process id, and what a program sends that has its link."""

    port: int
    pid: int
    headers: dict[str, str]


class Stream:
    """Reads the events of a view; ``wait_for`` a text in what comes from now on."""

    def __init__(self, at: Served, path: str) -> None:
        self._heard = ""
        self._bytes = 0
        self._changed = threading.Condition()
        connection = http.client.HTTPConnection("localhost", at.port)
        connection.request("GET", path, headers=at.headers)
        self._answer = connection.getresponse()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        with suppress(OSError, ValueError, http.client.HTTPException):
            while data := self._answer.read1(1 << 16):
                with self._changed:
                    self._heard += data.decode(errors="replace")
                    self._bytes += len(data)
                    self._changed.notify_all()

    def forget(self) -> None:
        """Forget what has come so far."""
        with self._changed:
            self._heard, self._bytes = "", 0

    def wait_for(self, text: str) -> int:
        """Wait until a text has come; how many bytes have. Raises TimeoutError."""
        with self._changed:
            if not self._changed.wait_for(lambda: text in self._heard, PATIENCE_SECONDS):
                raise TimeoutError(text)
            return self._bytes


def main() -> None:
    """Run the bench."""
    flags = parser(__doc__)
    flags.add_argument("--nodes", type=int, default=5000, help="how many nodes there are (default: 5000)")
    flags.add_argument("--pods", type=int, default=20_000, help="how many pods there are (default: 20000)")
    flags.add_argument("--turns", type=int, default=20, help="how often each change is made (default: 20)")
    given = flags.parse_args()
    report = Report("page_live", "seconds from a write to the event in a browser, on a real control plane")
    with live.control_plane() as cluster, tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "page.conf")
        config.write_text(CONFIGURATION)
        fill(cluster, given.nodes, given.pods)
        watch = Stopwatch()
        with page(cluster, config, Path(folder, "ui.log")) as served:
            streams = {
                view: Stream(served, f"/events/{view}?state=&namespace={LATE}") for view in ("cards", "jobs", "queues")
            }
            streams["queues"].wait_for("default")
            streams["cards"].wait_for("node-00000")
            report.add(change="first", half_s=watch.wall(), most_s=watch.wall(), bytes=0, cpu_s=cpu_seconds(served.pid))
            for name, (view, change) in changes(cluster, given.nodes * GANG // 2).items():
                report.add(**measured(name, streams[view], change, given.turns, served.pid))
            report.note(f"The page has {memory_mib(served.pid):,.0f} MiB resident.")
    report.finish()


def fill(cluster: ControlPlane, nodes: int, pods: int) -> None:
    """Make nodes, and gangs of which four in five run; room is left on the first nodes."""
    live.make_nodes(cluster, nodes)
    for namespace in (NAMESPACE, LATE):
        live.make_namespace(cluster, namespace)
    running = pods * 4 // 5 // GANG * GANG
    made = live.pods_of("volsched", pods, GANG)
    groups = [
        group(f"gang-{number:04}", "Running" if number * GANG < running else "Inqueue")
        for number in range(-(-pods // GANG))
    ]
    cluster.api.create_many(f"{VOLCANO}/namespaces/{NAMESPACE}/podgroups", groups)
    for place, pod in enumerate(made):
        if place < running:
            pod["spec"]["nodeName"] = f"node-{place % nodes:05}"
        else:
            too_many = {live.CARDS: str(2 * GANG)}
            pod["spec"]["containers"][0]["resources"] = {"requests": too_many, "limits": too_many}
    cluster.api.create_many(PODS, made)


def group(name: str, phase: str = "Inqueue") -> dict[str, Any]:
    """Return a PodGroup."""
    head = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": name}}
    return {**head, "spec": {"minMember": 1, "queue": "default"}, "status": {"phase": phase}}


@contextmanager
def page(cluster: ControlPlane, config: Path, log: Path) -> Iterator[Served]:
    """Run `volsched ui` until it answers."""
    port = free_port()
    flags = ["--kubeconfig", str(cluster.kubeconfig), "--config", str(config), f"--listen-address=127.0.0.1:{port}"]
    with log.open("wb") as output:
        process = subprocess.Popen([sys.executable, "-m", "volsched", "ui", *flags], stdout=output, stderr=output)
    try:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline and process.poll() is None:
            with suppress(OSError):
                connection = http.client.HTTPConnection("localhost", port, timeout=5)
                connection.request("GET", "/healthz")
                connection.getresponse()
                break
            time.sleep(0.1)
        if process.poll() is not None:
            raise RuntimeError(log.read_text())
        secret = log.read_text().partition("?secret=")[2].split()[0]
        yield Served(port, process.pid, {"Authorization": f"Bearer {secret}"})
    finally:
        process.terminate()
        process.wait()


Change = Callable[[int], str]
"""Writes something, and returns the text by which it is known in an event."""


def changes(cluster: ControlPlane, cards: int) -> dict[str, tuple[str, Change]]:
    """Return the changes by name, each with the view in which it is to be seen.

    Quotas are some more than so many cards: those above what all nodes have would be shown as that, and thousands as k.
    """

    def bound(turn: int) -> str:
        one: dict[str, Any] = {live.CARDS: "1"}
        pod = a_pod(f"new-{turn}", scheduler="volsched", cpu="1", memory="1Gi", **one)
        pod["spec"] |= {"nodeName": f"node-{turn % 50:05}", "automountServiceAccountToken": False}
        cluster.api.create(PODS, pod)
        return f"{NAMESPACE}/new-{turn}<"

    def waits(turn: int) -> str:
        cluster.api.create(f"{VOLCANO}/namespaces/{LATE}/podgroups", group(f"late-{turn}"))
        many: dict[str, Any] = {live.CARDS: "16"}
        annotations = {live.GROUP_NAME: f"late-{turn}"}
        pod = a_pod(f"late-{turn}", scheduler="volsched", annotations=annotations, cpu="1", memory="1Gi", **many)
        pod["spec"]["automountServiceAccountToken"] = False
        cluster.api.create(f"/api/v1/namespaces/{LATE}/pods", pod)
        return f'/job/{LATE}/late-{turn}"'

    def quota(turn: int) -> str:
        quota = str(cards + turn + 1)
        cluster.api.patch(f"{VOLCANO}/queues/default", {"spec": {"capability": {live.CARDS: quota}}})
        return f"limit </span>{quota}<"

    return {"bound": ("cards", bound), "waits": ("jobs", waits), "quota": ("queues", quota)}


def measured(name: str, stream: Stream, change: Change, turns: int, pid: int) -> dict[str, Any]:
    """Make a change some times, a second after another."""
    took, sent, before = [], [], cpu_seconds(pid)
    for turn in range(turns):
        stream.forget()
        began = time.perf_counter()
        sent.append(stream.wait_for(change(turn)))
        took.append(time.perf_counter() - began)
        time.sleep(1.0)
    cpu = (cpu_seconds(pid) - before) / turns
    return {"change": name, "half_s": quantile(took, 0.5), "most_s": max(took), "bytes": max(sent), "cpu_s": cpu}


if __name__ == "__main__":
    main()
