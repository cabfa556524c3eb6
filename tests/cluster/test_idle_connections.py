"""Idle connections at ports that any pod reaches: probes and reviews are answered, within the manifests' limits."""

from __future__ import annotations

import contextlib
import http.client
import socket
from collections.abc import Iterator
from typing import Any, Final

import pytest
import yaml

from drills.idle_connections import NODE, POD, idle
from tests import memory_limit
from tests.cluster.admitting import NO_QUOTA, Admitting, a_queue
from tests.cluster.controlling import Controlled, ControllersProcess
from tests.cluster.scheduling import MANIFESTS, LoggedProcess, SchedulerProcess, VolschedProcess
from tests.memory_limit import MemoryLimit, limit_of
from tools.patience import PATIENCE
from volsched.kube.serve.connections import PORTS

pytest_plugins = [
    "tests.cluster.scheduling_fixtures",
    "tests.cluster.controlling_fixtures",
    "tests.cluster.admitting_fixtures",
]

DESCRIPTORS: Final = 1024
CONNECTIONS: Final = 3000
PROBES = "127.0.0.9"
"""Where probes are served: flags that name the same address have one port."""
VERBS: Final = {"scheduler": SchedulerProcess, "controllers": ControllersProcess}

LIMITED: Final = """
import pathlib, resource, time
resource.setrlimit(resource.RLIMIT_NOFILE, ({descriptors}, {descriptors}))
while not pathlib.Path("{folder}/limited").exists():
    time.sleep(0.02)
"""
"""Few descriptors, and nothing is imported before the process has its memory limit."""


@pytest.fixture(autouse=True)
def limits(controlled: Controlled, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[type[VolschedProcess], Any]]:
    """Each process has the memory that its Deployment gives it, and 1,024 descriptors."""
    made: dict[type[VolschedProcess], MemoryLimit] = {}
    begin = VolschedProcess._start
    with contextlib.ExitStack() as stack:
        if not memory_limit.why_not():
            for component, verb in VERBS.items():
                made[verb] = stack.enter_context(memory_limit.memory_limit(limit_of(component)))

        def start(process: VolschedProcess, log: Any) -> Any:
            process.prelude = LIMITED.format(descriptors=DESCRIPTORS, folder=process.log.parent)
            found = begin(process, log)
            for verb, limit in made.items():
                if isinstance(process, verb):
                    limit.put(found.pid)
            (process.log.parent / "limited").touch()
            return found

        monkeypatch.setattr(VolschedProcess, "_start", start)
        yield made
        for process in (*controlled.processes, *controlled.controllers):
            process.close()


def ports_of(process: LoggedProcess) -> list[int]:
    return [int(address.rpartition(":")[2]) for address in process.wait_for("serving")["addresses"]]


def probe(component: str, port: int, path: str, peer: str = NODE, at: str = PROBES) -> int:
    """Ask as the kubelet does, and give up when it does."""
    found: Any = yaml.safe_load((MANIFESTS / "base" / component / "deployment.yaml").read_text())
    seconds = found["spec"]["template"]["spec"]["containers"][0]["livenessProbe"]["timeoutSeconds"]
    asking = http.client.HTTPConnection(at, port, timeout=seconds, source_address=(peer, 0))
    with contextlib.closing(asking):
        asking.request("GET", path)
        return asking.getresponse().status


def started(controlled: Controlled, component: str) -> LoggedProcess:
    flags = ("--healthz-address", f"{PROBES}:0", "--node-address", NODE)
    if component == "scheduler":
        return controlled.start(*flags).wait_leading()
    process = controlled.control(*flags)
    process.wait_for("at work")
    return process


@pytest.mark.parametrize("component", VERBS)
def test_probes_are_answered_beside_the_idle_connections_of_one_pod(controlled: Controlled, component: str) -> None:
    process = started(controlled, component)
    pages, probes = ports_of(process)

    for said in (b"", b"GET /livez HTTP/1.1\r\nHost: a\r\nX-Half: ", b"\x16\x03\x01\x02\x00"):
        with idle(probes, CONNECTIONS, at=PROBES, said=said):
            for path in ("/livez", "/readyz", "/healthz"):
                assert probe(component, probes, path) == 200
            assert probe(component, pages, "/livez", at=NODE) == 200
            assert probe(component, probes, "/livez", POD) == 200, "of the flooding pod itself, too"
            with contextlib.ExitStack() as kubelets:
                for _ in range(40):  # more than a pod may have
                    kubelets.enter_context(socket.create_connection((PROBES, probes), PATIENCE, (NODE, 0)))
                assert probe(component, probes, "/livez") == 200
                assert process.metric('volsched_connections{port="probes"}') >= 40
            assert process.metric('volsched_connections{port="probes"}') <= DESCRIPTORS // 2 // PORTS
    assert process.metric('volsched_connections_closed_total{port="probes",reason="displaced"}') > 2 * CONNECTIONS
    assert process.process.poll() is None


def test_many_pods_together_keep_no_probe_from_its_answer(controlled: Controlled) -> None:
    process = started(controlled, "scheduler")
    _, probes = ports_of(process)

    with contextlib.ExitStack() as pods:
        for number in range(30):
            pods.enter_context(idle(probes, 30, f"127.0.1.{number + 1}", at=PROBES))
        assert probe("scheduler", probes, "/livez") == 200
        assert probe("scheduler", probes, "/readyz", "127.0.2.1") == 200, "of one that holds less than others"


def test_reviews_are_answered_beside_idle_connections_to_the_webhooks(
    admitting: Admitting, limits: dict[type[VolschedProcess], MemoryLimit]
) -> None:
    admitting.make_certificates()
    port, process = admitting.replica("--webhook-client", NODE)
    admitting.ask(port)

    with idle(port, 400, tls=True), idle(port, CONNECTIONS), idle(port, 600, said=b"\x16\x03\x01"):
        assert admitting.apply(a_queue("q", NO_QUOTA)).is_refusal
        assert process.metric('volsched_connections{port="webhooks"}') <= 128
    if limits:
        assert limits[ControllersProcess].used < limit_of("controllers")
    assert process.process.poll() is None


def test_an_api_server_that_is_not_named_is_answered_all_the_same(admitting: Admitting) -> None:
    """Even if who floods has its address, as behind a load balancer: idle connections give way."""
    admitting.make_certificates()
    port, process = admitting.replica()
    admitting.ask(port)

    with idle(port, 200, NODE, tls=True), idle(port, 200, NODE):
        assert admitting.apply(a_queue("q", NO_QUOTA)).is_refusal
        assert process.metric('volsched_connections{port="webhooks"}') <= 65
