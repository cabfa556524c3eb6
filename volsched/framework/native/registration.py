"""The rules of Kubernetes' own gangs. They hold in every configuration, so no pod is placed with a rule left out.

They are registered before those of the plugins, in sessions of clusters that have such groups, and decide nothing about
other jobs.
"""

from __future__ import annotations

from volsched.framework.callbacks import ABSTAIN, Ballot, Vote
from volsched.framework.native.gangs import invalidity
from volsched.framework.registration import Registrar
from volsched.framework.rules import JobPipelined, JobReady, JobValid, never
from volsched.model.job import JobInfo


def register(registrar: Registrar) -> None:
    """Register the rules, if the cluster has a native group at all."""
    if registrar.cluster.native_jobs:
        registrar.register(JobValid(invalidity), JobReady(_is_ready, for_each_pod=never), JobPipelined(_may_wait))


def _is_ready(job: JobInfo) -> bool:
    return job.spec.native is None or job.is_ready


def _may_wait(job: JobInfo) -> Ballot:
    return ABSTAIN if job.spec.native is None or job.is_pipelined else Ballot(Vote.REJECT)
