"""Each fault of the proxy does what it says, to the requests that its rule names and to no others."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import itertools
import json
import queue
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest

from tests.cluster.scheduling import eventually
from tools.controlplane import ApiClient, ApiServerError, ControlPlane, a_node, a_pod
from tools.controlplane.client import lines_of
from tools.controlplane.fault_server import FaultServer
from tools.controlplane.faults import (
    BlackHole,
    EndWatch,
    FailWatch,
    FaultProxy,
    Latency,
    Reset,
    ResetWatch,
    StallWatch,
    Truncate,
    bad_gateway_page,
    conflict,
    gone,
    server_error,
    too_many_requests,
)
from tools.controlplane.request_counts import RequestCounts, RequestKind, path_shape
from tools.patience import PATIENCE

BROKEN = (OSError, http.client.HTTPException)
"""How a broken connection shows: Python's TLS takes some resets for an end without a goodbye."""


@pytest.fixture
def pods(namespace: str) -> str:
    """The path of the test's pods."""
    return f"/api/v1/namespaces/{namespace}/pods"


@pytest.fixture
def client(control_plane: ControlPlane, fault_proxy: FaultProxy) -> ApiClient:
    """A client that knows only the proxy."""
    keys = control_plane.credentials
    return ApiClient(fault_proxy.url, keys.client_context(), keys.admin_token)


class WatchReader:
    """Reads a watch on a thread; what it got, and how it ended, can be asked for with a time limit."""

    def __init__(self, cluster: ControlPlane, url: str, path: str) -> None:
        address = urlsplit(url)
        tls = cluster.credentials.client_context()
        self._connection = http.client.HTTPSConnection(
            address.hostname or "", address.port, context=tls, timeout=PATIENCE
        )
        query = f"{path}?watch=1&resourceVersion={cluster.api.get(path)['metadata']['resourceVersion']}"
        headers = {"Authorization": f"Bearer {cluster.credentials.admin_token}", "Accept": "application/json"}
        self._connection.request("GET", query, headers=headers)
        self._lines: queue.Queue[bytes | Exception] = queue.Queue()
        self.status = 0
        threading.Thread(target=self._read, daemon=True).start()

    def next_event(self) -> dict[str, Any]:
        line = self._lines.get(timeout=PATIENCE)
        if isinstance(line, Exception):
            raise line
        event: dict[str, Any] = json.loads(line)
        return event

    def next_name(self) -> str:
        return str(self.next_event()["object"]["metadata"]["name"])

    def end(self) -> bytes | Exception:
        """Return the empty line of an orderly end, or the error that the connection ended with."""
        return self._lines.get(timeout=PATIENCE)

    def is_silent_for(self, seconds: float) -> bool:
        try:
            self._lines.put(self._lines.get(timeout=seconds))
        except queue.Empty:
            return True
        return False

    def leave(self) -> None:
        if sock := self._connection.sock:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)  # closing would wait for the thread that reads

    def _read(self) -> None:
        try:
            response = self._connection.getresponse()
            self.status = response.status
            for line in lines_of(response):
                self._lines.put(line)
            self._lines.put(b"")
        except (OSError, http.client.HTTPException) as error:
            self._lines.put(error)


@pytest.fixture
def watch(control_plane: ControlPlane, fault_proxy: FaultProxy, pods: str) -> Iterator[WatchReader]:
    """A watch of the test's pods through the proxy, open and idle."""
    before = fault_proxy.open_watches
    reader = WatchReader(control_plane, fault_proxy.url, pods)
    eventually(lambda: fault_proxy.open_watches > before)
    yield reader
    reader.leave()


def create_pods(cluster: ControlPlane, path: str, *names: str) -> None:
    for name in names:
        cluster.api.create(path, a_pod(name))


def test_without_faults_everything_passes_and_is_counted(
    client: ApiClient, fault_proxy: FaultProxy, pods: str, namespace: str
) -> None:
    client.create(pods, a_pod("a"))
    client.patch(f"{pods}/a", {"metadata": {"labels": {"x": "y"}}})
    assert [pod["metadata"]["name"] for pod in client.items(pods)] == ["a"]
    assert client.find(f"{pods}/missing") is None
    client.delete(f"{pods}/a", grace_seconds=0)

    shape = "/api/v1/namespaces/*/pods"
    assert fault_proxy.counts.all() == {
        RequestKind("create", shape, 201, True): 1,
        RequestKind("patch", f"{shape}/*", 200, True): 1,
        RequestKind("list", shape, 200, True): 1,
        RequestKind("get", f"{shape}/*", 404, True): 1,
        RequestKind("delete", f"{shape}/*", 200, True): 1,
    }
    assert fault_proxy.counts.writes() == 3
    assert fault_proxy.counts.count("create", "/pods") == 1
    assert fault_proxy.counts.count(status=404) == 1
    assert "create" in fault_proxy.counts.table()
    fault_proxy.counts.clear()
    assert fault_proxy.counts.all() == {}


@pytest.mark.parametrize(
    ("path", "shape", "is_named"),
    [
        ("/api/v1/nodes", "/api/v1/nodes", False),
        ("/api/v1/nodes/n1", "/api/v1/nodes/*", True),
        ("/api/v1/nodes/n1/status", "/api/v1/nodes/*/status", True),
        ("/api/v1/namespaces", "/api/v1/namespaces", False),
        ("/api/v1/namespaces/a", "/api/v1/namespaces/*", True),
        ("/api/v1/namespaces/a/finalize", "/api/v1/namespaces/*/finalize", True),
        ("/api/v1/namespaces/a/pods", "/api/v1/namespaces/*/pods", False),
        ("/api/v1/namespaces/a/pods/p/binding", "/api/v1/namespaces/*/pods/*/binding", True),
        (
            "/apis/scheduling.volcano.sh/v1beta1/namespaces/a/podgroups/g/status",
            "/apis/scheduling.volcano.sh/v1beta1/namespaces/*/podgroups/*/status",
            True,
        ),
        (
            "/apis/coordination.k8s.io/v1/namespaces/a/leases/l",
            "/apis/coordination.k8s.io/v1/namespaces/*/leases/*",
            True,
        ),
        ("/apis/batch/v1", "/apis/batch/v1", True),
        ("/readyz", "/readyz", True),
    ],
)
def test_paths_are_counted_without_names(path: str, shape: str, is_named: bool) -> None:
    assert path_shape(path) == (shape, is_named)


def test_kubectl_works_through_the_proxy_with_a_service_accounts_rights(
    control_plane: ControlPlane, fault_proxy: FaultProxy, namespace: str
) -> None:
    admin, nobody = fault_proxy.kubeconfig(), fault_proxy.kubeconfig_for("default", namespace)

    assert f"namespace/{namespace}" in control_plane.kubectl("--kubeconfig", str(admin), "get", "ns", "-o", "name")
    whoami = control_plane.kubectl("--kubeconfig", str(nobody), "auth", "whoami", "-o", "json")
    assert json.loads(whoami)["status"]["userInfo"]["username"] == f"system:serviceaccount:{namespace}:default"


def test_the_proxy_can_lend_its_own_rights(control_plane: ControlPlane) -> None:
    keys = control_plane.credentials
    with FaultProxy(control_plane, authorization=f"Bearer {keys.admin_token}") as lending:
        stranger = ApiClient(lending.url, keys.client_context(), "no-such-token")
        assert stranger.get("/api/v1/nodes")["kind"] == "NodeList"


def test_a_large_list_passes_whole(control_plane: ControlPlane, client: ApiClient, pods: str) -> None:
    control_plane.api.create_many(
        pods, [a_pod(f"p{index}", annotations={"volsched.test/long": "x" * 20_000}) for index in range(30)]
    )

    assert client.items(pods) == control_plane.api.items(pods)


@pytest.mark.parametrize(
    ("fault", "status", "text"),
    [
        (conflict(), 409, "the object has been modified"),
        (gone(), 410, "Expired"),
        (too_many_requests(7), 429, "TooManyRequests"),
        (server_error(), 500, "etcdserver: request timed out"),
        (bad_gateway_page(), 503, "<html>"),
    ],
)
def test_the_proxy_answers_in_the_servers_place_as_often_as_it_is_told(
    client: ApiClient, fault_proxy: FaultProxy, pods: str, fault: Any, status: int, text: str
) -> None:
    rule = fault_proxy.inject(fault, method="POST", path="/pods$", times=2)

    for name in ("a", "b"):
        with pytest.raises(ApiServerError) as refusal:
            client.create(pods, a_pod(name))
        assert refusal.value.status == status
        assert text in refusal.value.body
    client.create(pods, a_pod("c"))

    assert [pod["metadata"]["name"] for pod in client.items(pods)] == ["c"]
    assert rule.hits == 2
    assert fault_proxy.counts.count("create", "/pods", status=status, forwarded=False) == 2
    assert fault_proxy.counts.writes() == 1


def test_retry_after_is_sent(control_plane: ControlPlane, fault_proxy: FaultProxy, pods: str) -> None:
    fault_proxy.inject(too_many_requests(7))
    address = urlsplit(fault_proxy.url)
    connection = http.client.HTTPSConnection(
        address.hostname or "", address.port, context=control_plane.credentials.client_context()
    )
    connection.request("GET", pods)
    answer = connection.getresponse()
    connection.close()
    assert (answer.status, answer.getheader("Retry-After")) == (429, "7")


def test_an_answer_can_be_replaced_after_the_server_has_acted(
    control_plane: ControlPlane, client: ApiClient, fault_proxy: FaultProxy, pods: str
) -> None:
    fault_proxy.inject(server_error(after=True), method="POST", times=1)

    with pytest.raises(ApiServerError, match="500"):
        client.create(pods, a_pod("a"))

    assert control_plane.api.find(f"{pods}/a") is not None
    assert fault_proxy.counts.count("create", "/pods", status=201) == 1


def test_rules_meet_only_their_method_path_and_kind_of_request(
    client: ApiClient, fault_proxy: FaultProxy, pods: str
) -> None:
    with fault_proxy.inject(conflict(), method="PUT", path="/pods/a$", watch=False) as rule:
        client.create(pods, a_pod("a"))
        client.create(pods, a_pod("b"))
        client.replace(f"{pods}/b", client.get(f"{pods}/b"))
        with pytest.raises(ApiServerError, match="409"):
            client.replace(f"{pods}/a", client.get(f"{pods}/a"))
    client.replace(f"{pods}/a", client.get(f"{pods}/a"))
    assert rule.hits == 1


def test_of_two_rules_the_first_is_applied_and_latency_comes_on_top(
    client: ApiClient, fault_proxy: FaultProxy, pods: str
) -> None:
    fault_proxy.inject(conflict(), times=1)
    fault_proxy.inject(gone(), times=1)
    fault_proxy.inject(Latency(0.2), times=1)

    began = time.monotonic()
    with pytest.raises(ApiServerError, match="409"):
        client.get(pods)
    assert time.monotonic() - began >= 0.2
    with pytest.raises(ApiServerError, match="410"):
        client.get(pods)
    client.get(pods)


def test_latency_delays_and_clearing_ends_it(client: ApiClient, fault_proxy: FaultProxy, pods: str) -> None:
    fault_proxy.inject(Latency(0.3))
    began = time.monotonic()
    client.get(pods)
    assert time.monotonic() - began >= 0.3

    fault_proxy.inject(Latency(3600.0))
    fault_proxy.clear()
    client.get(pods)


@pytest.mark.parametrize("after", [False, True])
def test_a_reset_connection_hides_whether_the_server_has_acted(
    control_plane: ControlPlane, client: ApiClient, fault_proxy: FaultProxy, pods: str, after: bool
) -> None:
    fault_proxy.inject(Reset(after=after), method="POST", times=1)

    with pytest.raises(ConnectionResetError):
        client.create(pods, a_pod("a"))

    assert (control_plane.api.find(f"{pods}/a") is not None) is after
    assert fault_proxy.counts.count("create", "/pods", forwarded=after) == 1


@pytest.mark.parametrize("after", [False, True])
def test_a_black_hole_never_answers(
    control_plane: ControlPlane, client: ApiClient, fault_proxy: FaultProxy, pods: str, after: bool
) -> None:
    """It is waited for long enough for the API server to have acted."""
    rule = fault_proxy.inject(BlackHole(after=after), method="POST", times=1)

    with pytest.raises(TimeoutError):
        client.request("POST", pods, a_pod("a"), timeout=5.0)

    assert rule.hits == 1
    assert (control_plane.api.find(f"{pods}/a") is not None) is after
    client.get(pods)


def test_a_truncated_answer_breaks_off(client: ApiClient, fault_proxy: FaultProxy, pods: str) -> None:
    client.create(pods, a_pod("a"))
    fault_proxy.inject(Truncate(keep=25), times=1)

    with pytest.raises(http.client.IncompleteRead) as broken:
        client.get(f"{pods}/a")

    assert broken.value.partial == b'{"kind":"Pod","apiVersion'
    client.get(f"{pods}/a")


def test_a_truncated_large_answer_breaks_off(
    control_plane: ControlPlane, client: ApiClient, fault_proxy: FaultProxy, pods: str
) -> None:
    control_plane.api.create_many(
        pods, [a_pod(f"p{index}", annotations={"volsched.test/long": "x" * 20_000}) for index in range(10)]
    )
    fault_proxy.inject(Truncate(keep=100_000), times=1)

    with pytest.raises(http.client.IncompleteRead):
        client.get(pods)


def test_events_pass_a_watch_at_once(control_plane: ControlPlane, pods: str, watch: WatchReader) -> None:
    for name in ("a", "b"):
        create_pods(control_plane, pods, name)
        assert watch.next_name() == name


def test_a_watch_can_be_stalled_while_it_is_open(
    control_plane: ControlPlane, fault_proxy: FaultProxy, client: ApiClient, pods: str, watch: WatchReader
) -> None:
    with fault_proxy.inject(StallWatch(), path="/pods$") as rule:
        create_pods(control_plane, pods, "a")
        assert watch.is_silent_for(0.5)
    assert rule.hits == 1
    assert client.items(pods)[0]["metadata"]["name"] == "a"


def test_a_watch_can_end_after_some_more_events(
    control_plane: ControlPlane, fault_proxy: FaultProxy, pods: str, watch: WatchReader
) -> None:
    fault_proxy.inject(EndWatch(after_events=2))

    create_pods(control_plane, pods, "a", "b", "c")

    assert [watch.next_name(), watch.next_name()] == ["a", "b"]
    assert watch.end() == b""


def test_a_new_watch_can_end_after_its_first_events(
    control_plane: ControlPlane, fault_proxy: FaultProxy, pods: str
) -> None:
    create_pods(control_plane, pods, "a", "b", "c")
    fault_proxy.inject(EndWatch(after_events=2), times=1)
    keys = control_plane.credentials
    through_proxy = ApiClient(fault_proxy.url, keys.client_context(), keys.admin_token)

    def names() -> list[str]:
        """The first three events, or as many as there are before the watch ends."""
        with contextlib.closing(through_proxy.watch(pods, resource_version="0")) as events:
            return sorted(event["object"]["metadata"]["name"] for event in itertools.islice(events, 3))

    assert len(names()) == 2
    assert names() == ["a", "b", "c"]


def test_a_watch_can_be_reset(fault_proxy: FaultProxy, watch: WatchReader) -> None:
    fault_proxy.inject(ResetWatch())

    assert isinstance(watch.end(), BROKEN)


async def test_a_reset_is_one_for_tcp_too(control_plane: ControlPlane, fault_proxy: FaultProxy, pods: str) -> None:
    keys = control_plane.credentials
    headers = {"Authorization": f"Bearer {keys.admin_token}"}
    connector = aiohttp.TCPConnector(ssl=keys.client_context())
    async with aiohttp.ClientSession(connector=connector, headers=headers) as session:
        async with session.get(f"{fault_proxy.url}{pods}?watch=1") as watch:
            fault_proxy.inject(ResetWatch(), times=1)
            with pytest.raises(aiohttp.ClientError) as ended:
                await watch.content.readline()
        assert "reset by peer" in repr(ended.value) + repr(ended.value.__cause__)


def test_a_watch_can_be_told_that_it_is_too_old(
    control_plane: ControlPlane, fault_proxy: FaultProxy, pods: str, watch: WatchReader
) -> None:
    fault_proxy.inject(FailWatch(after_events=1))

    create_pods(control_plane, pods, "a", "b")

    assert watch.next_name() == "a"
    event = watch.next_event()
    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")
    assert watch.end() == b""


def test_the_connection_of_an_ended_watch_can_be_used_again(
    control_plane: ControlPlane, fault_proxy: FaultProxy, pods: str
) -> None:
    rule = fault_proxy.inject(EndWatch(), times=1)
    address = urlsplit(fault_proxy.url)
    connection = http.client.HTTPSConnection(
        address.hostname or "", address.port, context=control_plane.credentials.client_context()
    )
    headers = {"Authorization": f"Bearer {control_plane.credentials.admin_token}"}
    connection.request("GET", f"{pods}?watch=1", headers=headers)
    assert connection.getresponse().read() == b""
    used = connection.sock
    connection.request("GET", pods, headers=headers)
    assert json.loads(connection.getresponse().read())["kind"] == "PodList"
    assert connection.sock is used
    connection.close()
    assert rule.hits == 1


def test_a_watch_that_is_refused_is_answered_like_any_request(
    control_plane: ControlPlane, fault_proxy: FaultProxy, pods: str
) -> None:
    fault_proxy.inject(gone(), watch=True, times=1)
    reader = WatchReader(control_plane, fault_proxy.url, pods)

    assert reader.next_event()["code"] == 410
    assert reader.status == 410


def test_a_partition_holds_everything_until_it_is_over(
    control_plane: ControlPlane, fault_proxy: FaultProxy, client: ApiClient, pods: str, watch: WatchReader
) -> None:
    client.get(pods)
    fault_proxy.partition(True)
    create_pods(control_plane, pods, "a")
    fresh = ApiClient(fault_proxy.url, control_plane.credentials.client_context(), "any")

    with pytest.raises(TimeoutError):
        client.request("GET", pods, timeout=0.4)
    with pytest.raises(TimeoutError):
        fresh.request("GET", "/version", timeout=0.4)
    assert watch.is_silent_for(0.3)

    fault_proxy.partition(False)
    assert watch.next_name() == "a"
    assert client.items(pods)[0]["metadata"]["name"] == "a"


def test_a_partition_can_reset_everything(
    control_plane: ControlPlane, fault_proxy: FaultProxy, client: ApiClient, pods: str, watch: WatchReader
) -> None:
    fault_proxy.partition(True, reset=True)

    assert isinstance(watch.end(), BROKEN)
    with pytest.raises(OSError, match=r"reset|EOF|closed"):
        client.get(pods)

    fault_proxy.partition(False)
    client.get(pods)


def test_a_rule_can_be_waited_for(client: ApiClient, fault_proxy: FaultProxy, pods: str) -> None:
    rule = fault_proxy.inject(Latency(0.01), path="/pods$")
    threading.Timer(0.1, lambda: client.get(pods)).start()
    rule.wait()

    with pytest.raises(TimeoutError, match="met 1 requests"):
        rule.wait(2, timeout=0.1)


def test_clients_see_a_crash_of_the_api_server_and_its_return(
    control_plane: ControlPlane, fault_proxy: FaultProxy, client: ApiClient, pods: str, watch: WatchReader
) -> None:
    client.get(pods)
    with control_plane.api_server_down():
        assert isinstance(watch.end(), BROKEN)
        with pytest.raises(BROKEN):
            client.get(pods)

    assert client.get(pods)["kind"] == "PodList"


async def test_it_can_be_used_asynchronously(control_plane: ControlPlane) -> None:
    async with FaultProxy(control_plane) as proxy:
        assert proxy.kubeconfig().parent == control_plane.folder


async def test_a_client_whose_greeting_is_over_just_when_the_proxy_ends_is_not_served(
    control_plane: ControlPlane,
) -> None:
    """What was left under way would be found when its memory is freed, in some later test."""
    keys, address = control_plane.credentials, urlsplit(control_plane.url)
    upstream = (address.hostname or "", address.port or 443)
    server = FaultServer(RequestCounts(), keys.server_context(), upstream, keys.client_context(), None)
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    greeting = server.spawn(server._greet(ours))

    theirs.send(await last_words_of_a_greeting(theirs, keys.client_context()))
    await asyncio.sleep(0)  # they are heard after this, and before anything that is cancelled now
    await server.close()

    assert greeting.cancelled()
    assert asyncio.all_tasks() == {asyncio.current_task()}
    theirs.close()


async def last_words_of_a_greeting(client: socket.socket, tls: ssl.SSLContext) -> bytes:
    """Greet a server, but for what has to be sent last."""
    heard, said = ssl.MemoryBIO(), ssl.MemoryBIO()
    session = tls.wrap_bio(heard, said, server_hostname="127.0.0.1")
    while True:
        try:
            session.do_handshake()
        except ssl.SSLWantReadError:
            client.send(said.read())
            heard.write(await asyncio.get_running_loop().sock_recv(client, 65_536))
        else:
            session.write(b"GET /readyz HTTP/1.1\r\n\r\n")
            return said.read()


def test_many_requests_at_a_time_pass(client: ApiClient, control_plane: ControlPlane, fault_proxy: FaultProxy) -> None:
    names = [f"many-{index}" for index in range(200)]
    client.create_many("/api/v1/nodes", [a_node(name) for name in names], in_flight=16)
    control_plane.delete_nodes(names)

    assert fault_proxy.counts.count("create", "/nodes", status=201) == 200


def test_the_journal_has_the_writes_that_were_sent_on_with_their_time(
    fault_proxy: FaultProxy, client: ApiClient, pods: str
) -> None:
    fault_proxy.counts.keep_journal()
    before = time.monotonic()
    client.create(pods, a_pod("p"))
    client.get(f"{pods}/p")
    with fault_proxy.inject(server_error(), method="DELETE"), pytest.raises(ApiServerError):
        client.delete(f"{pods}/p")
    client.delete(f"{pods}/p")

    taken = fault_proxy.counts.take_journal()

    assert [(each.verb, each.path, each.status) for each in taken] == [
        ("create", pods, 201),
        ("delete", f"{pods}/p", 200),
    ]
    assert before < taken[0].at < taken[1].at < time.monotonic()
    assert fault_proxy.counts.take_journal() == []
