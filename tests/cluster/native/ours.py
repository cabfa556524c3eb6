"""volsched on a control plane that serves Kubernetes' own gangs."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.cluster.scheduling import ACCOUNT, QUICK_LEASE, SYSTEM, SchedulerProcess
from volsched.testing.controlplane import ControlPlane

DIRECT: Final = ("--plain-pods", "direct")
QUOTAS: Final = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: predicates
  - name: capacity
"""


def start_ours(cluster: ControlPlane, folder: Path, name: str, text: str, *flags: str) -> SchedulerProcess:
    """Start volsched for pods of a scheduler name, with the text of a configuration."""
    folder.mkdir(exist_ok=True)
    configuration = folder / "volsched.conf"
    configuration.write_text(text)
    flags = ("--scheduler-name", name, "--scheduler-conf", str(configuration), *flags)
    kubeconfig = cluster.kubeconfig_for(ACCOUNT, SYSTEM)
    process = SchedulerProcess(kubeconfig, folder / "log", *flags, *QUICK_LEASE)
    process.wait_for("everything is listed")
    return process
