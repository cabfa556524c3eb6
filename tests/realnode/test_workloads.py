"""Every sample of `manifests/examples/workloads`, unchanged: its pods run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.realnode.cluster import PROJECT, Cluster, eventually, phase_of

SAMPLES = sorted((PROJECT / "manifests" / "examples" / "workloads").glob("*.yaml"))
PODS = {
    "deployment.yaml": (2, 0),
    "gang.yaml": (4, 0),
    "job.yaml": (3, 0),
    "pod.yaml": (1, 0),
    "queue.yaml": (2, 1),
    "volcano-job.yaml": (3, 0),
}
"""How many run, and how many wait, where there is room."""
CORES = {"queue.yaml": 2}
"""Of a sample whose pods ask for a whole core each: how many run."""


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_the_pods_of_a_sample_run(installed: Cluster, sample: Path) -> None:
    with installed.namespace(f"sample-{sample.stem}") as namespace:
        running, waiting = PODS[sample.name]
        lacking = max(0, CORES.get(sample.name, 0) - installed.free_cpu() // 1000)  # on a small machine
        installed.kubectl("apply", "-n", namespace, "-f", str(sample))

        def phases() -> tuple[int, int]:
            found = [phase_of(pod) for pod in installed.list("pods", namespace)]
            return sum(phase in ("Running", "Succeeded") for phase in found), found.count("Pending")

        eventually(lambda: phases() == (running - lacking, waiting + lacking))
    installed.kubectl("delete", "-f", str(sample), "--ignore-not-found", "-n", namespace)


def test_who_waits_says_why(installed: Cluster) -> None:
    """As docs/install.md shows it, with kubectl as it is."""
    with installed.namespace("who-waits") as namespace:
        installed.kubectl("apply", "-n", namespace, "-f", str(SAMPLES[0].parent / "queue.yaml"))
        eventually(
            lambda: (
                'queue "small"'
                in installed.kubectl("describe", "pods", "-n", namespace, "-l", "app=crawler", "--show-events")
            )
        )
    installed.kubectl("delete", "queues.scheduling.volcano.sh", "small")
