"""What a test on the real node does and sees: kubectl as people use it, objects, and the processes of containers.

It runs inside the node's namespaces, so the addresses of pods are near and the processes of containers are in /proc.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

from tools.patience import PATIENCE
from tools.realnode import node
from volsched.kube.lead import leases

Json = dict[str, Any]
T = TypeVar("T")

PROJECT: Final = Path(__file__).resolve().parents[2]
SYSTEM: Final = "volsched-system"
DEPLOYMENTS: Final = ("volsched-scheduler", "volsched-controllers")
CONFIGURATION: Final = "volsched-config"
COMPONENT: Final = "app.kubernetes.io/component"


class KubectlError(AssertionError):
    """kubectl ended with a status that is not 0; the message is its own."""


class Cluster:
    """The cluster of the real node, as its administrator sees it."""

    def kubectl(self, *words: str, stdin: str = "") -> str:
        """Run kubectl and return what it prints; raises KubectlError."""
        done = subprocess.run(["kubectl", *words], input=stdin, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise KubectlError(f"kubectl {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout

    def get(self, kind: str, name: str, namespace: str = "default") -> Json:
        """Return one object; empty when there is none."""
        found = self.kubectl("get", kind, name, "-n", namespace, "-o", "json", "--ignore-not-found")
        return dict(json.loads(found)) if found else {}

    def list(self, kind: str, namespace: str = "default", **labels: str) -> list[Json]:
        """Return the objects of a namespace that have these labels."""
        chosen = ",".join(f"{key}={value}" for key, value in labels.items())
        found = self.kubectl("get", kind, "-n", namespace, "-o", "json", "-l", chosen)
        return list(json.loads(found)["items"])

    def apply(self, *objects: Mapping[str, Any], namespace: str = "default") -> None:
        """Apply objects."""
        self.kubectl(
            "apply",
            "-n",
            namespace,
            "-f",
            "-",
            stdin=json.dumps({"kind": "List", "apiVersion": "v1", "items": objects}),
        )

    def replicas(self, deployment: str) -> list[Json]:
        """Return the pods of one of our Deployments that are not about to go."""
        found = self.list("pods", SYSTEM, **{COMPONENT: deployment.removeprefix("volsched-")})
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    def holder(self, deployment: str) -> str:
        """Return who holds the Lease, empty when nobody does: the name of a pod, and what is new at each start."""
        name = {"volsched-scheduler": "volsched"}.get(deployment, deployment)
        return str(self.get("lease", name, SYSTEM).get("spec", {}).get("holderIdentity", ""))

    def leader(self, deployment: str) -> Json:
        """Return the pod that holds the Lease."""
        return self.get("pod", self.holder(deployment).rpartition("_")[0], SYSTEM)

    def free_cpu(self) -> int:
        """Thousandths of cores of the node that no pod asks for."""
        pods = json.loads(self.kubectl("get", "pods", "-A", "-o", "json"))["items"]
        placed = [pod for pod in pods if pod["spec"].get("nodeName") and phase_of(pod) not in ("Succeeded", "Failed")]
        containers = [container for pod in placed for container in pod["spec"]["containers"]]
        asked = [container["resources"].get("requests", {}).get("cpu", "0") for container in containers]
        return _milli(self.get("node", node.NAME)["status"]["allocatable"]["cpu"]) - sum(map(_milli, asked))

    def events(self, namespace: str, name: str) -> list[str]:
        """Return the reasons of the Events about one object, with their messages."""
        found = self.list("events", namespace)
        return [f"{e['reason']}: {e['message']}" for e in found if e["involvedObject"]["name"] == name]

    @contextmanager
    def configured(self, text: str) -> Iterator[None]:
        """Have volsched work by another configuration within a ``with`` block."""
        before = self.get("configmap", CONFIGURATION, SYSTEM)["data"]
        self._configure(dict.fromkeys(before, text))
        try:
            yield
        finally:
            self._configure(before)

    def _configure(self, data: Mapping[str, str]) -> None:
        before = self._configuration_in_force()
        self.kubectl(
            "patch", "configmap", CONFIGURATION, "-n", SYSTEM, "--type=merge", "-p", json.dumps({"data": data})
        )
        eventually(lambda: self._configuration_in_force() not in ("", before))

    def _configuration_in_force(self) -> str:
        return str(self.get("lease", "volsched", SYSTEM)["metadata"].get("annotations", {}).get(leases.HASH, ""))

    @contextmanager
    def namespace(self, name: str) -> Iterator[str]:
        """Have a namespace within a ``with`` block."""
        self.kubectl("create", "namespace", name)
        try:
            yield name
        finally:
            self.kubectl("delete", "namespace", name, "--timeout=120s")


class ProcessOf:
    """The process of a pod's container, by what the kernel says of it."""

    def __init__(self, pod: Mapping[str, Any], container: str = "") -> None:
        statuses = pod["status"]["containerStatuses"]
        chosen = next(status for status in statuses if container in ("", status["name"]))
        self.pid = _pid_of(chosen["containerID"].rpartition("/")[2])

    @property
    def status(self) -> dict[str, str]:
        """The lines of its ``status``."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}

    @property
    def root_options(self) -> set[str]:
        """How its root file system is mounted."""
        lines = Path(f"/proc/{self.pid}/mountinfo").read_text().splitlines()
        return next(set(fields[5].split(",")) for fields in map(str.split, lines) if fields[4] == "/")

    def signal(self, number: int) -> None:
        """Send it a signal."""
        os.kill(self.pid, number)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command of the image in its mounts, with its PATH."""
        path = dict(
            pair.split("=", 1) for pair in Path(f"/proc/{self.pid}/environ").read_text().split("\0") if "=" in pair
        )["PATH"]
        command = ["chroot", f"/proc/{self.pid}/root", "/usr/bin/env", "-i", f"PATH={path}", *words]
        return subprocess.run(command, capture_output=True, text=True, check=False)


def _pid_of(container: str) -> int:
    listed = subprocess.run(
        ["ctr", "--address", str(node.CONTAINERD), "--namespace", "k8s.io", "tasks", "list"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    found = [line.split() for line in listed.splitlines()]
    return next(int(fields[1]) for fields in found if fields[0] == container)


def _milli(cpu: str) -> int:
    return int(cpu[:-1]) if cpu.endswith("m") else round(float(cpu) * 1000)


def eventually(condition: Callable[[], T], seconds: float = PATIENCE) -> T:
    """Return what a condition says as soon as that is something; fails, with what it said last, when it never is."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not in {seconds:g} s: {found!r}"
        time.sleep(0.2)
    return found


def phase_of(pod: Mapping[str, Any]) -> str:
    """A pod's phase."""
    return str(pod.get("status", {}).get("phase", ""))


def a_pod(name: str, *, cpu: str = "100m", command: Sequence[str] = ("sleep", "3600"), **spec: Any) -> Json:
    """A pod of volsched that runs busybox."""
    container = {
        "name": "main",
        "image": "busybox:1.37",
        "command": list(command),
        "resources": {"requests": {"cpu": cpu, "memory": "16Mi"}},
    }
    known = {"schedulerName": "volsched", "terminationGracePeriodSeconds": 0, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": known | spec}
