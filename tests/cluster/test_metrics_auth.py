"""`--metrics-auth`: the API server says who may read metrics and configuration, of both processes."""

from __future__ import annotations

import contextlib
import http.client
import json
import ssl
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.control_plane import MakeNodes
from tests.cluster.controlling import Controlled
from tests.cluster.scheduling import MANIFESTS, SYSTEM, LoggedProcess, eventually, wait_allowed
from tests.cluster.test_showing import volsched
from tools.controlplane import ControlPlane
from tools.controlplane.faults import FaultProxy
from tools.patience import PATIENCE

pytest_plugins = ["tests.cluster.scheduling_fixtures", "tests.cluster.controlling_fixtures"]

RIGHTS = MANIFESTS / "components/metrics-auth/rights.yaml"
FLAGS = ("--metrics-auth", "--healthz-address", "127.0.0.2:0")


@pytest.fixture
def readers(controlled: Controlled) -> Iterator[None]:
    """ServiceAccounts without any rights."""
    names = ("prometheus", "admin", "keeper", "tenant")
    for name in names:
        controlled.control_plane.kubectl("create", "serviceaccount", name, "-n", SYSTEM)
    yield
    controlled.control_plane.kubectl("delete", "serviceaccount", *names, "-n", SYSTEM)


@pytest.fixture
def asked(controlled: Controlled, readers: None) -> Iterator[Controlled]:
    """The rights of the component, and `prometheus` and `admin`, who have its roles."""
    kubectl = controlled.control_plane.kubectl
    kubectl("apply", "-f", str(RIGHTS))
    bindings = {
        "prometheus": "volsched-metrics-reader",
        "admin": "volsched-configuration-reader",
        "keeper": "volsched-snapshot-reader",
    }
    for reader, role in bindings.items():
        kubectl("create", "clusterrolebinding", reader, f"--clusterrole={role}", f"--serviceaccount={SYSTEM}:{reader}")
    yield controlled
    kubectl("delete", "clusterrolebinding", *bindings)
    kubectl("delete", "-f", str(RIGHTS))


def started(controlled: Controlled, which: str, proxy: FaultProxy | None = None) -> LoggedProcess:
    if which == "run":
        process: LoggedProcess = controlled.start(*FLAGS, proxy=proxy)
    else:
        process = controlled.control(*FLAGS, proxy=proxy)
    process.wait_for("serving")
    return process


def token(control_plane: ControlPlane, account: str) -> str:
    """A token of a ServiceAccount of volsched's namespace."""
    return control_plane.token_for(account, SYSTEM)


def read(process: LoggedProcess, path: str, bearer: str = "", *, at: int = 0) -> tuple[int, str]:
    """What is answered at the address of the pages (0), by TLS, or of the probes (1)."""
    host, _, port = process.wait_for("serving")["addresses"][at].rpartition(":")
    connection = (
        http.client.HTTPConnection(host, int(port), timeout=PATIENCE)
        if at
        else http.client.HTTPSConnection(host, int(port), timeout=PATIENCE, context=unverified())
    )
    with contextlib.closing(connection):
        connection.request("GET", path, headers={"Authorization": f"Bearer {bearer}"} if bearer else {})
        answer = connection.getresponse()
        return answer.status, answer.read().decode(errors="replace")


def unverified() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


@pytest.mark.parametrize("which", ["run", "controllers"])
def test_who_may_read_is_the_api_servers_to_say(asked: Controlled, which: str) -> None:
    process = started(asked, which)
    tokens = {name: token(asked.control_plane, name) for name in ("prometheus", "admin", "keeper", "tenant")}

    eventually(lambda: read(process, "/metrics", tokens["prometheus"])[0] == 200)
    assert "volsched_memory_objects" in read(process, "/metrics", tokens["prometheus"])[1]
    status, said = read(process, "/configz", tokens["prometheus"])
    assert (status, f"serviceaccount:{SYSTEM}:prometheus" in said) == (403, True)
    assert read(process, "/configz", tokens["admin"])[0] == 200
    if which == "run":
        assert read(process, "/debug/snapshot", tokens["admin"])[0] == 403
        eventually(lambda: read(process, "/debug/snapshot", tokens["keeper"])[0] == 200)
    assert read(process, "/metrics", tokens["tenant"])[0] == 403
    assert read(process, "/metrics", "forged")[0] == 401
    assert read(process, "/metrics")[0] == 401
    assert read(process, "/metrics", tokens["prometheus"])[0] == 200


def test_a_tenant_is_told_why_their_own_pod_waits_and_no_name_of_others(
    asked: Controlled, namespace: str, make_nodes: MakeNodes
) -> None:
    plane, card = asked.control_plane, f"example.com/{uuid.uuid4().hex[:6]}"
    cards: dict[str, Any] = {card: 2}
    [node] = make_nodes(1, **cards)
    asked.make_pods("default", [asked.pod("hidden", spec={"nodeName": node}, **cards)])
    asked.make_gang(namespace, "train", 1, cpu="1", **cards)
    plane.kubectl("create", "role", "own", "-n", namespace, "--verb=get", "--resource=pods")
    plane.kubectl("create", "rolebinding", "own", "-n", namespace, "--role=own", f"--serviceaccount={SYSTEM}:tenant")
    user = f"system:serviceaccount:{SYSTEM}:tenant"
    wait_allowed(plane, user, verb="get", resource="pods", namespace=namespace)
    process = started(asked, "run")
    process.wait_for("everything is listed")
    kubeconfig = plane.kubeconfig_for("tenant", SYSTEM)
    given = ("-n", namespace, "--kubeconfig", kubeconfig)
    ask = ("--ask", f"https://{process.wait_for('serving')['addresses'][0]}")

    done = volsched("explain", "pod", "train-0", *given, *ask, "-o", "json")
    assert done.returncode == 3, done.stderr
    said = json.loads(done.stdout)
    assert (said["state"], said["subject"]["name"]) == ("waits", "train-0")
    assert [(held["name"], held["pods"]) for held in said["holders"] if held["resource"] == card] == [
        ("another job", 1)
    ]
    assert "hidden" not in done.stdout

    alone = volsched("explain", "pod", "train-0", *given)
    assert (alone.returncode, "--ask https://" in alone.stderr) == (1, True)
    other = volsched("explain", "pod", "hidden", "-n", "default", "--kubeconfig", kubeconfig, *ask)
    assert (other.returncode, "may not get pods hidden in namespace default" in other.stderr) == (1, True)
    assert volsched("explain", "pod", "nobody", *given, *ask).returncode == 4
    plane.kubectl("delete", "pod", "hidden", "-n", "default", "--force", "--grace-period=0")


def test_probes_are_open_and_their_address_has_nothing_else(asked: Controlled) -> None:
    process = started(asked, "run")

    assert read(process, "/livez")[0] == 200
    assert [read(process, path, at=1)[0] for path in ("/livez", "/healthz", "/metrics", "/configz")] == [
        *(200, 200, 404, 404)
    ]


def test_a_flood_of_tokens_asks_the_api_server_only_so_often(asked: Controlled, fault_proxy: FaultProxy) -> None:
    process = started(asked, "run", fault_proxy)
    began = time.monotonic()
    found = [read(process, "/metrics", uuid.uuid4().hex)[0] for _ in range(100)]
    seconds = time.monotonic() - began

    assert set(found) <= {401, 429}
    assert found.count(401) <= 20 + 5 * seconds + 1
    assert fault_proxy.counts.count("create", "/tokenreviews") == found.count(401)
    known = read(process, "/metrics", "forged")[0]
    assert known in (401, 429)


@pytest.mark.parametrize("which", ["run", "controllers"])
def test_without_the_right_to_ask_nobody_reads_and_the_way_out_is_told(
    controlled: Controlled, readers: None, which: str
) -> None:
    process = started(controlled, which)

    status, said = read(process, "/metrics", token(controlled.control_plane, "prometheus"))

    assert (status, "system:auth-delegator" in said) == (503, True)
    assert process.wait_for("it cannot be found out who may read")["level"] == "warning"
