"""What the cluster tests of the scheduler share: `volsched run` as a process, with the rights that it ships with."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, Final

from tests.cluster.checkout import command_of_checkout
from tests.cluster.forks import Fork, ForkServer
from tools.controlplane import ControlPlane, a_pod
from tools.controlplane.faults import FaultProxy
from tools.patience import PATIENCE, looks

MANIFESTS = Path(__file__).resolve().parents[2] / "manifests"
SYSTEM = "volsched-system"
ACCOUNT = "volsched-scheduler"
CONFIG = "volsched-config"
CONFIGMAP = f"{SYSTEM}/{CONFIG}"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases/volsched"
GROUPS = "/apis/scheduling.volcano.sh/v1beta1"

Json = dict[str, Any]

QUICK_LEASE: Final = (
    *("--leader-elect-lease-duration", "8s", "--leader-elect-renew-deadline", "6s"),
    *("--leader-elect-retry-period", "500ms"),
)
"""Of one that is killed another takes over soon: for the one that goes. Its successor keeps `PATIENT_LEASE`."""

PATIENT_LEASE: Final = ("--leader-elect-lease-duration", "90s", "--leader-elect-renew-deadline", "80s")
"""No leader loses it, however slow the machine: what processes have unless a test says otherwise."""

CONFIGURATION = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: predicates
  - name: nodeorder
"""
"""What schedulers use unless a test says otherwise: no quota, so that a pod waits for a node and for nothing else."""


def _line(text: str) -> Json:
    try:
        found: Json = json.loads(text)
    except ValueError:
        found = {"event": text}
    return found


class LoggedProcess(ABC):
    """A verb of volsched as a process. Its log is a file; its HTTP port is read from there."""

    def __init__(self, log: Path) -> None:
        self.log = log
        self._file = log.open("wb")
        self._lines: list[Json] = []
        self._read = 0
        self.process = self._start(self._file)

    @abstractmethod
    def _start(self, log: BinaryIO) -> subprocess.Popen[bytes] | Fork:
        """Start it, with everything that it says going to the log."""

    def lines(self) -> list[Json]:
        """What it has said so far; a line that is being written is not one yet."""
        with self.log.open("rb") as log:
            log.seek(self._read)
            written = log.read()
        complete = written[: written.rfind(b"\n") + 1]
        self._read += len(complete)
        self._lines += map(_line, complete.decode(errors="replace").split("\n")[:-1])
        return list(self._lines)

    def said(self, event: str) -> list[Json]:
        """All log lines whose sentence contains these words."""
        return [line for line in self.lines() if event in line.get("event", "")]

    def wait_for(self, event: str, timeout: float = PATIENCE, count: int = 1) -> Json:
        for _ in looks(timeout):
            has_ended = self.process.poll() is not None
            found = self.said(event)  # after that, since its last words may be those that are waited for
            if len(found) >= count:
                return found[count - 1]
            if has_ended:
                break
        raise AssertionError(f"the process did not say {event!r}; its log:\n{self.log.read_text()[-6000:]}")

    def page(self, path: str) -> tuple[int, str]:
        address, *_ = self.wait_for("serving")["addresses"]
        try:
            with urllib.request.urlopen(f"http://{address}{path}", timeout=PATIENCE) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def metric(self, sample: str) -> float:
        """The value of one sample, as it is written with its labels; 0 when there is none."""
        return self.metrics(sample)[0]

    def metrics(self, *samples: str) -> list[float]:
        """The values of several samples at one moment: a page costs the process more than it costs to read it."""
        found = dict.fromkeys(samples, 0.0)
        for line in self.page("/metrics")[1].splitlines():
            name, _, value = line.rpartition(" ")
            if name in found:
                found[name] = float(value)
        return [found[sample] for sample in samples]

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(PATIENCE)

    def terminate(self) -> int:
        """Ask it to end, and return its exit status."""
        if self.process.poll() is None:
            self.process.terminate()
        return self.wait()

    def wait(self) -> int:
        """Return its exit status once it has ended."""
        try:
            return self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the process does not end; it said last: {self.lines()[-40:]}") from None

    def close(self) -> None:
        if self.process.poll() is None:
            self.kill()
        self._file.close()


class VolschedProcess(LoggedProcess):
    """A verb with flags of a test's own, run from the checkout by the user of the image, with its variables alone.

    Nothing but its log's folder can be written. `prelude` is what the process does before it begins, in Python. With
    `forks` and without a prelude the process is a fork; its user, variables and file system are the same.
    """

    prelude = ""

    def __init__(self, log: Path, verb: str, *flags: str, forks: ForkServer | None = None) -> None:
        self._words = [verb, *flags]
        self._forks = forks
        super().__init__(log)

    def _start(self, log: BinaryIO) -> subprocess.Popen[bytes] | Fork:
        if self._forks is not None and not self.prelude:
            self.log.parent.chmod(0o777)
            return self._forks.start(self._words, log, log)
        program = f"{self.prelude}\nfrom volsched.cli import main; main()"
        command = command_of_checkout([sys.executable, "-c", program, *self._words], self.log.parent)
        return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)


class SchedulerProcess(VolschedProcess):
    """One `volsched run`, by itself on its port."""

    def __init__(self, kubeconfig: Path, log: Path, *flags: str, forks: ForkServer | None = None) -> None:
        super().__init__(
            *(log, "run", "--kubeconfig", str(kubeconfig), "--listen-address", "127.0.0.1:0", "--healthz-address", ""),
            *("--leader-elect-resource-namespace", SYSTEM, "--log-format", "json", "--log-level", "debug"),
            *(*PATIENT_LEASE, *flags),
            forks=forks,
        )

    def wait_leading(self) -> SchedulerProcess:
        self.wait_for("everything is listed")
        self.wait_for("leading")
        return self


class Installed:
    """A control plane with our CRDs and rights, and how to start schedulers and make things there.

    With `forks` schedulers are forks: the first one of a test of one process, all others of another, so that of two
    replicas each has a hash seed of its own.
    """

    def __init__(self, control_plane: ControlPlane, folder: Path, forks: ForkServer | None = None) -> None:
        self.forks = forks
        self.control_plane = control_plane
        self.api = control_plane.api
        self.folder = folder
        self.name = f"volsched-{uuid.uuid4().hex[:6]}"
        self.processes: list[SchedulerProcess] = []

    def start(self, *flags: str, proxy: FaultProxy | None = None, name: str = "") -> SchedulerProcess:
        """Start a scheduler with the rights that it ships with, for a scheduler name of this test's own."""
        kubeconfig = (proxy or self.control_plane).kubeconfig_for(ACCOUNT, SYSTEM)
        log = self.folder / f"scheduler-{len(self.processes)}.log"
        if not any(flag.startswith("--scheduler-conf") for flag in flags):
            path = self.folder / "default.conf"
            path.write_text(CONFIGURATION)
            flags = ("--scheduler-conf", str(path), *flags)
        forks = self.forks and self.forks.of(len(self.processes))
        process = SchedulerProcess(kubeconfig, log, "--scheduler-name", name or self.name, *flags, forks=forks)
        self.processes.append(process)
        return process

    def pod(self, name: str, *, group: str = "", **keywords: Any) -> Json:
        annotations = {"scheduling.k8s.io/group-name": group} if group else {}
        return a_pod(name, scheduler=self.name, annotations=annotations, **keywords)

    def make_pods(self, namespace: str, pods: list[Json]) -> None:
        self.api.create_many(f"/api/v1/namespaces/{namespace}/pods", pods)

    def make_group(self, namespace: str, name: str, **spec: Any) -> None:
        """Make a PodGroup."""
        body = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": name}}
        self.api.create(f"{GROUPS}/namespaces/{namespace}/podgroups", body | {"spec": spec})

    def make_gang(
        self, namespace: str, name: str, size: int, *, minimum: int = 0, queue: str = "default", **requests: Any
    ) -> None:
        self.make_group(namespace, name, minMember=minimum or size, queue=queue)
        self.make_pods(namespace, [self.pod(f"{name}-{i}", group=name, **requests) for i in range(size)])

    def pods(self, namespace: str) -> dict[str, Json]:
        return {pod["metadata"]["name"]: pod for pod in self.api.items(f"/api/v1/namespaces/{namespace}/pods")}

    def wait_bound(self, namespace: str, count: int, timeout: float = PATIENCE) -> dict[str, str]:
        """Wait until that many pods have a node, and return pod -> node."""

        def enough(found: Json) -> bool:
            return sum("nodeName" in pod["spec"] for pod in found["items"]) >= count

        path = f"/api/v1/namespaces/{namespace}/pods"
        try:
            found = self.api.wait_for(path, enough, timeout)
        except TimeoutError:
            tails = "\n".join(p.log.read_text()[-3000:] for p in self.processes)
            bound = sum("nodeName" in pod["spec"] for pod in self.api.items(path))
            raise AssertionError(f"{bound} of {count} pods were bound in {timeout:g} s; logs end:\n{tails}") from None
        return {p["metadata"]["name"]: p["spec"]["nodeName"] for p in found["items"] if "nodeName" in p["spec"]}

    def events(self, namespace: str, name: str = "") -> list[Json]:
        found = self.api.items(f"/api/v1/namespaces/{namespace}/events")
        return [event for event in found if not name or event["involvedObject"]["name"] == name]

    def wait_event(
        self, namespace: str, name: str, reason: str, timeout: float = PATIENCE, *, saying: str = ""
    ) -> Json:
        """Return the Event of a reason; with `saying` the one that says this: others of the reason may come before."""
        for _ in looks(timeout):
            for event in self.events(namespace, name):
                if event["reason"] == reason and saying in event["message"]:
                    return event
        said = [(e["involvedObject"]["name"], e["reason"], e["message"]) for e in self.events(namespace)]
        raise AssertionError(f"no Event {reason} on {name} that says {saying!r}: {said}")

    def condition(self, namespace: str, name: str, kind: str = "PodScheduled") -> Json:
        pod = self.api.get(f"/api/v1/namespaces/{namespace}/pods/{name}")
        found = [item for item in pod["status"].get("conditions") or () if item["type"] == kind]
        return found[0] if found else {}

    def group(self, namespace: str, name: str) -> Json:
        return self.api.get(f"{GROUPS}/namespaces/{namespace}/podgroups/{name}")

    def wait_group(self, namespace: str, name: str, phase: str, timeout: float = PATIENCE) -> Json:
        path = f"{GROUPS}/namespaces/{namespace}/podgroups/{name}"
        return self.api.wait_for(path, lambda g: g.get("status", {}).get("phase") == phase, timeout)

    def configure(self, text: str, key: str = "volcano-scheduler.conf") -> None:
        """Create or replace the ConfigMap that the scheduler's Role lets it see."""
        path = f"/api/v1/namespaces/{SYSTEM}/configmaps"
        body = {"metadata": {"name": CONFIG}, "data": {key: text}}
        if self.api.find(f"{path}/{CONFIG}") is None:
            self.api.create(path, body)
        else:
            self.api.patch(f"{path}/{CONFIG}", {"data": {key: text}})


def moment(line: Json) -> datetime:
    """When a line of a log was written."""
    return datetime.fromisoformat(line["time"])


def wait_allowed(control_plane: ControlPlane, user: str, **what: str) -> None:
    """Wait until the API server knows of a right that somebody was given: it hears of that a moment later.

    `what` is the verb, the group and the resource, and where and of what name that is.
    """
    spec = {"user": user, "resourceAttributes": what}
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    eventually(lambda: control_plane.api.create(path, {"spec": spec})["status"]["allowed"], what=f"{user}: {what}")


def eventually(check: Callable[[], bool], timeout: float = PATIENCE, what: str = "") -> None:
    if not any(check() for _ in looks(timeout)):
        raise AssertionError(f"did not come true in {timeout:g} s: {what or check}")


def still(check: Callable[[], bool], seconds: float, explain: Callable[[], object] = lambda: "") -> None:
    """Assert that something holds all the time for a while; `explain` says more when it does not."""
    for _ in looks(seconds):
        assert check(), explain()
