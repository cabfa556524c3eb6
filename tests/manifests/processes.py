"""The processes of an installed overlay: started here as containers of the image, as the pods on the API server say.

There are as many as there are pods of the Deployments. What a kubelet would do with them kubelet.py does.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from tests.cluster.scheduling import LoggedProcess, eventually
from tests.manifests.dockerfile import Image
from tests.manifests.examples import Outcome, observed
from tests.manifests.kubelet import Kubelet
from tests.manifests.rendering import SYSTEM, Json
from tools.controlplane import ControlPlane


class Replica(LoggedProcess):
    """The container of one pod, in a network of its own."""

    def __init__(self, kubelet: Kubelet, pod: Json, log: Path) -> None:
        self.pod = pod
        self._command = kubelet.container(pod).command(kubelet.root(pod))
        self.network = kubelet.network()
        super().__init__(log)

    def _start(self, log: BinaryIO) -> subprocess.Popen[bytes]:
        return self.network.inside(subprocess.Popen, self._command, stdout=log, stderr=subprocess.STDOUT)

    def page(self, path: str) -> tuple[int, str]:
        return self.network.inside(super().page, path)

    def close(self) -> None:
        super().close()
        self.network.close()

    def refusals(self) -> list[str]:
        """The requests that the API server refused for want of rights, by its metrics and its log.

        Of Events the log alone tells: in a namespace that is being deleted they are refused with the same code.
        """
        lines = self.page("/metrics")[1].splitlines()
        samples = [line for line in lines if 'code="403"' in line and 'resource="events"' not in line]
        return samples + [line["event"] for line in self.said("not allowed")]


class Processes:
    """All replicas of the Deployments that are installed."""

    def __init__(self, cluster: ControlPlane, image: Image, folder: Path) -> None:
        self.cluster = cluster
        self.kubelet = Kubelet(cluster, image, folder)
        self.replicas: dict[str, list[Replica]] = {}
        for deployment in cluster.api.items(f"/apis/apps/v1/namespaces/{SYSTEM}/deployments"):
            name = deployment["metadata"]["name"]
            self.replicas[name] = [
                Replica(self.kubelet, pod, folder / f"{name}-{number}.log")
                for number, pod in enumerate(pods_of(cluster, deployment))
            ]

    def all(self) -> list[Replica]:
        return [replica for replicas in self.replicas.values() for replica in replicas]

    def wait_ready(self) -> None:
        """Wait until everybody would pass the probes, and each process has a leader."""
        for replica in self.all():
            for page in ("/readyz", "/livez"):
                eventually(lambda r=replica, p=page: r.page(p)[0] == 200, what=f"{page} of {replica.log.name}")
        for replicas in self.replicas.values():
            eventually(lambda found=replicas: self.leaders(found) != [], what="somebody leads")

    def leaders(self, replicas: list[Replica]) -> list[Replica]:
        """Those of the replicas that run and have the Lease."""
        return [replica for replica in replicas if replica.process.poll() is None and replica.said("leading")]

    def wait_for(self, paths: Sequence[Path], expected: Outcome) -> None:
        """Wait until as many pods of files have a node, and as many wait, as was expected."""
        try:
            eventually(lambda: observed(self.cluster, paths).counts == expected.counts)
        except AssertionError:
            logs = "\n".join(f"{replica.log.name}:\n{replica.log.read_text()[-2000:]}" for replica in self.all())
            found = observed(self.cluster, paths)
            raise AssertionError(f"on the cluster {found}, in the simulation {expected}; logs end:\n{logs}") from None

    def close(self) -> None:
        for replica in self.all():
            replica.close()


def pods_of(cluster: ControlPlane, deployment: Json) -> list[Json]:
    """The pods of a Deployment, once all of them are there."""
    labels = ",".join(f"{key}={value}" for key, value in deployment["spec"]["selector"]["matchLabels"].items())
    path = f"/api/v1/namespaces/{SYSTEM}/pods?labelSelector={labels}"
    wanted = deployment["spec"]["replicas"]
    return list(cluster.api.wait_for(path, lambda found: len(found["items"]) == wanted)["items"])
