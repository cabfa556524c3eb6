"""What a simulation leaves out of what a cluster would do, in words for whoever reads its result."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from volsched.controllers.owners import as_owner
from volsched.model import api
from volsched.simulation.kubelets import FINISHED, not_tolerated
from volsched.simulation.manifests import subject_of
from volsched.simulation.runner import Simulation

MOST_NAMES: Final = 20


def notes_of(simulation: Simulation) -> list[str]:
    """Return what was left out, a sentence for each reason; nothing where the simulation is as strict as a cluster."""
    return [*_of_others(simulation), *_of_taints(simulation), *_of_ends(simulation), *_of_policies(simulation)]


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
