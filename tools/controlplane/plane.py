"""A real Kubernetes control plane on this machine, for tests, benches and the tour in the README.

etcd, kube-apiserver and kube-controller-manager are the real programs, started as an operator would: RBAC is on, the
admission plugins are those that Kubernetes ships with, service accounts get real tokens. Only the kubelets are
missing; KWOK plays them, for every node object that somebody creates (see `stages`).

Nothing of it leaves the machine: the API server listens on loopback on a random port, etcd on a socket in a folder that
only this user may enter. Keys and tokens are made again for each control plane. When the process that started it ends,
by whatever means, so do all of its programs (see `guard`).

``ControlPlane`` is one class: it is all that tests ask of a cluster.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import os
import random
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from tools.controlplane.beginnings import Manifests, begin_with, beginning_of, copy_store, keep_as
from tools.controlplane.binaries import KUBE_SCHEDULER, Binaries, find_binaries, find_kube_scheduler
from tools.controlplane.client import ApiClient, Json
from tools.controlplane.credentials import ControlPlaneCredentials, write_kubeconfig
from tools.controlplane.errors import ApiServerError, KubectlError, StartError
from tools.controlplane.lifetime import Startable
from tools.controlplane.objects import is_schedulable
from tools.controlplane.processes import ProcessSet, ServerProcess
from tools.controlplane.stages import kwok_configuration

READY_WITHIN_SECONDS = 300.0
"""A loaded machine of two cores needs some ten seconds; beyond this something is wrong."""

CONTROLLERS_SECONDS = 300.0
"""Kubernetes' controllers ask a server that was down again after up to a minute, longer after each time it was."""

_START_ATTEMPTS = 3

_SELDOM_COLLECTING = {"GOGC": "400"}
"""kube-apiserver takes an eighth less CPU time if it collects garbage less often, and 150 MiB more."""

_ETCD_SECONDS = 60.0
_PORTS = range(20_000, 32_000)
"""Below the range from which Linux takes ports for outgoing connections, so that a restart finds its port free."""

_TMPFS = Path("/dev/shm")  # noqa: S108 - only used through mkdtemp
_TMPFS_NEEDED_BYTES = 2 * 2**30


class ControlPlane(Startable):
    """One control plane: start it, talk to it, stop it.

    Use it as a context manager, also an asynchronous one, or call `start` and `stop`; both block, and all methods may
    be called from any thread. Its folder has the kubeconfig files and, under ``logs/``, a log per program.

    Arguments: `folder` keeps logs and credentials (a temporary one, removed by `stop`, if None); `binaries` are the
    programs (found or built if None); `controller_manager` and `kwok`: whether these run; `feature_gates` go to
    kube-apiserver and kube-controller-manager; `api_flags` are added to kube-apiserver's; `manifests` are there before
    anything else begins; `checks_policies`: whether expressions of admission policies are checked against types, which
    takes 0.7 CPU seconds for a policy and is told in its status alone; `node_lease_seconds` is how long a node may be
    silent before it counts as lost (KWOK renews four times in it); `port` is the API server's (a free one if 0).
    """

    def __init__(  # noqa: PLR0913 - by keyword only, and each has a default
        self,
        *,
        folder: Path | None = None,
        binaries: Binaries | None = None,
        controller_manager: bool = True,
        kwok: bool = True,
        feature_gates: Mapping[str, bool] | None = None,
        api_flags: Sequence[str] = (),
        manifests: Manifests | None = None,
        checks_policies: bool = False,
        max_requests_in_flight: int = 4000,
        node_lease_seconds: int = 240,
        port: int = 0,
    ) -> None:
        self._given_folder = folder
        self._binaries = binaries
        self._with_controller_manager = controller_manager
        self._with_kwok = kwok
        gates = ",".join(f"{gate}={str(on).lower()}" for gate, on in sorted((feature_gates or {}).items()))
        self.gate_flags = [f"--feature-gates={gates}"] if gates else []
        self._api_flags = tuple(api_flags)
        self._manifests = manifests
        self._checks_policies = checks_policies
        self._in_flight = max_requests_in_flight
        self._node_lease_seconds = node_lease_seconds
        self._port = port
        self._running: _RunningServers | None = None

    # ------------------------------------------------------------------------------------------- start and stop

    def start(self) -> Self:
        """Start everything and return once pods can be created.

        Raises StartError, with the tail of the log, when a program does not come up, BuildError when one is missing.
        """
        if self._running:
            raise StartError("this control plane is running already")
        binaries = self._binaries or find_binaries()
        for attempt in range(1, _START_ATTEMPTS + 1):
            self._running = _RunningServers.create(self._given_folder, binaries, self._port)
            try:
                self._start_programs()
            except _PortTakenError:
                self._discard(keep_logs=False)
                if attempt == _START_ATTEMPTS:
                    raise
            except BaseException:
                self._discard(keep_logs=True)
                raise
            else:
                break
        return self

    def stop(self) -> None:
        """Kill everything and remove its data; what was stored is gone."""
        self._discard(keep_logs=self._given_folder is not None)

    def check(self) -> None:
        """Raise StartError when one of the programs has ended by itself."""
        self._state.processes.check()

    # --------------------------------------------------------------------------------------- what a test needs

    @property
    def url(self) -> str:
        """Return the API server's address, ``https://127.0.0.1:<port>``."""
        return f"https://127.0.0.1:{self._state.port}"

    @property
    def folder(self) -> Path:
        """Return where the kubeconfig files and the logs are."""
        return self._state.folder

    @property
    def binaries(self) -> Binaries:
        """Return the programs that it runs."""
        return self._state.binaries

    @property
    def credentials(self) -> ControlPlaneCredentials:
        """Its certificates and tokens."""
        return self._state.credentials

    @property
    def kubeconfig(self) -> Path:
        """Return a kubeconfig file of the cluster's administrator."""
        return self._state.folder / "admin.kubeconfig"

    @property
    def api(self) -> ApiClient:
        """Return a blocking client with the administrator's rights."""
        return self._state.api

    def process(self, name: str) -> ServerProcess:
        """Return a running program by its name, for its pid or its log."""
        return self._state.processes[name]

    def kubectl(self, *arguments: str, stdin: str | None = None, timeout: float = 600.0) -> str:
        """Run kubectl as the administrator and return what it prints; raises KubectlError when it fails."""
        command = [str(self.binaries["kubectl"]), f"--cache-dir={self.folder / 'kubectl-cache'}", *arguments]
        done = subprocess.run(  # noqa: S603 - a test's own command
            command,
            input=stdin,
            env=os.environ | {"KUBECONFIG": str(self.kubeconfig)},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        if done.returncode != 0:
            raise KubectlError(f"kubectl {' '.join(arguments)} failed with status {done.returncode}:\n{done.stderr}")
        return done.stdout

    def token_for(self, service_account: str, namespace: str, *, seconds: int = 6 * 3600) -> str:
        """Return a fresh token of a service account, made by the API server as a kubelet would ask for it."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{service_account}/token"
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": seconds},
        }
        return str(self.api.create(path, body)["status"]["token"])

    def kubeconfig_for(self, service_account: str, namespace: str, *, server: str | None = None) -> Path:
        """Write a kubeconfig file with which a program has a service account's rights and no others.

        `server` is another address to talk to, such as a fault proxy's.
        """
        self._state.written += 1
        return write_kubeconfig(
            self.folder / f"{namespace}-{service_account}-{self._state.written}.kubeconfig",
            server=server or self.url,
            ca_file=self.credentials.ca_file,
            token=self.token_for(service_account, namespace),
            namespace=namespace,
        )

    def create_namespace(self, name: str) -> str:
        """Create a namespace and return its name once pods can be created in it."""
        self.api.create("/api/v1/namespaces", {"metadata": {"name": name}})
        if self._with_controller_manager:
            account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
            self.api.wait_for(account, lambda _: True, CONTROLLERS_SECONDS)
        return name

    def create_nodes(self, nodes: Sequence[Mapping[str, Any]], *, timeout: float = 300.0) -> list[str]:
        """Create nodes, some at a time, and return their names once all can take pods.

        Admission taints every new node as not ready, until the node lifecycle controller has seen that it is Ready.
        Where that controller does not run the taint is lifted here.
        """
        made = [str(node["metadata"]["name"]) for node in nodes]
        self.api.for_each(self._create_node, nodes)
        wanted = set(made)

        def all_schedulable(found: Json) -> bool:
            ready = {node["metadata"]["name"] for node in found["items"] if is_schedulable(node)}
            return wanted <= ready

        self.api.wait_for("/api/v1/nodes", all_schedulable, timeout)
        return made

    def delete_nodes(self, names: Iterable[str]) -> None:
        """Delete nodes; pods on them go when their garbage is collected."""
        self.api.for_each(lambda name: self.api.delete(f"/api/v1/nodes/{name}"), names)

    def exempt_from_fairness(self, *users: str) -> None:
        """Take users out of API priority and fairness, as benches do that measure a client and not the server's queues.

        A service account's user is ``system:serviceaccount:<namespace>:<name>``.
        """
        subjects = [{"kind": "User", "user": {"name": user}} for user in users]
        everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": True, "namespaces": ["*"]}
        paths = {"verbs": ["*"], "nonResourceURLs": ["*"]}
        rules = [{"subjects": subjects, "resourceRules": [everything], "nonResourceRules": [paths]}]
        spec = {"matchingPrecedence": 2, "priorityLevelConfiguration": {"name": "exempt"}, "rules": rules}
        body = {"metadata": {"generateName": "volsched-exempt-"}, "spec": spec}
        self.api.create("/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas", body)

    # ------------------------------------------------------------------------------- programs that come and go

    def stop_api_server(self, *, graceful: bool = False) -> None:
        """Kill the API server as a crash would, or ask it to end and give it ten seconds."""
        self._state.processes.stop("kube-apiserver", grace=10.0 if graceful else 0.0)
        self.api.forget_connections()

    def start_api_server(self) -> None:
        """Start the API server again, on its old port, and return once it is ready."""
        self._start_api_server()
        self._wait_until_ready()

    def restart(self, *, down_seconds: float = 0.0, graceful: bool = False) -> None:
        """Stop the API server, leave it down for a while, and start it again."""
        with self.api_server_down(graceful=graceful):
            time.sleep(down_seconds)

    @contextlib.contextmanager
    def api_server_down(self, *, graceful: bool = False) -> Iterator[None]:
        """Have no API server within a ``with`` block; it is back, on its old port, whatever happens in it."""
        self.stop_api_server(graceful=graceful)
        try:
            yield
        finally:
            self.start_api_server()

    def save_store(self, folder: Path) -> None:
        """Copy all that etcd holds into a folder that does not exist yet; the API server is down meanwhile."""
        self._while_stored(lambda: copy_store(self._state.store, folder))

    def restore_store(self, folder: Path) -> None:
        """Put etcd back to what was saved, as from a backup: resource versions go back. Everything is restarted."""
        processes = self._state.processes
        for name in ("kwok", "kube-controller-manager"):
            processes.stop(name)
        with self.api_server_down():
            processes.stop("etcd", grace=10.0)
            shutil.rmtree(self._state.store)
            copy_store(folder, self._state.store)
            self._start_etcd()
        self._start_others()

    def compact_store(self) -> int:
        """Have etcd forget every state but the newest, as its keeper does every five minutes; return its revision.

        Who asks to go on from an earlier version is then told that it is expired, once the API server has begun again.
        """
        newest = int(self._ask_etcd("range", {"key": "AA=="})["header"]["revision"])
        self._ask_etcd("compaction", {"revision": newest, "physical": True})
        return newest

    def kinds_stored_in(self, namespace: str) -> set[str]:
        """Return of what there are objects in a namespace, by etcd's folders: ``pods``, ``batch.volcano.sh/jobs``."""
        everything = {"key": _in_base64("/registry/"), "range_end": _in_base64("/registry0"), "keys_only": True}
        keys = (base64.b64decode(each["key"]).decode() for each in self._ask_etcd("range", everything)["kvs"])
        found = (key.removeprefix("/registry/").partition(f"/{namespace}/") for key in keys)
        return {folder for folder, is_there, _ in found if is_there}

    def start_kube_scheduler(self, *, qps: float = 5000.0, flags: Sequence[str] = ()) -> ServerProcess:
        """Start kube-scheduler as its own user, for comparison; `qps` is its limit of requests per second."""
        kubeconfig = self._write_kubeconfig(KUBE_SCHEDULER, self.credentials.scheduler_token)
        return self._state.processes.start(
            KUBE_SCHEDULER,
            [
                find_kube_scheduler(),
                f"--kubeconfig={kubeconfig}",
                f"--authentication-kubeconfig={kubeconfig}",
                f"--authorization-kubeconfig={kubeconfig}",
                f"--kube-api-qps={qps}",
                f"--kube-api-burst={int(2 * qps)}",
                "--leader-elect=false",
                "--secure-port=0",
                *self.gate_flags,
                *flags,
            ],
        )

    def stop_kube_scheduler(self) -> None:
        """Kill kube-scheduler, if it runs."""
        self._state.processes.stop(KUBE_SCHEDULER)

    # -------------------------------------------------------------------------------------------------- inside

    @property
    def _state(self) -> _RunningServers:
        if self._running is None:
            raise StartError("this control plane is not running")
        return self._running

    def _start_programs(self) -> None:
        self._write_kubeconfig("admin", self.credentials.admin_token)
        beginning = beginning_of(self.binaries, [*self.gate_flags, *self._api_flags], self._manifests)
        is_kept = beginning is not None and beginning.is_dir()
        if beginning and is_kept:
            begin_with(beginning, self._state.store)
        self._start_etcd()
        self._start_api_server()
        self._wait_until_ready()
        if not is_kept:
            self._apply_manifests()
        if beginning and not is_kept:
            self._while_stored(lambda: keep_as(beginning, self._state.store))
        self._start_others()
        if self._with_controller_manager:
            account = "/api/v1/namespaces/default/serviceaccounts/default"
            self._wait(account, lambda: self.api.find(account) is not None)

    def _apply_manifests(self) -> None:
        for arguments in self._manifests.arguments() if self._manifests else ():
            self.kubectl("apply", *arguments)

    def _start_others(self) -> None:
        if self._with_controller_manager:
            self._start_controller_manager()
        if self._with_kwok:
            self._start_kwok()

    def _start_etcd(self) -> None:
        state = self._state
        socket_url = f"unix://{state.scratch}/etcd.sock"
        self._state.processes.start(
            "etcd",
            [
                state.binaries["etcd"],
                f"--data-dir={state.store}",
                f"--listen-client-urls={socket_url}",
                "--advertise-client-urls=http://localhost:0",  # nobody asks for it
                "--listen-peer-urls=unix://peer:0",  # a file in the scratch folder: there are no peers
                "--initial-advertise-peer-urls=unix://peer:0",
                "--initial-cluster=default=unix://peer:0",
                "--unsafe-no-fsync",
                f"--quota-backend-bytes={8 * 2**30}",
                "--log-level=warn",
            ],
            _SELDOM_COLLECTING,
        )

    def _while_stored(self, act: Callable[[], None]) -> None:
        """Do something while the store is a folder that no process writes to."""
        with self.api_server_down(graceful=True):
            self._state.processes.stop("etcd", grace=10.0)
            act()
            self._start_etcd()

    def _ask_etcd(self, what: str, body: Json) -> Json:
        """Make a request to etcd's store; raises StartError when it does not do as it was told."""
        with contextlib.closing(socket.socket(socket.AF_UNIX)) as to_etcd:
            to_etcd.settimeout(_ETCD_SECONDS)
            to_etcd.connect(f"{self._state.scratch}/etcd.sock")
            connection = http.client.HTTPConnection("localhost")
            connection.sock = to_etcd
            connection.request("POST", f"/v3/kv/{what}", json.dumps(body), {"Connection": "close"})
            response = connection.getresponse()
            answer = response.read()
        if response.status != 200:
            raise StartError(f"etcd refused {what}: {answer.decode(errors='replace')}")
        found: Json = json.loads(answer)
        return found

    def _start_api_server(self) -> None:
        state, keys = self._state, self.credentials
        state.processes.start(
            "kube-apiserver",
            [
                state.binaries["kube-apiserver"],
                f"--etcd-servers=unix://{state.scratch}/etcd.sock",
                "--bind-address=127.0.0.1",
                f"--secure-port={state.port}",
                f"--tls-cert-file={keys.server_certificate}",
                f"--tls-private-key-file={keys.server_key}",
                f"--cert-dir={state.scratch}",
                f"--token-auth-file={keys.token_file}",
                "--authorization-mode=Node,RBAC",
                "--service-account-issuer=https://kubernetes.default.svc",
                f"--service-account-key-file={keys.service_account_key}",
                f"--service-account-signing-key-file={keys.service_account_key}",
                "--service-cluster-ip-range=10.0.0.0/16",
                "--endpoint-reconciler-type=none",  # the Service "kubernetes" has no pods to serve here
                "--allow-privileged=true",
                f"--max-requests-inflight={self._in_flight}",
                f"--max-mutating-requests-inflight={self._in_flight // 2}",
                *self.gate_flags,
                *self._api_flags,
            ],
            _SELDOM_COLLECTING,
        )

    def _start_controller_manager(self) -> None:
        state = self._state
        kubeconfig = self._write_kubeconfig("kube-controller-manager", self.credentials.controller_manager_token)
        state.processes.start(
            "kube-controller-manager",
            [
                state.binaries["kube-controller-manager"],
                f"--kubeconfig={kubeconfig}",
                "--use-service-account-credentials",
                f"--service-account-private-key-file={self.credentials.service_account_key}",
                f"--root-ca-file={self.credentials.ca_file}",
                "--leader-elect=false",
                "--secure-port=0",
                f"--controllers={','.join(self._controllers())}",
                "--kube-api-qps=500",
                "--kube-api-burst=1000",
                f"--node-monitor-grace-period={self._node_lease_seconds}s",
                *self.gate_flags,
            ],
            _SELDOM_COLLECTING,
        )

    def _controllers(self) -> Iterator[str]:
        yield "*"
        yield "-ttl-controller"  # it annotates every node again whenever there are many more of them
        if not self._checks_policies:
            yield "-validatingadmissionpolicy-status-controller"

    def _start_kwok(self) -> None:
        state = self._state
        configuration = state.folder / "kwok.yaml"
        configuration.write_text(kwok_configuration())
        state.processes.start(
            "kwok",
            [
                state.binaries["kwok"],
                f"--kubeconfig={self.kubeconfig}",
                f"--config={configuration}",
                "--manage-all-nodes",
                "--cidr=10.64.0.0/10",
                "--node-ip=10.1.0.1",
                f"--node-lease-duration-seconds={self._node_lease_seconds}",
                "--v=WARN",  # else it writes a line per pod
            ],
            _SELDOM_COLLECTING | {"HOME": str(state.scratch)},  # it would read the user's own KWOK configuration
        )

    def _write_kubeconfig(self, name: str, token: str) -> Path:
        path = self._state.folder / f"{name}.kubeconfig"
        return write_kubeconfig(path, server=self.url, ca_file=self.credentials.ca_file, token=token)

    def _create_node(self, node: Mapping[str, Any]) -> None:
        made = self.api.create("/api/v1/nodes", node)
        if not self._with_controller_manager:
            taints = list(node.get("spec", {}).get("taints") or ())
            self.api.patch(f"/api/v1/nodes/{made['metadata']['name']}", {"spec": {"taints": taints}})

    def _wait_until_ready(self) -> None:
        self._wait("kube-apiserver", lambda: self.api.request("GET", "/readyz") == b"ok")

    def _wait(self, what: str, condition: Callable[[], bool]) -> None:
        """Wait until the condition holds, or raise StartError as soon as a program has ended."""
        deadline = time.monotonic() + READY_WITHIN_SECONDS
        while True:
            with contextlib.suppress(OSError, ApiServerError):
                if condition():
                    return
            self._check_ports()
            self.check()
            if time.monotonic() > deadline:
                tail = self.process("kube-apiserver").log_tail()
                raise StartError(
                    f"{what} was not ready in {READY_WITHIN_SECONDS:.0f} s; the API server's log ends:\n{tail}"
                )
            time.sleep(0.05)

    def _check_ports(self) -> None:
        server = self.process("kube-apiserver")
        if not server.is_running and "address already in use" in server.log_tail():
            raise _PortTakenError(f"port {self._state.port} was taken by somebody else; its log {server.log}")

    def _discard(self, *, keep_logs: bool) -> None:
        state, self._running = self._running, None
        if state is None:
            return
        state.processes.stop_all()
        shutil.rmtree(state.scratch, ignore_errors=True)
        if not keep_logs and self._given_folder is None:
            shutil.rmtree(state.folder, ignore_errors=True)


class _RunningServers:
    """What exists between start and stop."""

    def __init__(
        self, folder: Path, scratch: Path, binaries: Binaries, temporary: Sequence[Path], port: int = 0
    ) -> None:
        self.folder = folder
        self.scratch = scratch
        self.binaries = binaries
        self.port = port or free_port()
        self.credentials = ControlPlaneCredentials.create(folder / "pki")
        self.processes = ProcessSet(folder / "logs", scratch, temporary)
        self.api = ApiClient(
            f"https://127.0.0.1:{self.port}", self.credentials.client_context(), self.credentials.admin_token
        )
        self.written = 0

    @property
    def store(self) -> Path:
        """Return the folder that etcd keeps everything in."""
        return self.scratch / "etcd"

    @classmethod
    def create(cls, folder: Path | None, binaries: Binaries, port: int) -> _RunningServers:
        """Make the folders; a temporary one for logs and credentials when none is given."""
        scratch = _new_scratch()
        if folder is None:
            made = Path(tempfile.mkdtemp(prefix="volsched-controlplane-"))
            return cls(made, scratch, binaries, temporary=(scratch, made), port=port)
        folder.mkdir(parents=True, exist_ok=True)
        return cls(folder, scratch, binaries, temporary=(scratch,), port=port)


def _in_base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


class _PortTakenError(StartError):
    """The chosen port was free a moment ago."""


def _new_scratch() -> Path:
    """Make a folder for data: on a memory file system where there is room, as only its speed matters."""
    with contextlib.suppress(OSError):
        if shutil.disk_usage(_TMPFS).free >= _TMPFS_NEEDED_BYTES:
            return Path(tempfile.mkdtemp(prefix="volsched-", dir=_TMPFS))
    return Path(tempfile.mkdtemp(prefix="volsched-"))


def free_port() -> int:
    """Return a port of loopback that nobody listens on now."""
    for _ in range(200):
        port = random.choice(_PORTS)  # noqa: S311 - not a secret
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise StartError(f"no free port between {_PORTS.start} and {_PORTS.stop} on loopback")
