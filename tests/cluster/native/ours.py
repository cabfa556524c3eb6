"""volsched on a control plane that serves Kubernetes' own gangs."""

from __future__ import annotations

import urllib.request
import uuid
from pathlib import Path
from typing import Final

from tests.cluster.forks import ForkServer
from tests.cluster.native.stage import API
from tests.cluster.scheduling import ACCOUNT, SYSTEM, SchedulerProcess, eventually
from tools.controlplane import ControlPlane, a_node, a_pod
from tools.patience import PATIENCE

DIRECT: Final = ("--plain-pods", "direct")
QUOTAS: Final = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: predicates
  - name: capacity
"""


def start_ours(
    cluster: ControlPlane, folder: Path, name: str, text: str, *flags: str, forks: ForkServer | None = None
) -> SchedulerProcess:
    """Start volsched for pods of a scheduler name, with the text of a configuration."""
    folder.mkdir(exist_ok=True)
    configuration = folder / "volsched.conf"
    configuration.write_text(text)
    flags = ("--scheduler-name", name, "--scheduler-conf", str(configuration), *flags)
    kubeconfig = cluster.kubeconfig_for(ACCOUNT, SYSTEM)
    process = SchedulerProcess(kubeconfig, folder / "log", *flags, forks=forks)
    process.wait_for("everything is listed")
    return process


MARK: Final = "volsched.test/mark"
_PODS: Final = "/api/v1/namespaces/default/pods"
_GROUPS: Final = f"/apis/{API}/namespaces/default/podgroups"
_SESSIONS: Final = "volsched_session_duration_seconds_count"
_BINDINGS: Final = ('volsched_lane_depth{lane="bind"}', 'volsched_lane_depth{lane="volumes"}')
_REPORTS: Final = 'volsched_memory_objects{table="statuses.waiting"}'


class Settled:
    """Waits until volsched has decided about all nodes, pods and PodGroups, and has written what it decided.

    The API server sends objects of one kind in the order in which they were written. The marker is a pod in a PodGroup
    of its own, both made now, that fits only a node which was marked now. So the session that places the marker has
    seen all earlier objects. A later session ends after that session. All its decisions are written when no write
    waits.
    """

    def __init__(self, cluster: ControlPlane, process: SchedulerProcess, scheduler: str) -> None:
        self._cluster, self._api, self._scheduler = cluster, cluster.api, scheduler
        self._address, *_ = process.wait_for("serving")["addresses"]
        taints = [{"key": MARK, "value": "yes", "effect": "NoSchedule"}]
        [self._node] = cluster.create_nodes([a_node(f"marked-{uuid.uuid4().hex[:6]}", cpu="0", taints=taints)])

    def __call__(self, *, reports: bool = False) -> None:
        """Wait for decisions; with `reports` also for what is reported of those pods that wait."""
        name = self._mark()
        group = {"metadata": {"name": name}, "spec": {"schedulingPolicy": {"basic": {}}}}
        self._api.create(_GROUPS, {"apiVersion": API, "kind": "PodGroup", **group})
        spec = {
            "terminationGracePeriodSeconds": 0,
            "schedulingGroup": {"podGroupName": name},
            "nodeSelector": {MARK: name},
            "tolerations": [{"key": MARK, "operator": "Exists"}],
        }
        self._api.create(_PODS, a_pod(name, scheduler=self._scheduler, spec=spec))
        self._api.wait_for(f"{_PODS}/{name}", lambda pod: "nodeName" in pod["spec"])
        before = self._numbers()[_SESSIONS]
        self._mark()
        lanes = (*_BINDINGS, _REPORTS) if reports else _BINDINGS

        def is_over() -> bool:
            numbers = self._numbers()
            return numbers[_SESSIONS] > before and not any(numbers[lane] for lane in lanes)

        eventually(is_over, what=f"another session is over, and nothing waits in {lanes}")
        self._api.delete(f"{_PODS}/{name}", grace_seconds=0)
        self._api.delete(f"{_GROUPS}/{name}")

    def close(self) -> None:
        """Delete the node."""
        self._cluster.delete_nodes([self._node])

    def _numbers(self) -> dict[str, float]:
        """Return the metrics by their samples."""
        with urllib.request.urlopen(f"http://{self._address}/metrics", timeout=PATIENCE) as answer:
            lines = answer.read().decode().splitlines()
        samples = (line.rpartition(" ") for line in lines if not line.startswith("#"))
        return {sample: float(value) for sample, _, value in samples}

    def _mark(self) -> str:
        """Give the node a new mark, and return the mark."""
        mark = f"mark-{uuid.uuid4().hex[:8]}"
        self._api.patch(f"/api/v1/nodes/{self._node}", {"metadata": {"labels": {MARK: mark}}})
        return mark
