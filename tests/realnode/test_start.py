"""The image from the Dockerfile as it is, with the manifests as they are, on a real kubelet."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime

import pytest

from tests.realnode.cluster import DEPLOYMENTS, SYSTEM, Cluster, ProcessOf, eventually
from tools.controlplane.credentials import SERVICE_ADDRESS

NOT_READY_YET = "Unhealthy: Readiness probe failed: HTTP probe failed with statuscode: 503"
"""On a slow machine everything is listed after the first look at it."""

READY_SECONDS = 30.0
"""From the moment at which the container runs."""


def _time(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


@pytest.mark.parametrize("deployment", DEPLOYMENTS)
def test_two_replicas_are_ready_soon_by_their_own_service_accounts(
    installed: Cluster, deployment: str, figure: Callable[[str, float], None]
) -> None:
    pods = installed.replicas(deployment)

    assert len(pods) == 2
    for pod in pods:
        assert pod["spec"]["serviceAccountName"] == deployment
        [status] = pod["status"]["containerStatuses"]
        assert (status["ready"], status["restartCount"]) == (True, 0)
        ready = next(c for c in pod["status"]["conditions"] if c["type"] == "Ready")
        took = _time(ready["lastTransitionTime"]) - _time(status["state"]["running"]["startedAt"])
        figure(f"{pod['metadata']['name']} was ready after, seconds", took)
        assert took <= READY_SECONDS


@pytest.mark.parametrize("deployment", DEPLOYMENTS)
def test_a_process_has_no_rights_of_its_own_and_nowhere_to_write(installed: Cluster, deployment: str) -> None:
    for pod in installed.replicas(deployment):
        process = ProcessOf(pod)
        status = process.status
        assert set(status["Uid"].split()) == set(status["Gid"].split()) == {"65532"}
        assert status["Groups"] in ("", "65532")
        assert {int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {0}
        assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
        assert "ro" in process.root_options


def test_the_environment_that_volsched_runs_in_has_no_pip(installed: Cluster) -> None:
    process = ProcessOf(installed.replicas("volsched-scheduler")[0])

    assert process.run("volsched", "version").returncode == 0
    assert process.run("which", "python").stdout == "/opt/volsched/bin/python\n"
    assert "No module named pip" in process.run("python", "-m", "pip", "--version").stderr


def test_nothing_says_that_a_start_went_wrong(installed: Cluster) -> None:
    for deployment in DEPLOYMENTS:
        for pod in installed.replicas(deployment):
            said = installed.events(SYSTEM, pod["metadata"]["name"])
            wrong = [line for line in said if line.startswith(("Unhealthy", "BackOff", "Failed"))]
            assert set(wrong) <= {NOT_READY_YET}


def test_processes_speak_with_the_api_server_alone(installed: Cluster) -> None:
    """Outgoing connections; what comes in to the ports of probes and metrics is from the node."""
    for deployment in DEPLOYMENTS:
        for pod in installed.replicas(deployment):
            ports = {each["containerPort"] for each in pod["spec"]["containers"][0]["ports"]}
            for local, (address, port) in _connections(ProcessOf(pod).pid):
                assert local in ports or (address, port) == (SERVICE_ADDRESS, 443)


def _connections(pid: int) -> list[tuple[int, tuple[str, int]]]:
    """Own port and the other end of each established connection of IPv4, as it is or mapped into IPv6."""
    found = []
    for table in ("tcp", "tcp6"):
        with open(f"/proc/{pid}/net/{table}", encoding="ascii") as lines:
            for fields in list(map(str.split, lines))[1:]:
                if fields[3] == "01":
                    (_, own), (other, port) = fields[1].split(":"), fields[2].split(":")
                    octets = [str(int(other[-8:][at : at + 2], 16)) for at in (6, 4, 2, 0)]
                    found.append((int(own, 16), (".".join(octets), int(port, 16))))
    return found


def test_a_configuration_is_told_once_and_not_at_every_start(installed: Cluster) -> None:
    def told() -> int:
        events = installed.list("events", SYSTEM)
        return sum(e.get("count") or 1 for e in events if e["reason"] == "ConfigurationLoaded")

    before = told()
    assert before == 1
    holder = installed.holder("volsched-scheduler")
    installed.kubectl("delete", "pod", installed.leader("volsched-scheduler")["metadata"]["name"], "-n", SYSTEM)
    eventually(lambda: installed.holder("volsched-scheduler") not in ("", holder))
    eventually(
        lambda: (
            len([p for p in installed.replicas("volsched-scheduler") if p["status"]["containerStatuses"][0]["ready"]])
            == 2
        )
    )
    time.sleep(5.0)  # no signal: an Event waits a moment before it is written, and may never be
    assert told() == before
