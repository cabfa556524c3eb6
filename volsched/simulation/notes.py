"""What a simulation leaves out of what a cluster would do, in words for whoever reads its result."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from volsched.controllers.grouping import min_member_of
from volsched.controllers.owners import as_owner
from volsched.model import api
from volsched.simulation.kubelets import FINISHED, not_tolerated
from volsched.simulation.manifests import subject_of
from volsched.simulation.runner import Simulation
from volsched.simulation.workloads import replicas_of

MOST_NAMES: Final = 20
_ADMISSION: Final = frozenset({"LimitRange", "ResourceQuota", "RuntimeClass"})


def notes_of(simulation: Simulation) -> list[str]:
    """Return what was left out, a sentence for each reason; nothing where the simulation is as strict as a cluster."""
    sources = (_of_others, _of_taints, _of_ends, _of_order, _of_policies, _of_admission)
    return [note for source in sources for note in source(simulation)]


def _of_others(simulation: Simulation) -> Iterator[str]:
    """Yield which workloads wait for another scheduler."""
    found = dict.fromkeys((subject_of(workload), scheduler) for workload, scheduler in simulation.world.of_others())
    if not found:
        return
    names = [f"{subject} ({scheduler or 'no name'})" for subject, scheduler in found]
    ours = ", ".join(simulation.settings.scheduler_names)
    yield f"of other schedulers, and not placed: {_listed(names)}; --scheduler-name says whose are placed, here {ours}"


def _of_taints(simulation: Simulation) -> Iterator[str]:
    """Yield which pods run where a cluster would take them off."""
    nodes = {node.key: node for node in simulation.world.inventory.of(api.Node) if node.spec.taints}
    found = [
        pod.key
        for pod in simulation.world.pods.values()
        if pod.status.phase not in FINISHED
        and (node := nodes.get(pod.spec.node_name)) is not None
        and not_tolerated(pod.spec, node) is not None
    ]
    if found:
        yield f"taints with the effect NoExecute evict nobody here; a cluster would evict {_listed(found)}"


def _of_ends(simulation: Simulation) -> Iterator[str]:
    """Yield which Jobs have more pods than are ever there, as no pod ends."""
    found = [
        subject_of(job)
        for job in simulation.world.inventory.of(api.BatchJob)
        if (job.spec.completions or 1) > (1 if job.spec.parallelism is None else job.spec.parallelism)
    ]
    if found:
        yield f"no pod ends here, so the pods that follow others do not come: those of {_listed(found)}"


def _of_order(simulation: Simulation) -> Iterator[str]:
    """Yield which StatefulSets are gangs whose pods a cluster would make one after the other."""
    found = [
        subject_of(workload)
        for workload in simulation.world.inventory.of(api.StatefulSet)
        if workload.spec.pod_management_policy != "Parallel"
        and (workload.spec.template.spec.scheduler_name or api.DEFAULT_SCHEDULER) in simulation.settings.scheduler_names
        and replicas_of(workload) > 1 < min_member_of(workload.metadata.annotations)
    ]
    if found:
        yield f"pods of StatefulSets come at once here; a cluster would make the gang of {_listed(found)} one by one"


def _of_admission(simulation: Simulation) -> Iterator[str]:
    """Yield which objects of the input the API server would heed when pods are made."""
    counts = simulation.world.inventory.left_out.counts.values()
    found = sorted({kind for counted in counts for kind in counted} & _ADMISSION)
    if found:
        may = "the API server may refuse pods, or have them ask for more"
        yield f"{' and '.join(found)}: not heeded here; {may}"


def _of_policies(simulation: Simulation) -> Iterator[str]:
    """Yield which Volcano Jobs lost a pod and have policies, which might answer that."""
    jobs = [job for job in simulation.world.inventory.of(api.Job) if _has_policies(job)]
    found = [subject_of(job) for job in jobs if as_owner(job) in simulation.world.history.bereaved]
    if found:
        yield f"policies of Volcano Jobs are not carried out here; pods were evicted of {_listed(found)}"


def _has_policies(job: api.Job) -> bool:
    return bool(job.spec.policies) or any(task.policies for task in job.spec.tasks)


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more
