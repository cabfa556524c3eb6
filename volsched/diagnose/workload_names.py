"""Names of workloads. A generated PodGroup is called after a uid, so people are shown the workload that it is for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Final, NamedTuple, TypeVar

from volsched.diagnose.records import WaitingJob
from volsched.model.job import LONE, NATIVE, JobInfo

_HASH: Final = "pod-template-hash"
"""The label by which a Deployment tells the pods of its ReplicaSets apart."""

Row = TypeVar("Row")


class WorkloadName(NamedTuple):
    """``name`` is ``Kind/name``. ``replica_set`` is the name of the ReplicaSet of a Deployment, else empty."""

    name: str
    replica_set: str = ""

    @property
    def full(self) -> str:
        """Return the name with the ReplicaSet."""
        return f"{self.name} (ReplicaSet/{self.replica_set})" if self.replica_set else self.name


def workload_of(job: JobInfo) -> WorkloadName:
    """Return the controller of a job's PodGroup, or its bare pod; without either the PodGroup itself."""
    owner = job.spec.owner
    if not owner:
        return WorkloadName(workload_without_owner(job.name))
    kind, _, name = owner.partition("/")
    if kind == "ReplicaSet":
        task = next(iter(job.tasks.values()), None)
        template = task.spec.labels.get(_HASH, "") if task is not None else ""
        deployment = name.removesuffix(f"-{template}")
        if template and deployment != name:
            return WorkloadName(f"Deployment/{deployment}", name)
    return WorkloadName(owner)


def with_workload(job: JobInfo, text: str) -> str:
    """Return a text about a job that names its workload where it names the job's PodGroup."""
    if not job.spec.owner or job.group_name not in text:
        return text
    name = workload_of(job).name
    return text.replace(f'PodGroup "{job.label}"', name).replace(f"podgroup {job.label}", name)


def is_called(job: JobInfo, kind: str, name: str) -> bool:
    """True if a job is that of a workload. ``kind`` is in lower case. A ReplicaSet's job is its Deployment's too."""
    names = (workload_of(job).name, job.spec.owner)
    return any(found.lower() == f"{kind}/{name}" and found.endswith(f"/{name}") for found in names)


def workload_without_owner(name: str) -> str:
    """Return the workload of a job whose PodGroup has no controller, by the name of the job."""
    if name.startswith(LONE):
        return f"Pod/{name.removeprefix(LONE)}"
    return f"PodGroup/{name.removeprefix(NATIVE)}"


def names_of(jobs: Sequence[WaitingJob]) -> list[str]:
    """Return the name of each job's workload, distinguished within its namespace."""
    return distinguished(jobs, lambda job: job.namespace, lambda job: WorkloadName(job.workload, job.replica_set))


def distinguished(
    rows: Iterable[Row], place: Callable[[Row], Hashable], workload: Callable[[Row], WorkloadName]
) -> list[str]:
    """Return the name of each row's workload. Equal names in one place (a namespace) have the ReplicaSet added."""
    named = [(place(row), workload(row)) for row in rows]
    counts = Counter((where, found.name) for where, found in named)
    return [found.full if counts[where, found.name] > 1 else found.name for where, found in named]
