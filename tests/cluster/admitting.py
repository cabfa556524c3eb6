"""The shipped webhooks at a real API server, and what kubectl prints of their answers."""

from __future__ import annotations

import base64
import contextlib
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.controlling import Controlled, ControllersProcess
from tests.cluster.forks import run_volsched
from tests.cluster.scheduling import GROUPS, SYSTEM, Json, eventually
from tools.controlplane import ApiServerError, ControlPlane
from tools.patience import PATIENCE

HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
CERTIFICATES = f"system:serviceaccount:{SYSTEM}:volsched-certificates"
SECRET = f"/api/v1/namespaces/{SYSTEM}/secrets/volsched-webhooks"
QUOTA = "volcano.sh/card.quota"
NO_QUOTA = '{"A100": -1}'
"""A quota that the schema of Queues lets in and admission does not."""


def a_queue(name: str, quota: str = "", **spec: Any) -> Json:
    metadata: Json = {"name": name, "annotations": {QUOTA: quota} if quota else {}}
    return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": metadata, "spec": spec}


def run_certificates(*flags: str) -> subprocess.CompletedProcess[str]:
    return run_volsched("certificates", "--namespace", SYSTEM, *flags)


@dataclass
class Said:
    """What kubectl prints for people, and whether it went well."""

    status: int
    text: str

    @property
    def is_refusal(self) -> bool:
        return self.status != 0


@dataclass
class Admitting:
    """The shipped webhooks at the API server, with a loopback URL in place of the Service, and who answers there."""

    controlled: Controlled
    certificate: Path
    key: Path
    ports: dict[int, ControllersProcess] = field(default_factory=dict)

    @property
    def control_plane(self) -> ControlPlane:
        return self.controlled.control_plane

    def replica(self, *flags: str) -> tuple[int, ControllersProcess]:
        """Start a controllers process that answers reviews, and wait until it does."""
        files = ("--webhook-certificate", str(self.certificate), "--webhook-key", str(self.key))
        process = self.controlled.control("--webhook-address", "127.0.0.1:0", *files, *flags)
        [address] = process.wait_for("serving webhooks")["addresses"]
        port = int(address.rpartition(":")[2])
        eventually(lambda: process.page("/readyz")[0] == 200)
        self.ports[port] = process
        return port, process

    def make_certificates(self, *flags: str) -> str:
        """Run `volsched certificates` with exactly its rights; give the files to the replicas as a kubelet would."""
        said = self.run_certificates(*flags)
        certificate, key = self.made()
        self.key.write_bytes(key)
        self.certificate.write_bytes(certificate)
        return said

    def made(self) -> tuple[bytes, bytes]:
        """The certificate and the key that are in the Secret."""
        data = self.controlled.api.get(SECRET)["data"]
        return base64.b64decode(data["tls.crt"]), base64.b64decode(data["tls.key"])

    def run_certificates(self, *flags: str) -> str:
        """Run `volsched certificates` with exactly its rights."""
        kubeconfig = self.control_plane.kubeconfig_for("volsched-certificates", SYSTEM)
        done = run_certificates("--kubeconfig", str(kubeconfig), "--host", "127.0.0.1", *flags)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def ask(self, port: int) -> None:
        """Have the API server ask there from now on, and return once it does."""
        hooks = self.controlled.api.get(f"{HOOKS}/volsched-webhooks")
        for hook in hooks["webhooks"]:
            client = {"caBundle": hook["clientConfig"].get("caBundle", "")}
            hook["clientConfig"] = {"url": f"https://127.0.0.1:{port}/validate", **client}
            hook["timeoutSeconds"] = 30  # the longest there is: who is slow is asked all the same
            for condition in hook.get("matchConditions", ()):
                if condition["name"] == "ours":
                    condition["expression"] = condition["expression"].replace("'volsched'", f"'{self.controlled.name}'")
        self.controlled.api.replace(f"{HOOKS}/volsched-webhooks", hooks)
        eventually(lambda: self._is_asked(self.ports[port]))

    def _is_asked(self, process: ControllersProcess) -> bool:
        refused = 'volsched_admission_reviews_total{answer="refused",operation="CREATE",resource="queues"}'
        before = process.metric(refused)
        with contextlib.suppress(ApiServerError):
            self.controlled.api.create(f"{GROUPS}/queues?dryRun=All", a_queue("probe", NO_QUOTA))
        return process.metric(refused) > before

    def apply(self, *objects: Json) -> Said:
        return self.kubectl("create", "--dry-run=server", "-f", "-", stdin=yaml.safe_dump_all(objects))

    def kubectl(self, *arguments: str, stdin: str | None = None) -> Said:
        control_plane = self.control_plane
        command = [str(control_plane.binaries["kubectl"]), f"--cache-dir={control_plane.folder / 'kubectl-cache'}"]
        done = subprocess.run(
            [*command, *arguments],
            input=stdin,
            env=os.environ | {"KUBECONFIG": str(control_plane.kubeconfig)},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        return Said(done.returncode, done.stdout + done.stderr)

    def reviews(self, resource: str, operation: str = "CREATE") -> float:
        """How many reviews of a kind were answered by all replicas."""
        answers = ("allowed", "warned", "refused")
        samples = [
            f'volsched_admission_reviews_total{{answer="{answer}",operation="{operation}",resource="{resource}"}}'
            for answer in answers
        ]
        return sum(sum(process.metrics(*samples)) for process in self.ports.values())
