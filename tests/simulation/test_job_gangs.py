"""Indexed Jobs as the Job controller runs them with the gate WorkloadWithJob."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.calls import call, text_of
from tests.simulation.clusters import Manifest, node
from volsched.simulation.job_gangs import with_job_gangs
from volsched.simulation.manifests import completed, decode


def a_job(size: int = 3, *, spec: dict[str, Any] | None = None, status: dict[str, Any] | None = None) -> Manifest:
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    pod = {"schedulerName": "volsched", "restartPolicy": "Never", "containers": [container]}
    counts = {"completionMode": "Indexed", "completions": size, "parallelism": size}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "sweep", "namespace": "default"},
        "spec": {**counts, "template": {"spec": pod}, **(spec or {})},
        "status": status or {},
    }


def placed(cpu: str, *flags: str) -> int:
    """How many pods of a Job of three find a place on a node of so many cpus."""
    answer = call("simulate", "-f", "-", "-o", "json", *flags, given=text_of(node("n", cpu=cpu), a_job()))
    return len(json.loads(answer.stdout)["binds"])


def test_a_job_runs_whole_or_not_at_all() -> None:
    assert placed("2") == 2
    assert placed("2", "--workload-with-job") == 0
    assert placed("3", "--workload-with-job") == 3


@pytest.mark.parametrize(
    "job",
    [
        a_job(1),
        a_job(spec={"completionMode": "NonIndexed"}),
        a_job(spec={"completions": 6}),
        a_job(status={"startTime": "2026-01-01T00:00:00Z"}),
    ],
    ids=["one pod", "not Indexed", "not all at a time", "started"],
)
def test_other_jobs_stay_as_they_are(job: Manifest) -> None:
    found = completed(decode(job))
    assert list(with_job_gangs([found])) == [found]


def test_a_job_whose_pods_name_a_group_keeps_it() -> None:
    job = a_job()
    job["spec"]["template"]["spec"]["schedulingGroup"] = {"podGroupName": "g"}
    found = completed(decode(job))
    assert list(with_job_gangs([found])) == [found]
