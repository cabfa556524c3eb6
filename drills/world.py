"""The cluster of a drill: a real control plane, and replicas of scheduler and controllers, each behind its own proxy.

The processes and the manifests are those of the cluster tests: everything runs with the rights that it ships with, by
the user of the image. A process that ends when nobody ended it is what most drills look for: `exits` tells.
"""

from __future__ import annotations

import contextlib
import http.client
import shutil
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from drills import report
from tests.cluster.control_plane import OURS
from tests.cluster.controlling import Controlled, ControllersProcess
from tests.cluster.forks import ForkServer
from tests.cluster.scheduling import QUICK_LEASE, SYSTEM, SchedulerProcess
from tests.cluster.served import wait_served
from tools.controlplane import ControlPlane, a_node, find_binaries
from tools.controlplane.errors import ApiServerError
from tools.controlplane.faults import FaultProxy
from tools.patience import PATIENCE, looks

CONFIGURATION: Final = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: capacity-card
  - name: mgpu
    arguments:
      predicate.MGPUEnable: true
  - name: predicates
  - name: nodeorder
"""
"""Quotas by card model and shared cards, unless a drill says otherwise; a Queue that names no quota lets nothing in."""


_DELETION_SECONDS: Final = 1_200.0

forks: ForkServer | None = None
"""What replicas are forked from, which tests set: a replica that is started takes a CPU second before it begins."""


@dataclass(slots=True)
class Replica:
    """One replica: its process now, and the proxy through which alone it reaches the API server."""

    process: SchedulerProcess | ControllersProcess
    proxy: FaultProxy
    flags: tuple[str, ...]
    _served: tuple[SchedulerProcess | ControllersProcess, str] | None = None

    def page(self, path: str) -> tuple[int, str]:
        """Status and text of one of its pages; raises OSError while it does not answer.

        Where it serves is looked up once, as its log may be long, and again when nobody is there: it may have begun
        anew.
        """
        if self._served is not None and self._served[0] is self.process:
            with contextlib.suppress(OSError):
                return _fetch(f"http://{self._served[1]}{path}")
        self.process.wait_for("serving")
        self._served = self.process, self.process.said("serving")[-1]["addresses"][0]
        return _fetch(f"http://{self._served[1]}{path}")

    def scrape(self) -> dict[str, float]:
        """All samples of its metrics, by name and labels as they are written."""
        lines = (line.rpartition(" ") for line in self.page("/metrics")[1].splitlines() if not line.startswith("#"))
        return {name: float(value) for name, _, value in lines if name}

    @property
    def is_ready(self) -> bool:
        """Whether it says so."""
        try:
            return self.page("/readyz")[0] == 200
        except OSError:
            return False

    @property
    def port(self) -> int:
        """Where it serves its pages and probes."""
        self.process.wait_for("serving")
        return int(self.process.said("serving")[-1]["addresses"][0].rpartition(":")[2])

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.process.pid

    @property
    def has_ended(self) -> bool:
        """Whether the process is gone."""
        return self.process.process.poll() is not None


def _fetch(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE) as answer:  # noqa: S310 - a page of our own process
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


class World(Controlled):
    """A cluster with replicas of volsched; `killed` are the processes that a drill ended itself."""

    def __init__(self, control_plane: ControlPlane, folder: Path, stack: ExitStack) -> None:
        super().__init__(control_plane, folder, forks)
        self.schedulers: list[Replica] = []
        self.managers: list[Replica] = []
        self.killed: set[int] = set()
        self._stack = stack

    def populate(self, *, schedulers: int = 2, controllers: int = 2, flags: tuple[str, ...] = QUICK_LEASE) -> None:
        """Start replicas, and wait until one of each leads and every replica is ready.

        A drill would else disturb a follower that lists for the first time.
        """
        for _ in range(schedulers):
            proxy = self._stack.enter_context(FaultProxy(self.control_plane))
            given = (*flags, "--scheduler-configmap", f"{SYSTEM}/volsched-config")
            self.schedulers.append(Replica(self.start(*given, proxy=proxy), proxy, given))
        for _ in range(controllers):
            proxy = self._stack.enter_context(FaultProxy(self.control_plane))
            self.managers.append(Replica(self.control(*flags, proxy=proxy), proxy, flags))
        for replicas in filter(None, (self.schedulers, self.managers)):
            wait_until(lambda: any(replica.process.said("leading") for replica in replicas), PATIENCE)  # noqa: B023 - asked at once
        for replica in (*self.schedulers, *self.managers):
            if not wait_until(lambda: replica.is_ready, PATIENCE):  # noqa: B023 - asked at once
                raise AssertionError(f"{replica.process.log} does not get ready")

    def restart(self, replica: Replica) -> None:
        """Start a replica again that the drill has ended, with the flags and through the proxy that it had."""
        self.killed.add(replica.pid)
        begin = self.start if replica in self.schedulers else self.control
        replica.process = begin(*replica.flags, proxy=replica.proxy)

    def close(self) -> None:
        """End all processes."""
        for process in (*self.processes, *self.controllers):
            process.close()

    def exits(self) -> list[str]:
        """Name the processes that ended and that no drill ended, with their exit status."""
        found = []
        for process in (*self.processes, *self.controllers):
            status = process.process.poll()
            if status is not None and process.process.pid not in self.killed:
                last = process.lines()[-1:] or [{}]
                found.append(f"{process.log.name}: exit {status}; it said last: {str(last[0])[:300]}")
        return found

    def keep_logs(self, folder: Path) -> None:
        """Copy the logs of all replicas there, so that what went wrong can be looked into."""
        folder.mkdir(parents=True, exist_ok=True)
        for log in self.folder.glob("*.log"):
            shutil.copy(log, folder)

    def nodes(self, count: int, **keywords: Any) -> list[str]:
        """Create nodes, all alike; keywords are those of `a_node`."""
        stem = keywords.pop("prefix", "node")
        return self.control_plane.create_nodes([a_node(f"{stem}-{index}", **keywords) for index in range(count)])


def wait_until(condition: Callable[[], object], seconds: float) -> bool:
    """Wait until it holds, for so many seconds at most; return whether it does."""
    return any(condition() for _ in looks(seconds))


def delete_collection(there: World, path: str, **options: Any) -> None:
    """Delete what is in a collection; of thousands that takes longer than the API server answers, so more than once."""
    body = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0, **options}

    def is_done() -> bool:
        try:
            there.api.request("DELETE", path, body, timeout=300)
        except ApiServerError as error:
            if error.status < 500:
                raise
            return False
        except (OSError, http.client.HTTPException):
            return False
        return True

    wait_until(is_done, _DELETION_SECONDS)


@contextmanager
def world(configuration: str = CONFIGURATION, **options: Any) -> Iterator[World]:
    """Run a cluster with our kinds and rights and this configuration; `options` are those of `ControlPlane`.

    No replica runs yet: `populate` starts them. Everything is ended and deleted in the end.
    """
    binaries = find_binaries()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="drill-")))
        control_plane = stack.enter_context(ControlPlane(binaries=binaries, manifests=OURS, **options))
        there = World(wait_served(control_plane), folder, stack)
        there.configure(configuration)
        stack.callback(there.close)
        try:
            yield there
        except Exception as error:
            logs = report.RESULTS / "logs"
            there.keep_logs(logs)
            error.add_note(f"processes that no drill ended: {there.exits() or 'none'}; the logs of all are in {logs}")
            raise
