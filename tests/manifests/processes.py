"""The processes of an installed overlay: started here, as its Deployments on the API server say.

What a kubelet would do is done by hand: variables in arguments are filled in, every process has the token of its
Deployment's ServiceAccount, and there are as many as there are replicas. Only the way to the API server is another one,
a kubeconfig in place of the files in a pod, and the ports are free ones of this machine.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from tests.cluster.scheduling import VolschedProcess, eventually
from tests.manifests.examples import Outcome, observed
from tests.manifests.rendering import SYSTEM, Json, container
from volsched.testing.controlplane import ControlPlane

_FIELDS = {"metadata.namespace": lambda deployment: deployment["metadata"]["namespace"]}


class Replica(VolschedProcess):
    """One replica of a Deployment."""

    def __init__(self, cluster: ControlPlane, deployment: Json, log: Path) -> None:
        account = deployment["spec"]["template"]["spec"]["serviceAccountName"]
        kubeconfig = cluster.kubeconfig_for(account, deployment["metadata"]["namespace"])
        super().__init__(log, *_on_this_machine(arguments(deployment)), "--kubeconfig", str(kubeconfig))

    def refusals(self) -> list[str]:
        """The requests that the API server refused for want of rights, by its metrics and its log.

        Of Events the log alone tells: in a namespace that is being deleted they are refused with the same code.
        """
        lines = self.page("/metrics")[1].splitlines()
        samples = [line for line in lines if 'code="403"' in line and 'resource="events"' not in line]
        return samples + [line["event"] for line in self.said("not allowed")]


def arguments(deployment: Json) -> list[str]:
    """The arguments of a Deployment's container, with its variables put in as the kubelet does."""
    variables = {
        entry["name"]: _FIELDS[entry["valueFrom"]["fieldRef"]["fieldPath"]](deployment)
        for entry in container(deployment).get("env", ())
    }
    return [re.sub(r"\$\((\w+)\)", lambda found: variables[found[1]], text) for text in container(deployment)["args"]]


def _on_this_machine(words: list[str]) -> list[str]:
    return [re.sub(r"(--(?:listen|healthz)-address)=:\d+", r"\1=127.0.0.1:0", word) for word in words]


class Processes:
    """All replicas of the Deployments that are installed."""

    def __init__(self, cluster: ControlPlane, folder: Path) -> None:
        self.cluster = cluster
        self.replicas: dict[str, list[Replica]] = {}
        for deployment in cluster.api.items(f"/apis/apps/v1/namespaces/{SYSTEM}/deployments"):
            name = deployment["metadata"]["name"]
            self.replicas[name] = [
                Replica(cluster, deployment, folder / f"{name}-{number}.log")
                for number in range(deployment["spec"]["replicas"])
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
