"""Crowds: one tenant fills a lane that all tenants share, and the first request of another tenant is served in time.

The lanes are filled one after the other: sessions, with different gangs that no node takes; conditions and Events, with
the refusals of these gangs; bindings, with one large gang; retries, with refused bindings; searches, with gangs that no
placement lets start; scrapes, with invalid tokens; explanations; questions and open views of the page.

The drill starts a scheduler with its usual flags and `--metrics-auth`, and the page. A small crowd lasts as long as a
large one if each write for it is ``late``.
"""

from __future__ import annotations

import contextlib
import http.client
import re
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec

from drills.idle_connections import unverified
from drills.report import Report
from drills.world import World, delete_collection, wait_until
from tests.cluster.scheduling import GROUPS, MANIFESTS, SYSTEM, Json, SchedulerProcess, VolschedProcess
from tools.controlplane import a_pod
from tools.controlplane.faults import FaultProxy, FaultRule, Latency, server_error
from tools.controlplane.plane import free_port
from tools.patience import PATIENCE

FIRST_SECONDS: Final = 2.0
"""Another tenant's first request is served within this time, beside each crowd."""

SESSIONS: Final = 2
"""Until a pod is decided fewer gangs are tried than in two sessions: the one that runs when it comes, and its own."""

DECISIONS: Final = "decisions"
LATER_DECISIONS: Final = "decisions while a session runs"
"""Lanes that are judged by sessions."""

LONGEST_SETTLING: Final = 1_200.0
"""Seconds after which what is to be told is looked at, whether or not all gangs were tried by then."""

_LOOK_SECONDS: Final = 0.1
_CROWDED, _OTHER, _WATCHER = "127.0.0.2", "127.0.0.1", "127.0.0.3"
"""The addresses from which the two tenants ask, and the drill itself."""

_OF_ONE_EXPLAINED: Final = 5
_OF_ONE_ASKED: Final = 9
"""How many explanations, and how many questions of the page, one asker has under way and waiting."""

_STREAMS: Final = 40
"""Open views, more than one reader may have. The ServiceAccounts of a namespace are one reader."""

_ACCOUNTS: Final = tuple(f"crowd-{number}" for number in range(15))
"""ServiceAccounts of the crowd beside its first one."""

_TRIED: Final = re.compile(r"^volsched_job_attempts_total (\S+)$", re.MULTILINE)


_SCALED: Final = ("gangs", "bindings", "refused", "searched", "scrapes")


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many gangs fill the sessions, how many pods have bindings that wait, or that are refused, and so on.

    `searched` are gangs that no placement lets start, which only a search finds out.

    `late` is by how many seconds each write for the crowd takes longer. `asked` are explanations and questions at once;
    with 0 there are none, nor the page.
    """

    gangs: int = 20_000
    bindings: int = 5_000
    refused: int = 2_000
    searched: int = 1_000
    scrapes: int = 2_000
    asked: int = 12
    late: float = 0.25

    def scaled(self, part: float) -> Sizes:
        """Return the same, with crowds of a part of the size."""
        sizes = {name: max(50, round(getattr(self, name) * part)) for name in _SCALED}
        return replace(self, **sizes)


@dataclass(frozen=True, slots=True)
class Served:
    """The other tenant's first request in a lane: when it was served, and how many of the crowd waited by then.

    Nothing `left` means that it was served last, or not at all.
    """

    lane: str
    seconds: float
    left: int

    def __str__(self) -> str:
        return f"{self.lane}: {self.seconds:.2f} s, {self.left} of the crowd left"


@dataclass(slots=True)
class Crowd:
    """One tenant that fills, another one that asks for one thing, and how that was served."""

    there: World
    sizes: Sizes
    proxy: FaultProxy
    space: str
    other: str
    served: list[Served] = field(default_factory=list)

    @property
    def scheduler(self) -> str:
        """The name of the scheduler that is judged."""
        return f"{self.there.name}-crowded"

    # -- objects ------------------------------------------------------------------------------------------------------

    def gangs(self, space: str, names: Sequence[str], size: int = 1, cpu: Callable[[int], str] | None = None) -> None:
        """Make gangs of so many pods each."""
        spec = {"minMember": size, "queue": "default"}
        kind = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup"}
        bodies = [{**kind, "metadata": {"name": name}, "spec": spec} for name in names]
        self.there.api.create_many(f"{GROUPS}/namespaces/{space}/podgroups", bodies)
        pods = [
            a_pod(
                f"{name}-{index}",
                scheduler=self.scheduler,
                annotations={"scheduling.k8s.io/group-name": name},
                cpu=cpu(number) if cpu is not None else "1m",
                memory="1Mi",
            )
            for number, name in enumerate(names)
            for index in range(size)
        ]
        self.there.api.create_many(f"/api/v1/namespaces/{space}/pods", pods)

    def gang(self, space: str, name: str, members: Sequence[tuple[str, Json]]) -> None:
        """Make a gang whose pods differ: the cpu of each, and what it states beside its request."""
        group = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": name}}
        group["spec"] = {"minMember": len(members), "queue": "default"}
        self.there.api.create(f"{GROUPS}/namespaces/{space}/podgroups", group)
        about: Json = {"labels": {"gang": name}, "annotations": {"scheduling.k8s.io/group-name": name}}
        for index, (cpu, spec) in enumerate(members):
            pod = a_pod(f"{name}-{index}", scheduler=self.scheduler, spec=spec, cpu=cpu, memory="1Mi", **about)
            self.there.api.create(f"/api/v1/namespaces/{space}/pods", pod)

    def clear(self) -> None:
        """Delete everything of the crowd."""
        for path in (f"{GROUPS}/namespaces/{self.space}/podgroups", f"/api/v1/namespaces/{self.space}/pods"):
            delete_collection(self.there, path)

    def late(self, what: str) -> FaultRule:
        """Have writes for the crowd take longer, and count them."""
        return self.proxy.inject(Latency(self.sizes.late), path=f"/namespaces/{self.space}/{what}$")

    # -- the other tenant ---------------------------------------------------------------------------------------------

    def one(self, name: str, cpu: str = "1m") -> None:
        """Make one pod of the other tenant, the only one of its gang."""
        self.gangs(self.other, [name], cpu=lambda _: cpu)

    def pod(self, name: str) -> Json:
        """Return that pod as it is."""
        return self.there.api.get(f"/api/v1/namespaces/{self.other}/pods/{name}-0")

    def has_node(self, name: str) -> bool:
        """Whether it has a node."""
        return bool(self.pod(name)["spec"].get("nodeName"))

    def says_why(self, name: str) -> bool:
        """Whether a condition says why it waits."""
        conditions = self.pod(name)["status"].get("conditions") or ()
        return any(each["type"] == "PodScheduled" and each["status"] == "False" for each in conditions)

    def has_event(self, name: str, reason: str) -> bool:
        """Whether there is an Event of a reason on it."""
        return any(event["reason"] == reason for event in self.there.events(self.other, f"{name}-0"))

    def wait(self, lane: str, since: float, check: Callable[[], bool], left: Callable[[], int]) -> None:
        """Wait until the other tenant is served; note after how long, and how many of the crowd were not by then."""
        deadline = time.monotonic() + PATIENCE
        while not (is_served := check()) and time.monotonic() < deadline:
            time.sleep(_LOOK_SECONDS)
        self.note(Served(lane, time.monotonic() - since, left() if is_served else 0))

    def note(self, served: Served) -> None:
        """Keep what was seen."""
        self.served.append(served)
        print(f"  {served}", flush=True)


# -- sessions and writes ----------------------------------------------------------------------------------------------


def fill_sessions(crowd: Crowd, start: Callable[[], SchedulerProcess], tried: Callable[[], int]) -> list[float]:
    """Fill sessions, and with them conditions and Events; return how many times all gangs were tried for each pod."""
    gangs = crowd.sizes.gangs
    crowd.gangs(crowd.space, [f"gang-{number}" for number in range(gangs)], cpu=lambda number: f"{1_000 + number}")
    crowd.one("first")
    with crowd.late("pods/[^/]+/status") as conditions, crowd.late("events") as events:
        start().wait_for("everything is listed")
        crowd.wait(DECISIONS, time.monotonic(), lambda: crowd.has_node("first"), lambda: gangs)
        needed = [tried() / gangs]
        began, before = time.monotonic(), tried()
        crowd.one("second")
        crowd.wait(LATER_DECISIONS, began, lambda: crowd.has_node("second"), lambda: gangs)
        needed.append((tried() - before) / gangs)
        wait_until(lambda: is_settled(tried, gangs), LONGEST_SETTLING)
        began = time.monotonic()
        crowd.one("third", cpu="999")
        crowd.wait("conditions", began, lambda: crowd.says_why("third"), lambda: gangs - conditions.hits)
        crowd.wait("Events", began, lambda: crowd.has_event("third", "FailedScheduling"), lambda: gangs - events.hits)
    crowd.clear()
    return needed


def is_settled(tried: Callable[[], int], gangs: int) -> bool:
    """Whether no gang was tried for as long as a session of so many may take."""
    before = tried()
    time.sleep(max(1.0, gangs / 1_000))
    return tried() == before


def fill_bindings(crowd: Crowd) -> None:
    """Have one gang's bindings wait while another tenant's pod comes, which is also told where it went."""
    size = crowd.sizes.bindings
    with crowd.late("pods/[^/]+/binding") as bindings:
        crowd.gangs(crowd.space, ["large"], size)
        bindings.wait()
        began = time.monotonic()
        crowd.one("beside")
        crowd.wait("bindings", began, lambda: crowd.has_node("beside"), lambda: size - bindings.hits)
        crowd.wait(
            "Events of bindings", began, lambda: crowd.has_event("beside", "Scheduled"), lambda: size - bindings.hits
        )
    crowd.clear()


def fill_retries(crowd: Crowd) -> None:
    """Have one gang's bindings refused again and again."""
    size = crowd.sizes.refused
    path = f"/namespaces/{crowd.space}/pods/[^/]+/binding$"
    with crowd.proxy.inject(server_error(), method="POST", path=path) as refused:
        crowd.gangs(crowd.space, ["refused"], size)
        refused.wait(size)
        began = time.monotonic()
        crowd.one("patient")
        crowd.wait("retries", began, lambda: crowd.has_node("patient"), lambda: size)
    crowd.clear()


def fill_searches(crowd: Crowd) -> None:
    """Have many gangs searched for that cannot start, and one of another tenant that only a search lets start.

    Each gang of the crowd has three pods that keep apart, and there are two nodes for them; the nodes come last, so all
    gangs are searched for at once. The free pod of the other tenant comes first, and takes the only node of its second
    pod unless the two are placed together.
    """
    nodes, gangs = crowd.there.nodes, crowd.sizes.searched
    nodes(1, prefix="wanted", cpu="2", memory="4Gi", labels={"drill": "shared", "wanted": "yes"})
    nodes(1, prefix="other", cpu="2", memory="8Gi", labels={"drill": "shared"})
    for number in range(gangs):
        name = f"hard-{number}"
        term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"gang": name}}}
        apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        spec = {"affinity": apart, "nodeSelector": {"drill": "tight"}}
        crowd.gang(crowd.space, name, [(f"{100 + each}m", spec) for each in range(3)])
    nodes(2, prefix="tight", cpu="64", memory="64Gi", pods=250, labels={"drill": "tight"})
    began = time.monotonic()
    free, pinned = {"drill": "shared"}, {"drill": "shared", "wanted": "yes"}
    crowd.gang(crowd.other, "together", [("1500m", {"nodeSelector": selected}) for selected in (free, pinned)])
    crowd.wait("searches", began, lambda: crowd.has_node("together"), lambda: gangs)
    crowd.clear()


# -- who asks ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Asker:
    """Somebody who asks a port, by TLS, from an address of theirs."""

    port: int
    token: str
    address: str

    def connection(self) -> http.client.HTTPSConnection:
        """Return a connection that is not open yet."""
        return http.client.HTTPSConnection(
            _OTHER, self.port, timeout=PATIENCE, source_address=(self.address, 0), context=unverified()
        )

    def ask(self, path: str) -> tuple[int, str]:
        """Return status and text of a page."""
        with contextlib.closing(self.connection()) as connection:
            connection.request("GET", path, headers={"Authorization": f"Bearer {self.token}"})
            answer = connection.getresponse()
            return answer.status, answer.read().decode(errors="replace")

    def stream(self, path: str) -> tuple[int, http.client.HTTPSConnection]:
        """Open a page that goes on; return its status."""
        connection = self.connection()
        connection.request("GET", path, headers={"Authorization": f"Bearer {self.token}"})
        return connection.getresponse().status, connection

    def seconds(self, path: str) -> float:
        """Return how long an answer takes."""
        began = time.monotonic()
        self.ask(path)
        return time.monotonic() - began


class Questions:
    """Many questions of one asker at once, each on a thread of its own until it is answered, or all are given up."""

    def __init__(self, asker: Asker, paths: Sequence[str]) -> None:
        self.answered = 0
        self._connections = [asker.connection() for _ in paths]
        self._asker = asker
        self._threads = [
            threading.Thread(target=self._ask, args=(connection, path), daemon=True)
            for connection, path in zip(self._connections, paths, strict=True)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def left(self) -> int:
        """How many wait for their answers."""
        return len(self._threads) - self.answered

    def close(self) -> None:
        """Close the connections, also those without an answer."""
        for connection in self._connections:
            if connection.sock is not None:
                with contextlib.suppress(OSError):
                    connection.sock.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()

    def _ask(self, connection: http.client.HTTPSConnection, path: str) -> None:
        with contextlib.suppress(OSError, http.client.HTTPException), contextlib.closing(connection):
            connection.request("GET", path, headers={"Authorization": f"Bearer {self._asker.token}"})
            connection.getresponse().read()
            self.answered += 1


class Forgers:
    """Scrapes with tokens that nobody knows, until it is closed."""

    def __init__(self, asker: Asker, at_once: int = 4) -> None:
        self.sent = 0
        self._asker = asker
        self._is_over = threading.Event()
        self._threads = [threading.Thread(target=self._scrape, daemon=True) for _ in range(at_once)]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """End it."""
        self._is_over.set()
        for thread in self._threads:
            thread.join()

    def _scrape(self) -> None:
        connection = self._asker.connection()
        while not self._is_over.is_set():
            try:
                connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {secrets.token_hex()}"})
                connection.getresponse().read()
            except (OSError, http.client.HTTPException):
                connection.close()
            self.sent += 1
        connection.close()


def fill_scrapes(crowd: Crowd, forger: Asker, reader: Asker) -> None:
    """Send tokens that nobody knows, and one that the API server knows and was not asked about yet."""
    with contextlib.closing(Forgers(forger)) as forgers:
        wait_until(lambda: forgers.sent >= crowd.sizes.scrapes, PATIENCE)
        before, began = forgers.sent, time.monotonic()
        status, _ = reader.ask("/metrics")
        seconds = time.monotonic() - began
        crowd.note(Served("scrapes", seconds, max(1, forgers.sent - before) if status == http.client.OK else 0))


def fill_questions(
    crowd: Crowd, lane: str, asker: Asker, other: Asker, path: Callable[[str, str], str], of_one: int
) -> None:
    """Ask much at once, more than one may; and one question of another asker. `path` is given a namespace and a name.

    What counts is by how much longer the answer takes than without a crowd.
    """
    alone = other.seconds(path(crowd.other, "first"))
    paths = [path(crowd.space, f"nobody-{number}") for number in range(crowd.sizes.asked)]
    with contextlib.closing(Questions(asker, paths)) as questions:
        wait_until(lambda: questions.left <= of_one, PATIENCE)  # the others are refused: it is full
        began = time.monotonic()
        status, text = other.ask(path(crowd.other, "second"))
        seconds, left = time.monotonic() - began, questions.left
    is_served = status == http.client.OK and "You have asked much" not in text
    crowd.note(Served(lane, max(0.0, seconds - alone), left if is_served else 0))


def fill_views(crowd: Crowd, askers: Sequence[Asker], other: Asker) -> None:
    """Open views of all ServiceAccounts of a namespace until no more may be, and one view of another reader."""
    with ExitStack() as held:

        def opened(who: Asker) -> int:
            status, connection = who.stream("/events/waiting")
            held.callback(connection.close)
            return status

        refused = [opened(askers[number % len(askers)]) for number in range(_STREAMS)].count(
            http.client.TOO_MANY_REQUESTS
        )
        began = time.monotonic()
        is_served = opened(other) == http.client.OK and other.ask("/queues")[0] == http.client.OK
        crowd.note(Served("open views", time.monotonic() - began, refused if is_served else 0))


# -- the drill --------------------------------------------------------------------------------------------------------


def _give_rights(crowd: Crowd) -> dict[str, str]:
    """Let the two tenants view their namespaces and the page; return tokens by name."""
    group = "rbac.authorization.k8s.io"
    kinds: list[Json] = []
    homes = {"crowd": crowd.space, "other": crowd.other, "watcher": SYSTEM} | dict.fromkeys(_ACCOUNTS, crowd.space)
    for name, space in homes.items():
        kinds.append({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": space}})
    subjects = {name: {"kind": "ServiceAccount", "name": name, "namespace": space} for name, space in homes.items()}
    roles = (("volsched-metrics-reader", ("other", "watcher")), ("volsched-ui-reader", ("crowd", "other", *_ACCOUNTS)))
    for role, names in roles:
        ref = {"apiGroup": group, "kind": "ClusterRole", "name": role}
        body: Json = {"apiVersion": f"{group}/v1", "kind": "ClusterRoleBinding", "metadata": {"name": f"crowds-{role}"}}
        kinds.append({**body, "roleRef": ref, "subjects": [subjects[name] for name in names]})
    for names in (("crowd", *_ACCOUNTS), ("other",)):
        ref = {"apiGroup": group, "kind": "ClusterRole", "name": "view"}
        metadata = {"name": "view", "namespace": homes[names[0]]}
        body = {"apiVersion": f"{group}/v1", "kind": "RoleBinding", "metadata": metadata}
        kinds.append({**body, "roleRef": ref, "subjects": [subjects[name] for name in names]})
    files = ("components/metrics-auth/rights.yaml", "rbac/ui/rights.yaml", "base/ui/reader.yaml")
    given = [word for file in files for word in ("-f", str(MANIFESTS / file))]
    listed = msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": kinds}).decode()
    crowd.there.control_plane.kubectl("apply", *given, "-f", "-", stdin=listed)
    for name in ("crowd", "other"):
        user = f"system:serviceaccount:{homes[name]}:{name}"
        _wait_allowed(crowd, user, "resourceAttributes", {"verb": "get", "resource": "pods", "namespace": homes[name]})
        _wait_allowed(crowd, user, "nonResourceAttributes", {"verb": "get", "path": "/ui"})
    user = f"system:serviceaccount:{crowd.other}:other"
    _wait_allowed(crowd, user, "nonResourceAttributes", {"verb": "get", "path": "/metrics"})
    return {name: crowd.there.control_plane.token_for(name, space) for name, space in homes.items()}


def _wait_allowed(crowd: Crowd, user: str, kind: str, attributes: Json) -> None:
    """Wait until the API server knows of a right that was given: a refusal is remembered for a minute."""
    path, spec = "/apis/authorization.k8s.io/v1/subjectaccessreviews", {"user": user, kind: attributes}
    if not wait_until(lambda: crowd.there.api.create(path, {"spec": spec})["status"]["allowed"], PATIENCE):
        raise AssertionError(f"{user} may not {attributes}")


@contextmanager
def _page(crowd: Crowd) -> Iterator[int]:
    """Run the page, as in a cluster; yield its port."""
    port = free_port()
    kubeconfig = str(crowd.there.control_plane.kubeconfig_for("volsched-ui", SYSTEM))
    flags = ("--kubeconfig", kubeconfig, "--auth", "--listen-address", f"{_OTHER}:{port}")
    process = VolschedProcess(crowd.there.folder / "page.log", "ui", *flags)

    def answers() -> bool:
        with contextlib.suppress(OSError):
            return Asker(port, "", _WATCHER).ask("/healthz")[0] == http.client.OK
        return False

    try:
        if not wait_until(answers, PATIENCE):
            raise AssertionError(f"the page does not answer; its log:\n{process.log.read_text()[-3000:]}")
        yield port
    finally:
        process.close()


def run(report: Report, there: World, sizes: Sizes) -> None:
    """Fill each lane and judge it."""
    with FaultProxy(there.control_plane) as proxy:
        space, other = (there.control_plane.create_namespace(name) for name in ("crowd", "other"))
        crowd = Crowd(there, sizes, proxy, space, other)
        tokens = _give_rights(crowd)
        started: list[SchedulerProcess] = []

        def start() -> SchedulerProcess:
            flags = ("--metrics-auth", "--leader-elect=false")
            started.append(there.start(*flags, proxy=proxy, name=crowd.scheduler))
            return started[0]

        def port() -> int:
            return int(started[0].wait_for("serving")["addresses"][0].rpartition(":")[2])

        def tried() -> int:
            return int(float(_TRIED.findall(Asker(port(), tokens["watcher"], _WATCHER).ask("/metrics")[1])[0]))

        report.progress("crowds: sessions, conditions, Events")
        needed = fill_sessions(crowd, start, tried)
        report.progress("crowds: bindings, retries")
        fill_bindings(crowd)
        fill_retries(crowd)
        report.progress("crowds: searches")
        fill_searches(crowd)
        report.progress("crowds: scrapes")
        askers = Asker(port(), tokens["crowd"], _CROWDED), Asker(port(), tokens["other"], _OTHER)
        fill_scrapes(crowd, *askers)
        if sizes.asked:
            report.progress("crowds: explanations, questions, views")
            fill_questions(crowd, "explanations", *askers, _explanation, _OF_ONE_EXPLAINED)
            with _page(crowd) as at:
                askers = Asker(at, tokens["crowd"], _CROWDED), Asker(at, tokens["other"], _OTHER)
                accounts = [Asker(at, tokens[name], _CROWDED) for name in ("crowd", *_ACCOUNTS)]
                fill_views(crowd, accounts, askers[1])
                fill_questions(crowd, "questions of the page", *askers, _question, _OF_ONE_ASKED)
    judge(report, crowd.served, needed)


def _explanation(namespace: str, name: str) -> str:
    return f"/explain?kind=pod&namespace={namespace}&name={name}-0"


def _question(namespace: str, name: str) -> str:
    return f"/job/{namespace}/{name}/explanation"


def judge(report: Report, served: Sequence[Served], needed: Sequence[float]) -> None:
    """Judge what was seen: whose first request came last, how long each took, and after how many sessions."""
    for each in served:
        report.figure(f"first beside a crowd of {each.lane}, seconds", each.seconds)
    last = tuple(each.lane for each in served if each.left <= 0)
    report.must("lanes in which another's first request was served last, or not", len(last), "==", 0, last)
    timed = [each for each in served if each.lane not in (DECISIONS, LATER_DECISIONS)]
    slow = tuple(str(each) for each in timed if each.seconds >= FIRST_SECONDS)
    slowest = max((each.seconds for each in timed), default=FIRST_SECONDS)
    report.must("slowest first request beside a crowd, seconds", slowest, "<", FIRST_SECONDS, slow, is_time=True)
    report.must("sessions' worth of tries until another's pod is decided", max(needed), "<", SESSIONS)
