"""How long `volsched explain` takes on a real control plane, with and without the search for what would help.

Nodes have eight cards, and pods are gangs of eight with a card each: those for which there is room are bound, the
others wait. The last gang is asked about. The time is that of the whole command, its start and the reading of the
cluster included; so is the CPU time, with that of the trials of what would help, and without the API server's. The
command has its modules compiled, as pip leaves them: it is run once before.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from bench import live
from bench.common import Report, Stopwatch, parser
from tools.controlplane import ControlPlane
from volsched.framework.config.loading import DEFAULT_CONFIGURATION

GANG: Final = 8
NAMESPACE: Final = "asked"
_GROUPS: Final = f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{NAMESPACE}/podgroups"


def main() -> None:
    """Run the bench."""
    flags = parser(__doc__)
    flags.add_argument("--nodes", type=int, default=1000, help="how many nodes there are (default: 1000)")
    flags.add_argument("--pods", type=int, default=10_000, help="how many pods there are (default: 10000)")
    given = flags.parse_args()
    report = Report("explain", "seconds of volsched explain, with and without the search for what would help")
    with live.control_plane() as cluster, tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "asked.conf")
        config.write_text(DEFAULT_CONFIGURATION)
        environment = _compiled(Path(folder, "compiled"))
        _fill(cluster, given.nodes, given.pods)
        last = (given.pods - 1) // GANG
        _explain(cluster, config, last, 10, environment)  # compiles what the command imports
        for seconds in (0, 10):
            watch, cpu = Stopwatch(), _cpu_of_children()
            status = _explain(cluster, config, last, seconds, environment)
            figures = {"seconds": watch.wall(), "cpu": _cpu_of_children() - cpu, "status": status}
            report.add(nodes=given.nodes, pods=given.pods, help_seconds=seconds, **figures)
    report.finish()


def _fill(cluster: ControlPlane, nodes: int, pods: int) -> None:
    live.make_nodes(cluster, nodes)
    live.make_namespace(cluster, NAMESPACE)
    head = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup"}
    spec = {"minMember": GANG, "queue": "default"}
    names = [f"gang-{number:04}" for number in range(-(-pods // GANG))]
    cluster.api.create_many(_GROUPS, [{**head, "metadata": {"name": name}, "spec": spec} for name in names])
    made = live.pods_of("volsched", pods, GANG)
    for place, pod in enumerate(made[: nodes * GANG]):
        pod["spec"]["nodeName"] = f"node-{place // GANG:05}"
    cluster.api.create_many(f"/api/v1/namespaces/{NAMESPACE}/pods", made)


def _cpu_of_children() -> float:
    """Return CPU seconds of all processes that were waited for, and of those that they waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _compiled(folder: Path) -> dict[str, str]:
    """Return an environment in which modules are compiled once, into a folder."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPYCACHEPREFIX": str(folder)}


def _explain(cluster: ControlPlane, config: Path, gang: int, help_seconds: int, environment: dict[str, str]) -> int:
    """Ask about a gang, and return the exit status: 3 is that it waits."""
    command = [sys.executable, "-m", "volsched", "explain", "podgroup", f"gang-{gang:04}", "-n", NAMESPACE]
    given = ["--kubeconfig", str(cluster.kubeconfig), "--config", str(config), f"--help-seconds={help_seconds}"]
    done = subprocess.run([*command, *given], check=False, stdout=subprocess.DEVNULL, env=environment)
    return done.returncode


if __name__ == "__main__":
    main()
