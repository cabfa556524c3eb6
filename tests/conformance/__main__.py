"""Kubernetes' own end-to-end specs about scheduling, with volsched in kube-scheduler's place.

python -m tests.conformance                    # [sig-scheduling] and those of DRA, some 25 minutes
python -m tests.conformance --focus Preempt    # those whose names match
python -m tests.conformance --native-gangs     # those of PodGroups, Workloads and Jobs that become gangs

The suite (``k8s.io/kubernetes/test/e2e``) is built once from Go modules into the cache of the control plane's programs,
about ten minutes on two cores. Nodes are KWOK's, so containers do not run; specs that need a kubelet are not in focus.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.cluster.native.stage import API_FLAGS, GATES
from tools.controlplane import ControlPlane, a_binding, a_node
from tools.controlplane.binaries import (
    KUBERNETES_VERSION,
    GoModule,
    build_program,
    cache_root,
    go_arch,
    print_progress,
)
from tools.controlplane.stages import COPY_CAPACITY

SPECS = r"\[sig-scheduling\]|\[DRA\] control plane|\[DRA\] ResourceSlice Controller"
NATIVE_SPECS = r"Workload API availability|PodGroup API availability|create Workload and PodGroup"
GENERAL_LABELS = "!Feature: containsAny OffByDefault"
"""Labels of specs that need no gate."""
NODES, ZONES = 4, 2
AGENT = "kube-proxy-fluentd-elasticsearch-node-problem-detector"
"""Names that the suite takes for the system pods that it waits for on every node."""

MODULE = GoModule(
    name="e2e", requirement="k8s.io/kubernetes", version=KUBERNETES_VERSION, commands={}, stamps={}, staged=True
)


def build_suite() -> Path:
    """Return the suite's program, built first when it is not there."""
    folder = cache_root() / f"e2e-k8s-{KUBERNETES_VERSION}-{go_arch()}"
    package, what = "k8s.io/kubernetes/test/e2e", f"Kubernetes' end-to-end suite {KUBERNETES_VERSION}"
    return build_program(MODULE, package, folder / "e2e.test", what, print_progress, verb=("test", "-c"))


@contextmanager
def a_cluster(*, native_gangs: bool) -> Iterator[ControlPlane]:
    """A control plane with nodes in two zones, and on each a system pod that the suite expects."""
    gates, flags = (GATES, API_FLAGS) if native_gangs else (None, ())
    with ControlPlane(feature_gates=gates, api_flags=flags) as cluster:
        labels = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
        region = {"topology.kubernetes.io/region": "region-1"}
        cluster.create_nodes(
            [
                _like_a_kubelets(
                    a_node(
                        f"node-{i}",
                        cpu="8",
                        memory="32Gi",
                        labels={**labels, **region, "topology.kubernetes.io/zone": f"zone-{i % ZONES}"},
                    ),
                    f"10.1.0.{10 + i}",
                )
                for i in range(NODES)
            ]
        )
        for i in range(NODES):
            pods = "/api/v1/namespaces/kube-system/pods"
            made = cluster.api.create(pods, _agent(f"{AGENT}-{i}"))
            cluster.api.create(f"{pods}/{AGENT}-{i}/binding", a_binding(made, f"node-{i}"))
        yield cluster


def _like_a_kubelets(node: dict[str, Any], address: str) -> dict[str, Any]:
    """The specs look for a node's address, and write extended resources into its capacity."""
    node["metadata"]["annotations"] = {COPY_CAPACITY: "true"}
    node["status"]["addresses"] = [
        {"type": "InternalIP", "address": address},
        {"type": "Hostname", "address": node["metadata"]["name"]},
    ]
    return node


def _agent(name: str) -> dict[str, Any]:
    spec = {
        "schedulerName": "none",
        "priorityClassName": "system-node-critical",
        "tolerations": [{"operator": "Exists"}],
        "containers": [{"name": "agent", "image": "agent"}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


@contextmanager
def a_scheduler(cluster: ControlPlane, log: Path) -> Iterator[None]:
    """Run volsched as default-scheduler."""
    flags = ["--kubeconfig", str(cluster.kubeconfig), "--scheduler-name", "default-scheduler"]
    flags += ["--listen-address", "127.0.0.1:0", "--healthz-address", ""]
    with log.open("wb") as output:
        process = subprocess.Popen([sys.executable, "-m", "volsched", "run", *flags], stdout=output, stderr=output)
        try:
            yield
        finally:
            process.terminate()
            process.wait(30)


def run_suite(program: Path, cluster: ControlPlane, focus: str, labels: str, folder: Path) -> list[dict[str, Any]]:
    """Run the specs whose names and labels match and return their reports."""
    report = folder / "report.json"
    command = [
        str(program),
        f"--kubeconfig={cluster.kubeconfig}",
        "--provider=skeleton",
        f"--kubectl-path={cluster.binaries['kubectl']}",
        "--ginkgo.timeout=45m",
        "--ginkgo.no-color",
        f"--ginkgo.json-report={report}",
        f"--ginkgo.label-filter={labels}",
        f"--ginkgo.focus={focus}",
        "--dump-logs-on-failure=false",
        "--disable-log-dump",
        f"--e2e-output-dir={folder}",
    ]
    with (folder / "suite.log").open("wb") as output:
        subprocess.run(command, cwd=folder, stdout=output, stderr=output, stdin=subprocess.DEVNULL, check=False)
    specs = json.loads(report.read_text())[0]["SpecReports"] or []
    return [spec for spec in specs if spec["LeafNodeType"] == "It" and spec["State"] not in ("skipped", "pending")]


def show(specs: Sequence[dict[str, Any]]) -> int:
    """Print a table and return how many specs failed."""
    failed = 0
    for spec in specs:
        name = " ".join([text for text in spec["ContainerHierarchyTexts"] or [] if text] + [spec["LeafNodeText"]])
        good = spec["State"] == "passed"
        failed += not good
        sys.stdout.write(f"{'pass' if good else 'FAIL':4}  {spec['RunTime'] / 1e9:6.1f} s  {name}\n")
        if not good:
            sys.stdout.write(f"      {(spec.get('Failure') or {}).get('Message', '')[:400]}\n")
    sys.stdout.write(f"{len(specs) - failed}/{len(specs)} specs pass\n")
    return failed


def main() -> int:
    """Build, run, print; exit status 1 when a spec failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--focus", default="", help="regular expression on the names of these specs")
    parser.add_argument("--native-gangs", action="store_true", help="with Kubernetes' own gangs turned on, their specs")
    parser.add_argument("--folder", type=Path, help="where logs and reports go (default: a new temporary folder)")
    chosen = parser.parse_args()
    program = build_suite()
    folder = chosen.folder or Path(tempfile.mkdtemp(prefix="volsched-conformance-"))
    folder.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    names, labels = (NATIVE_SPECS, "") if chosen.native_gangs else (SPECS, GENERAL_LABELS)
    with a_cluster(native_gangs=chosen.native_gangs) as cluster, a_scheduler(cluster, folder / "volsched.log"):
        specs = run_suite(program, cluster, rf"({names}).*({chosen.focus})", labels, folder)
    failed = show(specs)
    sys.stdout.write(f"{time.monotonic() - began:.0f} s; logs in {folder}\n")
    return 1 if failed or not specs else 0


if __name__ == "__main__":
    raise SystemExit(main())
