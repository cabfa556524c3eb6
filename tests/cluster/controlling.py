"""What cluster tests of the controllers share: `volsched run` and `volsched controllers`, each with its own rights."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.cluster.forks import ForkServer
from tests.cluster.scheduling import GROUPS, PATIENT_LEASE, SYSTEM, Installed, Json, VolschedProcess, eventually
from tools.controlplane import ControlPlane, a_pod
from tools.controlplane.faults import FaultProxy
from tools.patience import PATIENCE

ACCOUNT = "volsched-controllers"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases/volsched-controllers"
VOLCANO = "volcano-system"
JOBS = "/apis/batch.volcano.sh/v1alpha1"
GROUP_NAME = "scheduling.k8s.io/group-name"
AT_WORK = "at work"


class ControllersProcess(VolschedProcess):
    """One `volsched controllers`, by itself on its port, quick to notice that another one is gone."""

    def __init__(self, kubeconfig: Path, log: Path, *flags: str, forks: ForkServer | None = None) -> None:
        super().__init__(
            *(log, "controllers", "--kubeconfig", str(kubeconfig)),
            *("--listen-address", "127.0.0.1:0", "--healthz-address", ""),
            *("--leader-elect-resource-namespace", SYSTEM, "--log-format", "json", "--log-level", "debug"),
            *(*PATIENT_LEASE, *flags),
            forks=forks,
        )


class Controlled(Installed):
    """A control plane with our CRDs and rights, a scheduler and controllers of this test's own scheduler name."""

    def __init__(self, control_plane: ControlPlane, folder: Path, forks: ForkServer | None = None) -> None:
        super().__init__(control_plane, folder, forks)
        self.controllers: list[ControllersProcess] = []

    def control(self, *flags: str, proxy: FaultProxy | None = None) -> ControllersProcess:
        """Start a controllers process with the rights that it ships with."""
        kubeconfig = (proxy or self.control_plane).kubeconfig_for(ACCOUNT, SYSTEM)
        log = self.folder / f"controllers-{len(self.controllers)}.log"
        forks = self.forks and self.forks.of(len(self.controllers))
        process = ControllersProcess(kubeconfig, log, "--scheduler-name", self.name, *flags, forks=forks)
        self.controllers.append(process)
        return process

    def both(self, *flags: str, proxy: FaultProxy | None = None) -> ControllersProcess:
        """Start a scheduler, and controllers with flags, and return the latter once both are at work."""
        self.start()
        process = self.control(*flags, proxy=proxy)
        process.wait_for(AT_WORK)
        self.processes[-1].wait_leading()
        return process

    # -- objects --------------------------------------------------------------------------------------------------

    def template(self, annotations: Mapping[str, str] | None = None, **requests: Any) -> Json:
        """A pod template of this test's scheduler; every workload here selects `app: <its name>`."""
        pod = self.pod("x", **requests)
        return {"metadata": {"annotations": dict(annotations or {})}, "spec": pod["spec"]}

    def workload(
        self,
        namespace: str,
        kind: str,
        name: str,
        replicas: int | None,
        *,
        annotations: Mapping[str, str] | None = None,
        template: Json | None = None,
        **spec: Any,
    ) -> Json:
        """Create a Deployment, ReplicaSet, StatefulSet or DaemonSet (which says no number) of one-core pods."""
        template = template or self.template(cpu="1")
        template["metadata"]["labels"] = {"app": name}
        body: Json = {
            "apiVersion": "apps/v1",
            "kind": kind,
            "metadata": {"name": name, "annotations": dict(annotations or {})},
            "spec": {"selector": {"matchLabels": {"app": name}}, "template": template, **spec},
        }
        if replicas is not None:
            body["spec"]["replicas"] = replicas
        return self.api.create(f"/apis/apps/v1/namespaces/{namespace}/{kind.lower()}s", body)

    def job(self, namespace: str, name: str, tasks: list[Json], **spec: Any) -> Json:
        """Create a Volcano Job of this test's scheduler."""
        body = {
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "Job",
            "metadata": {"name": name},
            "spec": {"schedulerName": self.name, "tasks": tasks, **spec},
        }
        return self.api.create(f"{JOBS}/namespaces/{namespace}/jobs", body)

    def task(self, name: str, replicas: int, annotations: Mapping[str, str] | None = None, **fields: Any) -> Json:
        """A task of pods that never restart their containers."""
        template = self.template(annotations, cpu="1", spec={"restartPolicy": "Never"})
        return {"name": name, "replicas": replicas, "template": template, **fields}

    def wait_job(self, namespace: str, name: str, phase: str, timeout: float = PATIENCE) -> Json:
        """Wait until a Volcano Job has this phase."""
        path = f"{JOBS}/namespaces/{namespace}/jobs/{name}"
        return self.api.wait_for(path, lambda job: phase_of(job) == phase, timeout)

    # -- PodGroups and queues -------------------------------------------------------------------------------------

    def groups(self, namespace: str) -> dict[str, Json]:
        """PodGroups by name."""
        found = self.api.items(f"{GROUPS}/namespaces/{namespace}/podgroups")
        return {group["metadata"]["name"]: group for group in found}

    def wait_groups(self, namespace: str, count: int, timeout: float = PATIENCE) -> list[Json]:
        """Wait until there are just so many PodGroups."""
        path = f"{GROUPS}/namespaces/{namespace}/podgroups"
        return list(self.api.wait_for(path, lambda found: len(found["items"]) == count, timeout)["items"])

    def queue(self, name: str, **spec: Any) -> str:
        """Create a Queue."""
        self.api.create(f"{GROUPS}/queues", {
            "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}, "spec": spec,
        })  # fmt: skip
        return name

    def wait_queue(self, name: str, timeout: float = PATIENCE, **status: Any) -> Json:
        """Wait until a queue's status says all of this."""

        def says(queue: Json) -> bool:
            known = queue.get("status", {})
            return all(known.get(field) == value for field, value in status.items())

        return self.api.wait_for(f"{GROUPS}/queues/{name}", says, timeout)


def phase_of(job: Json) -> str:
    return str(job.get("status", {}).get("state", {}).get("phase", ""))


def volcano_leases(namespace: str = VOLCANO) -> str:
    return f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"


def make_volcano_pod(installed: Installed, namespace: str, node: str, account: str = "volcano-controllers") -> None:
    """Create a pod as the Deployment of Volcano's chart makes it, and wait until it is ready."""
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    if installed.api.find(f"{accounts}/{account}") is None:
        installed.api.create(accounts, {"metadata": {"name": account}})
    spec = {"nodeName": node, "serviceAccountName": account}
    name, labels = "volcano-controllers-0", {"app": "volcano-controller"}
    installed.make_pods(namespace, [a_pod(name, labels=labels, spec=spec)])
    eventually(lambda: installed.condition(namespace, name, "Ready").get("status") == "True")


@contextlib.contextmanager
def volcano_at_work(installed: Installed, holder: str = "vc-0", namespace: str = VOLCANO) -> Iterator[None]:
    """Have Volcano's controllers hold their Lease, and renew it all the time, within a ``with`` block."""
    is_over = threading.Event()

    def renew() -> None:
        while not is_over.wait(0.5):
            _renew_volcano_lease(installed, holder, namespace)

    _renew_volcano_lease(installed, holder, namespace)
    renewing = threading.Thread(target=renew)
    renewing.start()
    try:
        yield
    finally:
        is_over.set()
        renewing.join()


def _renew_volcano_lease(installed: Installed, holder: str, namespace: str) -> None:
    spec = {"holderIdentity": holder, "renewTime": time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime())}
    path = f"{volcano_leases(namespace)}/vc-controller-manager"
    if installed.api.find(path) is None:
        installed.api.create(volcano_leases(namespace), {"metadata": {"name": "vc-controller-manager"}, "spec": spec})
    else:
        installed.api.patch(path, {"spec": spec})
