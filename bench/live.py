"""What the benches on a real control plane share: nodes, pods, contestants, and a watch that sees binds happen.

The control plane is etcd and kube-apiserver alone: nothing else may take CPU time in a race. Every contestant is the
same user, of the group system:masters, which API priority and fairness exempts.
"""

from __future__ import annotations

import http.client
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from bench.common import cpu_seconds, memory_mib
from tools.controlplane import ApiServerError, ControlPlane, a_node, a_pod
from tools.controlplane.binaries import find_kube_scheduler
from tools.controlplane.client import lines_of

GROUP_NAME = "scheduling.k8s.io/group-name"
CARDS = "nvidia.com/gpu"
CONTESTANTS = ("bare", "kube-scheduler", "volsched")
NATIVE_API = "scheduling.k8s.io/v1alpha2"
NATIVE_GATES = ("GenericWorkload", "GangScheduling", "TopologyAwareWorkloadScheduling", "WorkloadAwarePreemption")
SCHEDULER_NAMES = {"bare": "bare", "kube-scheduler": "default-scheduler", "volsched": "volsched"}
_CRDS = Path(__file__).parents[1] / "manifests" / "crds"
_VERSION = b'"resourceVersion":"'
_COUNTED = re.compile(rb"^apiserver_request_total\{(.*)\} (\S+)$", re.MULTILINE)
_LABEL = re.compile(rb'(\w+)="([^"]*)"')


class Watch:
    """Sees pods get their nodes; ``binds`` are the moments, in order.

    It costs little: lines are counted and not parsed. It goes on where it was when the API server finds it too slow.
    """

    def __init__(self, cluster: ControlPlane, namespace: str) -> None:
        self._cluster = cluster
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self._version = str(cluster.api.get(f"{self._path}?limit=1")["metadata"]["resourceVersion"])
        self._is_wanted = True
        self._connection: http.client.HTTPSConnection | None = None
        self.binds: list[float] = []
        self.restarts = 0
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        with suppress(PermissionError):  # whoever measures must not wait for those that are measured
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), -10)
        while self._is_wanted:
            with suppress(OSError, ValueError, AttributeError, http.client.HTTPException):
                for line in lines_of(self._open()):
                    if line.startswith(b'{"type":"ADDED"'):
                        self.binds.append(time.perf_counter())
                        self._version = line[
                            (at := line.index(_VERSION) + len(_VERSION)) : line.index(b'"', at)
                        ].decode()
            self.restarts += 1

    def _open(self) -> http.client.HTTPResponse:
        parts, keys = urlsplit(self._cluster.url), self._cluster.credentials
        self._connection = http.client.HTTPSConnection(
            parts.hostname or "", parts.port, timeout=3600, context=keys.client_context()
        )
        query = f"watch=1&fieldSelector=spec.nodeName!%3D&resourceVersion={self._version}&timeoutSeconds=3600"
        headers = {"Authorization": f"Bearer {keys.admin_token}"}
        self._connection.request("GET", f"{self._path}?{query}", headers=headers)
        return self._connection.getresponse()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._is_wanted = False
        if self._connection is not None and self._connection.sock:
            with suppress(OSError):
                self._connection.sock.shutdown(socket.SHUT_RDWR)

    def wait(self, count: int, process: subprocess.Popen[bytes], patience: float = 60.0) -> bool:
        """Wait until so many are bound; False when nothing happened for ``patience`` seconds or the process ended."""
        seen, at = -1, time.monotonic()
        while len(self.binds) < count:
            if len(self.binds) != seen:
                seen, at = len(self.binds), time.monotonic()
            if time.monotonic() - at > patience:
                return False
            if process.poll() is not None:
                return False
            time.sleep(0.05)
        return True


@contextmanager
def control_plane(*, native_gangs: bool = False) -> Iterator[ControlPlane]:
    """Run etcd and an API server with volsched's CRDs, and with the gates of Kubernetes' own gangs."""
    gates = dict.fromkeys(NATIVE_GATES, True) if native_gangs else None
    flags = [f"--runtime-config={NATIVE_API}=true"] if native_gangs else []
    with ControlPlane(controller_manager=False, kwok=False, feature_gates=gates, api_flags=flags) as cluster:
        cluster.kubectl("apply", "--server-side", "-k", str(_CRDS))
        cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
        queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "default"}}
        with suppress(ApiServerError):
            cluster.api.create("/apis/scheduling.volcano.sh/v1beta1/queues", queue | {"spec": {"weight": 1}})
        yield cluster


def make_nodes(cluster: ControlPlane, count: int) -> None:
    """Create nodes with eight cards each."""
    cards: dict[str, Any] = {CARDS: 8}
    cluster.create_nodes(
        [a_node(f"node-{index:05}", cpu="64", memory="512Gi", **cards) for index in range(count)], timeout=600
    )


def make_namespace(cluster: ControlPlane, name: str) -> None:
    """Create a namespace that pods can be made in although no controller runs."""
    cluster.create_namespace(name)
    cluster.api.create(f"/api/v1/namespaces/{name}/serviceaccounts", {"metadata": {"name": "default"}})


def pods_of(scheduler: str, count: int, gang: int) -> list[dict[str, Any]]:
    """Return plain pods, or pods of gangs with one card each."""
    made = []
    card: dict[str, Any] = {CARDS: "1"}
    for index in range(count):
        name = f"pod-{index:05}"
        if gang:
            annotations = {GROUP_NAME: f"gang-{index // gang:04}"}
            pod = a_pod(name, scheduler=scheduler, annotations=annotations, cpu="1", memory="4Gi", **card)
        else:
            pod = a_pod(name, scheduler=scheduler, cpu="100m", memory="200Mi")
        pod["spec"]["automountServiceAccountToken"] = False
        made.append(pod)
    return made


def make_backlog(cluster: ControlPlane, namespace: str, scheduler: str, count: int, gang: int) -> None:
    """Create the pods of a race, and their PodGroups."""
    if gang:
        groups = [
            {
                "apiVersion": "scheduling.volcano.sh/v1beta1",
                "kind": "PodGroup",
                "metadata": {"name": f"gang-{index:04}"},
                "spec": {"minMember": gang, "queue": "default"},
            }
            for index in range(count // gang)
        ]
        cluster.api.create_many(f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{namespace}/podgroups", groups)
    cluster.api.create_many(f"/api/v1/namespaces/{namespace}/pods", pods_of(scheduler, count, gang))


def clear(cluster: ControlPlane, namespace: str) -> None:
    """Delete the pods of a race at once, so that the next contestant finds the nodes empty."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    while cluster.api.get(f"{path}?limit=1")["items"]:
        with suppress(ApiServerError, OSError):
            cluster.api.delete(path, grace_seconds=0)
    cluster.api.delete(f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{namespace}/podgroups")
    cluster.api.delete(f"/api/v1/namespaces/{namespace}/events")


def make_native_gangs(
    cluster: ControlPlane, namespace: str, scheduler: str, gangs: range, size: int, cards: int = 1
) -> None:
    """Create Kubernetes' own PodGroups, by number, and their pods with so many cards each."""
    groups = [
        {
            "apiVersion": NATIVE_API,
            "kind": "PodGroup",
            "metadata": {"name": f"gang-{number:04}"},
            "spec": {"schedulingPolicy": {"gang": {"minCount": size}}},
        }
        for number in gangs
    ]
    cluster.api.create_many(f"/apis/{NATIVE_API}/namespaces/{namespace}/podgroups", groups)
    amounts: dict[str, Any] = {CARDS: str(cards), "cpu": "1", "memory": "4Gi"}
    pods = []
    for number in gangs:
        spec = {"schedulingGroup": {"podGroupName": f"gang-{number:04}"}, "automountServiceAccountToken": False}
        names = [f"pod-{number:04}-{index:04}" for index in range(size)]
        pods += [a_pod(name, scheduler=scheduler, spec=spec, **amounts) for name in names]
    cluster.api.create_many(f"/api/v1/namespaces/{namespace}/pods", pods)


def command_of(
    contestant: str, cluster: ControlPlane, namespace: str, *, follow: bool = False, metrics_port: int = 0
) -> list[str]:
    """Return the command line of a contestant; it serves metrics on a port of loopback, if one is given."""
    kubeconfig = str(cluster.kubeconfig)
    if contestant == "bare":
        return [sys.executable, "-m", "bench.bare", namespace, *(["--follow"] if follow else [])]
    if contestant == "kube-scheduler":
        return [
            str(find_kube_scheduler()),
            *(f"--{flag}kubeconfig={kubeconfig}" for flag in ("", "authentication-", "authorization-")),
            "--kube-api-qps=5000",
            "--kube-api-burst=10000",
            "--leader-elect=false",
            f"--secure-port={metrics_port}",
            *(["--bind-address=127.0.0.1", f"--cert-dir={cluster.folder}"] if metrics_port else []),
            *cluster.gate_flags,
        ]
    return [
        *(sys.executable, "-c", "from volsched.cli import main; main()", "run"),
        *("--kubeconfig", kubeconfig),
        *("--scheduler-name", SCHEDULER_NAMES["volsched"]),
        *("--plain-pods", "direct"),
        *("--leader-elect", "false"),
        *("--listen-address", f"127.0.0.1:{metrics_port}" if metrics_port else ""),
        *("--healthz-address", ""),
    ]


@contextmanager
def running(command: Sequence[str], cluster: ControlPlane, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a contestant; it is killed at the end."""
    environment = os.environ | {
        "BENCH_URL": cluster.url,
        "BENCH_CA": str(cluster.credentials.ca_file),
        "BENCH_TOKEN": cluster.credentials.admin_token,
    }
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environment)
        try:
            yield process
        finally:
            process.kill()
            process.wait()


@dataclass
class Usage:
    """CPU seconds and peak memory of a contestant, and CPU seconds of the API server, since this was made."""

    process: subprocess.Popen[bytes]
    cluster: ControlPlane

    def __post_init__(self) -> None:
        self._server = self.cluster.process("kube-apiserver").pid
        self._server_before = cpu_seconds(self._server)
        self._before = cpu_seconds(self.process.pid)

    def cpu(self) -> float:
        """CPU seconds of the contestant."""
        return cpu_seconds(self.process.pid) - self._before

    def server_cpu(self) -> float:
        """CPU seconds of the API server."""
        return cpu_seconds(self._server) - self._server_before

    def peak_mib(self) -> float:
        """The contestant's peak of resident memory since it was started."""
        return memory_mib(self.process.pid, "VmHWM")


def writes(cluster: ControlPlane) -> Mapping[str, int]:
    """Count the writes that the API server has taken so far, by resource and subresource."""
    found: dict[str, int] = {}
    for match in _COUNTED.finditer(cluster.api.request("GET", "/metrics")):
        labels = {key.decode(): value.decode() for key, value in _LABEL.findall(match[1])}
        if labels.get("verb") in ("POST", "PUT", "PATCH", "APPLY", "DELETE"):
            name = "/".join(part for part in (labels.get("resource"), labels.get("subresource")) if part)
            found[name] = found.get(name, 0) + int(float(match[2]))
    return found
