"""What runs inside the namespaces: a control plane with kube-scheduler, and a node of containerd and kubelet.

No kube-proxy: the address of the Service `kubernetes` is one of the node's own, where the API server listens, and the
API server reaches webhooks by the addresses of their pods (`--enable-aggregator-routing`).

What was found out about machines like these: kubelet 1.36 runs on cgroup v1 only with `failCgroupV1: false`; without
CAP_SYS_RESOURCE nobody may lower an OOM score (`oomScoreAdj: 0`, `restrict_oom_score_adj`).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import trustme

from tools.controlplane import ControlPlane
from tools.controlplane.binaries import NODE_PROGRAMS, PROGRAMS, find_binaries
from tools.controlplane.credentials import SERVICE_ADDRESS
from tools.controlplane.errors import ApiServerError, StartError
from tools.controlplane.processes import ProcessSet
from tools.realnode.images import PAUSE

NAME: Final = "node-1"
ADDRESS: Final = "10.10.0.2"
PODS: Final = "10.244.0.0/24"
CGROUP: Final = "volsched-real-node"
"""The folder in each cgroup hierarchy that all pods are in."""

CDI: Final = Path("/run/cdi")
"""Where drivers state what a device is inside a container."""

READY_SECONDS: Final = 240.0
LEASE_SECONDS: Final = 20
"""A node that is silent for so long is not ready."""

_CGROUPS: Final = Path("/sys/fs/cgroup")
CONTAINERD: Final = Path("/run/containerd/containerd.sock")


@dataclass(frozen=True)
class Ready:
    """What whoever enters needs to know; kept in ``ready.json``."""

    kubeconfig: str
    programs: str
    """Folders for PATH."""

    @property
    def environment(self) -> dict[str, str]:
        """Variables with which kubectl speaks to this cluster."""
        return {"KUBECONFIG": self.kubeconfig, "VOLSCHED_REAL_NODE": self.kubeconfig}


class RealNode:
    """One node and its control plane, until `stop`."""

    def __init__(self, folder: Path, archives: Iterable[Path]) -> None:
        self._folder = folder
        self._archives = tuple(archives)
        self._keys = folder / "keys"
        self._binaries = find_binaries((*PROGRAMS, *NODE_PROGRAMS), build=False)
        self._processes = ProcessSet(folder / "logs", Path("/run"), ())
        self._control_plane = ControlPlane(
            folder=folder,
            binaries=self._binaries,
            kwok=False,
            node_lease_seconds=LEASE_SECONDS,
            port=443,
            checks_policies=True,
            api_flags=self._api_flags(),
        )

    def start(self) -> Ready:
        """Bring everything up, and return when the node is Ready."""
        _mount()
        _make_network()
        make_cgroups()
        self._write_keys()
        self._start_containerd()
        self._control_plane.start()
        self._control_plane.start_kube_scheduler()  # it places volsched's own pods
        self._start_kubelet()
        _until("the node is Ready", self._is_ready, self.check)
        folders = {Path(path).parent for path in (self._binaries["kubectl"], shutil.which("ctr")) if path}
        return Ready(str(self._control_plane.kubeconfig), ":".join(map(str, folders)))

    def check(self) -> None:
        """Raise StartError when a program has ended by itself."""
        self._processes.check()
        self._control_plane.check()

    def stop(self) -> None:
        """End everything."""
        self._processes.stop_all()
        self._control_plane.stop()

    # -- keys ---------------------------------------------------------------------------------------------------------

    def _api_flags(self) -> list[str]:
        keys = self._keys
        return [
            "--bind-address=0.0.0.0",
            f"--advertise-address={ADDRESS}",
            "--enable-aggregator-routing",
            "--enable-admission-plugins=NodeRestriction",
            f"--client-ca-file={keys}/ca.crt",
            f"--kubelet-client-certificate={keys}/client.crt",
            f"--kubelet-client-key={keys}/client.key",
            f"--kubelet-certificate-authority={keys}/ca.crt",
            "--kubelet-preferred-address-types=InternalIP",
        ]

    def _write_keys(self) -> None:
        """An authority for who speaks with the kubelet, and as whom the kubelet speaks."""
        self._keys.mkdir(mode=0o700, parents=True, exist_ok=True)
        authority = trustme.CA(organization_name="volsched real node")
        authority.cert_pem.write_to_path(str(self._keys / "ca.crt"))
        for name, made in {
            "client": authority.issue_cert(
                "kubelet-client", common_name="kubelet-client", organization_name="system:masters"
            ),
            "kubelet": authority.issue_cert(NAME, ADDRESS, common_name=NAME),
            "node": authority.issue_cert(NAME, common_name=f"system:node:{NAME}", organization_name="system:nodes"),
        }.items():
            (self._keys / f"{name}.crt").write_bytes(b"".join(blob.bytes() for blob in made.cert_chain_pems))
            made.private_key_pem.write_to_path(str(self._keys / f"{name}.key"))
            (self._keys / f"{name}.key").chmod(0o600)

    # -- containerd ---------------------------------------------------------------------------------------------------

    def _start_containerd(self) -> None:
        network = Path("/run/cni")
        network.mkdir()
        (network / "pods.conflist").write_text(json.dumps(_pod_network()))
        settings = Path("/run/containerd.toml")
        settings.write_text(
            f"""\
version = 3
root = "{self._folder}/containerd"
state = "/run/containerd"
[grpc]
address = "{CONTAINERD}"
[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{PAUSE}"
[plugins."io.containerd.cri.v1.runtime"]
restrict_oom_score_adj = true
enable_cdi = true
cdi_spec_dirs = ["{CDI}"]
[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["/usr/lib/cni"]
conf_dir = "{network}"
"""
        )
        self._processes.start("containerd", ["containerd", "--config", settings])
        control = ["ctr", "--address", str(CONTAINERD), "--namespace", "k8s.io"]
        _until("containerd answers", lambda: _succeeds([*control, "version"]), self._processes.check)
        for archive in self._archives:
            _run([*control, "images", "import", str(archive)])

    # -- kubelet ------------------------------------------------------------------------------------------------------

    def _start_kubelet(self) -> None:
        settings, kubeconfig = Path("/run/kubelet.json"), Path("/run/kubelet.kubeconfig")
        settings.write_text(json.dumps(self._kubelet_settings()))
        kubeconfig.write_text(json.dumps(self._kubelet_credentials()))
        self._processes.start(
            "kubelet",
            [
                *(self._binaries["kubelet"], f"--config={settings}", f"--kubeconfig={kubeconfig}", "--cert-dir=/run"),
                *(f"--hostname-override={NAME}", f"--node-ip={ADDRESS}"),
            ],
        )

    def _kubelet_settings(self) -> dict[str, Any]:
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "failCgroupV1": False,
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{CGROUP}",
            "oomScoreAdj": 0,
            "containerRuntimeEndpoint": f"unix://{CONTAINERD}",
            "clusterDNS": ["10.0.0.10"],
            "resolvConf": "/run/resolv.conf",
            "podLogsDir": "/run/pod-logs",
            "volumePluginDir": "/run/volume-plugins",
            "staticPodPath": "/run/static-pods",
            "evictionHard": {"memory.available": "100Mi"},
            "imageGCHighThresholdPercent": 100,
            "authentication": {"x509": {"clientCAFile": f"{self._keys}/ca.crt"}, "anonymous": {"enabled": False}},
            "tlsCertFile": f"{self._keys}/kubelet.crt",
            "tlsPrivateKeyFile": f"{self._keys}/kubelet.key",
        }

    def _kubelet_credentials(self) -> dict[str, Any]:
        server = {
            "server": self._control_plane.url,
            "certificate-authority": str(self._control_plane.credentials.ca_file),
        }
        user = {"client-certificate": f"{self._keys}/node.crt", "client-key": f"{self._keys}/node.key"}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "node", "cluster": server}],
            "users": [{"name": "node", "user": user}],
            "contexts": [{"name": "node", "context": {"cluster": "node", "user": "node"}}],
            "current-context": "node",
        }

    def _is_ready(self) -> bool:
        try:
            found = self._control_plane.api.find(f"/api/v1/nodes/{NAME}")
        except ApiServerError:
            return False
        conditions = found["status"].get("conditions", []) if found else []
        return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


# -- the machine inside ------------------------------------------------------------------------------------------------


def _mount() -> None:
    """Have what is written on the way be of this node alone."""
    _run(["mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run"])
    for place in ("/var/lib", "/opt"):
        layer = Path("/run/layers") / place.strip("/").replace("/", "-")
        for part in ("upper", "work"):
            (layer / part).mkdir(parents=True)
        options = f"lowerdir={place},upperdir={layer}/upper,workdir={layer}/work"
        _run(["mount", "-t", "overlay", "overlay", "-o", options, place])
    for place in ("/var/log", "/dev/shm"):  # noqa: S108 - of this node alone
        _run(["mount", "-t", "tmpfs", "tmpfs", place])
    for folder in ("/var/lib/kubelet", "/run/static-pods", CDI):
        Path(folder).mkdir(parents=True, exist_ok=True)
    _run(["mount", "-t", "tmpfs", "tmpfs", "/var/lib/kubelet"])
    _run(["mount", "--make-rshared", "/var/lib/kubelet"])
    with contextlib.suppress(StartError):  # on cgroup v1 it would be taken for the whole
        if (_CGROUPS / "unified").is_dir():
            _run(["umount", str(_CGROUPS / "unified")])
    _run(["hostname", NAME])
    Path("/run/resolv.conf").write_text("nameserver 127.0.0.1\n")


def _make_network() -> None:
    for line in (
        "link set lo up",
        f"address add {SERVICE_ADDRESS}/32 dev lo",
        "link add node0 type veth peer name node0p",
        f"address add {ADDRESS}/24 dev node0",
        "link set node0 up",
        "link set node0p up",
        "route add default via 10.10.0.1 dev node0 onlink",
    ):
        _run(["ip", *line.split()])
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")


def _pod_network() -> dict[str, Any]:
    addresses = {"type": "host-local", "dataDir": "/run/cni-addresses", "ranges": [[{"subnet": PODS}]]}
    bridge = {"type": "bridge", "bridge": "cni0", "isGateway": True, "hairpinMode": True}
    everywhere = {"routes": [{"dst": "0.0.0.0/0"}]}
    return {"cniVersion": "0.4.0", "name": "pods", "plugins": [bridge | {"ipam": addresses | everywhere}]}


def _hierarchies() -> list[Path]:
    """Return where a folder makes a cgroup: each hierarchy of version 1, or the one of version 2."""
    if (_CGROUPS / "cgroup.controllers").exists():
        return [_CGROUPS]
    return [path for path in sorted(_CGROUPS.iterdir()) if path.name != "unified" and path.is_dir()]


def make_cgroups() -> None:
    """Make the folder that all pods are in."""
    for hierarchy in _hierarchies():
        made = hierarchy / CGROUP
        made.mkdir(exist_ok=True)
        for name in ("cpuset.cpus", "cpuset.mems"):  # version 1 does not inherit them
            if (made / name).exists() and not (made / name).read_text().strip():
                (made / name).write_text((hierarchy / name).read_text())


def remove_cgroups() -> None:
    """Remove the folder and all in it, once nothing runs there any more."""
    for hierarchy in _hierarchies():
        top = hierarchy / CGROUP
        for folder, _, _ in os.walk(top, topdown=False):
            _until(f"{folder} is empty", lambda folder=folder: _removed(Path(folder)), lambda: None, 20.0)  # type: ignore[misc]


def _removed(folder: Path) -> bool:
    try:
        folder.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


# -- running -----------------------------------------------------------------------------------------------------------


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own command line
    if done.returncode != 0:
        raise StartError(f"{' '.join(command)} failed with status {done.returncode}: {done.stderr.strip()}")


def _succeeds(command: Sequence[str]) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0  # noqa: S603 - our own command line


def _until(what: str, holds: Callable[[], bool], check: Callable[[], None], seconds: float = READY_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        check()
        if time.monotonic() > deadline:
            raise StartError(f"not in {seconds:g} s: {what}")
        time.sleep(0.1)


def main() -> int:
    """Bring a node up, note that in ``ready.json``, and run until a signal; one that does not come up states why."""
    parser = argparse.ArgumentParser(prog=f"python -m {__spec__.name}", description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="where its state and logs are")
    parser.add_argument("archives", type=Path, nargs="*", help="images to import")
    given = parser.parse_args()
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    node = RealNode(given.folder, given.archives)
    try:
        ready = node.start()
        unfinished = given.folder / "ready.new"
        unfinished.write_text(json.dumps({"kubeconfig": ready.kubeconfig, "programs": ready.programs}))
        unfinished.rename(given.folder / "ready.json")
        while not ended.wait(1.0):
            node.check()
    except StartError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    finally:
        node.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
