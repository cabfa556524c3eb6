"""Differences between a simulation and a cluster, in sentences for users."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from volsched.controllers.grouping import min_member_of
from volsched.controllers.owners import as_owner
from volsched.framework.validation import WORKLOADS, Surroundings
from volsched.model import api
from volsched.simulation.api_server import claim_keys
from volsched.simulation.kubelet_checks import unsafe_sysctls
from volsched.simulation.kubelets import FINISHED, not_tolerated
from volsched.simulation.manifests import subject_of
from volsched.simulation.runner import Simulation
from volsched.simulation.workloads import replicas_of, stateful_names
from volsched.validation.objects import kind_faults

MOST_NAMES: Final = 20
_ADMISSION: Final = frozenset({"LimitRange", "ResourceQuota", "RuntimeClass"})


def notes_of(simulation: Simulation) -> list[str]:
    """Return the differences, a sentence for each reason; nothing if the simulation is as strict as a cluster."""
    sources = (
        _of_refusals,
        _of_others,
        _of_unknown_nodes,
        _of_unknown_classes,
        _of_taints,
        _of_ends,
        _of_order,
        _of_policies,
        _of_namespaces,
        _of_attachments,
        _of_sysctls,
        _of_admission,
        _of_errors,
    )
    return [note for source in sources for note in source(simulation)]


def _of_others(simulation: Simulation) -> Iterator[str]:
    """Yield which workloads wait for another scheduler."""
    found = dict.fromkeys(
        (subject_of(workload), scheduler) for workload, scheduler in simulation.api_server.of_others()
    )
    if not found:
        return
    names = [f"{subject} ({scheduler or 'no name'})" for subject, scheduler in found]
    ours = ", ".join(simulation.settings.scheduler_names)
    yield f"of other schedulers, and not placed: {_listed(names)}; --scheduler-name says whose are placed, here {ours}"


def _of_refusals(simulation: Simulation) -> Iterator[str]:
    """Yield whose pods kubelets refused that were bound to their nodes."""
    refusals = simulation.api_server.history.refusals
    found = Counter((_workload_of(simulation, pod), reason) for pod, reason in refusals)
    if found:
        times = {number: f", {number} times" if number > 1 else "" for number in found.values()}
        listed = [f"{subject} ({reason}{times[number]})" for (subject, reason), number in found.items()]
        yield f"kubelets refused pods that were bound to their nodes, and these have failed: {_listed(listed)}"


def _of_unknown_nodes(simulation: Simulation) -> Iterator[str]:
    """Yield which pods are on nodes that are not there."""
    nodes = {node.key for node in simulation.api_server.inventory.of(api.Node)}
    found = [pod.key for pod in _alive(simulation) if pod.spec.node_name and pod.spec.node_name not in nodes]
    if found:
        yield f"on nodes that are not in the input, and counted for their queues alone: {_listed(found)}"


def _of_unknown_classes(simulation: Simulation) -> Iterator[str]:
    """Yield which pods name a PriorityClass that there is not, and no number."""
    classes = {known.metadata.name for known in simulation.api_server.inventory.of(api.PriorityClass)}
    named = ((pod, pod.spec.priority_class_name) for pod in _new(simulation) if pod.spec.priority is None)
    found = dict.fromkeys(
        f"{name} ({_workload_of(simulation, pod)})" for pod, name in named if name and name not in classes
    )
    if found:
        yield f"PriorityClasses that are not in the input, without which a cluster makes no pod: {_listed([*found])}"


def _of_namespaces(simulation: Simulation) -> Iterator[str]:
    """Yield which new pods are in namespaces that are being deleted."""
    going = {
        found.metadata.name
        for found in simulation.api_server.inventory.of(api.Namespace)
        if found.metadata.deletion_timestamp is not None or found.status.phase == "Terminating"
    }
    new = [pod for pod in _new(simulation) if pod.metadata.namespace in going] if going else []
    if new:
        found = list(dict.fromkeys(_workload_of(simulation, pod) for pod in new))
        yield f"in namespaces that are being deleted a cluster makes no pods, as here for {_listed(found)}"


def _of_attachments(simulation: Simulation) -> Iterator[str]:
    """Yield volumes for one node at a time that pods on several nodes use: those on another one wait."""
    api_server, nodes = simulation.api_server, dict[str, dict[str, None]]()
    if any(pod.spec.volumes and pod.spec.node_name for pod in _new(simulation)):
        for pod in _alive(simulation):
            for key in claim_keys(pod) if pod.spec.node_name else ():
                claim = api_server.claims.get(key)
                volume = api_server.volumes.get(claim.spec.volume_name) if claim is not None else None
                if volume is not None and _is_attached_once(simulation, volume.spec):
                    nodes.setdefault(volume.key, {})[pod.spec.node_name] = None
    found = [f"{name} ({', '.join(names)})" for name, names in nodes.items() if len(names) > 1]
    if found:
        yield f"volumes that one node at a time attaches are used on more, where pods would not start: {_listed(found)}"


def _is_attached_once(simulation: Simulation, volume: api.PersistentVolumeSpec) -> bool:
    """True if a volume is one of a driver that attaches volumes, and its access modes allow one node only."""
    if volume.csi is None or not {*volume.access_modes} <= {"ReadWriteOnce", "ReadWriteOncePod"}:
        return False
    drivers = simulation.api_server.inventory.of(api.CSIDriver)
    return all(driver.spec.attach_required for driver in drivers if driver.key == volume.csi.driver)


def _of_sysctls(simulation: Simulation) -> Iterator[str]:
    """Yield the workloads whose kernel parameters a kubelet refuses without a flag."""
    found = dict.fromkeys(
        f"{_workload_of(simulation, pod)} ({', '.join(unsafe)})"
        for pod in _new(simulation)
        if (unsafe := unsafe_sysctls(pod.spec))
    )
    if found:
        flag = "unless --allowed-unsafe-sysctls of theirs says otherwise"
        yield f"kernel parameters, for which kubelets refuse pods {flag}, are not looked at here: {_listed([*found])}"


def _of_errors(simulation: Simulation) -> Iterator[str]:
    """Yield objects that no API server would accept, so their pods would not exist."""
    alone = Surroundings(())
    found = [
        subject_of(given)
        for given in simulation.api_server.inventory.objects
        if isinstance(given, WORKLOADS) or (isinstance(given, api.Pod) and not given.spec.node_name)
        if any(fault.severity == "error" for fault in kind_faults(given, alone))
    ]
    if found:
        yield f"the API server would refuse these, and `volsched validate` says why: {_listed(found)}"


def _alive(simulation: Simulation) -> Iterator[api.Pod]:
    return (pod for pod in simulation.api_server.pods.values() if pod.status.phase not in FINISHED)


def _new(simulation: Simulation) -> Iterator[api.Pod]:
    """Yield the pods that have not been on a node from the first."""
    given = {pod.key for pod in simulation.api_server.inventory.of(api.Pod) if pod.spec.node_name}
    return (pod for pod in _alive(simulation) if pod.key not in given)


def _workload_of(simulation: Simulation, pod: api.Pod) -> str:
    """Return the workload of a pod, over its owners. The pod if none of them is in the input."""
    *_, top = (pod, *simulation.api_server.owners_of(pod))
    return subject_of(top)


def _of_taints(simulation: Simulation) -> Iterator[str]:
    """Yield which pods run where a cluster would take them off."""
    nodes = {node.key: node for node in simulation.api_server.inventory.of(api.Node) if node.spec.taints}
    found = [
        pod.key
        for pod in simulation.api_server.pods.values()
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
        for job in simulation.api_server.inventory.of(api.BatchJob)
        if (job.spec.completions or 1) > (1 if job.spec.parallelism is None else job.spec.parallelism) > 0
    ]
    if found:
        yield f"no pod ends here, so the pods that follow others do not come: those of {_listed(found)}"


def _of_order(simulation: Simulation) -> Iterator[str]:
    """Yield StatefulSets whose pods a cluster would make one after the other, where that matters."""
    ours = simulation.settings.scheduler_names
    ordered = [
        workload
        for workload in simulation.api_server.inventory.of(api.StatefulSet)
        if workload.spec.pod_management_policy != "Parallel"
        and (workload.spec.template.spec.scheduler_name or api.DEFAULT_SCHEDULER) in ours
    ]
    gangs = [
        subject_of(workload)
        for workload in ordered
        if replicas_of(workload) > 1 < min_member_of(workload.metadata.annotations)
    ]
    if gangs:
        yield f"pods of StatefulSets come at once here; a cluster would make the gang of {_listed(gangs)} one by one"
    more = [subject_of(workload) for workload in ordered if _goes_on_too_early(simulation, workload)]
    if more:
        yield f"a cluster makes no pod of a StatefulSet before the last one runs; here there are: {_listed(more)}"


def _goes_on_too_early(simulation: Simulation, workload: api.StatefulSet) -> bool:
    """True if a pod of a StatefulSet that others follow does not run."""
    keys = [f"{workload.metadata.namespace}/{name}" for name in stateful_names(workload)]
    pods = [simulation.api_server.pods.get(key) for key in keys[:-1]]
    return any(pod is not None and pod.status.phase != "Running" for pod in pods)


def _of_admission(simulation: Simulation) -> Iterator[str]:
    """Yield objects, in the input or named by new pods, that the API server would read when it creates pods."""
    counts = simulation.api_server.inventory.left_out.counts.values()
    named = {"RuntimeClass" for pod in _new(simulation) if pod.spec.runtime_class_name}
    found = sorted({kind for counted in counts for kind in counted} & _ADMISSION | named)
    if found:
        may = "the API server may refuse pods, or have them ask for more"
        yield f"{' and '.join(found)}: not heeded here; {may}"


def _of_policies(simulation: Simulation) -> Iterator[str]:
    """Yield which Volcano Jobs lost a pod and have policies, which might answer that."""
    jobs = [job for job in simulation.api_server.inventory.of(api.Job) if _has_policies(job)]
    found = [subject_of(job) for job in jobs if as_owner(job) in simulation.api_server.history.bereaved]
    if found:
        yield f"policies of Volcano Jobs are not carried out here; pods were evicted of {_listed(found)}"


def _has_policies(job: api.Job) -> bool:
    return bool(job.spec.policies) or any(task.policies for task in job.spec.tasks)


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more
