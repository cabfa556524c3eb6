"""A real control plane for tests: etcd, kube-apiserver, kube-controller-manager and KWOK and a fault proxy.

    with ControlPlane() as cluster:
        cluster.create_nodes([a_node("n1", cpu="8")])
        cluster.kubectl("apply", "-f", "-", stdin=manifest)

``python -m tools.controlplane up`` leaves one running in the background.
"""

from tools.controlplane.beginnings import Manifests
from tools.controlplane.binaries import Binaries, find_binaries
from tools.controlplane.client import ApiClient
from tools.controlplane.errors import ApiServerError, BuildError, ControlPlaneError, KubectlError, StartError
from tools.controlplane.objects import a_binding, a_node, a_pod
from tools.controlplane.plane import ControlPlane
from tools.controlplane.stages import FAIL_AFTER, RUN_FOR, START_AFTER, STOP_AFTER

__all__ = [
    "FAIL_AFTER",
    "RUN_FOR",
    "START_AFTER",
    "STOP_AFTER",
    "ApiClient",
    "ApiServerError",
    "Binaries",
    "BuildError",
    "ControlPlane",
    "ControlPlaneError",
    "KubectlError",
    "Manifests",
    "StartError",
    "a_binding",
    "a_node",
    "a_pod",
    "find_binaries",
]
